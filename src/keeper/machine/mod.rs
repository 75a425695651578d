//! The decisions of the keeper, as a state machine without I/O: events and a clock in, requests and results out.

mod api;
mod farewells;
mod leases;
mod replicas;
mod requests;
mod sessions;
mod timers;
mod waiters;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

pub(crate) use self::api::{
    Command, Effect, Event, Id, Outcome, Page, QuestionId, Refusal, Release, Renewal, RequestId,
};
use self::farewells::Farewell;
use self::leases::Lease;
use self::sessions::Session;
use self::timers::Timers;
pub(crate) use self::waiters::Mode;
use self::waiters::Waiter;
use crate::clock::Time;
use crate::error::{ConnectError, Fault, LostReason, brief};
use crate::protocol::{AcquireVerdict, Failure, LockKeys, Push, PushKind, Reply, Verdict, is_of};

/// How long a caller waits for an answer of the server where it gave no timeout of its own.
pub(crate) const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
/// How long `close` waits for what is to be given back.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);
/// How much longer a server that seems to be silent is given.
pub(super) const GRACE: Duration = Duration::from_millis(50);

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Timer {
    Heartbeat(Arc<str>),
    /// An acquire's timeout, or the time by which it must have been answered.
    Timeout(Id),
    /// Send an acquire that was refused once more.
    Acquire(Id),
    Renew(Id),
    Notice(Id),
    Deadline(Id),
    Taken(Id),
    Farewell(Id),
    /// The local deadline by which a release is answered.
    AnswerBy(Id),
    /// The time by which a question must have been answered.
    Question(QuestionId),
    /// The same for a caller's renewal of this lease.
    Renewal(Id, QuestionId),
    /// Send a question that was refused once more.
    AskAgain(QuestionId),
    /// Nothing was heard of the server for too long.
    Stall,
    Close,
}

/// What a request is about.
#[derive(Debug, Clone, Hash)]
pub(super) enum What {
    Acquire(Id),
    Position(Id, QuestionId),
    Heartbeat(Arc<str>),
    Renew(Id),
    Confirm(Id),
    Replicate(Id),
    Release(Id),
    Leave(Vec<Id>),
    Question(QuestionId),
}

#[derive(Debug, Clone, Hash)]
pub(super) struct Sent {
    pub(super) what: What,
    pub(in crate::keeper) keys: Arc<LockKeys>,
    pub(super) at: Time,
}

#[derive(Debug, Clone, Hash)]
pub(super) enum Pending {
    Position(Id),
    Inspect { keys: Arc<LockKeys>, after: u64, count: u32 },
    Break { keys: Arc<LockKeys>, token: u64, force: bool },
}

#[derive(Debug, Clone)]
pub(crate) struct Machine {
    pub(super) client: Arc<str>,
    pub(super) prefix: Arc<str>,
    pub(super) random: fastrand::Rng,
    pub(super) connected: bool,
    /// Whether late requests of an old connection are ruled out.
    pub(super) can_kill: bool,
    pub(super) sessions: BTreeMap<Arc<str>, Session>,
    pub(super) waiters: BTreeMap<Id, Waiter>,
    pub(super) leases: BTreeMap<Id, Lease>,
    pub(super) farewells: BTreeMap<Id, Farewell>,
    pub(super) questions: BTreeMap<QuestionId, Pending>,
    pub(super) requests: BTreeMap<RequestId, Sent>,
    pub(super) next_request: RequestId,
    pub(super) timers: Timers<Timer>,
    pub(super) effects: Vec<Effect>,
    pub(super) cause: Option<Arc<str>>,
    /// Refusals in a row: they set the pace of asking again.
    pub(super) refusals: u32,
    /// How long the server may be silent while something is asked of it.
    pub(super) patience: Duration,
    /// Its silence was noticed.
    pub(super) suspects: bool,
    /// Connections that were given up since the last answer: a slow network must not be taken for a silent server for ever.
    pub(super) given_up: u32,
    pub(super) closed: bool,
    pub(super) closing: Option<QuestionId>,
    pub(super) to_leave: Vec<Id>,
}

