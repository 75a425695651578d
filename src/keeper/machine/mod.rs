//! The decisions of the keeper, as a state machine without I/O: events and a clock in, requests and results out.
//!
//! Each lock has its own state, which owns its waiters, leases and pending releases (`lock.rs`, `waiter.rs`,
//! `grant.rs`, `lease.rs`, `release.rs`, `replicas.rs`). This file passes events to the lock that they concern, and
//! `core.rs` has what all locks share: requests in flight, timers, and what is known of the server. `unsent.rs` has the
//! requests that wait for room.
//!
//! The methods of `LockMachine` stand in six files, each with the phase from which they start and the types of that
//! phase: what may happen to a waiter is in `waiter.rs`. They are not methods of `Waiter` or `Lease`, because each step
//! moves an acquire from one map of the lock to another and sends for all of them. In three files of at most 400 lines
//! the cut would run through the waiter, or through the grant, which a reader follows most.

mod api;
mod core;
#[cfg(test)]
mod for_tests;
mod grant;
mod kept;
mod lease;
mod lock;
mod questions;
mod refusals;
mod release;
mod replicas;
mod unsent;
mod waiter;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

pub(crate) use self::api::{
    AcquireCall, Command, Effect, Event, Mode, NotGranted, Outcome, Question, QuestionId, Release, Renewal, RequestId,
};
pub(in crate::keeper) use self::core::{Core, InFlight, SentRequest, Timer};
use self::kept::KnowledgeCache;
use self::lock::LockMachine;
use self::unsent::Unsent;
use crate::clock::Time;
use crate::error::{Fault, brief};
pub(crate) use crate::protocol::Id;
use crate::protocol::{AcquireVerdict, ClientId, LockKeys, Push, PushKind, Refusal, Reply, Verdict};

/// How long a caller without a timeout waits for an answer of the server.
pub(crate) const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
/// How long `close` waits for pending releases.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);
/// How much longer a seemingly silent server is given.
pub(super) const GRACE: Duration = Duration::from_millis(50);

#[derive(Debug, Clone)]
pub(crate) struct Machine {
    pub(super) core: Core,
    pub(super) prefix: Arc<str>,
    /// Locks where this client has a waiter, a lease or a pending release, by name.
    pub(super) locks: BTreeMap<Arc<str>, LockMachine>,
    /// What it knows of others.
    pub(super) kept: KnowledgeCache,
    pub(super) questions: BTreeMap<QuestionId, Question>,
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

    /// Until when pending releases are worth repeating.
    pub(crate) fn gives_back_until(&self) -> Option<Time> {
        self.locks.values().flat_map(|lock| lock.releases.values()).map(|pending| pending.until).max()
    }

