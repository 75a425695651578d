//! Hostile input: names, labels, prefixes, logs, and everything that is parsed. `cli/tests/cli/hostile_texts.rs` has the
//! same on the command line.

// A test reports its failure by a panic.
#![allow(clippy::expect_used, clippy::unwrap_used)]

mod logs;
mod names;
mod numbers;
mod out_of_step;
mod parsers;
mod wire;
