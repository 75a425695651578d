//! Callers' questions, each of which ends with one answer. A lease answers those about itself.

use super::waiter::Waiter;
use super::{ANSWER_TIMEOUT, Id, InFlight, Machine, Outcome, Question, QuestionId, Release, Renewal, Timer};
use crate::error::{Fault, LostReason};

impl Machine {
    pub(super) fn ask(&mut self, number: QuestionId, question: Question) {
        match question {
            Question::Renew { .. } | Question::Downgrade { .. } if self.closed => {
                self.core.answer(number, Outcome::Renewal(Err(Fault::Closed)));
            }
            Question::Renew { id, extend } if self.core.locks_of.contains_key(&id) => {
                self.at(id, |lock, core| lock.renew_for(core, number, id, extend));
            }
            Question::Downgrade { id } if self.core.locks_of.contains_key(&id) => {
                self.at(id, |lock, core| lock.downgrade(core, number, id));
            }
            Question::Renew { .. } | Question::Downgrade { .. } => {
                self.core.answer(number, Outcome::Renewal(Ok(Renewal::Lost(LostReason::Ended))));
            }
            Question::Release { id } if self.core.locks_of.contains_key(&id) => {
                self.at(id, |lock, core| lock.release(core, id, Some(number)));
            }
            Question::Release { .. } => {
                self.core.answer(number, Outcome::Release(Release::Lost(LostReason::Ended)));
            }
            Question::Close => self.close(number),
            Question::Position { .. } | Question::Operator(_) => {
                self.questions.insert(number, question);
                if self.closed {
                    return self.fail_question(number, Fault::Closed);
                }
                self.core.timers.set(Timer::Question(number), self.core.now + ANSWER_TIMEOUT);
                self.ask_in_turn(number);
            }
        }
    }

    /// The question is sent as soon as there is room for it.
    pub(super) fn ask_in_turn(&mut self, question: QuestionId) {
        if self.core.connected {
            self.core.unsent.questions.insert(question);
        }
    }

    pub(super) fn send_question(&mut self, question: QuestionId) {
        match self.questions.get(&question) {
            Some(Question::Operator(request)) => {
                let request = (**request).clone();
                self.core.send(InFlight::Question(question), request);
            }
            // A question for a waiter's position is its acquire, sent once more.
            Some(&Question::Position { id }) => {
                let Some(waiter) = self.waiter(id) else { return self.on_position(question, 0) };
                // It has to wait for its turn, or it would overtake the acquires before its own.
                if waiter.turn.is_some() {
                    return self.on_no_position(question, id);
                }
                self.at(id, |lock, core| lock.send_position(core, id, question));
            }
            _ => {}
        }
    }

    pub(super) fn on_position(&mut self, question: QuestionId, position: u64) {
        self.answer_question(question, Outcome::Position(Ok(position)));
    }

    /// The server has given this waiter no place: it has failed, or it soon asks for a place anew.
    pub(super) fn on_no_position(&mut self, question: QuestionId, id: Id) {
        if self.waiter(id).is_none() {
            self.on_position(question, 0);
        } else if self.questions.contains_key(&question) {
            let again = self.core.now + self.core.back_off();
            self.core.timers.set(Timer::AskAgain(question), again);
        }
    }

    fn waiter(&self, id: Id) -> Option<&Waiter> {
        self.locks.get(self.core.locks_of.get(&id)?)?.waiters.get(&id)
    }

    pub(super) fn answer_question(&mut self, question: QuestionId, outcome: Outcome) {
        if self.end_question(question).is_some() {
            self.core.answer(question, outcome);
        }
    }

    /// Forgets a question. None: it has had its answer, and this one comes too late.
    fn end_question(&mut self, question: QuestionId) -> Option<Question> {
        self.core.timers.clear(&Timer::Question(question));
        self.core.timers.clear(&Timer::AskAgain(question));
        self.questions.remove(&question)
    }

    pub(super) fn fail_question(&mut self, question: QuestionId, fault: Fault) {
        let outcome = match self.end_question(question) {
            Some(Question::Position { .. }) => Outcome::Position(Err(fault)),
            Some(Question::Operator(_)) => Outcome::Operator(Err(fault)),
            // The lease has the others.
            Some(Question::Renew { .. } | Question::Downgrade { .. } | Question::Release { .. } | Question::Close)
            | None => return,
        };
        self.core.answer(question, outcome);
    }

    pub(super) fn fail_questions(&mut self, fault: &Fault) {
        let questions: Vec<QuestionId> = self.questions.keys().copied().collect();
        questions.into_iter().for_each(|question| self.fail_question(question, fault.clone()));
    }
}
