//! The events of the routes and their effects.

use std::sync::Arc;
use std::time::Duration;

use crate::clock::Time;
use crate::error::ConnectError;
use crate::keeper::machine::{self, RequestId};
use crate::protocol::{LockKeys, Push, Refusal, Request};
use crate::server::{Facts, Node, Previous, Reply, Slot, SlotMap};

/// One attempt to connect or to ask a node, and the connection that results from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Line(pub(crate) u64);

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
pub(crate) enum Note {
    ConnectionLost {
        cause: Arc<str>,
    },
    ConnectedAgain,
    /// The server is set up in a way that is dangerous for locks.
    Warning(String),
}

/// The answer of a node that was asked.
#[derive(Debug, Clone)]
pub(crate) enum Found {
    Master(Node),
    Slots(SlotMap),
}

#[derive(Debug, Clone)]
#[allow(clippy::large_enum_variant)] // The large one is the usual one.
pub(crate) enum Event {
    /// A caller uses this lock of the slot.
    Want {
        slot: Slot,
        name: Arc<str>,
    },
    /// The machine of the slot needs answers this quickly from now on.
    Patience {
        slot: Slot,
        patience: Duration,
    },
    /// The machine of the slot sends a request to its server.
    Send {
        slot: Slot,
        request: RequestId,
        call: Request,
    },
    /// The machine of the slot asks how many replicas have all writes so far.
    Replicate {
        slot: Slot,
        request: RequestId,
        keys: Arc<LockKeys>,
        replicas: u32,
        within: Duration,
    },
    /// The machine of the slot has given up the server: it does not answer.
    GiveUp {
        slot: Slot,
    },
    /// The connection of this line is set up.
    Ready {
        line: Line,
        facts: Facts,
    },
    /// Connecting, or asking a node, failed.
    Failed {
        line: Line,
        error: ConnectError,
    },
    Found {
        line: Line,
        found: Found,
    },
    Replied {
        line: Line,
        slot: Slot,
        request: RequestId,
        call: Request,
        reply: Reply,
    },
    Subscribed {
        line: Line,
        channel: Arc<str>,
    },
    NotSubscribed {
        line: Line,
        channel: Arc<str>,
        reply: Reply,
    },
    /// By the server itself, when a slot leaves it.
    Unsubscribed {
        line: Line,
        channel: Arc<str>,
    },
    Pushed {
        line: Line,
        push: Push,
    },
    /// This many replicas have the writes from before the question.
    Replicas {
        line: Line,
        result: Result<u32, Refusal>,
    },
    Ended {
        line: Line,
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
        line: Line,
        node: Option<Node>,
        channel: Option<Arc<str>>,
        previous: Option<Previous>,
        by: Time,
    },
    /// Connect once more to the same server, for questions to its replicas.
    ConnectSecond {
        line: Line,
        node: Option<Node>,
        by: Time,
    },
    /// Ask this sentinel for the master, or this node which of them serves which slots.
    Ask {
        line: Line,
        node: Node,
        by: Time,
    },
    Send {
        line: Line,
        slot: Slot,
        request: RequestId,
        call: Request,
        channel: Arc<str>,
        asking: bool,
    },
    Subscribe {
        line: Line,
        channel: Arc<str>,
        sharded: bool,
    },
    /// Ask how many replicas have all writes so far.
    Replicas {
        line: Line,
        keys: Arc<LockKeys>,
        replicas: u32,
        within: Duration,
    },
    /// Close the connection, or forget the attempt.
    Drop {
        line: Line,
    },
    /// An event for the machine of this slot.
    Tell {
        slot: Slot,
        event: machine::Event,
    },
    /// The outcome of the first attempt to connect.
    First(Result<(), ConnectError>),
    Note(Note),
}
