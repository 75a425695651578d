//! The history of a lock: its latest grants.

use std::time::{Duration, SystemTime};

/// The latest grants of a lock whose leases have ended, as [`Lock::history`](crate::Lock::history) reads them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct History {
    /// Whether grants are recorded.
    pub recorded: bool,
    /// The grants, the latest first. The present holder is not among them.
    pub grants: Vec<PastGrant>,
}

/// A grant whose lease has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PastGrant {
    /// The former holder's id, as [`Holder::id`](crate::state::Holder::id).
    pub id: String,
    /// The fencing token of its lease.
    pub token: u64,
    /// Its label.
    pub label: String,
    /// Its owner.
    pub owner: String,
    /// For how long it had waited. Zero if that is not known: it did not queue, or the server lost its data meanwhile.
    pub waited: Duration,
    /// For how long it held the lock.
    pub held: Duration,
    /// How its lease ended.
    pub ended: EndedAs,
}

impl PastGrant {
    /// When it was granted, by the server's clock.
    pub fn granted_at(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_micros(self.token)
    }
}

/// How a lease ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum EndedAs {
    /// The holder released it.
    Released,
    /// Nobody renewed it: its holder is dead, was cut off, or renews by hand.
    Expired,
    /// An operator broke it.
    Broken,
    /// The server lost data, and the lease was not re-asserted.
    Lost,
}
