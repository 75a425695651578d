//! Many processes compete for one lock while faults strike, and judges read the history of what happened (I1 to I9).

// A test reports its failure by a panic.
#![allow(clippy::expect_used, clippy::unwrap_used)]

mod conformance;
mod fairness;
mod injected;
mod node;
mod python;
mod random_behaviour;
mod sentinels_and_clusters;
mod several_holders;
mod single_server;

/// The processes of all crews.
#[test]
fn child() {
    testkit::crew::child();
}
