//! Records that leave: places and leases that a client has given up. Each request is repeated until the server answers.
//!
//! An HDEL in the place of the script tells the server nothing. It need not: it removes something only from a state that
//! has this lease as that of a calm lock, and there a client that has heard of nothing since its grant knows of no loss.

use super::api::{Outcome, Release, RequestId};
use super::core::{Core, InFlight};
use super::lock::LockMachine;
use super::record::{Leaving, Record, State, Trace};
use crate::clock::Time;
use crate::error::LostReason;
use crate::protocol::{Common, Id, LeaveRequest, Memory, ReleaseRequest, ReleaseVerdict, Request, Seat};

impl LockMachine {
    /// What an id that no caller wants any more may have at the server is given back.
    pub(super) fn leave(&mut self, core: &mut Core, id: Id, trace: Trace, until: Time) {
        let leaving = State::Leaving(Leaving { repeated: false, until });
        let record = Record { trace, ..Record::new(self.keys.clone(), core.now, leaving) };
        self.put(core, id, record);
        self.look(core, id);
    }

    /// Some request must go on where a script stopped: a release of an id that nobody has.
    pub(super) fn go_on(&mut self, core: &mut Core, common: &Common) {
        if common.again {
            let nobody = Id::of_no_acquire(core.last_request.0);
            self.leave(core, nobody, Trace::Lease, core.now);
        }
    }

    pub(super) fn send_release(&mut self, core: &mut Core, id: Id) {
        let Some(record) = core.records.get(&id) else { return };
        let (Some(leaving), seat) = (record.leaving(), record.seat) else { return };
        // Otherwise an earlier request may have been executed, or the lease is over, and the lock granted since.
        let lasts = !leaving.repeated && leaving.until > core.now;
        let by_hdel = self.calm && lasts && seat != Seat::NONE;
        let seat = if lasts && !by_hdel { seat } else { Seat::NONE };
        let memory = if by_hdel { Memory::NONE } else { self.memory(core) };
        let (keys, id_on_wire) = (self.keys.clone(), core.wire_id(id));
        core.send_of(id, Request::Release(ReleaseRequest { keys, id: id_on_wire, by_hdel, seat, memory }));
        self.gives_back = Some(core.last_request);
    }

    /// Waiters that leave together leave with one request.
    pub(super) fn send_leave(&mut self, core: &mut Core, ids: Vec<Id>) {
        let wire = ids.iter().map(|&id| core.wire_id(id)).collect();
        let leave = Request::Leave(LeaveRequest { keys: self.keys.clone(), memory: self.memory(core), ids: wire });
        let request = core.send(InFlight::Leave(ids.clone()), leave);
        ids.into_iter().for_each(|id| core.is_sent(id, request));
    }

    /// Whether a release is under way that was sent after this request, which has found the lock held: the call of the
    /// release may have been earlier, or an HDEL before it did nothing. Requests are answered in their order, so one that
    /// was sent after this one has no answer yet.
    pub(super) fn is_given_back(&self, request: RequestId) -> bool {
        self.gives_back > Some(request)
    }

    pub(super) fn on_release(
        &mut self,
        core: &mut Core,
        (request, sent): (RequestId, Time),
        id: Id,
        common: &Common,
        verdict: ReleaseVerdict,
    ) {
        let Some(record) = core.records.get_mut(&id).and_then(|record| record.answered(request)) else { return };
        let State::Leaving(leaving) = &mut record.state else { return };
        self.gives_back = self.gives_back.filter(|last| *last != request);
        // Only this client ends a live lease: if it is gone after an earlier request, that request ended it.
        let outcome = match verdict {
            ReleaseVerdict::NotCalm => return self.due_now(core, id),
            ReleaseVerdict::Released => Release::Released,
            ReleaseVerdict::Unknown if leaving.repeated => Release::Released,
            ReleaseVerdict::Expired | ReleaseVerdict::Left | ReleaseVerdict::Unknown => {
                Release::Lost(LostReason::Ended)
            }
        };
        leaving.repeated = true;
        // An HDEL tells no memory, but that of the grant is true until then.
        self.known.heard = self.known.heard.max(sent);
        core.answer_calls(id, |_| true, &Outcome::Release(outcome));
        if common.again {
            self.due_now(core, id);
        } else {
            self.forget(core, id);
        }
    }

    pub(super) fn on_leave(&mut self, core: &mut Core, request: RequestId, ids: &[Id], common: &Common) {
        for (index, &id) in ids.iter().enumerate() {
            if core.records.get_mut(&id).and_then(|record| record.answered(request)).is_none() {
                continue;
            }
            if common.again && index == 0 {
                self.due_now(core, id);
            } else {
                self.forget(core, id);
            }
        }
    }

    /// Forgets a record that is leaving.
    pub(super) fn forget(&mut self, core: &mut Core, id: Id) {
        let Some(record) = core.records.get(&id).filter(|record| !record.is_member()) else { return };
        if !record.calls.is_empty() {
            let unknown = Release::Unknown(core.cause.clone());
            core.answer_calls(id, |_| true, &Outcome::Release(unknown));
        }
        self.take_out(core, id);
    }
}
