//! Input that is made to do harm: names, labels and prefixes, logs, and whatever is parsed. Through the command line:
//! `tests/cli/hostile_texts.rs`.

// In a test a panic is the message.
#![allow(clippy::expect_used, clippy::unwrap_used)]

mod logs;
mod names;
mod parsers;
mod wire;
