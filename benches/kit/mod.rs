//! What the benchmarks share: the scripts called by hand, bare sockets, statistics, and the table with its limits.

// Each benchmark uses a part of it.
#![allow(dead_code, unreachable_pub)]
// In a benchmark a panic is the message.
#![allow(clippy::expect_used, clippy::unwrap_used)]

pub mod limits;
pub mod scripts;
pub mod stats;
pub mod table;
pub mod wire;
