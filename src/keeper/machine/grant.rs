//! From a grant to its caller. A grant is confirmed first if little is left of its lease, if only a message reported
//! it, or if replicas must have it.

use std::time::Duration;

use super::core::Core;
use super::lease::confirm_after;
use super::lock::LockMachine;
use super::release::ReleaseKind;
use super::waiter::{Phase, Trace};
use super::{Id, InFlight, NotGranted, RequestId};
use crate::clock::Time;
use crate::error::Fault;
use crate::options::Spec;
use crate::protocol::{Common, Epoch, OwnLease, Push, RenewRequest, RenewVerdict, Request, Seat, Ticket, Token};
use crate::term::Term;

/// A lease that the server has granted to a waiter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(in crate::keeper) struct Grant {
    pub(super) token: Token,
    pub(super) slot: u16,
    pub(super) term: Term,
    /// The lease is shorter than what the waiter asked for, until it is confirmed.
    pub(super) claim: bool,
}

impl Grant {
    pub(super) fn replied(own: &OwnLease, sent: Time, spec: &Spec) -> Self {
        Self { token: own.token, slot: own.slot, term: Term::told(sent, own.left, spec.lease), claim: own.claim }
    }

    /// Whether the end is so near that the holder would have to be told: of a claim, before its confirmation can be
    /// answered, if that takes as long as the pause before it.
    fn is_short(&self, now: Time, spec: &Spec) -> bool {
        let confirmed = if self.claim { 2 * confirm_after(self.term, now) } else { Duration::ZERO };
        self.term.deadline() <= now + confirmed + self.term.notice(spec.lease, spec.notice)
    }
}

impl LockMachine {
    /// A grant by message. It is believed only if no newer grant was named meanwhile.
    pub(super) fn on_grant_pushed(&mut self, core: &mut Core, id: Id, push: &Push) {
        let token = push.token;
        if let Some(lease) = self.leases.get(&id) {
            // As in a reply that names another lease than this one.
            if lease.token != token && lease.is_about(&push.secret) {
                self.renew(core, id);
            }
            return;
        }
        if self.releases.contains_key(&id) {
            return;
        }
        let Some(waiter) = self.waiters.get(&id) else {
            // The client cannot tell whether it is real: it is released once.
            return self.give_back(core, id, ReleaseKind::LeaveBestEffort, None, core.now);
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
        if let Some(lease) = self.leases.get(&id) {
            // A lease under another token is from before a loss of data: the server must hear of this one.
            if lease.token != own.token {
                self.renew(core, id);
            }
            return;
        }
        if self.releases.contains_key(&id) {
            return;
        }
        if self.waiters.contains_key(&id) {
            self.granted_from(core, id, own.ticket, own.seat, self.known.epoch);
            return self.granted_by_reply(core, sent, id, own);
        }
        self.give_back(core, id, ReleaseKind::Release { seat: Seat::NONE, calm: false }, None, core.now + own.left);
    }

    pub(super) fn granted_by_reply(&mut self, core: &mut Core, sent: Time, id: Id, own: &OwnLease) {
        if let Some(waiter) = self.waiters.get(&id) {
            let grant = Grant::replied(own, sent, &waiter.spec);
            self.granted(core, id, grant);
        }
    }

    /// The lease of a waiter, and the place from which it was granted, of which the client may not have heard before.
    fn granted_from(&mut self, core: &mut Core, id: Id, ticket: Ticket, seat: Seat, epoch: Option<Epoch>) {
        let Some(waiter) = self.waiters.get_mut(&id) else { return };
        (waiter.seat, waiter.epoch) = (seat, epoch);
        if waiter.ticket.is_none() {
            self.has_ticket(core, id, ticket);
        }
    }

    /// The server has granted the lock: hand it out, or confirm it first if little is left of the lease.
    pub(super) fn granted(&mut self, core: &mut Core, id: Id, grant: Grant) {
        let Some(waiter) = self.waiters.get(&id) else { return };
        let spec = &waiter.spec;
        if spec.confirm_grants && grant.claim || grant.is_short(core.now, spec) {
            return self.confirm(core, id, grant.token);
        }
        self.hand_out(core, id, grant);
    }

    fn hand_out(&mut self, core: &mut Core, id: Id, grant: Grant) {
        match self.waiters.get(&id) {
            Some(waiter) if waiter.spec.replicas > 0 => self.secure_grant(core, id, grant),
            _ => self.resolve(core, id, grant),
        }
    }

    pub(super) fn resolve(&mut self, core: &mut Core, id: Id, grant: Grant) {
        if let Some(waiter) = self.remove_waiter(core, id) {
            // All that stood before it have left the queue, and so has it.
            self.gone = self.gone.max(waiter.place.map_or(0, |(place, _)| place + 1));
            self.hold(core, id, waiter, grant);
            self.plan_heartbeat(core);
        }
    }

    pub(super) fn confirm(&mut self, core: &mut Core, id: Id, token: Token) {
        let memory = self.memory(core.now);
        let Some(waiter) = self.waiters.get_mut(&id) else { return };
        let under_way = match waiter.phase {
            Phase::Confirming { token } => Some(token),
            Phase::Securing { grant } => Some(grant.token),
            Phase::Asking | Phase::Queued => None,
        };
        if under_way == Some(token) && waiter.request.is_some() {
            return;
        }
        waiter.phase = Phase::Confirming { token };
        waiter.trace = Trace::Likely;
        if !core.connected {
            return;
        }
        self.calm = false;
        let request = Request::Renew(RenewRequest {
            keys: waiter.spec.keys.clone(),
            id: core.wire_id(id),
            seat: waiter.seat,
            lease: waiter.spec.lease,
            left: Duration::ZERO,
            liveness: waiter.spec.liveness,
            most: waiter.spec.most,
            about: waiter.about.clone(),
            memory,
        });
        waiter.request = Some(core.send(InFlight::Confirm(id), request));
    }

    pub(super) fn on_confirm(
        &mut self,
        core: &mut Core,
        (request, sent): (RequestId, Time),
        id: Id,
        common: &Common,
        verdict: RenewVerdict,
    ) {
        self.go_on(core, common);
        let Some(waiter) = self.waiters.get_mut(&id).filter(|waiter| waiter.request == Some(request)) else { return };
        waiter.request = None;
        let Phase::Confirming { token } = waiter.phase else { return };
        match verdict {
            RenewVerdict::Renewed => {
                let Some(own) = common.own(&core.wire_id(id)) else { return };
                (waiter.seat, waiter.epoch) = (own.seat, common.known.epoch);
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
                self.resume(core, id);
            }
        }
    }

    /// A confirmation was refused: it is asked for again.
    pub(super) fn confirm_refused(&mut self, core: &mut Core, id: Id, again: Time) {
        if let Some(waiter) = self.waiters.get_mut(&id) {
            waiter.request = None;
            core.timers.set(super::Timer::Acquire(id), again);
        }
    }
}
