//! Refusals of the server, and their consequences.

use std::sync::Arc;

use super::{Id, InFlight, Machine, NotGranted, Timer};
use crate::error::{ConnectError, Fault};
use crate::protocol::{LockKeys, Refusal};

impl Machine {
    /// The server cannot be used. A waiter without a place fails at once; a place is given up only for an error that an
    /// operator cannot fix at the server.
    pub(super) fn on_unusable(&mut self, error: &ConnectError) {
        let fault = Fault::Connect(error.clone());
        self.at_each_lock(|lock, core| {
            let hears = |id: &Id| lock.waiters[id].ticket.is_none() || !error.keeps_places();
            let waiters: Vec<Id> = lock.waiters.keys().copied().filter(hears).collect();
            waiters.into_iter().for_each(|id| lock.fail(core, id, NotGranted::Fault(fault.clone())));
        });
        self.fail_questions(&fault);
    }

    /// The server answers a request with an error.
    pub(super) fn on_refusal(&mut self, what: InFlight, name: &Arc<str>, refusal: &Refusal) {
        self.core.cause = Some(refusal.cause().clone());
        let again = self.core.refused();
        let soon = self.core.in_time(again);
        let executed = refusal.may_be_executed();
        let fault = match refusal {
            Refusal::WrongType(_) | Refusal::OtherLayout(_) => refusal.about_keys(&LockKeys::new(&self.prefix, name)),
            Refusal::Permanent(message) | Refusal::NotUnderstood(message) => {
                Some(Fault::Refused { message: message.clone() })
            }
            // An operator may restore a right, and the next connection may be in step: a waiter keeps its place, and
            // pending releases are kept too.
            Refusal::Denied(message) | Refusal::OutOfStep(message) if self.has_no_place(&what, name) => {
                Some(Fault::Refused { message: message.clone() })
            }
            Refusal::Denied(_) | Refusal::OutOfStep(_) | Refusal::Temporary(_) => None,
        };
        match (what, fault) {
            (InFlight::Acquire(id), fault) => self.at(id, |lock, core| {
                // It is answered, so it left nothing behind.
                lock.acquire_refused(core, id, again, soon);
                if let Some(fault) = fault {
                    lock.fail(core, id, NotGranted::Fault(fault));
                }
            }),
            (InFlight::Position(_, question) | InFlight::Question(question), Some(fault)) => {
                self.fail_question(question, fault);
            }
            (InFlight::Position(_, question) | InFlight::Question(question), None) => {
                if self.questions.contains_key(&question) {
                    self.core.timers.set(Timer::AskAgain(question), again);
                }
            }
            (InFlight::Heartbeat, fault) => {
                self.at_lock(name, |lock, core| lock.heartbeat_refused(core, soon, fault));
            }
            (InFlight::Renew(id), _) => {
                self.at(id, |lock, core| lock.renew_refused(core, id, soon, refusal.cause()));
            }
            (InFlight::Confirm(id), _) => self.at(id, |lock, core| lock.confirm_refused(core, id, soon)),
            (InFlight::Replicate(_), _) => {}
            (InFlight::Release(id), fault) => {
                self.at(id, |lock, core| lock.release_refused(core, id, again, fault.is_some(), executed));
            }
            (InFlight::Leave(ids), fault) => {
                for id in ids {
                    self.at(id, |lock, core| lock.release_refused(core, id, again, fault.is_some(), executed));
                }
            }
        }
    }

    /// Whether a request is that of a caller who loses nothing by an error.
    fn has_no_place(&self, what: &InFlight, name: &Arc<str>) -> bool {
        match what {
            InFlight::Acquire(id) => {
                let waiter = self.locks.get(name).and_then(|lock| lock.waiters.get(id));
                waiter.is_none_or(|waiter| waiter.ticket.is_none())
            }
            InFlight::Position(..) | InFlight::Question(_) => true,
            _ => false,
        }
    }
}
