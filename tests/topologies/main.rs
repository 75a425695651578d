//! Several servers: Sentinel, clusters, replicas.

// A test reports its failure by a panic.
#![allow(clippy::expect_used, clippy::unwrap_used)]

mod discovery;
mod failover;
mod logins;
mod many_slots;
mod masters;
mod migrating;
mod replicas;
mod slot_states;
