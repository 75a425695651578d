//! The part that all locks of a server share: requests in flight, timers, effects, and what is known of the server.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::ANSWER_TIMEOUT;
use super::api::{Effect, Outcome, QuestionId, RequestId};
use super::unsent::Unsent;
use crate::clock::Time;
use crate::error::{Fault, brief};
use crate::keeper::timers::Timers;
use crate::protocol::{ClientId, Id, LockKeys, Memory, Request, WireId};

/// What to do later.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(in crate::keeper) enum Timer {
    /// Send a heartbeat for this lock.
    Heartbeat(Arc<str>),
    /// An acquire's timeout, or the time by which it must have been answered.
    Timeout(Id),
    /// A waiter's timeout is near: ask for its position.
    Position(Id),
    /// Send an acquire that was refused once more.
    Acquire(Id),
    Renew(Id),
    /// Tell the holder that the lease is running out.
    Notice(Id),
    /// The end of a lease: the keeper gives it back.
    Deadline(Id),
    /// Look whether the caller has taken its grant.
    Taken(Id),
    /// Send a release that was refused once more.
    Release(Id),
    /// The local deadline by which a release is answered.
    AnswerBy(Id),
    /// The time by which a question must have been answered.
    Question(QuestionId),
    /// The same for a caller's renewal of this lease.
    Renewal(Id, QuestionId),
    /// Send a question that was refused once more.
    AskAgain(QuestionId),
    /// The server has been silent for too long.
    Stall,
    /// `close` waits no longer for pending releases.
    Close,
}

/// What a request is about.
#[derive(Debug, Clone, Hash)]
pub(in crate::keeper) enum InFlight {
    Acquire(Id),
    Position(Id, QuestionId),
    Heartbeat,
    Renew(Id),
    Confirm(Id),
    Replicate(Id),
    Release(Id),
    Leave(Vec<Id>),
    Question(QuestionId),
}

/// A request in flight.
#[derive(Debug, Clone, Hash)]
pub(in crate::keeper) struct SentRequest {
    pub(in crate::keeper) what: InFlight,
    pub(in crate::keeper) keys: Arc<LockKeys>,
    pub(super) at: Time,
    /// What it brought.
    pub(super) memory: Memory,
}

#[derive(Debug, Clone)]
pub(in crate::keeper) struct Core {
    /// The moment of the event that is taken in.
    pub(in crate::keeper) now: Time,
    pub(in crate::keeper) client: ClientId,
    pub(in crate::keeper) random: fastrand::Rng,
    pub(in crate::keeper) connected: bool,
    /// Whether late requests of an old connection are ruled out.
    pub(in crate::keeper) can_kill: bool,
    pub(in crate::keeper) requests: BTreeMap<RequestId, SentRequest>,
    pub(in crate::keeper) last_request: RequestId,
    pub(in crate::keeper) timers: Timers<Timer>,
    pub(in crate::keeper) effects: Vec<Effect>,
    /// The lock of each waiter, lease and pending release.
    pub(in crate::keeper) locks_of: BTreeMap<Id, Arc<str>>,
    /// How many waiters and leases there are.
    pub(in crate::keeper) members: usize,
    pub(in crate::keeper) unsent: Unsent,
    pub(in crate::keeper) cause: Option<Arc<str>>,
    /// Consecutive refusals, which set the pace of asking again.
    pub(in crate::keeper) refusals: u32,
    /// How soon the locks need the server's answers.
    pub(in crate::keeper) needed: Duration,
    /// The server's silence was noticed.
    pub(in crate::keeper) suspects: bool,
    /// All that has come is taken in: a tick comes after it.
    pub(in crate::keeper) has_all: bool,
    /// Connections given up since the last answer: a slow network must not count as a silent server for ever.
    pub(in crate::keeper) given_up: u32,
}

impl Core {
    pub(super) fn new(client: ClientId, seed: u64) -> Self {
        Self {
            now: Time(0),
            client,
            random: fastrand::Rng::with_seed(seed),
            connected: false,
            can_kill: true,
            requests: BTreeMap::new(),
            last_request: RequestId(0),
            timers: Timers::new(),
            effects: Vec::new(),
            locks_of: BTreeMap::new(),
            members: 0,
            unsent: Unsent::default(),
            cause: None,
            refusals: 0,
            needed: ANSWER_TIMEOUT,
            suspects: false,
            has_all: false,
            given_up: 0,
        }
    }

