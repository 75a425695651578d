//! One fault at a time, each with its own test: servers that stop, restart, evict or lose data, processes that die,
//! connections that end, a machine that is suspended.

// A test reports its failure by a panic.
#![allow(clippy::expect_used, clippy::unwrap_used)]

mod data_loss;
mod eviction;
mod full_memory;
mod old_connections;
mod outages;
mod process_deaths;
mod reconnects;
mod sigpipe;
mod suspended_time;
mod unreachable;
