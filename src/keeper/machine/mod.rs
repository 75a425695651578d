//! The decisions of the keeper, as a state machine without I/O: events and a clock in, requests and results out.
//!
//! An acquire is one [`Record`](record::Record) from its call until nothing is left of it, and the table in `record.rs` has
//! its phases. What happens there changes the record, and then [`LockMachine::look`] asks it for what it sends next:
//! `waiter.rs`, `grant.rs`, `replicas.rs`, `lease.rs` and `release.rs` have the changes by phase, `refusals.rs` those by
//! the server's errors. `lock.rs` has what is known of a lock, and its heartbeat; `core.rs` what all locks share:
//! records, requests in flight, timers, and what is known of the server. `line.rs` has the order of the requests that
//! wait for room. This file passes each event to those that it concerns.

mod api;
mod core;
#[cfg(test)]
mod for_tests;
mod grant;
mod kept;
mod lease;
mod line;
mod lock;
mod questions;
mod record;
mod refusals;
mod release;
mod replicas;
mod waiter;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

pub(crate) use self::api::{
    ANSWER_TIMEOUT, AcquireCall, Command, Effect, Event, Mode, NotGranted, Outcome, Question, QuestionId, Release,
    Renewal, RequestId,
};
use self::core::GRACE;
pub(in crate::keeper) use self::core::{Core, InFlight, SentRequest, Timer};
use self::kept::KnowledgeCache;
use self::line::{Line, Turn};
use self::lock::LockMachine;
use self::questions::OperatorQuestion;
use self::record::Record;
use crate::clock::Time;
use crate::error::{Fault, brief};
pub(crate) use crate::protocol::Id;
use crate::protocol::{ClientId, LockKeys, Push, PushKind, Refusal, Reply, Verdict};

/// How long `close` waits for pending releases.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

#[derive(Debug, Clone)]
pub(crate) struct Machine {
    pub(super) core: Core,
    pub(super) prefix: Arc<str>,
    /// Locks where this client has a record, by name.
    pub(super) locks: BTreeMap<Arc<str>, LockMachine>,
    /// What it knows of others.
    pub(super) kept: KnowledgeCache,
    pub(super) questions: BTreeMap<QuestionId, OperatorQuestion>,
    pub(super) closed: bool,
    pub(super) closing: Option<QuestionId>,
}

impl Machine {
    pub(crate) fn new(client: ClientId, prefix: Arc<str>, seed: u64) -> Self {
        Self {
            core: Core::new(client, seed),
            prefix,
            locks: BTreeMap::new(),
            kept: KnowledgeCache::default(),
            questions: BTreeMap::new(),
            closed: false,
            closing: None,
        }
    }

    /// When to come back with a [`Event::Tick`] if nothing else happens.
    pub(crate) fn next_due(&self) -> Option<Time> {
        self.core.timers.next()
    }

    /// Until when it is worth repeating that records leave.
    pub(crate) fn gives_back_until(&self) -> Option<Time> {
        self.core.records.values().filter_map(Record::leaving).map(|leaving| leaving.until).max()
    }

    /// What keeps this client from the server's answers, or the waiters of this lock from a grant, as far as it is
    /// known.
    pub(crate) fn trouble(&self, name: &str) -> Option<Arc<str>> {
        let ids = self.locks.get(name).into_iter().flat_map(|lock| &lock.ids);
        let shortage = || ids.clone().find_map(|id| self.core.waiter(*id)?.shortage.clone());
        self.core.cause.clone().or_else(shortage)
    }

    /// Takes in one event. Call [`Machine::effects`] when no more are at hand.
    pub(crate) fn handle(&mut self, now: Time, event: Event) {
        self.core.now = now;
        // What was due comes first: an answer that comes after a deadline must not undo what the deadline decided.
        self.core.has_all = matches!(event, Event::Tick);
        self.run_timers();
        match event {
            Event::Command(command) => self.command(command),
            Event::Connected { can_kill } => self.on_connected(can_kill),
            Event::Disconnected { cause } => self.on_disconnected(cause),
            Event::Unusable { error } => self.on_unusable(&error),
            Event::Answered { request, result } => self.on_answer(request, result),
            Event::Replicated { request, result } => self.on_replicated(request, result),
            Event::Push(push) => self.on_push(&push),
            Event::NotTaken { id } => self.at(id, |lock, core| lock.release(core, id, None)),
            Event::Tick => {}
        }
        self.run_timers();
    }

    /// The effects to carry out now, in order. Of the requests that wait for room, so many are sent (`line.rs`).
    pub(crate) fn effects(&mut self, now: Time, room: usize) -> Vec<Effect> {
        self.core.now = now;
        self.send_unsent(room);
        if self.closing.is_some() && self.core.records.values().all(Record::is_member) {
            self.end_closing();
        }
        std::mem::take(&mut self.core.effects)
    }

