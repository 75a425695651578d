//! Pending releases: leases and places that a client has given up. Each is repeated until the server answers.
//!
//! An HDEL in the place of the script tells the server nothing. It need not: it removes something only from a state that
//! has this lease as that of a calm lock, and there a client that has heard of nothing since its grant knows of no loss.

use super::core::Core;
use super::lock::LockMachine;
use super::{Id, InFlight, Outcome, QuestionId, Release, RequestId, Timer};
use crate::clock::Time;
use crate::error::LostReason;
use crate::protocol::{Common, LeaveRequest, Memory, ReleaseRequest, ReleaseVerdict, Request, Seat};

#[derive(Debug, Clone, Hash)]
pub(in crate::keeper) struct PendingRelease {
    pub(super) kind: ReleaseKind,
    pub(super) question: Option<QuestionId>,
    pub(super) request: Option<RequestId>,
    /// An earlier request was executed, or may have been.
    pub(super) repeated: bool,
    /// After this the server forgets it by itself.
    pub(super) until: Time,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum ReleaseKind {
    Leave,
    /// All requests were refused, so there should be nothing to release. A server that goes on refusing must not make
    /// the list of these longer and longer.
    LeaveBestEffort,
    /// The lease of this seat, if it is known and cannot be over. `calm`: an HDEL comes first.
    Release {
        seat: Seat,
        calm: bool,
    },
}

impl PendingRelease {
    pub(super) fn disconnected(&mut self) {
        self.repeated |= self.request.take().is_some();
    }

    /// The request has an answer: an HDEL did nothing or was refused, and is not tried again.
    fn goes_by_script(&mut self) {
        self.request = None;
        if let ReleaseKind::Release { calm, .. } = &mut self.kind {
            *calm = false;
        }
    }
}

impl LockMachine {
    pub(super) fn give_back(
        &mut self,
        core: &mut Core,
        id: Id,
        kind: ReleaseKind,
        question: Option<QuestionId>,
        until: Time,
    ) {
        core.locks_of.insert(id, self.name().clone());
        self.releases.insert(id, PendingRelease { kind, question, request: None, repeated: false, until });
        self.send_release(core, id);
    }

    /// Some request must go on where a script stopped: a release of an id that nobody has.
    pub(super) fn go_on(&mut self, core: &mut Core, common: &Common) {
        if common.again {
            let nobody = Id::of_no_acquire(core.last_request.0);
            self.give_back(core, nobody, ReleaseKind::Release { seat: Seat::NONE, calm: false }, None, core.now);
        }
    }

    pub(super) fn send_release(&mut self, core: &mut Core, id: Id) {
        let Some(pending) = self.releases.get(&id) else { return };
        if !core.connected || pending.request.is_some() {
            return;
        }
        let ReleaseKind::Release { seat, calm } = pending.kind else {
            core.unsent.leaves.insert((self.keys.name.clone(), id));
            return;
        };
        // Otherwise an earlier request may have been executed, or the lease is over, and the lock granted since.
        let lasts = !pending.repeated && pending.until > core.now;
        let by_hdel = calm && lasts;
        let seat = if lasts && !by_hdel { seat } else { Seat::NONE };
        let memory = if by_hdel { Memory::NONE } else { self.memory(core.now) };
        let (keys, id_on_wire) = (self.keys.clone(), core.wire_id(id));
        let request = Request::Release(ReleaseRequest { keys, id: id_on_wire, by_hdel, seat, memory });
        let request = core.send(InFlight::Release(id), request);
        if let Some(pending) = self.releases.get_mut(&id) {
            pending.request = Some(request);
        }
    }

    /// Waiters that leave together leave with one request.
    pub(super) fn send_leave(&mut self, core: &mut Core, ids: Vec<Id>) {
        let wire = ids.iter().map(|&id| core.wire_id(id)).collect();
        let leave = Request::Leave(LeaveRequest { keys: self.keys.clone(), memory: self.memory(core.now), ids: wire });
        let request = core.send(InFlight::Leave(ids.clone()), leave);
        for id in ids {
            if let Some(pending) = self.releases.get_mut(&id) {
                pending.request = Some(request);
            }
        }
    }

    /// Whether a release is under way that was sent after this request, which has found the lock held: the call of the
    /// release may have been earlier, or an HDEL before it did nothing.
    pub(super) fn is_given_back(&self, request: RequestId) -> bool {
        let is_release = |pending: &&PendingRelease| matches!(pending.kind, ReleaseKind::Release { .. });
        self.releases.values().filter(is_release).any(|pending| pending.request > Some(request))
    }

    pub(super) fn on_release(&mut self, core: &mut Core, sent: Time, id: Id, common: &Common, verdict: ReleaseVerdict) {
        let Some(pending) = self.releases.get_mut(&id) else { return };
        pending.request = None;
        // Only this client ends a live lease: if it is gone after an earlier request, that request ended it.
        let outcome = match verdict {
            ReleaseVerdict::NotCalm => {
                pending.goes_by_script();
                return self.send_release(core, id);
            }
            ReleaseVerdict::Released => Release::Released,
            ReleaseVerdict::Unknown if pending.repeated => Release::Released,
            ReleaseVerdict::Expired | ReleaseVerdict::Left | ReleaseVerdict::Unknown => {
                Release::Lost(LostReason::Ended)
            }
        };
        pending.repeated = true;
        // An HDEL tells no memory, but that of the grant is true until then.
        self.known.heard = self.known.heard.max(sent);
        self.answer_release(core, id, outcome);
        if common.again {
            self.send_release(core, id);
        } else {
            self.forget_release(core, id);
        }
    }

    pub(super) fn on_leave(&mut self, core: &mut Core, ids: &[Id], common: &Common) {
        for (index, &id) in ids.iter().enumerate() {
            let Some(pending) = self.releases.get_mut(&id) else { continue };
            pending.request = None;
            if common.again && index == 0 {
                self.send_release(core, id);
            } else {
                self.forget_release(core, id);
            }
        }
    }

    /// `executed`: it may have been, although there is no answer.
    pub(super) fn release_refused(&mut self, core: &mut Core, id: Id, again: Time, for_good: bool, executed: bool) {
        let Some(pending) = self.releases.get_mut(&id) else { return };
        pending.goes_by_script();
        pending.repeated |= executed;
        let best_effort = pending.kind == ReleaseKind::LeaveBestEffort;
        // Where everything was refused for good, nothing is there to release.
        if for_good && best_effort || (for_good || best_effort) && pending.until <= core.now {
            self.forget_release(core, id);
        } else {
            core.timers.set(Timer::Release(id), again);
        }
    }

    pub(super) fn answer_release(&mut self, core: &mut Core, id: Id, outcome: Release) {
        core.timers.clear(&Timer::AnswerBy(id));
        if let Some(question) = self.releases.get_mut(&id).and_then(|pending| pending.question.take()) {
            core.answer(question, Outcome::Release(outcome));
        }
    }

    pub(super) fn forget_release(&mut self, core: &mut Core, id: Id) {
        core.timers.clear(&Timer::Release(id));
        self.answer_release(core, id, Release::Unknown(core.cause.clone()));
        if self.releases.remove(&id).is_some() {
            core.locks_of.remove(&id);
            core.unsent.leaves.remove(&(self.name().clone(), id));
        }
    }
}
