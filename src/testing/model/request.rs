//! What clients and operators send.

use std::fmt;

use super::Entry;

/// A waiter's options.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Terms {
    pub lease: u64,
    pub liveness: u64,
    pub buffer: u64,
    pub heartbeat: u64,
    /// How many may hold together while its lease lasts, itself among them.
    pub most: u16,
}

impl Terms {
    /// What its waiter or holder is known by.
    pub(super) fn entry(&self, about: &Entry) -> Entry {
        Entry {
            lease: self.lease,
            liveness: self.liveness,
            heartbeat: self.heartbeat,
            most: self.most,
            ..about.clone()
        }
    }
}

impl fmt::Debug for Terms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { lease, liveness, buffer, most, .. } = self;
        write!(f, "lease {lease} liveness {liveness} + {buffer} most {most}")
    }
}

/// What a client was told of a lock, and sends back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Memory {
    /// 0 for a stranger, which has no memory.
    pub epoch: u64,
    pub stamp: u64,
    /// The last grant.
    pub token: u64,
    /// The longest lease that anybody may hold.
    pub longest: u64,
    /// The longest heartbeat interval of the waiters.
    pub pace: u64,
}

impl Memory {
    pub fn is_strangers(&self) -> bool {
        self.epoch == 0
    }

    pub fn highest(&self) -> u64 {
        self.epoch.max(self.stamp).max(self.token)
    }
}

/// The place of a waiter or the lease of a holder, as it was told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Seat {
    /// The epoch that confirmed it; 0 if there is none.
    pub epoch: u64,
    pub ticket: u64,
    /// 0 for a place.
    pub token: u64,
    /// Of the lease; 0 for a place.
    pub slot: u16,
    pub most: u16,
}

impl Seat {
    pub fn highest(&self) -> u64 {
        self.epoch.max(self.ticket).max(self.token)
    }
}

/// No queue is as long.
pub const UNBOUNDED: u64 = 1 << 53;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// `room`: a newcomer waits if the queue has fewer waiters than this; 0 for a try.
    Acquire {
        id: String,
        room: u64,
        claim: bool,
        terms: Terms,
        memory: Memory,
        seat: Seat,
    },
    Heartbeat {
        client: String,
        terms: Terms,
        ids: Vec<String>,
        memory: Memory,
    },
    Renew {
        id: String,
        seat: Seat,
        /// What is left by the holder's clock.
        left: u64,
        terms: Terms,
        memory: Memory,
    },
    Release {
        id: String,
        seat: Seat,
        memory: Memory,
    },
    /// The command, by the holder of a calm lock.
    Hdel {
        id: String,
    },
    Leave {
        ids: Vec<String>,
        memory: Memory,
    },
    Inspect {
        after: u64,
        count: usize,
        tell_from: u64,
        tell_most: usize,
    },
    Break {
        token: u64,
        force: bool,
    },
    History {
        switch: Option<bool>,
        count: usize,
    },
}

impl Request {
    /// The client that asks; empty if it is an operator.
    pub fn client(&self) -> &str {
        match self {
            Request::Acquire { id, .. }
            | Request::Renew { id, .. }
            | Request::Release { id, .. }
            | Request::Hdel { id } => client_of(id),
            Request::Heartbeat { client, .. } => client,
            Request::Leave { ids, .. } => client_of(&ids[0]),
            Request::Inspect { .. } | Request::Break { .. } | Request::History { .. } => "",
        }
    }

    /// The ids that it names.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let ids = match self {
            Request::Heartbeat { ids, .. } | Request::Leave { ids, .. } => ids.as_slice(),
            _ => &[],
        };
        self.id().into_iter().chain(ids.iter().map(String::as_str))
    }

    /// The one id that it is about, if there is one.
    pub fn id(&self) -> Option<&str> {
        match self {
            Request::Acquire { id, .. }
            | Request::Renew { id, .. }
            | Request::Release { id, .. }
            | Request::Hdel { id } => Some(id),
            _ => None,
        }
    }

    /// What a client brings.
    pub fn brings(&self) -> Option<(Memory, Seat)> {
        match *self {
            Request::Acquire { memory, seat, .. }
            | Request::Renew { memory, seat, .. }
            | Request::Release { memory, seat, .. } => Some((memory, seat)),
            Request::Heartbeat { memory, .. } | Request::Leave { memory, .. } => Some((memory, Seat::default())),
            Request::Hdel { .. } | Request::Inspect { .. } | Request::Break { .. } | Request::History { .. } => None,
        }
    }

    /// The heartbeat interval that the client names, or else has been told.
    pub fn own_pace(&self) -> u64 {
        match self {
            Request::Acquire { terms, .. } | Request::Heartbeat { terms, .. } => terms.heartbeat,
            Request::Renew { memory, .. } | Request::Release { memory, .. } | Request::Leave { memory, .. } => {
                memory.pace
            }
            Request::Hdel { .. } | Request::Inspect { .. } | Request::Break { .. } | Request::History { .. } => 0,
        }
    }

    /// The token of the lease that it is about; 0 for none.
    pub fn token(&self) -> u64 {
        self.brings().map_or(0, |(_, seat)| seat.token)
    }

    /// Whether it leaves holder, queue and clock as they are.
    pub fn looks_only(&self) -> bool {
        matches!(self, Request::Inspect { .. } | Request::History { .. })
    }
}

pub fn client_of(id: &str) -> &str {
    id.split('.').next().expect("split yields at least one piece")
}

/// What callers of this id tell about themselves in the tests of this crate; they can be told apart by it.
pub fn about(id: &str) -> Entry {
    let (secret, label, owner) = (format!("secret-of-{id}"), format!("job {id}"), id.to_uppercase());
    Entry { secret, label, owner, ..Entry::default() }
}
