//! The events of the routes and their effects.

use std::sync::Arc;
use std::time::Duration;

use crate::clock::Time;
use crate::error::ConnectError;
use crate::keeper::machine::{self, RequestId};
use crate::protocol::{LockKeys, Request};
use crate::server::{Facts, Node, Previous, Slot, SlotMap, WireEvent};

/// One attempt to connect or to ask a node, and the connection that results from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ConnectionId(pub(crate) u64);

/// The number of a request on a connection. Requests are numbered for each slot, and a keeper does not live long enough
/// for 2^48 of them.
pub(crate) fn tag(slot: Slot, RequestId(request): RequestId) -> u64 {
    u64::from(slot) << 48 | request
}

/// The slot and the request of this number.
pub(super) fn untag(tag: u64) -> (Slot, RequestId) {
    ((tag >> 48) as Slot, RequestId(tag & ((1 << 48) - 1)))
}

/// How the servers of the locks are found.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Shape {
    /// The one server at this address.
    Server(String),
    /// These sentinels name the master.
    Sentinels(Vec<Node>),
    /// These nodes name the servers of all slots.
    Cluster(Vec<Node>),
}

/// What observers are told of the connections.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum LogRecord {
    ConnectionLost {
        cause: Arc<str>,
    },
    ConnectedAgain,
    /// The server is set up in a way that is dangerous for locks.
    Warning(String),
}

/// The answer of a node that was asked.
#[derive(Debug, Clone)]
pub(crate) enum Discovered {
    Master(Node),
    Slots(SlotMap),
}

/// A question: whether this many replicas have all writes so far.
#[derive(Debug, Clone)]
pub(crate) struct ReplicaQuestion {
    pub(crate) slot: Slot,
    pub(crate) request: RequestId,
    pub(crate) keys: Arc<LockKeys>,
    pub(crate) replicas: u32,
    pub(crate) within: Duration,
}

#[derive(Debug, Clone)]
#[allow(clippy::large_enum_variant)] // The large one is the usual one.
pub(crate) enum Event {
    /// A caller uses this lock of the slot.
    RequestRoute {
        slot: Slot,
        name: Arc<str>,
    },
    /// The machine of the slot needs answers this quickly from now on.
    Patience {
        slot: Slot,
        patience: Duration,
    },
    /// The machine of the slot sends a request to its server.
    Ask {
        slot: Slot,
        request: RequestId,
        call: Request,
    },
    /// The machine of the slot asks how many replicas have all writes so far.
    Replicate(ReplicaQuestion),
    /// The machine of the slot has given up the server: it does not answer.
    GiveUp {
        slot: Slot,
    },
    /// The connection of this connection is set up.
    Ready {
        connection: ConnectionId,
        facts: Facts,
    },
    /// Connecting, or asking a node, failed.
    Failed {
        connection: ConnectionId,
        error: ConnectError,
    },
    Discovered {
        connection: ConnectionId,
        found: Discovered,
    },
    /// A server has said this.
    Wire {
        connection: ConnectionId,
        said: WireEvent,
    },
    Ended {
        connection: ConnectionId,
        cause: Arc<str>,
    },
    Tick,
}

/// What the loop is to do.
#[derive(Debug, Clone)]
#[allow(clippy::large_enum_variant)] // The large one is the usual one.
pub(crate) enum Effect {
    /// Connect to this node or to the one server of the URL, end the previous connection there, and subscribe to the
    /// channel.
    Connect {
        connection: ConnectionId,
        node: Option<Node>,
        channel: Option<Arc<str>>,
        previous: Option<Previous>,
        by: Time,
    },
    /// Connect once more to the same server, for questions to its replicas.
    ConnectSecond {
        connection: ConnectionId,
        node: Option<Node>,
        by: Time,
    },
    /// Ask this sentinel for the master, or this node which of them serves which slots.
    Discover {
        connection: ConnectionId,
        node: Node,
        by: Time,
    },
    Write {
        connection: ConnectionId,
        slot: Slot,
        request: RequestId,
        call: Request,
        /// Of the channel of its hand-offs; empty outside of a cluster.
        hash_tag: Arc<str>,
        asking: bool,
    },
    Subscribe {
        connection: ConnectionId,
        channel: Arc<str>,
        sharded: bool,
    },
    /// Ask how many replicas have all writes so far.
    Replicas {
        connection: ConnectionId,
        keys: Arc<LockKeys>,
        replicas: u32,
        within: Duration,
    },
    /// Close the connection, or forget the attempt.
    Drop {
        connection: ConnectionId,
    },
    /// An event for the machine of this slot.
    Tell {
        slot: Slot,
        event: machine::Event,
    },
    /// The outcome of the first attempt to connect.
    First(Result<(), ConnectError>),
    LogRecord(LogRecord),
}
