//! What a lock looks like from outside.

use std::time::Duration;

/// Who holds a lock.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Holder {
    /// The holder's id.
    pub id: String,
    /// The fencing token of its lease.
    pub token: u64,
    /// What it calls itself.
    pub label: String,
    /// The owner that it named.
    pub owner: String,
    /// What is left of its lease, unless it is renewed.
    pub remaining: Duration,
    /// For how long it has held the lock, by the server's clock.
    pub held_for: Duration,
    /// Whether an operator broke the lease: it is not renewed any more.
    pub broken: bool,
}

/// One waiter in the queue of a lock.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct QueuedWaiter {
    /// The waiter's id.
    pub id: String,
    /// Its ticket: lower is served first.
    pub ticket: u64,
    /// What it calls itself.
    pub label: String,
    /// The owner that it named.
    pub owner: String,
    /// For how long it has waited, by the server's clock.
    pub waited: Duration,
    /// Whether its process was heard of lately. Who is not alive is purged when its turn comes.
    pub alive: bool,
}

/// The state of a lock at one moment; the queue is read in pages, so it may move between two of them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct LockState {
    /// Who holds the lock.
    pub holder: Option<Holder>,
    /// How many wait, alive or not.
    pub waiting: u64,
    /// Those who wait, in the order in which they will be served.
    pub queue: Vec<QueuedWaiter>,
    /// How long nothing is granted because the server lost data and those who were there before are awaited.
    pub recovering_for: Option<Duration>,
}

/// What became of a call to [`Lock::break_lease`](crate::Lock::break_lease).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum BreakOutcome {
    /// The holder is told, and its lease is not renewed any more: it ends after this time at the latest.
    Told {
        /// What is left of the lease.
        remaining: Duration,
    },
    /// No lease with that token is alive.
    Unknown,
    /// The lease was ended at once.
    Ended,
}