    /// Whether requests wait for room.
    pub(crate) fn has_unsent(&self) -> bool {
        !self.core.line.turns.is_empty()
    }

    /// Sends what waits, but no more requests than there is room for.
    fn send_unsent(&mut self, room: usize) {
        let full = self.core.last_request.0.saturating_add(room as u64);
        while self.core.last_request.0 < full
            && let Some(turn) = self.core.line.turns.pop_first()
        {
            match turn {
                Turn::Leave(name, id) => {
                    let ids = self.core.line.pop_leaves_of(&name, id);
                    self.at_lock(&name, |lock, core| lock.send_leave(core, ids));
                }
                Turn::Question(question) => self.send_question(question),
                Turn::Returner(_, id) | Turn::Newcomer(id) => self.at(id, |lock, core| lock.send_acquire(core, id)),
            }
        }
        self.core.line.held_back = self.has_unsent();
    }

    /// Runs this for the lock of a record, if there is one with this id.
    fn at(&mut self, id: Id, act: impl FnOnce(&mut LockMachine, &mut Core)) {
        if let Some(name) = self.core.records.get(&id).map(|record| record.keys.name.clone()) {
            self.at_lock(&name, act);
        }
    }

    fn at_lock(&mut self, name: &Arc<str>, act: impl FnOnce(&mut LockMachine, &mut Core)) {
        if let Some(lock) = self.locks.get_mut(name) {
            act(lock, &mut self.core);
            self.settle(name);
        }
    }

    fn at_each_lock(&mut self, act: impl Fn(&mut LockMachine, &mut Core)) {
        let names: Vec<Arc<str>> = self.locks.keys().cloned().collect();
        names.iter().for_each(|name| self.at_lock(name, &act));
    }

    /// The state of a lock, made when this client first has anything there. [`Self::settle`] ends it.
    fn lock(&mut self, keys: &Arc<LockKeys>) -> (&mut LockMachine, &mut Core) {
        let lock = self.locks.entry(keys.name.clone()).or_insert_with(|| LockMachine::new(keys.clone()));
        (lock, &mut self.core)
    }

    /// A client that has nothing at a lock forgets all about it, but for what it is to tell when it comes back.
    fn settle(&mut self, name: &Arc<str>) {
        if self.locks.get(name).is_some_and(LockMachine::is_empty)
            && let Some(lock) = self.locks.remove(name)
        {
            self.kept.keep(&lock);
            self.core.timers.clear(&Timer::Heartbeat(name.clone()));
        }
    }

    // ---- callers ----

    fn command(&mut self, command: Command) {
        match command {
            Command::Acquire { id, .. } if self.closed => {
                self.core.effects.push(Effect::NotGranted { id, why: NotGranted::Fault(Fault::Closed) });
            }
            Command::Acquire { id, asked } => {
                // A forged message may have named this id before it was given.
                self.at(id, |lock, core| lock.forget(core, id));
                let keys = asked.spec.keys.clone();
                if !self.locks.contains_key(&keys.name) {
                    let known = self.kept.take(self.core.now, &keys.name);
                    self.lock(&keys).0.known = known;
                }
                let (lock, core) = self.lock(&keys);
                lock.acquire(core, id, asked);
            }
            Command::Abandon { id } => self.at(id, |lock, core| lock.abandon(core, id)),
            Command::GiveBack { id } => self.at(id, |lock, core| lock.release(core, id, None)),
            Command::Automatic { id, on } => self.at(id, |lock, core| lock.renew_automatically(core, id, on)),
            Command::Ask { number, question } => self.ask(number, question),
        }
    }

    pub(super) fn close(&mut self, question: QuestionId) {
        self.closed = true;
        self.at_each_lock(|lock, core| lock.close(core));
        self.fail_questions(&Fault::Closed);
        self.end_closing();
        self.closing = Some(question);
        self.core.timers.set(Timer::Close, self.core.now + CLOSE_TIMEOUT);
    }

    /// Answers the caller that closed this machine.
    fn end_closing(&mut self) {
        if let Some(question) = self.closing.take() {
            self.core.timers.clear(&Timer::Close);
            self.core.answer(question, Outcome::Closed);
        }
    }

    // ---- the connection ----

    fn on_connected(&mut self, can_kill: bool) {
        self.core.connected = true;
        self.core.suspects = false;
        self.core.can_kill = can_kill;
        self.core.refusals = 0;
        // Leases first: they have deadlines.
        self.at_each_lock(|lock, core| lock.renew_all(core));
        self.at_each_lock(|lock, core| lock.connected(core));
        self.core.line.turns.extend(self.questions.keys().copied().map(Turn::Question));
    }

    fn on_disconnected(&mut self, cause: Arc<str>) {
        self.core.cause = Some(cause);
        self.core.connected = false;
        self.core.requests.clear();
        self.core.line = Line::default();
        self.core.timers.clear(&Timer::Stall);
        self.core.records.values_mut().for_each(Record::disconnected);
        self.locks.values_mut().for_each(LockMachine::disconnected);
    }

