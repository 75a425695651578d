//! Requests to the server, and calls that end with one answer.

use std::sync::Arc;
use std::time::Duration;

use super::farewells::Kind;
use super::machine::{ANSWER_TIMEOUT, CallId, Effect, Id, Machine, Outcome, Pending, RequestId, Sent, Timer, What};
use crate::clock::Time;
use crate::error::brief;
use crate::inspect::BreakOutcome;
use crate::server::{Answer, Call, LockKeys, Word};

impl Machine {
    pub(super) fn send(&mut self, now: Time, what: What, call: Call) -> RequestId {
        let request = self.register(now, what, call.keys().clone());
        self.effects.push(Effect::Send { request, call });
        request
    }

    /// From now on an answer is expected.
    pub(super) fn register(&mut self, now: Time, what: What, keys: Arc<LockKeys>) -> RequestId {
        self.next_request += 1;
        let request = self.next_request;
        if self.requests.is_empty() {
            self.timers.set(Timer::Stall, now + self.patience());
        }
        self.requests.insert(request, Sent { what, keys, at: now });
        request
    }

    /// What is to be said of a server that has kept somebody waiting for an answer, or for a connection.
    pub(super) fn silence(&self, now: Time) -> Option<Arc<str>> {
        const WORTH_A_WORD: Duration = Duration::from_millis(250);
        if !self.connected {
            return Some("there is no connection to the server yet".into());
        }
        let silent = now.since(self.requests.values().map(|sent| sent.at).min()?);
        (silent >= WORTH_A_WORD).then(|| format!("the server has not answered for {}", brief(&silent)).into())
    }

    pub(super) fn back_off(&mut self) -> Duration {
        // 10 ms, doubled up to about a second, half of it by chance, so that many clients do not ask in step.
        let ceiling = 10_u64 << self.refusals.min(7);
        Duration::from_millis(ceiling / 2 + self.random.u64(0..=ceiling / 2))
    }

    /// A pause that outlasts a session or a lease costs it, although the server was ready in between.
    pub(super) fn in_time(&self, now: Time, again: Time) -> Time {
        again.min(now + self.patience / 4)
    }

    pub(super) fn call(&mut self, now: Time, call: CallId, pending: Pending) {
        self.calls.insert(call, pending);
        self.timers.set(Timer::Call(call), now + ANSWER_TIMEOUT);
        self.send_call(now, call);
    }

    pub(super) fn send_call(&mut self, now: Time, call: CallId) {
        if !self.connected {
            return;
        }
        let (what, request) = match self.calls.get(&call) {
            Some(Pending::Request(request)) => (What::Call(call), Call::clone(request)),
            // A question for a waiter's position is its acquire, sent once more.
            Some(&Pending::Position(id)) => match self.acquire_call(id) {
                Some(request) => (What::Position(id, call), request),
                None => return self.on_position(call, 0),
            },
            None => return,
        };
        self.send(now, what, request);
    }

    pub(super) fn on_position(&mut self, call: CallId, position: u64) {
        if self.end_call(call) {
            self.done(call, Outcome::Position(position));
        }
    }

    pub(super) fn on_call(&mut self, now: Time, call: CallId, keys: &Arc<LockKeys>, answer: Answer) {
        if answer.again {
            // Somebody must go on where the script stopped: a release of an id that nobody has.
            let nobody = Id::MAX - self.next_request;
            let kind = Kind::Release { token: 0, epoch: 0, liveness: Duration::ZERO };
            self.bid_farewell(now, nobody, keys.clone(), kind, None, now);
        }
        if !self.end_call(call) {
            return;
        }
        let outcome = match answer.word {
            Word::State => Outcome::State(answer),
            Word::Told => Outcome::Broken(BreakOutcome::Told { remaining: answer.left }),
            Word::Ended => Outcome::Broken(BreakOutcome::Ended),
            _ => Outcome::Broken(BreakOutcome::Unknown),
        };
        self.done(call, outcome);
    }

    /// Forgets a call. False: it has had its outcome, and this answer comes too late.
    pub(super) fn end_call(&mut self, call: CallId) -> bool {
        self.timers.clear(&Timer::Call(call));
        self.timers.clear(&Timer::CallAgain(call));
        self.calls.remove(&call).is_some()
    }

    pub(super) fn done(&mut self, call: CallId, outcome: Outcome) {
        self.effects.push(Effect::Done { call, outcome });
    }
}
