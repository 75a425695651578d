//! The driver that compares the scripts with their reference model (`src/testing/model/`), and the judges of the
//! promises.

// Every test binary that includes this uses a part of it.
#![allow(dead_code, unreachable_pub)]
// A test reports its failure by a panic.
#![allow(clippy::expect_used, clippy::unwrap_used, clippy::field_reassign_with_default)]

pub mod clients;
pub mod driver;
pub mod events;
pub mod promises;
pub mod singles;
pub mod walk;
pub mod walks;

pub use fairlock::__hooks::model::*;
