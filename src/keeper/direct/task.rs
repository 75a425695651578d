//! Tasks, which must not block. The waker thread reads the answer, whatever becomes of the task meanwhile: if nobody
//! wants the lease any more, it goes back. So a future may be dropped at any time, and be polled by any executor.
//!
//! The thread that settles a request (the waker thread, the keeper that gives it up, or the task's own) takes it out of
//! `inside` first, and reports the outcome when that is unlocked.

use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};
use std::time::Duration;

use tokio::sync::oneshot;

use super::super::handle::{Caller, Message, NewAcquire};
use super::super::machine::{ANSWER_TIMEOUT, DirectAcquire, Heard, Mode, NotGranted, Release};
use super::super::questions::Ask;
use super::super::shared::Shared;
use super::super::{LOOK, observe};
use super::{Direct, Inside, Presence, Returned, Tried, Trouble, Unanswered};
use crate::clock::Time;
use crate::protocol::{Reply, Request};
use crate::wakers::{Readable, Wakers};

/// How long an answer is awaited, until the next look of the keeper: the caller waits for [`ANSWER_TIMEOUT`] at most.
pub(super) const PATIENCE: Duration = ANSWER_TIMEOUT.saturating_sub(LOOK);

/// A request whose answer is awaited.
pub(super) struct Awaited {
    pub(super) sent: Time,
    what: What,
}

enum What {
    Acquire {
        of: DirectAcquire,
        /// None once the keeper has it: what is granted here goes back then.
        acquire: Option<Box<NewAcquire>>,
    },
    Release(Releasing),
}

/// A release, and where its outcome goes.
pub(in crate::keeper) struct Releasing {
    pub(in crate::keeper) lease: Arc<Shared>,
    pub(in crate::keeper) reply: oneshot::Sender<Release>,
}

impl Releasing {
    /// The same by the keeper.
    pub(in crate::keeper) fn message(self) -> Message {
        let Self { lease, reply } = self;
        Message::Ask { lock: lease.spec.name().clone(), ask: Ask::Release { lease, reply: Some(reply) } }
    }
}

/// The outcome of a request, which is to be told.
pub(super) enum Settled {
    Granted { lease: Arc<Shared>, acquire: Box<NewAcquire> },
    NotGranted { why: NotGranted, acquire: Box<NewAcquire> },
    Release { returned: Returned, releasing: Releasing },
}

impl Direct {
    /// Whether a task may acquire over the connection: [`Self::start_acquire`] comes next.
    pub(in crate::keeper) fn admit_task(&self, caller: &Caller) -> Result<(), Option<Trouble>> {
        if Wakers::WATCH_SOCKETS { self.admit(caller) } else { Err(None) }
    }

    /// Sends the acquire of a task. If nothing was sent, the keeper is to be asked.
    pub(in crate::keeper) fn start_acquire(&self, acquire: Box<NewAcquire>) -> Result<(), Box<NewAcquire>> {
        let started = self.inside(|inside| {
            if !self.is_usable(inside) {
                return Err(acquire);
            }
            let of = self.new_acquire(inside, &acquire);
            let Some(request) = of.request(&self.client, Time::now()) else { return Err(acquire) };
            if acquire.mode == Mode::Wait {
                self.ahead.store(acquire.caller.presence.number(), Ordering::SeqCst);
            }
            Ok(self.send(inside, What::Acquire { of, acquire: Some(acquire) }, request))
        });
        match started {
            Ok(settled) => {
                self.tell(settled);
                Ok(())
            }
            Err(acquire) => {
                self.leave();
                Err(acquire)
            }
        }
    }

    /// An acquire is about to go to the keeper. If one of this client at the same lock is under way here, that one goes
    /// first, so that both are served in the order in which they were called (I2 of `docs/guarantees.md`).
    pub(in crate::keeper) fn let_pass(&self, presence: &Presence) {
        if self.ahead.load(Ordering::SeqCst) != presence.number() {
            return;
        }
        self.inside(|inside| {
            // It may have been settled, and others may be under way.
            let ahead = self.ahead.load(Ordering::SeqCst) == presence.number();
            if let Some(Awaited { what: What::Acquire { acquire, .. }, .. }) = inside.awaited.as_mut().filter(|_| ahead)
                && let Some(acquire) = acquire.take()
            {
                self.ahead.store(0, Ordering::SeqCst);
                acquire.caller.presence.contend();
                self.say(Message::AcquireAfterAll(acquire));
            }
        });
    }

    /// Sends the release of a task. If nothing was sent, the keeper is to be asked.
    pub(in crate::keeper) fn start_release(&self, releasing: Releasing) -> Result<(), Releasing> {
        let id = releasing.lease.id;
        if !self.may_release(id) {
            return Err(releasing);
        }
        let settled = self.inside(|inside| match self.release_request() {
            Some(request) if self.is_usable(inside) => Ok(self.send(inside, What::Release(releasing), request)),
            _ => {
                self.leased.store(id.0, Ordering::SeqCst);
                Err(releasing)
            }
        })?;
        self.tell(settled);
        Ok(())
    }

