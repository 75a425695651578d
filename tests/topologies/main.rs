//! Several servers: Sentinel, clusters, replicas.

// In a test a panic is the message.
#![allow(clippy::expect_used, clippy::unwrap_used)]

mod discovery;
mod failover;
mod many_slots;
mod replicas;
