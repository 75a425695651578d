//! What the benchmarks share: the scripts called by hand, bare sockets, helper processes, placements, statistics, and the
//! table with its limits.

// Each benchmark uses a part of it.
#![allow(dead_code, unreachable_pub)]
// In a benchmark a panic is the message.
#![allow(clippy::expect_used, clippy::unwrap_used)]

pub mod bare;
pub mod client;
pub mod limits;
pub mod machine;
pub mod place;
pub mod roles;
pub mod scripts;
pub mod stats;
pub mod table;
pub mod wire;