    /// Sends a request. If that fails, it is settled at once.
    fn send(&self, inside: &mut Inside, what: What, request: Request) -> Option<Settled> {
        self.wakers.expect_answer();
        inside.awaited = Some(Awaited { sent: Time::now(), what });
        let (_, wire) = inside.wire.as_mut()?;
        // First, because the answer may come before this thread goes on.
        let unanswered = match self.wakers.watch(&self.reader, wire) {
            Ok(()) => match wire.start(request, &self.channel) {
                Ok(()) => return None,
                Err(cause) => inside.broke(cause),
            },
            Err(_) => Unanswered::Refused,
        };
        self.settle(inside, Err(unanswered))
    }

    /// Takes in the answer that has come. If another thread is inside, that thread does it.
    pub(super) fn read(&self) {
        self.knocked.store(true, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        let settled = self.look_inside(|inside| {
            self.knocked.store(false, Ordering::SeqCst);
            inside.awaited.as_ref()?;
            let answer = self.answer(inside).transpose()?;
            self.settle(inside, answer)
        });
        self.tell(settled.flatten());
    }

    /// None if it has not come yet.
    pub(super) fn answer(&self, inside: &mut Inside) -> Result<Option<Reply>, Unanswered> {
        if !self.is_connected(inside) {
            return Err(Unanswered::Gone);
        }
        let Some((_, wire)) = &mut inside.wire else { return Err(Unanswered::Gone) };
        let read = match wire.answer() {
            Ok(None) => self.wakers.watch(&self.reader, wire).map_err(|error| error.to_string().into()),
            Ok(Some(answer)) => return answer.map(Some).map_err(|_| Unanswered::Refused),
            Err(cause) => Err(cause),
        };
        read.map(|()| None).map_err(|cause| inside.broke(cause))
    }

    /// The connection is free again.
    fn ask_keeper(&self, troubles: Vec<Trouble>) {
        self.leave();
        troubles.into_iter().for_each(|trouble| self.say(Message::Direct(trouble)));
    }

    /// Takes the request out. What it has led to is to be told.
    pub(super) fn settle(&self, inside: &mut Inside, answer: Result<Reply, Unanswered>) -> Option<Settled> {
        let Awaited { sent, what } = inside.awaited.take()?;
        self.wakers.answered();
        match what {
            What::Acquire { of, acquire: Some(acquire) } => {
                let settled = match self.acquired(inside, &acquire, of, sent, answer) {
                    Tried::Granted(lease) => Some(Settled::Granted { lease, acquire }),
                    Tried::NotGranted(why) => Some(Settled::NotGranted { why, acquire }),
                    // At once, while `inside` is locked: no acquire that was called later may come to the keeper first.
                    Tried::AskKeeper(troubles) => {
                        self.ask_keeper(troubles);
                        self.say(Message::AcquireAfterAll(acquire));
                        None
                    }
                };
                self.ahead.store(0, Ordering::SeqCst);
                settled
            }
            What::Acquire { of, acquire: None } => {
                self.ask_keeper(self.unwanted(of, sent, answer));
                None
            }
            What::Release(releasing) => {
                let returned = self.released(releasing.lease.id, answer);
                Some(Settled::Release { returned, releasing })
            }
        }
    }

    pub(super) fn tell(&self, settled: Option<Settled>) {
        match settled {
            None => {}
            Some(Settled::Granted { lease, acquire }) => {
                let _ = self.hand_out(lease, acquire.caller);
            }
            Some(Settled::NotGranted { why, acquire }) => {
                self.leave();
                self.heard(acquire.caller.resolved.send(Err(why)).is_ok());
            }
            Some(Settled::Release { returned: Returned::Done(release), releasing: Releasing { lease, reply } }) => {
                self.leave();
                observe::released(&lease, &release);
                self.heard(reply.send(release).is_ok());
            }
            Some(Settled::Release { returned: Returned::AskKeeper(broke), releasing }) => {
                broke.into_iter().for_each(|broke| self.say(Message::Direct(Trouble::Broke(broke))));
                self.say(releasing.message());
            }
        }
    }

    fn heard(&self, by_caller: bool) {
        if !by_caller {
            self.say(Message::Direct(Trouble::Unheard));
        }
    }

    /// What the keeper has to hear of an acquire that is its own by now.
    fn unwanted(&self, of: DirectAcquire, sent: Time, answer: Result<Reply, Unanswered>) -> Vec<Trouble> {
        match answer {
            Ok(reply) if matches!(of.heard(&self.client, Time::now(), sent, &reply), Heard::Busy(_)) => {
                vec![Trouble::Unheard]
            }
            Ok(_) => Unanswered::Gone.troubles(of),
            Err(unanswered) => unanswered.troubles(of),
        }
    }

    /// If the keeper has ended, callers see their channels closed.
    fn say(&self, message: Message) {
        let _ = self.messages.send(message);
    }
}

impl Readable for Direct {
    fn readable(&self) {
        self.read();
    }
}