/// What clocks may drift apart during a lease, and the least that is worth having.
pub(crate) fn margin(span: Duration) -> Duration {
    span / 200 + Duration::from_millis(1)
}

impl Machine {
    pub(crate) fn new(client: Arc<str>, prefix: Arc<str>, seed: u64) -> Self {
        Self {
            client,
            prefix,
            random: fastrand::Rng::with_seed(seed),
            connected: false,
            can_kill: true,
            sessions: BTreeMap::new(),
            waiters: BTreeMap::new(),
            leases: BTreeMap::new(),
            farewells: BTreeMap::new(),
            questions: BTreeMap::new(),
            requests: BTreeMap::new(),
            next_request: 0,
            timers: Timers::new(),
            effects: Vec::new(),
            cause: None,
            refusals: 0,
            patience: ANSWER_TIMEOUT,
            suspects: false,
            given_up: 0,
            closed: false,
            closing: None,
            to_leave: Vec::new(),
        }
    }

    /// When to come back with a [`Event::Tick`] if nothing else happens.
    pub(crate) fn next_due(&self) -> Option<Time> {
        self.timers.next()
    }

    /// Until when it is worth going on to give back what is still to be given back.
    pub(crate) fn gives_back_until(&self) -> Option<Time> {
        self.farewells.values().map(|farewell| farewell.until).max()
    }

    /// Takes in one event. Call [`Machine::effects`] when no more are at hand.
    pub(crate) fn handle(&mut self, now: Time, event: Event) {
        // What was due comes first: an answer that comes after a deadline must not undo what the deadline decided.
        self.run_timers(now);
        match event {
            Event::Command(command) => self.command(now, command),
            Event::Connected { can_kill } => self.on_connected(now, can_kill),
            Event::Disconnected { cause } => self.on_disconnected(cause),
            Event::Denied { error } => self.on_denied(now, &error),
            Event::Answered { request, result } => self.on_answer(now, request, result),
            Event::Replicated { request, result } => self.on_replicated(now, request, result),
            Event::Push(push) => self.on_push(now, &push),
            Event::NotTaken { id } => self.release(now, id, None),
            Event::Tick => {}
        }
        self.run_timers(now);
    }

    fn run_timers(&mut self, now: Time) {
        while let Some(timer) = self.timers.pop(now) {
            self.on_timer(now, timer);
        }
    }

    /// How long the server may be silent while something is asked of it; longer each time that this was in vain.
    pub(crate) fn patience(&self) -> Duration {
        (self.patience * (1 << self.given_up)).min(ANSWER_TIMEOUT)
    }

    /// Somebody needs the server's answers this quickly.
    pub(super) fn expect_within(&mut self, span: Duration) {
        if self.leases.is_empty() && self.waiters.is_empty() {
            self.patience = ANSWER_TIMEOUT;
        }
        self.patience = self.patience.min(span.max(Duration::from_millis(100)));
    }

    /// What is to be done now, in order.
    pub(crate) fn effects(&mut self, now: Time) -> Vec<Effect> {
        self.send_leaves(now);
        if self.farewells.is_empty() {
            self.end_closing();
        }
        std::mem::take(&mut self.effects)
    }

