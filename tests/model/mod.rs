//! The scripts' reference model, what drives it beside the real scripts, and what judges both.

// Every test binary that includes this uses a part of it.
#![allow(dead_code, unreachable_pub)]
// In a test a panic is the message.
#![allow(clippy::expect_used, clippy::unwrap_used, clippy::field_reassign_with_default)]

pub mod clients;
pub mod driver;
mod lock;
pub mod promises;
pub mod singles;
pub mod walks;
pub mod world;

pub use lock::*;
