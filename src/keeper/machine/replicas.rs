//! Locks whose grants and renewals count only once replicas have them.
//!
//! A grant is secured in two steps: the server reports what is left of the lease (its reply, or a confirmation), and
//! then enough replicas acknowledge all earlier writes. Only then is it handed out. While too few do, the waiter goes
//! on confirming its lease, so that nobody overtakes it, and asks again. A renewal counts after the same two steps;
//! until then the local deadline stays.

use std::sync::Arc;
use std::time::Duration;

use super::api::{Effect, RequestId};
use super::core::{Core, InFlight};
use super::lock::LockMachine;
use super::record::{Grant, Phase, State};
use crate::protocol::{Id, Memory, Refusal};

impl LockMachine {
    /// Asks how many replicas have all writes so far.
    pub(super) fn send_wait(&mut self, core: &mut Core, id: Id) {
        const LONGEST: Duration = Duration::from_millis(500);
        let spec = match core.records.get(&id).map(|record| &record.state) {
            Some(State::Waiting(waiter)) => waiter.spec.clone(),
            Some(State::Held(lease)) => lease.spec.clone(),
            Some(State::Leaving(_)) | None => return,
        };
        // Other locks may share the question and need answers sooner, and it must not look like the silence of a server
        // that hangs.
        let within = (spec.lease / 6).min(core.needed / 4).min(LONGEST);
        let request = core.register(InFlight::Record(id), spec.keys.clone(), Memory::NONE);
        core.is_sent(id, request);
        self.calm = false; // The question writes.
        core.effects.push(Effect::Replicate { request, keys: spec.keys.clone(), replicas: spec.replicas, within });
    }

    /// The server has granted the lock: asks whether replicas have the grant.
    pub(super) fn secure(&mut self, core: &mut Core, id: Id, grant: Grant) {
        let Some(waiter) = core.waiter(id) else { return };
        if matches!(waiter.phase, Phase::Securing { .. }) || !core.connected {
            return;
        }
        // A waiter that was never in the queue needs a place there, should the lease expire meanwhile.
        let ticket = waiter.ticket.unwrap_or(grant.token.as_ticket());
        self.has_ticket(core, id, ticket);
        self.has_grant(core, id, Phase::Securing { grant });
    }

    /// So many replicas have it.
    pub(super) fn on_replicated(&mut self, core: &mut Core, request: RequestId, id: Id, result: Result<u32, Refusal>) {
        let Some(record) = core.records.get_mut(&id).and_then(|record| record.answered(request)) else { return };
        let in_time = match &mut record.state {
            State::Waiting(waiter) => {
                let Phase::Securing { grant } = waiter.phase else { return };
                let Grant { token, term, .. } = grant;
                waiter.phase = Phase::Confirming { token };
                waiter.shortage = shortage(result, waiter.spec.replicas);
                if waiter.shortage.is_none() {
                    if term.deadline() <= core.now + term.notice(waiter.spec.lease, waiter.spec.notice) {
                        return self.confirm(core, id, token);
                    }
                    core.refusals = 0;
                    return self.resolve(core, id, grant);
                }
                false
            }
            State::Held(lease) => {
                let Some(term) = lease.unsecured.take() else { return };
                lease.cause = shortage(result, lease.spec.replicas);
                if lease.cause.is_none() {
                    return self.prolonged(core, id, term);
                }
                true
            }
            State::Leaving(_) => return,
        };
        let again = core.refused();
        let at = if in_time { core.in_time(again) } else { again };
        core.records.entry(id).and_modify(|record| record.at = Some(at));
        self.look(core, id);
    }
}

fn shortage(result: Result<u32, Refusal>, needed: u32) -> Option<Arc<str>> {
    match result {
        Ok(have) if have >= needed => None,
        Ok(have) => Some(format!("only {have} of the {needed} replicas have acknowledged it").into()),
        Err(refusal) => Some(refusal.cause().clone()),
    }
}