    fn command(&mut self, now: Time, command: Command) {
        match command {
            Command::Acquire { id, .. } if self.closed => self.refuse_unknown(id, Fault::Closed),
            Command::Acquire { id, spec, about, mode, timeout, called } => {
                self.acquire(now, id, spec, about, mode, timeout, called)
            }
            Command::Abandon { id } => self.abandon(now, id),
            Command::Release { question, id } => self.release(now, id, question),
            Command::Close { question } => self.close(now, question),
            Command::Renew { question, .. } if self.closed => {
                self.answer(question, Outcome::Renewal(Err(Fault::Closed)));
            }
            Command::Renew { question, id } => self.renew_for(now, question, id),
            Command::Position { question, id } => self.ask(now, question, Pending::Position(id)),
            Command::Inspect { question, keys, after, count } => {
                self.ask(now, question, Pending::Inspect { keys, after, count });
            }
            Command::Break { question, keys, token, force } => {
                self.ask(now, question, Pending::Break { keys, token, force });
            }
        }
    }

    fn refuse_unknown(&mut self, id: Id, fault: Fault) {
        self.effects.push(Effect::Refused { id, why: Refusal::Fault(fault) });
    }

    fn close(&mut self, now: Time, question: QuestionId) {
        self.closed = true;
        let waiters: Vec<Id> = self.waiters.keys().copied().collect();
        for id in waiters {
            self.refuse(now, id, Refusal::Fault(Fault::Closed));
        }
        let leases: Vec<Id> = self.leases.keys().copied().collect();
        for id in leases {
            self.lose(now, id, LostReason::Closed);
            self.release(now, id, None);
        }
        self.fail_questions(&Fault::Closed);
        self.end_closing();
        self.closing = Some(question);
        self.timers.set(Timer::Close, now + CLOSE_TIMEOUT);
    }

    /// Whoever closed this machine hears that it is done.
    fn end_closing(&mut self) {
        if let Some(question) = self.closing.take() {
            self.timers.clear(&Timer::Close);
            self.answer(question, Outcome::Closed);
        }
    }

    fn on_connected(&mut self, now: Time, can_kill: bool) {
        self.connected = true;
        self.suspects = false;
        self.can_kill = can_kill;
        self.refusals = 0;
        // Leases first: they have deadlines. Then those who wait, in order, then what is to be given back.
        let leases: Vec<Id> = self.leases.keys().copied().collect();
        leases.into_iter().for_each(|id| self.renew(now, id));
        let sessions: Vec<Arc<str>> = self.sessions.keys().cloned().collect();
        for name in &sessions {
            // A heartbeat says nothing of what was known before: a server that has forgotten the latest must hear that first.
            self.first_returns(name);
            self.reenter(now, name);
            self.heartbeat(now, name);
        }
        let waiters: Vec<Id> = self.waiters.keys().copied().collect();
        waiters.into_iter().for_each(|id| self.resume(now, id));
        let farewells: Vec<Id> = self.farewells.keys().copied().collect();
        farewells.into_iter().for_each(|id| self.say_farewell(now, id));
        let questions: Vec<QuestionId> = self.questions.keys().copied().collect();
        questions.into_iter().for_each(|question| self.send_question(now, question));
    }

    fn on_disconnected(&mut self, cause: Arc<str>) {
        self.cause = Some(cause);
        self.connected = false;
        self.requests.clear();
        self.timers.clear(&Timer::Stall);
        for waiter in self.waiters.values_mut() {
            waiter.known |= waiter.request.take().is_some();
            waiter.unsecured = None;
        }
        for lease in self.leases.values_mut() {
            (lease.request, lease.unsecured) = (None, None);
        }
        self.sessions.values_mut().for_each(Session::disconnected);
        for farewell in self.farewells.values_mut() {
            farewell.repeated |= farewell.request.take().is_some();
        }
    }

    /// The server cannot be used. Whoever has no place hears that at once; a place is given up only for what an operator
    /// cannot mend at the server.
    fn on_denied(&mut self, now: Time, error: &ConnectError) {
        let fault = Fault::Connect(error.clone());
        let hears = |waiter: &Waiter| waiter.ticket == 0 || !error.keeps_places();
        let waiters: Vec<Id> = self.waiters.iter().filter(|(_, waiter)| hears(waiter)).map(|(id, _)| *id).collect();
        waiters.into_iter().for_each(|id| self.refuse(now, id, Refusal::Fault(fault.clone())));
        self.fail_questions(&fault);
    }