    pub(in crate::keeper) fn wire_id(&self, id: Id) -> WireId {
        WireId::new(&self.client, id)
    }

    pub(super) fn send(&mut self, what: InFlight, call: Request) -> RequestId {
        let request = self.register(what, call.keys().clone(), call.memory());
        self.effects.push(Effect::Send { request, call });
        request
    }

    /// From now on an answer is expected.
    pub(super) fn register(&mut self, what: InFlight, keys: Arc<LockKeys>, memory: Memory) -> RequestId {
        self.last_request.0 += 1;
        let request = self.last_request;
        if self.requests.is_empty() {
            self.timers.set(Timer::Stall, self.now + self.patience());
        }
        self.requests.insert(request, SentRequest { what, keys, at: self.now, memory });
        request
    }

    /// The server has sent something.
    pub(super) fn heard(&mut self) {
        self.suspects = false;
        self.set_patience(self.needed, 0);
        if self.requests.is_empty() {
            self.timers.clear(&Timer::Stall);
        } else {
            self.timers.set(Timer::Stall, self.now + self.patience());
        }
    }

    /// How long the server may be silent while a request is unanswered: longer after each connection that was given up
    /// in vain.
    pub(super) fn patience(&self) -> Duration {
        (self.needed * (1 << self.given_up)).min(ANSWER_TIMEOUT)
    }

    /// Routes connect as patiently as the machine waits, so they hear of every change.
    fn set_patience(&mut self, needed: Duration, given_up: u32) {
        let before = self.patience();
        (self.needed, self.given_up) = (needed, given_up);
        let patience = self.patience();
        if patience != before {
            self.effects.push(Effect::Patience(patience));
        }
    }

    /// A connection was given up.
    pub(super) fn gave_up(&mut self) {
        // At the longest patience, more would not make it longer.
        let more = u32::from(self.patience() < ANSWER_TIMEOUT);
        self.set_patience(self.needed, self.given_up + more);
    }

    /// A lock needs the server's answers this quickly.
    pub(super) fn expect_within(&mut self, span: Duration) {
        let needed = if self.members == 0 { ANSWER_TIMEOUT } else { self.needed };
        self.set_patience(needed.min(span.max(Duration::from_millis(100))), self.given_up);
    }

    /// The error for a caller that waited too long for an answer or a connection.
    pub(super) fn silence(&self) -> Option<Arc<str>> {
        const WORTH_A_WORD: Duration = Duration::from_millis(250);
        if !self.connected {
            return Some("there is no connection to the server yet".into());
        }
        let silent = self.now.since(self.requests.values().map(|sent| sent.at).min()?);
        (silent >= WORTH_A_WORD).then(|| format!("the server has not answered for {}", brief(&silent)).into())
    }

    /// The server refuses something: when it is to be asked again.
    pub(super) fn refused(&mut self) -> Time {
        self.refusals = self.refusals.saturating_add(1);
        self.now + self.back_off()
    }

    pub(super) fn back_off(&mut self) -> Duration {
        // 10 ms, doubled up to about a second, half of it random, so that many clients do not ask in step.
        let ceiling = 10_u64 << self.refusals.min(7);
        Duration::from_millis(ceiling / 2 + self.random.u64(0..=ceiling / 2))
    }

    /// A pause that outlasts a session or a lease loses it, although the server was ready in between.
    pub(super) fn in_time(&self, again: Time) -> Time {
        again.min(self.now + self.needed / 4)
    }

    /// The error for a question that has timed out.
    pub(super) fn no_answer(&self) -> Fault {
        Fault::Unavailable { waited: ANSWER_TIMEOUT, cause: self.cause.clone().map(Into::into) }
    }

    pub(super) fn answer(&mut self, question: QuestionId, outcome: Outcome) {
        self.effects.push(Effect::Answer { question, outcome });
    }
}
