//! What the scripts do, once more in plain Rust: one lock on the server, and the effect of each request on it.
//!
//! A request is one turn. Each turn determines the time on the lock clock, removes lapsed leases, does what its verb
//! says, and promotes the queue where it may. Unlike the scripts it plans nothing, packs nothing and collects no
//! garbage: it is the meaning without the mechanics. `lua/README.md` has the keys, the words and the reasons.
//!
//! All times are whole µs. `time` is the server's own clock, `now` the lock clock.

// The tests of this crate have it from the hidden hooks, and look at more of it than the service does.
#![allow(dead_code, missing_docs, unreachable_pub)]
// It only runs in tests, which report a failure by a panic.
#![allow(clippy::expect_used)]

mod answer;
mod calm;
mod leases;
mod queue;
mod recovery;
mod request;
mod turn;
mod verbs;

use std::collections::{BTreeMap, BTreeSet};

pub use answer::{Answer, Message, Own, channel};
pub use request::*;

pub const DAY: u64 = 86_400_000_000;
/// No lease is longer.
const LONGEST: u64 = 30 * DAY;
const HOUR: u64 = 3_600_000_000;
/// No more than this hold together, whatever they ask for.
pub const MOST: u16 = 1000;
/// By how much keys may live longer than they must.
pub const SLACK: u64 = HOUR / 12;

/// A lock on the server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lock {
    /// Tickets and ids of the waiters, in the order in which they are served.
    pub queue: BTreeSet<(u64, String)>,
    /// Until when each client counts as alive, and how often it is to be heard of.
    pub sessions: BTreeMap<String, u64>,
    pub beats: BTreeMap<String, u64>,
    /// In the order of their slots.
    pub leases: Vec<Lease>,
    /// What waiters and holders asked for, and told about themselves.
    pub entries: BTreeMap<String, Entry>,
    pub state: State,
    /// The grants whose leases have ended, if they are recorded.
    pub history: Option<History>,
}

/// The history of grants.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History {
    /// How many there are.
    pub count: u64,
    /// The latest of them, the last one first. Tests look at no more.
    pub latest: Vec<Vec<String>>,
}

impl History {
    pub const LATEST: usize = 8;

    fn add(&mut self, row: Vec<String>) {
        self.count += 1;
        self.latest.insert(0, row);
        self.latest.truncate(Self::LATEST);
    }
}

/// A lease: of its slot, the latest one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lease {
    pub slot: u16,
    pub id: String,
    pub end: u64,
    pub token: u64,
    /// The ticket of its waiter, or the token if it never queued.
    pub ticket: u64,
    /// How many may hold together while it lasts, itself among them.
    pub most: u16,
    /// Shorter than what its waiter asked for, and not confirmed yet.
    pub claim: bool,
    /// An operator wants it to end.
    pub broken: bool,
}

/// An entry: what is known of a waiter or holder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    pub lease: u64,
    pub liveness: u64,
    pub heartbeat: u64,
    pub most: u16,
    /// Of its client's channel; empty outside of a cluster.
    pub hash_tag: String,
    /// The secret, which messages to it repeat.
    pub secret: String,
    pub label: String,
    pub owner: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// The last ticket, token or epoch given.
    pub stamp: u64,
    /// The last token granted.
    pub token: u64,
    pub epoch: u64,
    /// The lock clock at the last turn.
    pub seen: u64,
    pub skew: i64,
    /// The longest heartbeat interval of this window and the one before, that of this window alone, and when the last
    /// session of the one before ends: then the next window begins.
    pub pace: u64,
    pub pace_next: u64,
    pub pace_turn: u64,
    /// The latest long silence.
    pub silent_from: u64,
    pub silent_until: u64,
    /// When the latest recovery was opened.
    pub recover_from: u64,
    /// Of those that have returned in a recovery: the longest heartbeat, for three of which it waits for places, and
    /// the longest lease. 0 when it is over.
    pub wait_places: u64,
    pub wait_leases: u64,
    /// The token of the lease that is back and beside which nobody may hold.
    pub sole: u64,
    /// How often the lock was granted: one that was granted once is soon forgotten.
    pub grants: u64,
    /// The longest lease that any client of the lock may be granted, or hold.
    pub longest: u64,
    /// The same without leases that only waiters from before `generation` asked for.
    pub longest_next: u64,
    pub generation: u64,
    /// The number of waiters as it was counted. If the queue has another length, data was lost.
    pub waiting: u64,
    /// The latest end that any session had since the queue was empty.
    pub live_until: u64,
    /// Until when the keys live, on the server's clock.
    pub ttl_until: u64,
    /// No lease ends before the one, or after the other; 0 if there is none. See `leases.rs`.
    pub first_end: u64,
    pub last_end: u64,
    /// Nobody waits, and the only lease there may be was granted while it was so (`calm.rs`).
    pub calm: bool,
    /// Whether leases that end are recorded.
    pub recorded: bool,
}

/// An operator says that no lease is missing: no token is as high.
pub const NONE_IS_MISSING: u64 = 1 << 53;

impl State {
    /// Nothing is granted before this. If the only lease is back, and nobody knows of a later one, it waits for none.
    pub fn recover_until(&self) -> u64 {
        let leases = if self.misses_no_lease() { 0 } else { self.wait_leases };
        self.recover_from + leases.max(3 * self.wait_places)
    }

    /// The only lease is back, or an operator said so.
    pub fn misses_no_lease(&self) -> bool {
        self.sole > 0 && self.sole >= self.token
    }

    /// It is over for good.
    pub(super) fn close_recovery(&mut self) {
        (self.wait_places, self.wait_leases) = (0, 0);
    }
}

impl Lock {
    /// The lock without what the promises do not cover.
    pub fn without_history(&self) -> Lock {
        Lock { history: None, state: State { recorded: false, calm: false, ..self.state.clone() }, ..self.clone() }
    }

    pub fn ticket(&self, id: &str) -> Option<u64> {
        self.queue.iter().find(|(_, other)| other == id).map(|(ticket, _)| *ticket)
    }

    pub fn stands(&self) -> bool {
        !self.leases.is_empty() || !self.queue.is_empty()
    }

    /// Whether a key is missing. Keys live and die together, so all data counts as lost then.
    pub fn is_partial(&self) -> bool {
        self.queue.len() as u64 != self.state.waiting
    }

    pub fn lease_of(&self, id: &str) -> Option<&Lease> {
        self.leases.iter().find(|lease| lease.id == id)
    }

    pub fn holds(&self, id: &str) -> bool {
        self.lease_of(id).is_some()
    }

    /// The lease of a lock that one holds at a time.
    pub fn holder(&self) -> Option<&Lease> {
        self.leases.first()
    }

    /// How many may hold together now.
    pub fn limit(&self) -> u16 {
        self.leases.iter().map(|lease| lease.most).min().unwrap_or(MOST)
    }

    fn remove_waiter(&mut self, id: &str) {
        self.queue.retain(|(_, other)| other != id);
    }
}