    /// What keeps this client from the server's answers, as far as it is known.
    pub(crate) fn trouble(&self) -> Option<Arc<str>> {
        self.cause.clone().or_else(|| self.waiters.values().find_map(|waiter| waiter.shortage.clone()))
    }

    fn on_answer(&mut self, now: Time, request: RequestId, result: Result<Reply, Failure>) {
        let Some(Sent { what, keys, at }) = self.requests.remove(&request) else { return };
        let lock = &keys.name;
        self.heard(now);
        let Reply { common, verdict } = match result {
            Ok(reply) => reply,
            Err(failure) => return self.on_failure(now, what, lock, &failure),
        };
        // What replicas do not have yet is no success.
        if !matches!(what, What::Confirm(_) | What::Renew(_)) {
            self.refusals = 0;
        }
        self.cause = None;
        let changed = self.learn(now, lock, &common);
        match (what, verdict) {
            (What::Acquire(id), Verdict::Acquire(verdict)) => {
                self.on_acquire(now, (request, at), id, &keys, &common, verdict);
            }
            (What::Position(id, question), Verdict::Acquire(verdict)) => {
                let position = if let AcquireVerdict::Queued { rank, .. } = verdict { rank + 1 } else { 0 };
                self.on_acquire(now, (request, at), id, &keys, &common, verdict);
                self.on_position(question, position);
            }
            (What::Heartbeat(name), Verdict::Heartbeat(verdict)) => {
                self.on_heartbeat(now, at, &name, &common, verdict);
            }
            (What::Renew(id), Verdict::Renew(verdict)) => self.on_renew(now, at, id, &common, verdict),
            (What::Confirm(id), Verdict::Renew(verdict)) => self.on_confirm(now, (request, at), id, &common, verdict),
            (What::Release(id), Verdict::Release(verdict)) => self.on_release(now, id, &common, verdict),
            (What::Leave(ids), Verdict::Leave) => self.on_leave(now, &ids, &common),
            (What::Question(question), Verdict::Inspect(seen)) => {
                self.on_inspected(now, question, &keys, &common, seen);
            }
            (What::Question(question), Verdict::Break(verdict)) => {
                self.on_broke(now, question, &keys, &common, verdict);
            }
            // The wire reads a reply in the type of its request: no server can bring this about.
            (what, _) => {
                let failure = Failure::Rejected("a reply to another request".into());
                return self.on_failure(now, what, lock, &failure);
            }
        }
        if let Some(own) = &common.own
            && let Some(id) = is_of(&self.client, &own.id)
        {
            self.on_named(now, at, id, own, common.lease_left, &keys);
        }
        if changed {
            self.restore_all(now, lock);
        }
        self.plan_heartbeat(now, lock);
    }

    /// The server has said something.
    pub(super) fn heard(&mut self, now: Time) {
        self.suspects = false;
        self.given_up = 0;
        if self.requests.is_empty() {
            self.timers.clear(&Timer::Stall);
        } else {
            self.timers.set(Timer::Stall, now + self.patience());
        }
    }

