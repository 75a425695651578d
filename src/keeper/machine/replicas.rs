//! Locks whose grants and renewals count only once replicas have them.
//!
//! A grant is made sure of in two steps: the server says what is left of the lease (its reply, or a confirmation), and
//! then so many replicas have acknowledged all that was written before. Only then is it handed out. While too few do,
//! the waiter goes on confirming its lease, so that nobody overtakes it, and asks again. A renewal counts after the same
//! two steps; until then the local deadline stands where it was.

use std::sync::Arc;
use std::time::Duration;

use super::leases::Term;
use super::waiters::notice_of;
use super::{Effect, Id, Machine, RequestId, Sent, Timer, What};
use crate::clock::Time;
use crate::protocol::{Failure, LockKeys};

impl Machine {
    /// Asks how many replicas have what was written so far.
    pub(super) fn replicate(
        &mut self,
        now: Time,
        id: Id,
        keys: &Arc<LockKeys>,
        replicas: u32,
        lease: Duration,
    ) -> RequestId {
        const LONGEST: Duration = Duration::from_millis(500);
        // Others may share it and be in a hurry, and it must not look like the silence of a server that hangs.
        let within = (lease / 6).min(self.patience / 4).min(LONGEST);
        let request = self.register(now, What::Replicate(id), keys.clone());
        self.effects.push(Effect::Replicate { request, keys: keys.clone(), replicas, within });
        request
    }

    /// So many replicas have it.
    pub(super) fn on_replicated(&mut self, now: Time, request: RequestId, result: Result<u32, Failure>) {
        let Some(Sent { what: What::Replicate(id), .. }) = self.requests.remove(&request) else { return };
        self.heard(now);
        if self.waiters.contains_key(&id) {
            self.on_grant_replicated(now, request, id, result);
        } else {
            self.on_renewal_replicated(now, request, id, result);
        }
    }

    /// The server has granted the lock: make sure that replicas have the grant.
    pub(super) fn secure_grant(&mut self, now: Time, id: Id, token: u64, term: Term) {
        let Some(waiter) = self.waiters.get(&id) else { return };
        if waiter.unsecured.is_some() || !self.connected {
            return;
        }
        let (spec, ticket) = (waiter.spec.clone(), waiter.ticket);
        // If it never stood in the queue: should the lease run out meanwhile, this is its place there.
        self.has_ticket(id, if ticket == 0 { token } else { ticket });
        let request = self.replicate(now, id, &spec.keys, spec.replicas, spec.lease);
        if let Some(waiter) = self.waiters.get_mut(&id) {
            waiter.claim = Some(token);
            waiter.unsecured = Some(term);
            waiter.request = Some(request);
        }
    }

    fn on_grant_replicated(&mut self, now: Time, request: RequestId, id: Id, result: Result<u32, Failure>) {
        let Some(waiter) = self.waiters.get_mut(&id).filter(|waiter| waiter.request == Some(request)) else { return };
        waiter.request = None;
        let (Some(token), Some(term)) = (waiter.claim, waiter.unsecured.take()) else { return };
        match shortage(result, waiter.spec.replicas) {
            None if term.deadline > now + notice_of(&waiter.spec, term.span) => {
                self.refusals = 0;
                self.resolve(now, id, token, term);
            }
            None => self.confirm(now, id, token),
            Some(shortage) => {
                waiter.shortage = Some(shortage);
                self.refusals = self.refusals.saturating_add(1);
                let again = now + self.back_off();
                self.timers.set(Timer::Acquire(id), again);
            }
        }
    }

    fn on_renewal_replicated(&mut self, now: Time, request: RequestId, id: Id, result: Result<u32, Failure>) {
        let Some(lease) = self.leases.get_mut(&id).filter(|lease| lease.request == Some(request)) else { return };
        lease.request = None;
        let Some(term) = lease.unsecured.take() else { return };
        match shortage(result, lease.spec.replicas) {
            None => self.prolonged(now, id, term),
            Some(shortage) => {
                self.refusals = self.refusals.saturating_add(1);
                let again = now + self.back_off();
                self.renew_refused(id, self.in_time(now, again), &shortage);
            }
        }
    }
}

fn shortage(result: Result<u32, Failure>, needed: u32) -> Option<Arc<str>> {
    match result {
        Ok(have) if have >= needed => None,
        Ok(have) => Some(format!("only {have} of the {needed} replicas that are asked for have it").into()),
        Err(failure) => Some(failure.cause().clone()),
    }
}