    fn on_answer(&mut self, request: RequestId, result: Result<Reply, Refusal>) {
        let Some(SentRequest { what, keys, at, memory, .. }) = self.core.requests.remove(&request) else { return };
        self.core.heard();
        let Reply { common, verdict } = match result {
            Ok(reply) => reply,
            Err(refusal) => return self.on_refusal(request, what, &keys.name, &refusal),
        };
        // A grant or renewal that replicas lack is no success.
        if !matches!(verdict, Verdict::Renew(_)) {
            self.core.refusals = 0;
        }
        self.core.cause = None;
        let known = self.locks.contains_key(&keys.name);
        let (lock, core) = self.lock(&keys);
        let changed = known && lock.learn(core.now, at, memory, &common);
        match (what, verdict) {
            (InFlight::Record(id), Verdict::Acquire(verdict)) => {
                lock.on_acquire(core, (request, at), id, &common, verdict);
            }
            (InFlight::Record(id), Verdict::Renew(verdict)) => {
                lock.go_on(core, &common);
                match core.waiter(id) {
                    Some(_) => lock.on_confirm(core, (request, at), id, &common, verdict),
                    None => lock.on_renew(core, (request, at), id, &common, verdict),
                }
            }
            (InFlight::Record(id), Verdict::Release(verdict)) => {
                lock.on_release(core, (request, at), id, &common, verdict);
            }
            (InFlight::Leave(ids), Verdict::Leave) => lock.on_leave(core, request, &ids, &common),
            (InFlight::Heartbeat, Verdict::Heartbeat(verdict)) => {
                lock.on_heartbeat(core, (request, at), &common, verdict);
            }
            (InFlight::Question(question), verdict) => {
                lock.go_on(core, &common);
                let reply = Box::new(Reply { common: common.clone(), verdict });
                self.answer_question(question, Outcome::Operator(Ok(reply)));
            }
            // The wire reads a reply in the type of its request: no server can bring this about.
            (what, _) => {
                let refusal = Refusal::Permanent("a reply to another request".into());
                self.on_refusal(request, what, &keys.name, &refusal);
            }
        }
        let (lock, core) = self.lock(&keys);
        for own in &common.own {
            if let Some(id) = own.id.number_at(&core.client)
                && core.records.get(&id).is_none_or(|record| record.keys.name == keys.name)
            {
                lock.on_named(core, at, id, own);
            }
        }
        if changed {
            lock.restore_all(core);
        }
        lock.plan_heartbeat(core);
        self.settle(&keys.name);
    }

    /// So many replicas have it.
    fn on_replicated(&mut self, request: RequestId, result: Result<u32, Refusal>) {
        let Some(SentRequest { what: InFlight::Record(id), .. }) = self.core.requests.remove(&request) else {
            return;
        };
        self.core.heard();
        self.at(id, |lock, core| lock.on_replicated(core, request, id, result));
    }

    fn on_push(&mut self, push: &Push) {
        let Some(id) = push.id.number_at(&self.core.client) else { return };
        let Some(keys) = LockKeys::of_lock(&self.prefix, &push.lock) else { return };
        if self.core.records.get(&id).is_some_and(|record| record.keys.name != keys.name) {
            return;
        }
        match push.kind {
            PushKind::Break => self.at(id, |lock, core| lock.on_break_pushed(core, id, push)),
            PushKind::Grant => {
                let keys = Arc::new(keys);
                let (lock, core) = self.lock(&keys);
                lock.on_grant_pushed(core, id, push);
                self.settle(&keys.name);
            }
        }
    }

    // ---- time ----

    fn run_timers(&mut self) {
        let mut waits = false;
        while let Some(timer) = self.core.timers.pop(self.core.now) {
            match timer {
                // What has come is taken in before silence is judged: a tick follows it.
                Timer::Stall if !self.core.has_all => waits = true,
                timer => self.on_timer(timer),
            }
        }
        if waits {
            self.core.timers.set(Timer::Stall, self.core.now);
        }
    }

    fn on_timer(&mut self, timer: Timer) {
        match timer {
            Timer::Heartbeat(name) => self.at_lock(&name, |lock, core| lock.heartbeat(core)),
            Timer::Record(id) => self.at(id, |lock, core| lock.wake(core, id)),
            Timer::Question(question) => self.question_is_due(question),
            // Answers may have arrived while this thread did not run.
            Timer::Stall if !std::mem::replace(&mut self.core.suspects, true) => {
                self.core.timers.set(Timer::Stall, self.core.now + GRACE);
            }
            Timer::Stall => {
                let patience = self.core.patience();
                self.on_disconnected(format!("the server has not answered for {}", brief(&patience)).into());
                self.core.gave_up();
                self.core.effects.push(Effect::Reconnect);
            }
            Timer::Close => self.end_closing(),
        }
    }
}
