//! Refusals of the server, and their consequences.
//!
//! | phase | the server refuses for now | it refuses for good |
//! |---|---|---|
//! | asking | asks again; sooner if it has a place, to which the others may have returned already | fails |
//! | queued | asks again, and keeps its place | whoever asks for its position fails |
//! | confirming, held | asks again, in time for the lease | the same |
//! | leaving | asks again, by the script | the same until the server forgets it by itself; gone at once if all its requests were refused |
//!
//! A right that is missing is no refusal for good for one that has a place: an operator may restore it, and the next
//! connection may be in step.

use std::sync::Arc;

use super::Machine;
use super::api::{NotGranted, RequestId};
use super::core::{Core, InFlight};
use super::lock::LockMachine;
use super::record::{Phase, State, Trace};
use crate::clock::Time;
use crate::error::{ConnectError, Fault};
use crate::protocol::{Id, LockKeys, Refusal};

/// What a refusal means.
struct Meaning<'a> {
    refusal: &'a Refusal,
    /// What fails, fails with this.
    fault: Option<Fault>,
    /// Only where there is no place to lose.
    spares_places: bool,
    /// When to ask again: where nothing ends meanwhile, and where a lease or a session would.
    again: Time,
    soon: Time,
}

impl Meaning<'_> {
    fn fault(&self, has_place: bool) -> Option<Fault> {
        self.fault.clone().filter(|_| !(self.spares_places && has_place))
    }
}

impl Machine {
    /// The server cannot be used. A waiter without a place fails at once; a place is given up only for an error that an
    /// operator cannot fix at the server.
    pub(super) fn on_unusable(&mut self, error: &ConnectError) {
        let fault = Fault::Connect(error.clone());
        self.at_each_lock(|lock, core| {
            for id in lock.records(core, |record| record.waiter().is_some()) {
                let has_place = core.waiter(id).is_some_and(|waiter| waiter.ticket.is_some());
                core.answer_positions(id, Err(fault.clone()));
                if !(has_place && error.keeps_places()) {
                    lock.fail(core, id, NotGranted::Fault(fault.clone()));
                }
            }
        });
        self.fail_questions(&fault);
    }

    /// The server answers a request with an error.
    pub(super) fn on_refusal(&mut self, request: RequestId, what: InFlight, name: &Arc<str>, refusal: &Refusal) {
        self.core.cause = Some(refusal.cause().clone());
        let again = self.core.refused();
        let soon = self.core.in_time(again);
        let fault = match refusal {
            Refusal::WrongType(_) | Refusal::OtherLayout(_) => refusal.about_keys(&LockKeys::new(&self.prefix, name)),
            Refusal::Permanent(message)
            | Refusal::NotUnderstood(message)
            | Refusal::Denied(message)
            | Refusal::OutOfStep(message) => Some(Fault::Refused { message: message.clone() }),
            Refusal::Temporary(_) => None,
        };
        let spares_places = matches!(refusal, Refusal::Denied(_) | Refusal::OutOfStep(_));
        let meaning = Meaning { refusal, fault, spares_places, again, soon };
        match what {
            InFlight::Record(id) => self.at(id, |lock, core| lock.refused(core, request, id, &meaning)),
            InFlight::Leave(ids) => {
                for id in ids {
                    self.at(id, |lock, core| lock.refused(core, request, id, &meaning));
                }
            }
            InFlight::Heartbeat => {
                self.at_lock(name, |lock, core| lock.heartbeat_refused(core, soon, meaning.fault(true)));
            }
            InFlight::Question(question) => match meaning.fault {
                Some(fault) => self.fail_question(question, fault),
                None => self.ask_again(question, again),
            },
        }
    }
}

impl LockMachine {
    fn refused(&mut self, core: &mut Core, request: RequestId, id: Id, meaning: &Meaning<'_>) {
        let Meaning { refusal, again, soon, .. } = *meaning;
        let Some(record) = core.records.get_mut(&id).and_then(|record| record.answered(request)) else { return };
        record.at = Some(soon);
        match &mut record.state {
            State::Waiting(waiter) if waiter.has_grant() => {}
            State::Waiting(waiter) => {
                let (has_place, asks) = (waiter.ticket.is_some(), waiter.phase == Phase::Asking);
                if !has_place {
                    record.at = Some(again);
                }
                if let Some(fault) = meaning.fault(false) {
                    core.answer_positions(id, Err(fault));
                }
                // It is answered, so it left nothing behind.
                if let Some(fault) = meaning.fault(has_place).filter(|_| asks) {
                    return self.fail(core, id, NotGranted::Fault(fault));
                }
            }
            State::Held(lease) => lease.cause = Some(refusal.cause().clone()),
            State::Leaving(leaving) => {
                // An HDEL is not tried again.
                self.calm = false;
                record.at = Some(again);
                leaving.repeated |= refusal.may_be_executed();
                let for_good = meaning.fault(true).is_some();
                let unlikely = record.trace == Trace::Unlikely;
                // Where everything was refused for good, nothing is there to release.
                if for_good && unlikely || (for_good || unlikely) && leaving.until <= core.now {
                    return self.forget(core, id);
                }
            }
        }
        self.look(core, id);
    }
}