    /// What keeps this client from the server's answers, or the waiters of this lock from a grant, as far as it is
    /// known.
    pub(crate) fn trouble(&self, name: &str) -> Option<Arc<str>> {
        let shortage = || self.locks.get(name)?.waiters.values().find_map(|waiter| waiter.shortage.clone());
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

    /// The effects to carry out now, in order. Of the requests that wait for room, so many are sent (`unsent.rs`).
    pub(crate) fn effects(&mut self, now: Time, room: usize) -> Vec<Effect> {
        self.core.now = now;
        self.send_unsent(room);
        if self.closing.is_some() && self.locks.values().all(|lock| lock.releases.is_empty()) {
            self.end_closing();
        }
        std::mem::take(&mut self.core.effects)
    }

    /// Whether requests wait for room.
    pub(crate) fn has_unsent(&self) -> bool {
        !self.core.unsent.is_empty()
    }

    /// Sends what waits, but no more requests than there is room for.
    fn send_unsent(&mut self, room: usize) {
        let full = self.core.last_request.0.saturating_add(room as u64);
        while self.core.last_request.0 < full && self.send_next() {}
        self.core.unsent.held_back = !self.core.unsent.is_empty();
    }

    /// False if nothing waits.
    fn send_next(&mut self) -> bool {
        if let Some((name, ids)) = self.core.unsent.next_leaves() {
            self.at_lock(&name, |lock, core| lock.send_leave(core, ids));
        } else if let Some(question) = self.core.unsent.questions.pop_first() {
            self.send_question(question);
        } else if let Some((.., id)) = self.core.unsent.acquires.pop_first() {
            self.at(id, |lock, core| lock.turn_has_come(core, id));
        } else {
            return false;
        }
        true
    }

    /// Runs this for the lock of a waiter, lease or release, if there is one with this id.
    fn at(&mut self, id: Id, act: impl FnOnce(&mut LockMachine, &mut Core)) {
        if let Some(name) = self.core.locks_of.get(&id).cloned() {
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
                self.at(id, |lock, core| lock.forget_release(core, id));
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
        let questions: Vec<QuestionId> = self.questions.keys().copied().collect();
        self.core.unsent.questions.extend(questions);
    }

    fn on_disconnected(&mut self, cause: Arc<str>) {
        self.core.cause = Some(cause);
        self.core.connected = false;
        self.core.requests.clear();
        self.core.unsent = Unsent::default();
        self.core.timers.clear(&Timer::Stall);
        self.locks.values_mut().for_each(LockMachine::disconnected);
    }

    fn on_answer(&mut self, request: RequestId, result: Result<Reply, Refusal>) {
        let Some(SentRequest { what, keys, at, memory }) = self.core.requests.remove(&request) else { return };
        self.core.heard();
        let Reply { common, verdict } = match result {
            Ok(reply) => reply,
            Err(refusal) => return self.on_refusal(what, &keys.name, &refusal),
        };
        // A grant or renewal that replicas lack is no success.
        if !matches!(what, InFlight::Confirm(_) | InFlight::Renew(_)) {
            self.core.refusals = 0;
        }
        self.core.cause = None;
        let known = self.locks.contains_key(&keys.name);
        let (lock, core) = self.lock(&keys);
        let changed = known && lock.learn(core.now, at, memory, &common);
        match (what, verdict) {
            (InFlight::Acquire(id), Verdict::Acquire(verdict)) => {
                lock.on_acquire(core, (request, at), id, &common, verdict);
            }
            (InFlight::Position(id, question), Verdict::Acquire(verdict)) => {
                let position = match verdict {
                    AcquireVerdict::Granted => Some(0),
                    AcquireVerdict::Queued { rank, .. } => Some(rank + 1),
                    AcquireVerdict::Busy(_) | AcquireVerdict::Disbelieved => None,
                };
                lock.on_acquire(core, (request, at), id, &common, verdict);
                match position {
                    Some(position) => self.on_position(question, position),
                    None => self.on_no_position(question, id),
                }
            }
            (InFlight::Heartbeat, Verdict::Heartbeat(verdict)) => {
                lock.on_heartbeat(core, (request, at), &common, verdict);
            }
            (InFlight::Renew(id), Verdict::Renew(verdict)) => lock.on_renew(core, at, id, &common, verdict),
            (InFlight::Confirm(id), Verdict::Renew(verdict)) => {
                lock.on_confirm(core, (request, at), id, &common, verdict);
            }
            (InFlight::Release(id), Verdict::Release(verdict)) => lock.on_release(core, at, id, &common, verdict),
            (InFlight::Leave(ids), Verdict::Leave) => lock.on_leave(core, &ids, &common),
            (InFlight::Question(question), verdict) => {
                lock.go_on(core, &common);
                let reply = Box::new(Reply { common: common.clone(), verdict });
                self.answer_question(question, Outcome::Operator(Ok(reply)));
            }
            // The wire reads a reply in the type of its request: no server can bring this about.
            (what, _) => {
                let refusal = Refusal::Permanent("a reply to another request".into());
                self.on_refusal(what, &keys.name, &refusal);
            }
        }
        let (lock, core) = self.lock(&keys);
        for own in &common.own {
            if let Some(id) = own.id.number_at(&core.client)
                && core.locks_of.get(&id).is_none_or(|name| *name == keys.name)
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
        let Some(SentRequest { what: InFlight::Replicate(id), .. }) = self.core.requests.remove(&request) else {
            return;
        };
        self.core.heard();
        self.at(id, |lock, core| lock.on_replicated(core, request, id, result));
    }

    fn on_push(&mut self, push: &Push) {
        let Some(id) = push.id.number_at(&self.core.client) else { return };
        let Some(keys) = LockKeys::of_lock(&self.prefix, &push.lock) else { return };
        if self.core.locks_of.get(&id).is_some_and(|name| *name != keys.name) {
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
            Timer::Timeout(id) => self.at(id, |lock, core| lock.timed_out(core, id)),
            Timer::Position(id) => self.at(id, |lock, core| lock.ask_position(core, id)),
            Timer::Acquire(id) => self.at(id, |lock, core| lock.resume(core, id)),
            Timer::Renew(id) => self.at(id, |lock, core| lock.renew(core, id)),
            Timer::Notice(id) => self.at(id, |lock, core| lock.notice(core, id)),
            Timer::Deadline(id) => self.at(id, |lock, core| lock.release(core, id, None)),
            Timer::Taken(id) => self.core.effects.push(Effect::CheckTaken { id }),
            Timer::Release(id) => self.at(id, |lock, core| lock.send_release(core, id)),
            Timer::AnswerBy(id) => self.at(id, |lock, core| {
                let unknown = Release::Unknown(core.cause.clone());
                lock.answer_release(core, id, unknown);
            }),
            Timer::Question(question) => self.fail_question(question, self.core.no_answer()),
            Timer::Renewal(id, question) => self.at(id, |lock, core| lock.renewal_timed_out(core, id, question)),
            Timer::AskAgain(question) => self.ask_in_turn(question),
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
