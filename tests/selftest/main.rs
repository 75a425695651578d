//! The means of the tests, tested: a test is worth no more than the server, the fault or the judge that it relies on.

// In a test a panic is the message.
#![allow(clippy::expect_used, clippy::unwrap_used)]

mod clock;
mod histories;
mod proxy;
mod servers_and_children;
mod topologies;