    fn on_failure(&mut self, now: Time, what: What, lock: &Arc<str>, failure: &Failure) {
        self.cause = Some(failure.cause().clone());
        self.refusals = self.refusals.saturating_add(1);
        let again = now + self.back_off();
        let soon = self.in_time(now, again);
        let fault = match failure {
            Failure::WrongType(message) => Some(Fault::WrongType { name: lock.clone(), message: message.clone() }),
            Failure::Rejected(message) => Some(Fault::Refused { message: message.clone() }),
            // An operator may give back a right: whoever has a place keeps it, and what is to be given back is kept too.
            Failure::Denied(message) if self.has_no_place(&what) => Some(Fault::Refused { message: message.clone() }),
            Failure::Denied(_) | Failure::Refused(_) => None,
        };
        match (what, fault) {
            (What::Acquire(id), Some(fault)) => self.refuse(now, id, Refusal::Fault(fault)),
            (What::Acquire(id), None) => self.acquire_refused(id, again),
            (What::Position(_, question) | What::Question(question), Some(fault)) => {
                self.fail_question(question, fault);
            }
            (What::Position(_, question) | What::Question(question), None) => {
                if self.questions.contains_key(&question) {
                    self.timers.set(Timer::AskAgain(question), again);
                }
            }
            (What::Heartbeat(name), fault) => {
                if let Some(session) = self.sessions.get_mut(&name) {
                    session.heartbeat = None;
                    self.timers.set(Timer::Heartbeat(name.clone()), soon);
                }
                if let Some(fault) = fault {
                    let waiters: Vec<Id> =
                        self.waiters.iter().filter(|(_, w)| w.spec.name() == &name).map(|(id, _)| *id).collect();
                    for id in waiters {
                        self.refuse(now, id, Refusal::Fault(fault.clone()));
                    }
                }
            }
            (What::Renew(id), _) => self.renew_refused(id, soon, failure.cause()),
            (What::Confirm(id), _) => {
                if let Some(waiter) = self.waiters.get_mut(&id) {
                    waiter.request = None;
                    self.timers.set(Timer::Acquire(id), again);
                }
            }
            (What::Replicate(_), _) => {}
            (What::Release(id), fault) => self.farewell_refused(now, id, again, fault.is_some()),
            (What::Leave(ids), fault) => {
                for id in ids {
                    self.farewell_refused(now, id, again, fault.is_some());
                }
            }
        }
    }

    /// Whether a request is that of a caller who loses nothing by an error.
    fn has_no_place(&self, what: &What) -> bool {
        match what {
            What::Acquire(id) => self.waiters.get(id).is_none_or(|waiter| waiter.ticket == 0),
            What::Position(..) | What::Question(_) => true,
            _ => false,
        }
    }

    fn on_push(&mut self, now: Time, push: &Push) {
        let (Some(id), Some(keys)) = (is_of(&self.client, &push.id), LockKeys::of_queue(&self.prefix, &push.queue))
        else {
            return;
        };
        match push.kind {
            PushKind::Break => self.on_break_pushed(now, id, push, &keys),
            PushKind::Grant => self.on_grant_pushed(now, id, push, keys),
        }
    }

    fn on_timer(&mut self, now: Time, timer: Timer) {
        match timer {
            Timer::Heartbeat(name) => self.heartbeat(now, &name),
            Timer::Timeout(id) => self.timed_out(now, id),
            Timer::Acquire(id) => self.resume(now, id),
            Timer::Renew(id) => self.renew(now, id),
            Timer::Notice(id) => self.notice(now, id),
            Timer::Deadline(id) => self.release(now, id, None),
            Timer::Taken(id) => self.effects.push(Effect::CheckTaken { id }),
            Timer::Farewell(id) => self.say_farewell(now, id),
            Timer::AnswerBy(id) => self.answer_release(id, Release::Unknown(self.cause.clone())),
            Timer::Question(question) => self.fail_question(question, self.no_answer()),
            Timer::Renewal(id, question) => self.renewal_timed_out(id, question),
            Timer::AskAgain(question) => self.send_question(now, question),
            // Answers may have come while this thread did not run: it takes them in before it judges.
            Timer::Stall if !std::mem::replace(&mut self.suspects, true) => self.timers.set(Timer::Stall, now + GRACE),
            Timer::Stall => {
                self.on_disconnected(format!("the server has not answered for {}", brief(&self.patience())).into());
                // More would not make it longer.
                self.given_up += u32::from(self.patience() < ANSWER_TIMEOUT);
                self.effects.push(Effect::Reconnect);
            }
            Timer::Close => self.end_closing(),
        }
    }
}
