//! The numbers, by the `metrics` facade.

use std::time::Duration;

use metrics::{Gauge, Label, SharedString, Unit};
use metrics::{counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram};

use crate::error::LostReason;
use crate::options::Spec;

const WAIT: &str = "fairlock_wait_seconds";
const HOLD: &str = "fairlock_hold_seconds";
const QUEUE: &str = "fairlock_queue_length";
const WAITING: &str = "fairlock_waiting";
const HELD: &str = "fairlock_held";
const GRANTS: &str = "fairlock_grants_total";
const FAILED: &str = "fairlock_not_granted_total";
const LOSSES: &str = "fairlock_losses_total";
const LAG: &str = "fairlock_renewal_lag_seconds";
const RECONNECTS: &str = "fairlock_reconnects_total";

pub(super) fn describe() {
    describe_histogram!(WAIT, Unit::Seconds, "From the call of an acquire to its grant");
    describe_histogram!(HOLD, Unit::Seconds, "From a grant to its release, or to the loss of its lease");
    describe_histogram!(QUEUE, Unit::Count, "Waiters in a queue when another one has joined it, that one included");
    describe_gauge!(WAITING, Unit::Count, "Acquires of this process that are under way");
    describe_gauge!(HELD, Unit::Count, "Guards of this process");
    describe_counter!(GRANTS, Unit::Count, "Acquires that were granted");
    describe_counter!(FAILED, Unit::Count, "Acquires that were not granted");
    describe_counter!(LOSSES, Unit::Count, "Leases that were lost");
    describe_histogram!(LAG, Unit::Seconds, "How much later than planned a lease was renewed");
    describe_counter!(RECONNECTS, Unit::Count, "Connections that were made again after a loss");
}

fn labels(spec: &Spec) -> Vec<Label> {
    let label = |text: &std::sync::Arc<str>| Label::new("lock", SharedString::from_shared(text.clone()));
    spec.metrics_label.iter().map(label).collect()
}

fn labels_and(spec: &Spec, name: &'static str, value: &'static str) -> Vec<Label> {
    let mut labels = labels(spec);
    labels.push(Label::from_static_parts(name, value));
    labels
}

/// One more in a gauge, until it is dropped.
pub(super) struct Gauged(Gauge);

impl Gauged {
    pub(super) fn waiting(spec: &Spec) -> Self {
        Self::more(gauge!(WAITING, labels(spec)))
    }

    pub(super) fn held(spec: &Spec) -> Self {
        Self::more(gauge!(HELD, labels(spec)))
    }

    fn more(gauge: Gauge) -> Self {
        gauge.increment(1);
        Self(gauge)
    }
}

impl Drop for Gauged {
    fn drop(&mut self) {
        self.0.decrement(1);
    }
}

pub(super) fn granted(spec: &Spec, waited: Duration) {
    counter!(GRANTS, labels(spec)).increment(1);
    histogram!(WAIT, labels(spec)).record(waited);
}

pub(super) fn failed(spec: &Spec, why: &'static str) {
    counter!(FAILED, labels_and(spec, "why", why)).increment(1);
}

pub(super) fn queued(spec: &Spec, position: Option<u64>) {
    if let Some(position) = position {
        histogram!(QUEUE, labels(spec)).record(position as f64);
    }
}

pub(super) fn renewed(spec: &Spec, lag: Option<Duration>) {
    if let Some(lag) = lag {
        histogram!(LAG, labels(spec)).record(lag);
    }
}

pub(super) fn held(spec: &Spec, held: Duration) {
    histogram!(HOLD, labels(spec)).record(held);
}

pub(super) fn ended(spec: &Spec, held: Option<Duration>, reason: &LostReason) {
    if let Some(time) = held {
        self::held(spec, time);
    }
    let why = match reason {
        LostReason::NotRenewed { .. } => "not_renewed",
        LostReason::Ended => "ended",
        LostReason::Broken => "broken",
        LostReason::MaxHold => "max_hold",
        LostReason::KeeperPanicked => "keeper_panicked",
        // The caller's own doing.
        LostReason::Closed | LostReason::Released | LostReason::Forked => return,
    };
    counter!(LOSSES, labels_and(spec, "why", why)).increment(1);
}

pub(super) fn connected_again() {
    counter!(RECONNECTS).increment(1);
}
