//! Many processes compete for one lock while faults strike, and judges read the history of what happened (I1 to I9).

// In a test a panic is the message.
#![allow(clippy::expect_used, clippy::unwrap_used)]

mod fairness;
mod random_behaviour;
mod sentinels_and_clusters;
mod single_server;
mod strikes;
