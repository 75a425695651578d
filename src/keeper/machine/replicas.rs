//! Locks whose grants and renewals count only once replicas have them.
//!
//! A grant is secured in two steps: the server reports what is left of the lease (its reply, or a confirmation), and
//! then enough replicas acknowledge all earlier writes. Only then is it handed out. While too few do, the waiter goes
//! on confirming its lease, so that nobody overtakes it, and asks again. A renewal counts after the same two steps;
//! until then the local deadline stays.

use std::sync::Arc;
use std::time::Duration;

use super::core::Core;
use super::grant::Grant;
use super::lock::LockMachine;
use super::waiter::Phase;
use super::{Effect, Id, InFlight, RequestId, Timer};
use crate::options::Spec;
use crate::protocol::{Memory, Refusal};

/// Asks how many replicas have all writes so far.
pub(super) fn replicate(core: &mut Core, id: Id, spec: &Spec) -> RequestId {
    const LONGEST: Duration = Duration::from_millis(500);
    // Other locks may share the question and need answers sooner, and it must not look like the silence of a server
    // that hangs.
    let within = (spec.lease / 6).min(core.needed / 4).min(LONGEST);
    let request = core.register(InFlight::Replicate(id), spec.keys.clone(), Memory::NONE);
    core.effects.push(Effect::Replicate { request, keys: spec.keys.clone(), replicas: spec.replicas, within });
    request
}

impl LockMachine {
    /// So many replicas have it.
    pub(super) fn on_replicated(&mut self, core: &mut Core, request: RequestId, id: Id, result: Result<u32, Refusal>) {
        if self.waiters.contains_key(&id) {
            self.on_grant_replicated(core, request, id, result);
        } else {
            self.on_renewal_replicated(core, request, id, result);
        }
    }

    /// The server has granted the lock: asks whether replicas have the grant.
    pub(super) fn secure_grant(&mut self, core: &mut Core, id: Id, grant: Grant) {
        let Some(waiter) = self.waiters.get(&id) else { return };
        if matches!(waiter.phase, Phase::Securing { .. }) || !core.connected {
            return;
        }
        // A waiter that was never in the queue needs a place there, should the lease expire meanwhile.
        let ticket = waiter.ticket.unwrap_or(grant.token.as_ticket());
        self.has_ticket(core, id, ticket);
        self.calm = false; // The question writes.
        if let Some(waiter) = self.waiters.get_mut(&id) {
            waiter.request = Some(replicate(core, id, &waiter.spec));
            waiter.phase = Phase::Securing { grant };
        }
    }

    fn on_grant_replicated(&mut self, core: &mut Core, request: RequestId, id: Id, result: Result<u32, Refusal>) {
        let Some(waiter) = self.waiters.get_mut(&id).filter(|waiter| waiter.request == Some(request)) else { return };
        waiter.request = None;
        let Phase::Securing { grant } = waiter.phase else { return };
        let Grant { token, term, .. } = grant;
        waiter.phase = Phase::Confirming { token };
        match shortage(result, waiter.spec.replicas) {
            None if term.deadline() > core.now + term.notice(waiter.spec.lease, waiter.spec.notice) => {
                core.refusals = 0;
                self.resolve(core, id, grant);
            }
            None => self.confirm(core, id, token),
            Some(shortage) => {
                waiter.shortage = Some(shortage);
                let again = core.refused();
                core.timers.set(Timer::Acquire(id), again);
            }
        }
    }

    fn on_renewal_replicated(&mut self, core: &mut Core, request: RequestId, id: Id, result: Result<u32, Refusal>) {
        let Some(lease) = self.leases.get_mut(&id).filter(|lease| lease.request == Some(request)) else { return };
        lease.request = None;
        let Some(term) = lease.unsecured.take() else { return };
        match shortage(result, lease.spec.replicas) {
            None => self.prolonged(core, id, term),
            Some(shortage) => {
                let again = core.refused();
                let again = core.in_time(again);
                self.renew_refused(core, id, again, &shortage);
            }
        }
    }
}

fn shortage(result: Result<u32, Refusal>, needed: u32) -> Option<Arc<str>> {
    match result {
        Ok(have) if have >= needed => None,
        Ok(have) => Some(format!("only {have} of the {needed} replicas have acknowledged it").into()),
        Err(refusal) => Some(refusal.cause().clone()),
    }
}
