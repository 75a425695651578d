//! Requests to the server, and calls that end with one answer.

use std::time::Duration;

use super::machine::{ANSWER_TIMEOUT, CallId, Effect, Id, Machine, Outcome, Pending, RequestId, Sent, Timer, What};
use crate::clock::Time;
use crate::inspect::Broken;
use crate::server::{Answer, Call, Word, is_of};

impl Machine {
    pub(super) fn send(&mut self, now: Time, what: What, call: Call) -> RequestId {
        self.next_request += 1;
        let request = self.next_request;
        if self.requests.is_empty() {
            self.timers.set(Timer::Stall, now + self.patience);
        }
        self.requests.insert(request, Sent { what, keys: call.keys().clone(), at: now });
        self.effects.push(Effect::Send { request, call });
        request
    }

    pub(super) fn back_off(&mut self) -> Duration {
        // 10 ms, doubled up to about a second, half of it by chance, so that many clients do not ask in step.
        let ceiling = 10_u64 << self.refusals.min(7);
        Duration::from_millis(ceiling / 2 + self.random.u64(0..=ceiling / 2))
    }

    pub(super) fn call(&mut self, now: Time, call: CallId, request: Call) {
        self.calls.insert(call, Pending { request });
        self.timers.set(Timer::Call(call), now + ANSWER_TIMEOUT);
        self.send_call(now, call);
    }

    pub(super) fn send_call(&mut self, now: Time, call: CallId) {
        let Some(pending) = self.calls.get(&call) else { return };
        if self.connected {
            let request = pending.request.clone();
            let what = match (&request, is_position(&request, &self.client)) {
                (_, Some(id)) => What::Position(id, call),
                _ => What::Call(call),
            };
            self.send(now, what, request);
        }
    }

    pub(super) fn on_call(&mut self, call: CallId, answer: Answer) {
        if self.calls.remove(&call).is_none() {
            return;
        }
        self.timers.clear(&Timer::Call(call));
        let outcome = match answer.word {
            Word::State => Outcome::State(answer),
            Word::Told => Outcome::Broken(Broken::Told { remaining: answer.left }),
            Word::Ended => Outcome::Broken(Broken::Ended),
            _ => Outcome::Broken(Broken::Unknown),
        };
        self.done(call, outcome);
    }

    pub(super) fn position(&mut self, now: Time, call: CallId, id: Id) {
        match self.acquire_call(now, id) {
            Some(request) => self.call(now, call, request),
            None => self.done(call, Outcome::Position(0)),
        }
    }

    pub(super) fn done(&mut self, call: CallId, outcome: Outcome) {
        self.effects.push(Effect::Done { call, outcome });
    }
}

/// A question for a waiter's position is its acquire, sent once more.
fn is_position(request: &Call, client: &str) -> Option<Id> {
    match request {
        Call::Acquire { id, .. } => is_of(client, id),
        _ => None,
    }
}
