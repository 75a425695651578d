//! From a grant to its caller. A grant is confirmed first if little is left of its lease, if only a message reported
//! it, or if replicas must have it.

use super::api::{NotGranted, RequestId};
use super::core::Core;
use super::lock::LockMachine;
use super::record::{Grant, Phase, State, Trace};
use crate::clock::Time;
use crate::error::Fault;
use crate::protocol::{Common, Epoch, Id, OwnLease, Push, RenewVerdict, Seat, Ticket, Token};
use crate::term::Term;

impl LockMachine {
    /// A grant by message. It is believed only if no newer grant was named meanwhile.
    pub(super) fn on_grant_pushed(&mut self, core: &mut Core, id: Id, push: &Push) {
        let token = push.token;
        let waiter = match core.records.get(&id).map(|record| &record.state) {
            // The client cannot tell whether it is real: it is released once.
            None => return self.leave(core, id, Trace::Unlikely, core.now),
            // As in a reply that names another lease than this one.
            Some(State::Held(lease)) if lease.token != token && lease.is_about(&push.secret) => {
                return self.due_now(core, id);
            }
            Some(State::Held(_) | State::Leaving(_)) => return,
            Some(State::Waiting(waiter)) => waiter,
        };
        if waiter.about.secret != push.secret {
            return;
        }
        let longest = waiter.spec.liveness.min(waiter.spec.lease);
        // A message from before a loss may be as new by its number. One script may grant the lock to several, and its
        // messages tell the same.
        let told = push.known.stamp;
        let is_new = Some(token.as_stamp()) > self.known.stamp || self.fresh.is_some() && self.fresh == told;
        let is_newest = push.known.epoch == self.known.epoch && is_new;
        self.fresh = told.filter(|_| is_newest);
        // Only the scripts know the secret. A server that loses this grant has to hear of it from any request.
        self.known.take(push.known, None);
        self.calm = false;
        self.granted_from(core, id, push.ticket, push.seat, push.known.epoch);
        match self.answered {
            Some((sent, liveness)) if is_newest => {
                let term = Term { sent, span: liveness.min(longest) };
                self.granted(core, id, Grant { token, slot: push.slot, term, claim: true });
            }
            _ => self.confirm(core, id, token),
        }
    }

    /// A reply names the lease that this client holds.
    pub(super) fn on_named(&mut self, core: &mut Core, sent: Time, id: Id, own: &OwnLease) {
        match core.records.get(&id).map(|record| &record.state) {
            None => self.leave(core, id, Trace::Lease, core.now + own.left),
            Some(State::Waiting(_)) => {
                self.granted_from(core, id, own.ticket, own.seat, self.known.epoch);
                self.granted_by_reply(core, sent, id, own);
            }
            // A lease under another token is from before a loss of data: the server must hear of this one.
            Some(State::Held(lease)) if lease.token != own.token => self.due_now(core, id),
            Some(State::Held(_) | State::Leaving(_)) => {}
        }
    }

    pub(super) fn granted_by_reply(&mut self, core: &mut Core, sent: Time, id: Id, own: &OwnLease) {
        if let Some(waiter) = core.waiter(id) {
            let grant = Grant::replied(own, sent, &waiter.spec);
            self.granted(core, id, grant);
        }
    }

    /// The lease of a waiter, and the place from which it was granted, of which the client may not have heard before.
    fn granted_from(&mut self, core: &mut Core, id: Id, ticket: Ticket, seat: Seat, epoch: Option<Epoch>) {
        let Some(record) = core.records.get_mut(&id) else { return };
        (record.seat, record.epoch) = (seat, epoch);
        if record.waiter().is_some_and(|waiter| waiter.ticket.is_none()) {
            core.leave_line(id); // as a newcomer
            self.has_ticket(core, id, ticket);
        }
    }

    /// The server has granted the lock: hand it out, or confirm it first if little is left of the lease.
    fn granted(&mut self, core: &mut Core, id: Id, grant: Grant) {
        let Some(waiter) = core.waiter(id) else { return };
        let spec = &waiter.spec;
        if spec.confirm_grants && grant.claim || grant.is_short(core.now, spec) {
            return self.confirm(core, id, grant.token);
        }
        self.hand_out(core, id, grant);
    }

    fn hand_out(&mut self, core: &mut Core, id: Id, grant: Grant) {
        match core.waiter(id) {
            Some(waiter) if waiter.spec.replicas > 0 => self.secure(core, id, grant),
            _ => self.resolve(core, id, grant),
        }
    }

    pub(super) fn resolve(&mut self, core: &mut Core, id: Id, grant: Grant) {
        let Some(waiter) = self.waits_no_more(core, id) else { return };
        // All that stood before it have left the queue, and so has it.
        self.gone = self.gone.max(waiter.place.map_or(0, |(place, _)| place + 1));
        self.hold(core, id, waiter, grant);
        self.plan_heartbeat(core);
    }

    pub(super) fn confirm(&mut self, core: &mut Core, id: Id, token: Token) {
        let Some(record) = core.records.get(&id) else { return };
        let under_way = match record.waiter().map(|waiter| waiter.phase) {
            Some(Phase::Confirming { token }) => Some(token),
            Some(Phase::Securing { grant }) => Some(grant.token),
            Some(Phase::Asking | Phase::Queued) | None => None,
        };
        if under_way != Some(token) || record.request.is_none() {
            self.has_grant(core, id, Phase::Confirming { token });
        }
    }

    /// A waiter has heard of a grant. Whatever is in flight, its answer tells no more than that to the next request.
    pub(super) fn has_grant(&mut self, core: &mut Core, id: Id, phase: Phase) {
        core.leave_line(id);
        core.answer_positions(id, Ok(0));
        let Some(record) = core.records.get_mut(&id) else { return };
        if let State::Waiting(waiter) = &mut record.state {
            waiter.phase = phase;
            (record.request, record.trace) = (None, Trace::Likely);
            self.due_now(core, id);
        }
    }

    pub(super) fn on_confirm(
        &mut self,
        core: &mut Core,
        (request, sent): (RequestId, Time),
        id: Id,
        common: &Common,
        verdict: RenewVerdict,
    ) {
        let own = common.own(&core.wire_id(id));
        let Some(record) = core.records.get_mut(&id).and_then(|record| record.answered(request)) else { return };
        let State::Waiting(waiter) = &mut record.state else { return };
        let Phase::Confirming { token } = waiter.phase else { return };
        match verdict {
            RenewVerdict::Renewed => {
                let Some(own) = own else { return };
                (record.seat, record.epoch) = (own.seat, common.known.epoch);
                let grant = Grant { claim: false, ..Grant::replied(own, sent, &waiter.spec) };
                if grant.is_short(core.now, &waiter.spec) && !std::mem::replace(&mut waiter.late, true) {
                    // If this process was stopped meanwhile, another confirmation brings a full lease.
                    self.confirm(core, id, token);
                } else if grant.term.deadline() > core.now {
                    // However little is left: the server is slow.
                    self.hand_out(core, id, grant);
                } else {
                    let lease = waiter.spec.lease;
                    self.fail(core, id, NotGranted::Fault(Fault::TooSlow { lease }));
                }
            }
            RenewVerdict::Broken => self.fail(core, id, NotGranted::Fault(Fault::LeaseBroken)),
            // An expired claim never resolves an acquire: the waiter re-enters with its ticket.
            RenewVerdict::Lost => {
                waiter.phase = Phase::Asking;
                self.due_now(core, id);
            }
        }
    }
}
