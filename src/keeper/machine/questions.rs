//! Callers' questions, each of which ends with one answer. A record answers those about itself.

use super::Machine;
use super::api::{ANSWER_TIMEOUT, Outcome, Question, QuestionId, Release};
use super::core::{InFlight, Timer};
use super::line::Turn;
use crate::clock::Time;
use crate::error::{Fault, LostReason};
use crate::protocol::Request;

/// The question of an operator.
#[derive(Debug, Clone, Hash)]
pub(in crate::keeper) struct OperatorQuestion {
    request: Request,
    /// When it is answered at the latest.
    by: Time,
}

impl Machine {
    pub(super) fn ask(&mut self, number: QuestionId, question: Question) {
        match question {
            Question::Renew { .. } | Question::Downgrade { .. } if self.closed => {
                self.core.answer(number, Outcome::Renewal(Err(Fault::Closed)));
            }
            Question::Renew { id, extend } if !self.core.is_leaving(id) => {
                self.at(id, |lock, core| lock.renew_for(core, number, id, extend));
            }
            Question::Downgrade { id } if !self.core.is_leaving(id) => {
                self.at(id, |lock, core| lock.downgrade(core, number, id));
            }
            Question::Renew { .. } | Question::Downgrade { .. } => self.core.renewal_of_none(number),
            Question::Release { id } if !self.core.is_leaving(id) => {
                self.at(id, |lock, core| lock.release(core, id, Some(number)));
            }
            Question::Release { .. } => {
                self.core.answer(number, Outcome::Release(Release::Lost(LostReason::Ended)));
            }
            Question::Close => self.close(number),
            Question::Position { .. } if self.closed => {
                self.core.answer(number, Outcome::Position(Err(Fault::Closed)));
            }
            Question::Position { id } if self.core.waiter(id).is_some() => {
                self.at(id, |lock, core| lock.ask_position(core, id, number));
            }
            Question::Position { .. } => self.core.answer(number, Outcome::Position(Ok(0))),
            Question::Operator(_) if self.closed => {
                self.core.answer(number, Outcome::Operator(Err(Fault::Closed)));
            }
            Question::Operator(request) => {
                let by = self.core.now + ANSWER_TIMEOUT;
                self.questions.insert(number, OperatorQuestion { request: *request, by });
                self.core.timers.set(Timer::Question(number), by);
                self.ask_in_turn(number);
            }
        }
    }

    /// The question is sent as soon as there is room for it.
    fn ask_in_turn(&mut self, question: QuestionId) {
        if self.core.connected {
            self.core.line.turns.insert(Turn::Question(question));
        }
    }

    /// It was refused.
    pub(super) fn ask_again(&mut self, question: QuestionId, again: Time) {
        if let Some(asked) = self.questions.get(&question) {
            self.core.timers.set(Timer::Question(question), again.min(asked.by));
        }
    }

    pub(super) fn question_is_due(&mut self, question: QuestionId) {
        let Some(OperatorQuestion { by, .. }) = self.questions.get(&question) else { return };
        if *by <= self.core.now {
            return self.fail_question(question, self.core.no_answer());
        }
        self.core.timers.set(Timer::Question(question), *by);
        self.ask_in_turn(question);
    }

    pub(super) fn send_question(&mut self, question: QuestionId) {
        if let Some(OperatorQuestion { request, .. }) = self.questions.get(&question) {
            self.core.send(InFlight::Question(question), request.clone());
        }
    }

    /// Unless it has had its answer, and this one comes too late.
    pub(super) fn answer_question(&mut self, question: QuestionId, outcome: Outcome) {
        self.core.timers.clear(&Timer::Question(question));
        self.core.line.turns.remove(&Turn::Question(question));
        if self.questions.remove(&question).is_some() {
            self.core.answer(question, outcome);
        }
    }

    pub(super) fn fail_question(&mut self, question: QuestionId, fault: Fault) {
        self.answer_question(question, Outcome::Operator(Err(fault)));
    }

    pub(super) fn fail_questions(&mut self, fault: &Fault) {
        let questions: Vec<QuestionId> = self.questions.keys().copied().collect();
        questions.into_iter().for_each(|question| self.fail_question(question, fault.clone()));
    }
}
