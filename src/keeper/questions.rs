//! Where the answers to callers' questions go.

use std::collections::HashMap;
use std::sync::Arc;

use tokio::sync::oneshot;

use super::machine::{Outcome, QuestionId, Release, Renewal};
use super::observe;
use super::shared::Shared;
use crate::error::Fault;
use crate::memory::GiveBack as _;
use crate::protocol::Reply;

/// The caller that awaits the answer to a question, in the type of its verb.
pub(crate) enum AnswerSender {
    Position(oneshot::Sender<Result<u64, Fault>>),
    Renewal(oneshot::Sender<Result<Renewal, Fault>>),
    /// The caller of a drop awaits no answer.
    Release(Arc<Shared>, Option<oneshot::Sender<Release>>),
    Operator(oneshot::Sender<Result<Box<Reply>, Fault>>),
    /// With the number of machines whose answers are awaited.
    Close(oneshot::Sender<()>, usize),
}

/// The unanswered questions.
#[derive(Default)]
pub(super) struct Questions {
    last: u64,
    askers: HashMap<QuestionId, AnswerSender>,
}

impl Questions {
    /// Takes in a question.
    pub(super) fn ask(&mut self, asker: AnswerSender) -> QuestionId {
        self.last += 1;
        let number = QuestionId(self.last);
        self.askers.insert(number, asker);
        number
    }

    pub(super) fn answer(&mut self, number: QuestionId, outcome: Outcome) {
        if let Some(AnswerSender::Close(_, awaited @ 2..)) = self.askers.get_mut(&number) {
            *awaited -= 1;
            return;
        }
        let Some(asker) = self.askers.remove(&number) else { return };
        self.askers.give_back();
        // A caller that does not wait any more has dropped its end.
        let _ = match (asker, outcome) {
            (AnswerSender::Position(asker), Outcome::Position(position)) => asker.send(position).is_ok(),
            (AnswerSender::Renewal(asker), Outcome::Renewal(renewal)) => asker.send(renewal).is_ok(),
            (AnswerSender::Release(lease, asker), Outcome::Release(release)) => {
                observe::released(&lease.wakers, &lease.spec, lease.token, &release);
                asker.is_some_and(|asker| asker.send(release).is_ok())
            }
            (AnswerSender::Operator(asker), Outcome::Operator(reply)) => asker.send(reply).is_ok(),
            (AnswerSender::Close(asker, _), Outcome::Closed) => asker.send(()).is_ok(),
            // A machine answers in the type of the question.
            _ => false,
        };
    }
}
