//! What clients and operators send.

use std::fmt;

use super::Entry;

/// A waiter's options.
#[derive(Clone, Copy, Default, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
pub struct Terms {
    pub lease: u64,
    pub liveness: u64,
    pub buffer: u64,
    pub heartbeat: u64,
}

impl fmt::Debug for Terms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { lease, liveness, buffer, .. } = self;
        write!(f, "lease {lease} liveness {liveness} + {buffer}")
    }
}

/// What a client brings to get its place or lease back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// The epoch under which its ticket or token was last confirmed, or the client's; 0 for none.
    pub epoch: u64,
    /// The highest stamp that it saw.
    pub floor: u64,
    /// How long a lease may last that was granted just before the loss; for a holder what is left of its own.
    pub left: u64,
    /// The last grant that it heard of.
    pub last_token: u64,
    /// The longest heartbeat interval among the waiters.
    pub pace: u64,
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
        ticket: u64,
        memory: Memory,
    },
    Heartbeat {
        client: String,
        terms: Terms,
        ids: Vec<String>,
        memory: Memory,
    },
    Renew {
        id: String,
        token: u64,
        terms: Terms,
        memory: Memory,
    },
    Release {
        id: String,
        token: u64,
        terms: Terms,
        memory: Memory,
    },
    Leave {
        ids: Vec<String>,
        terms: Terms,
        memory: Memory,
    },
    Inspect {
        after: u64,
        count: usize,
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
            Request::Acquire { id, .. } | Request::Renew { id, .. } | Request::Release { id, .. } => client_of(id),
            Request::Heartbeat { client, .. } => client,
            Request::Leave { ids, .. } => client_of(&ids[0]),
            Request::Inspect { .. } | Request::Break { .. } | Request::History { .. } => "",
        }
    }

    /// The one id that it is about, if there is one.
    pub fn id(&self) -> Option<&str> {
        match self {
            Request::Acquire { id, .. } | Request::Renew { id, .. } | Request::Release { id, .. } => Some(id),
            _ => None,
        }
    }

    /// What a client brings: its terms, what it knows, and the ticket or token that the request is about (0: none).
    pub fn brings(&self) -> Option<(&Terms, &Memory, u64)> {
        match self {
            Request::Acquire { terms, memory, ticket: brought, .. }
            | Request::Renew { terms, memory, token: brought, .. }
            | Request::Release { terms, memory, token: brought, .. } => Some((terms, memory, *brought)),
            Request::Heartbeat { terms, memory, .. } | Request::Leave { terms, memory, .. } => Some((terms, memory, 0)),
            Request::Inspect { .. } | Request::Break { .. } | Request::History { .. } => None,
        }
    }

    /// Whether it leaves holder, queue and clock as they are.
    pub fn looks_only(&self) -> bool {
        matches!(self, Request::Inspect { .. } | Request::History { .. })
    }
}

pub fn client_of(id: &str) -> &str {
    id.split('.').next().expect("split yields at least one piece")
}

/// What callers of this id tell about themselves; they can be told apart by it.
pub fn about(id: &str) -> Entry {
    let (channel, label) = (format!("to:{}", client_of(id)), format!("job {id}"));
    Entry { channel, secret: format!("secret-of-{id}"), label, owner: id.to_uppercase(), ..Entry::default() }
}
