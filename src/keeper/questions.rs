//! Callers' questions and the channels of their answers. Each verb has its own type.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;

use super::machine::{Command, Id, Outcome, Page, QuestionId, Release, Renewal};
use super::observe;
use super::shared::Shared;
use crate::error::Fault;
use crate::history::History;
use crate::inspect::BreakOutcome;
use crate::memory::GiveBack as _;
use crate::protocol::{LockKeys, Ticket, Token};

/// A caller's question.
pub(crate) enum Ask {
    Position {
        id: Id,
        reply: oneshot::Sender<Result<u64, Fault>>,
    },
    Renew {
        id: Id,
        extend: Option<Duration>,
        reply: oneshot::Sender<Result<Renewal, Fault>>,
    },
    /// The caller of a drop awaits no reply.
    Release {
        lease: Arc<Shared>,
        reply: Option<oneshot::Sender<Release>>,
    },
    Inspect {
        keys: Arc<LockKeys>,
        after: Option<Ticket>,
        count: u32,
        reply: oneshot::Sender<Result<Page, Fault>>,
    },
    Break {
        keys: Arc<LockKeys>,
        token: Option<Token>,
        force: bool,
        reply: oneshot::Sender<Result<BreakOutcome, Fault>>,
    },
    History {
        keys: Arc<LockKeys>,
        switch: Option<bool>,
        count: u32,
        reply: oneshot::Sender<Result<History, Fault>>,
    },
}

/// The unanswered questions.
#[derive(Default)]
pub(super) struct Questions {
    last: u64,
    positions: Replies<Result<u64, Fault>>,
    renewals: Replies<Result<Renewal, Fault>>,
    releases: HashMap<QuestionId, (Arc<Shared>, Option<oneshot::Sender<Release>>)>,
    pages: Replies<Result<Page, Fault>>,
    breaks: Replies<Result<BreakOutcome, Fault>>,
    histories: Replies<Result<History, Fault>>,
    /// With the number of machines whose outcomes are awaited.
    closes: HashMap<QuestionId, (oneshot::Sender<()>, usize)>,
}

type Replies<T> = HashMap<QuestionId, oneshot::Sender<T>>;

impl Questions {
    /// Takes in a question, and turns it into one for a machine.
    pub(super) fn ask(&mut self, ask: Ask) -> Command {
        let question = self.next();
        match ask {
            Ask::Position { id, reply } => {
                self.positions.insert(question, reply);
                Command::Position { question, id }
            }
            Ask::Renew { id, extend, reply } => {
                self.renewals.insert(question, reply);
                Command::Renew { question, id, extend }
            }
            Ask::Release { lease, reply } => {
                let id = lease.id;
                self.releases.insert(question, (lease, reply));
                Command::Release { question: Some(question), id }
            }
            Ask::Inspect { keys, after, count, reply } => {
                self.pages.insert(question, reply);
                Command::Inspect { question, keys, after, count }
            }
            Ask::Break { keys, token, force, reply } => {
                self.breaks.insert(question, reply);
                Command::Break { question, keys, token, force }
            }
            Ask::History { keys, switch, count, reply } => {
                self.histories.insert(question, reply);
                Command::History { question, keys, switch, count }
            }
        }
    }

    /// A close is a question to several machines. It is answered when all of them have answered, or at once if there
    /// are none.
    pub(super) fn close(&mut self, machines: usize, reply: oneshot::Sender<()>) -> QuestionId {
        let question = self.next();
        if machines == 0 {
            let _ = reply.send(());
        } else {
            self.closes.insert(question, (reply, machines));
        }
        question
    }

    pub(super) fn answer(&mut self, question: QuestionId, outcome: Outcome) {
        match outcome {
            Outcome::Position(position) => send(&mut self.positions, question, position),
            Outcome::Renewal(renewal) => send(&mut self.renewals, question, renewal),
            Outcome::Release(release) => {
                let Some((lease, reply)) = self.releases.remove(&question) else { return };
                self.releases.give_back();
                observe::released(&lease, &release);
                if let Some(reply) = reply {
                    let _ = reply.send(release);
                }
            }
            Outcome::Page(page) => send(&mut self.pages, question, page),
            Outcome::Break(broken) => send(&mut self.breaks, question, broken),
            Outcome::History(history) => send(&mut self.histories, question, history),
            Outcome::Closed => {
                if let Some((_, awaited)) = self.closes.get_mut(&question) {
                    *awaited -= 1;
                    if *awaited == 0
                        && let Some((reply, _)) = self.closes.remove(&question)
                    {
                        let _ = reply.send(());
                    }
                }
            }
        }
    }

    fn next(&mut self) -> QuestionId {
        self.last += 1;
        QuestionId(self.last)
    }
}

/// A caller that does not wait any more has dropped its end.
fn send<T>(replies: &mut Replies<T>, question: QuestionId, answer: T) {
    if let Some(reply) = replies.remove(&question) {
        replies.give_back();
        let _ = reply.send(answer);
    }
}
