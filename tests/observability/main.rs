//! What users see of their locks: `tracing` events and spans, and metrics. `docs/observability.md` lists them.
//!
//! A process decides once, for all its threads, who collects events and metrics. So each test runs in a process of its
//! own.

// A test reports its failure by a panic.
#![allow(clippy::expect_used, clippy::unwrap_used)]

mod collector;
mod events;
mod metrics;
mod page;
mod recorder;
