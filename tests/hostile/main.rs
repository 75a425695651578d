//! Hostile input: names, labels, prefixes, logs, and everything that is parsed. `tests/cli/hostile_texts.rs` has the
//! same on the command line.

// In a test a panic is the message.
#![allow(clippy::expect_used, clippy::unwrap_used)]

mod logs;
mod names;
mod parsers;
