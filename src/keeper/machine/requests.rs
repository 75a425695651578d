//! Requests to the server, and callers' questions that end with one answer of it.

use std::sync::Arc;
use std::time::Duration;

use super::farewells::Kind;
use super::{ANSWER_TIMEOUT, Effect, Id, Machine, Outcome, Page, Pending, QuestionId, RequestId, Sent, Timer, What};
use crate::clock::Time;
use crate::error::{Fault, brief};
use crate::inspect::BreakOutcome;
use crate::protocol::{BreakRequest, BreakVerdict, Common, InspectRequest, Inspected, LockKeys, Request};

impl Machine {
    pub(super) fn send(&mut self, now: Time, what: What, call: Request) -> RequestId {
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

    pub(super) fn ask(&mut self, now: Time, question: QuestionId, pending: Pending) {
        self.questions.insert(question, pending);
        if self.closed {
            return self.fail_question(question, Fault::Closed);
        }
        self.timers.set(Timer::Question(question), now + ANSWER_TIMEOUT);
        self.send_question(now, question);
    }

    pub(super) fn send_question(&mut self, now: Time, question: QuestionId) {
        if !self.connected {
            return;
        }
        let (what, request) = match self.questions.get(&question) {
            Some(Pending::Inspect { keys, after, count }) => (
                What::Question(question),
                Request::Inspect(InspectRequest { keys: keys.clone(), after: *after, count: *count }),
            ),
            Some(Pending::Break { keys, token, force }) => (
                What::Question(question),
                Request::Break(BreakRequest { keys: keys.clone(), token: *token, force: *force }),
            ),
            // A question for a waiter's position is its acquire, sent once more.
            Some(&Pending::Position(id)) => match self.acquire_call(id) {
                Some(request) => (What::Position(id, question), request),
                None => return self.on_position(question, 0),
            },
            None => return,
        };
        self.send(now, what, request);
    }

    pub(super) fn on_position(&mut self, question: QuestionId, position: u64) {
        if self.end_question(question).is_some() {
            self.answer(question, Outcome::Position(Ok(position)));
        }
    }

    pub(super) fn on_inspected(
        &mut self,
        now: Time,
        question: QuestionId,
        keys: &Arc<LockKeys>,
        common: &Common,
        Inspected { holder, queue }: Inspected,
    ) {
        self.go_on(now, keys, common);
        let (waiting, recovering_for) = (common.waiting, common.recovering_for());
        let page = Page { holder: holder.map(|holder| *holder), waiting, recovering_for, queue };
        if self.end_question(question).is_some() {
            self.answer(question, Outcome::Page(Ok(page)));
        }
    }

    pub(super) fn on_broke(
        &mut self,
        now: Time,
        question: QuestionId,
        keys: &Arc<LockKeys>,
        common: &Common,
        verdict: BreakVerdict,
    ) {
        self.go_on(now, keys, common);
        let broken = match verdict {
            BreakVerdict::Told { left } => BreakOutcome::Told { remaining: left },
            BreakVerdict::Ended => BreakOutcome::Ended,
            BreakVerdict::Unknown => BreakOutcome::Unknown,
        };
        if self.end_question(question).is_some() {
            self.answer(question, Outcome::Break(Ok(broken)));
        }
    }

    /// Somebody must go on where a script stopped: a release of an id that nobody has.
    fn go_on(&mut self, now: Time, keys: &Arc<LockKeys>, common: &Common) {
        if common.again {
            let nobody = Id::MAX - self.next_request;
            let kind = Kind::Release { token: 0, epoch: 0, liveness: Duration::ZERO };
            self.bid_farewell(now, nobody, keys.clone(), kind, None, now);
        }
    }

    /// Forgets a question. None: it has had its answer, and this one comes too late.
    fn end_question(&mut self, question: QuestionId) -> Option<Pending> {
        self.timers.clear(&Timer::Question(question));
        self.timers.clear(&Timer::AskAgain(question));
        self.questions.remove(&question)
    }

    pub(super) fn fail_question(&mut self, question: QuestionId, fault: Fault) {
        let outcome = match self.end_question(question) {
            None => return,
            Some(Pending::Position(_)) => Outcome::Position(Err(fault)),
            Some(Pending::Inspect { .. }) => Outcome::Page(Err(fault)),
            Some(Pending::Break { .. }) => Outcome::Break(Err(fault)),
        };
        self.answer(question, outcome);
    }

    pub(super) fn fail_questions(&mut self, fault: &Fault) {
        let questions: Vec<QuestionId> = self.questions.keys().copied().collect();
        questions.into_iter().for_each(|question| self.fail_question(question, fault.clone()));
    }

    /// Why a question that has had its time is not answered.
    pub(super) fn no_answer(&self) -> Fault {
        Fault::Unavailable { waited: ANSWER_TIMEOUT, cause: self.cause.clone() }
    }

    pub(super) fn answer(&mut self, question: QuestionId, outcome: Outcome) {
        self.effects.push(Effect::Answer { question, outcome });
    }
}
