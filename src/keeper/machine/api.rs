//! The events of the machine and its effects.

use std::sync::Arc;
use std::time::Duration;

use crate::clock::Time;
use crate::error::{ConnectError, Fault, LostReason};
use crate::inspect::Holder;
use crate::options::Spec;
use crate::protocol::{CallerData, Id, LockKeys, Push, Refusal, Reply, Request, Ticket, Token};

/// How long a caller without a timeout waits for an answer of the server.
pub(crate) const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// The number of a caller's question that awaits one result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct QuestionId(pub(crate) u64);
/// A request under way to the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct RequestId(pub(crate) u64);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Mode {
    /// Wait, for ever or for its timeout.
    Wait,
    /// The same, and hear of the ticket.
    Enqueue,
    /// Take the lock now or not at all.
    Try,
}

/// An acquire as its caller asks for it.
#[derive(Debug, Clone)]
pub(crate) struct AcquireCall {
    pub(crate) spec: Arc<Spec>,
    pub(crate) about: CallerData,
    pub(crate) mode: Mode,
    pub(crate) timeout: Option<Duration>,
    pub(crate) called: Time,
}

/// What a caller asks, and awaits an answer to.
#[derive(Debug, Clone, Hash)]
pub(crate) enum Question {
    Position {
        id: Id,
    },
    Renew {
        id: Id,
        /// Beyond the end that the lease has, or was asked for, up to now.
        extend: Option<Duration>,
    },
    /// From now on readers may hold the lock, too.
    Downgrade {
        id: Id,
    },
    Release {
        id: Id,
    },
    /// The request of an operator, whose reply says nothing of what this client has: both pass as they are.
    Operator(Box<Request>),
    /// Give up everything that this client has.
    Close,
}

/// What callers want.
#[derive(Debug, Clone)]
pub(crate) enum Command {
    Acquire {
        id: Id,
        asked: AcquireCall,
    },
    /// The caller of this acquire does not await it any more.
    Abandon {
        id: Id,
    },
    /// No caller wants this lease.
    GiveBack {
        id: Id,
    },
    /// Switches automatic renewal on or off.
    Automatic {
        id: Id,
        on: bool,
    },
    Ask {
        number: QuestionId,
        question: Question,
    },
}

#[derive(Debug, Clone)]
pub(crate) enum Event {
    Command(Command),
    /// Connected; requests on the old connection are ended if that is possible.
    Connected {
        can_kill: bool,
    },
    Disconnected {
        cause: Arc<str>,
    },
    /// Connecting failed, and waiting will not help.
    Unusable {
        error: ConnectError,
    },
    Answered {
        request: RequestId,
        result: Result<Reply, Refusal>,
    },
    /// This many replicas have the writes from before the question.
    Replicated {
        request: RequestId,
        result: Result<u32, Refusal>,
    },
    Push(Push),
    /// The guard of this lease was not taken in time, and was taken back.
    NotTaken {
        id: Id,
    },
    Tick,
}

/// What the loop is to do.
#[derive(Debug, Clone)]
pub(crate) enum Effect {
    Send {
        request: RequestId,
        call: Request,
    },
    /// Ask how many replicas have all writes so far, and wait this long until there are enough.
    Replicate {
        request: RequestId,
        keys: Arc<LockKeys>,
        replicas: u32,
        within: Duration,
    },
    /// From now on the server may be silent for this long while something is asked of it; at first it is
    /// [`ANSWER_TIMEOUT`].
    Patience(Duration),
    /// The server is silent: give the connection up and make another.
    Reconnect,
    Queued {
        id: Id,
        ticket: Ticket,
        /// How many are before it, if the server said so.
        rank: Option<u64>,
    },
    Granted {
        id: Id,
        spec: Arc<Spec>,
        token: Token,
        ticket: Ticket,
        slot: u16,
        deadline: Time,
    },
    NotGranted {
        id: Id,
        why: NotGranted,
    },
    /// A lease was renewed. An extended lease may have had this deadline before.
    Prolonged {
        id: Id,
        deadline: Time,
        /// How often it is renewed, unless by hand.
        every: Option<Duration>,
        /// How many may hold the lock together while it lasts.
        most: u16,
    },
    /// A lease was declared lost. It may last until the deadline, for which its holder can finish.
    Lost {
        id: Id,
        reason: LostReason,
        deadline: Time,
    },
    /// The machine has forgotten this lease.
    Forgotten {
        id: Id,
    },
    /// A whole lease has passed since the grant: take the guard back if its caller has not taken it.
    CheckTaken {
        id: Id,
    },
    Answer {
        question: QuestionId,
        outcome: Outcome,
    },
}

/// Why an acquire did not get the lock.
#[derive(Debug, Clone)]
pub(crate) enum NotGranted {
    Timeout {
        waited: Duration,
        /// And how old it is.
        position: Option<(u64, Duration)>,
        cause: Option<Arc<str>>,
    },
    Busy {
        holders: Vec<Holder>,
        held: u64,
        /// What this try said.
        most: u16,
        waiting: u64,
        recovering_for: Option<Duration>,
    },
    /// The lock's options allow no more waiters.
    QueueFull {
        waiting: u64,
    },
    Fault(Fault),
}

/// The answer to a caller's question, in the type of its verb.
#[derive(Debug, Clone)]
pub(crate) enum Outcome {
    /// 1 for the first waiter, 0 for one that was granted the lock.
    Position(Result<u64, Fault>),
    Renewal(Result<Renewal, Fault>),
    Release(Release),
    Operator(Result<Box<Reply>, Fault>),
    Closed,
}

/// The result of a renewal by hand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Renewal {
    Renewed,
    Lost(LostReason),
    /// So much would be left of the extended lease, which is more than there may be.
    TooLong {
        left: Duration,
    },
}

/// The result of a release.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Release {
    Released,
    /// The lease had ended before.
    Lost(LostReason),
    /// The release may or may not have reached the server.
    Unknown(Option<Arc<str>>),
}
