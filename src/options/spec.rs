//! Options that were checked, as the keeper uses them.

use std::sync::Arc;
use std::time::Duration;

use crate::protocol::LockKeys;

/// Checked options, together with the lock that they are for.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Spec {
    pub(crate) keys: Arc<LockKeys>,
    /// How many may hold the lock together while a lease of it lasts, itself among them.
    pub(crate) most: u16,
    pub(crate) lease: Duration,
    pub(crate) liveness: Duration,
    pub(crate) buffer: Duration,
    pub(crate) notice: Duration,
    pub(crate) renew_every: Option<Duration>,
    pub(crate) max_hold: Option<Duration>,
    /// How many replicas must have a grant or a renewal before it counts.
    pub(crate) replicas: u32,
    /// Whether only a confirmed lease is handed out.
    pub(crate) confirm_grants: bool,
    /// The most waiters that a queue may have once an acquire of this lock has joined it.
    pub(crate) max_waiting: Option<u32>,
    /// The value of the label `lock` of its metrics.
    pub(crate) metrics_label: Option<Arc<str>>,
}

impl Spec {
    pub(crate) fn name(&self) -> &Arc<str> {
        &self.keys.name
    }

    /// The interval of renewals for a lease whose options name none: a third, and time for another before the notice.
    pub(crate) fn usual_interval(&self) -> Duration {
        (self.lease / 3).min((self.lease - self.notice) / 2)
    }
}
