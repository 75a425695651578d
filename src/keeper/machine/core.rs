//! The part that all locks of a server share: requests in flight, timers, effects, and what is known of the server.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::api::{ANSWER_TIMEOUT, Effect, Outcome, QuestionId, Release, RequestId};
use super::line::Line;
use super::record::{Call, Lease, Record, State, Waiter, Wants};
use crate::clock::Time;
use crate::error::{Fault, brief};
use crate::keeper::timers::Timers;
use crate::protocol::{ClientId, Id, LockKeys, Memory, Request, WireId};

/// How much longer a seemingly silent server is given.
pub(super) const GRACE: Duration = Duration::from_millis(50);

/// What to do later.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(in crate::keeper) enum Timer {
    /// Look at this record again: it has something to send, or something of it ends.
    Record(Id),
    /// Send a heartbeat for this lock.
    Heartbeat(Arc<str>),
    /// Send a question that was refused once more, or answer that there is no answer.
    Question(QuestionId),
    /// The server has been silent for too long.
    Stall,
    /// `close` waits no longer for those that leave.
    Close,
}

/// What a request is about.
#[derive(Debug, Clone, Hash)]
pub(in crate::keeper) enum InFlight {
    Record(Id),
    Leave(Vec<Id>),
    Heartbeat,
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
    /// None: WAIT.
    #[cfg(test)]
    pub(in crate::keeper) verb: Option<crate::protocol::Verb>,
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
    /// All acquires that are not over.
    pub(in crate::keeper) records: BTreeMap<Id, Record>,
    /// How many of them wait or hold.
    pub(in crate::keeper) members: usize,
    pub(in crate::keeper) line: Line,
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
            records: BTreeMap::new(),
            members: 0,
            line: Line::default(),
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

    pub(super) fn waiter(&self, id: Id) -> Option<&Waiter> {
        self.records.get(&id)?.waiter()
    }

    pub(super) fn waiter_mut(&mut self, id: Id) -> Option<&mut Waiter> {
        self.records.get_mut(&id)?.waiter_mut()
    }

    pub(super) fn lease_mut(&mut self, id: Id) -> Option<&mut Lease> {
        self.records.get_mut(&id)?.lease_mut()
    }

    /// A record waits for room no more.
    pub(super) fn leave_line(&mut self, id: Id) {
        if let Some(record) = self.records.get_mut(&id)
            && std::mem::take(&mut record.in_line)
        {
            self.line.turns.remove(&record.turn(id));
        }
    }

    /// A record goes on in another state, in which it has something to send at once.
    pub(super) fn go_on_as(&mut self, id: Id, state: State) -> Option<State> {
        self.leave_line(id);
        let record = self.records.get_mut(&id)?;
        let (was, is) = (record.is_member(), !matches!(state, State::Leaving(_)));
        self.members = self.members + usize::from(is) - usize::from(was);
        (record.request, record.at) = (None, Some(self.now));
        Some(std::mem::replace(&mut record.state, state))
    }

    /// Whether this record is leaving, or over.
    pub(super) fn is_leaving(&self, id: Id) -> bool {
        self.records.get(&id).is_none_or(|record| record.leaving().is_some())
    }

    pub(super) fn send(&mut self, what: InFlight, call: Request) -> RequestId {
        let request = self.register(what, call.keys().clone(), call.memory());
        #[cfg(test)]
        self.requests.entry(request).and_modify(|sent| sent.verb = Some(call.verb()));
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
        let sent = SentRequest {
            what,
            keys,
            at: self.now,
            memory,
            #[cfg(test)]
            verb: None,
        };
        self.requests.insert(request, sent);
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

    /// Sends a request of a record.
    pub(super) fn send_of(&mut self, id: Id, call: Request) {
        let request = self.send(InFlight::Record(id), call);
        self.is_sent(id, request);
    }

    /// Nothing else of it is sent until the answer.
    pub(super) fn is_sent(&mut self, id: Id, request: RequestId) {
        if let Some(record) = self.records.get_mut(&id) {
            (record.request, record.at, record.in_line) = (Some(request), None, false);
        }
    }

    /// Answers the callers of a record that ask this.
    pub(super) fn answer_calls(&mut self, id: Id, which: impl Fn(&Wants) -> bool, outcome: &Outcome) {
        let Some(record) = self.records.get_mut(&id) else { return };
        for Call { question, .. } in record.take_calls(|call| which(&call.wants)) {
            self.answer(question, outcome.clone());
        }
    }

    pub(super) fn answer_positions(&mut self, id: Id, position: Result<u64, Fault>) {
        self.answer_calls(id, |asks| *asks == Wants::Position, &Outcome::Position(position));
    }

    /// The time for this answer is over.
    pub(super) fn answer_late(&mut self, Call { question, wants, .. }: Call) {
        let outcome = match wants {
            Wants::Position => Outcome::Position(Err(self.no_answer())),
            Wants::Renewal { .. } => Outcome::Renewal(Err(self.no_answer())),
            Wants::Release => Outcome::Release(Release::Unknown(self.cause.clone())),
        };
        self.answer(question, outcome);
    }
}
