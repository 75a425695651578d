//! The promises, judged after every step by what callers may believe and what the server holds.

use super::clients::Guard;
use super::server::Executed;
use super::world::{MS, World};
use crate::keeper::machine::InFlight;

/// How many requests a second one client may send without a reason: every heartbeat, renewal and repetition of up to
/// ten locks fits in, no busy loop does.
const BUSY: u32 = 400;

impl World {
    /// I1 and I4: holders believe in their leases only while that is true.
    pub(super) fn judge(&mut self) {
        let mut broken = None;
        let mut believed: Vec<(usize, String)> = Vec::new();
        for client in self.clients.iter().filter(|client| client.alive) {
            let local = client.clock(self.now);
            for (id, guard) in &client.guards {
                if !guard.is_believed(local) || !self.counts(guard) {
                    continue;
                }
                let who = format!("{}.{id}", client.name);
                let until = client.when(guard.deadline).saturating_sub(self.now);
                match self.server.left(self.now, guard.lock, &who, guard.token) {
                    None => {
                        broken = Some(format!("{who} believes in token {}, and the server does not (I4)", guard.token))
                    }
                    Some(left) if left < until => {
                        broken = Some(format!("{who} believes for {until} ns, the server for {left} ns (I4)"));
                    }
                    Some(_) => {}
                }
                if let Some((_, other)) = believed.iter().find(|(lock, _)| *lock == guard.lock) {
                    broken = Some(format!("{who} and {other} believe to hold the same lock (I1)"));
                }
                believed.push((guard.lock, who));
            }
        }
        if let Some(what) = broken.or_else(|| self.judge_beliefs_of_before()) {
            self.fail(what);
        }
        self.watch_touch();
    }

    /// Whether the server still has the data on which this guard rests, and no jump of its clock shortened the lease.
    fn counts(&self, guard: &Guard) -> bool {
        let rests_on_what_is_there = guard.basis == Some(self.server.basis) && !self.server.forgot_the_time();
        rests_on_what_is_there && !self.server.forced.contains(&guard.token)
    }

    /// After a client was awake: nothing of it is overdue (I4, I8), and it does not run in circles.
    pub(super) fn judge_client(&mut self, index: usize) {
        let client = &mut self.clients[index];
        let (local, name) = (client.clock(self.now), &client.name);
        let mut broken = None;
        for (id, guard) in &client.guards {
            if guard.is_believed(local) && guard.tell_by < local {
                broken = Some(format!("{name}.{id} was not told in time that its lease ends (I4)"));
            }
        }
        for (id, acquire) in client.acquires.iter().filter(|(_, acquire)| acquire.known) {
            if acquire.by.is_some_and(|by| by < local) {
                broken = Some(format!("{name}.{id} is past its timeout (I8)"));
            }
        }
        for (question, by) in &client.questions {
            if by.is_some_and(|by| by < local) {
                broken = Some(format!("{name}: {question:?} has no answer in time (I8)"));
            }
        }
        let asked =
            client.machine.core.requests.values().filter(|sent| matches!(sent.what, InFlight::Acquire(_))).count();
        if asked > client.window {
            broken = Some(format!("{name} has {asked} acquires under way at once (I12)"));
        }
        if let Err(what) = client.machine.adds_up() {
            broken = Some(format!("{name}: {what}"));
        }
        if client.machine.next_due().is_some_and(|due| due <= local) {
            broken = Some(format!("{name} is due at once, again"));
        }
        if client.patience != client.machine.patience() {
            broken = Some(format!("{name}: routes were told a patience of {:?} (I4)", client.patience));
        }
        if self.now - client.pace.since > 1_000 * MS {
            client.pace = super::clients::Pace { since: self.now, ..Default::default() };
        } else if client.pace.sent > BUSY + 8 * client.pace.reasons {
            broken = Some(format!("{name} sent {} requests within a second", client.pace.sent));
        }
        if let Some(what) = broken {
            self.fail(what);
        }
    }

    /// I2 and I3, where a script granted the lock.
    pub(super) fn judge_script(&mut self, executed: &Executed) {
        let after = &self.server.locks[executed.lock].1;
        let before = &executed.before;
        let granted = |lock: &super::model::Lock| lock.holder().map(|held| (held.id.clone(), held.token));
        // A returner shows that the state is an old one: what was granted in it since is dropped, or gives way to a later
        // token. Its holder had it by the exception for strangers, and is told at its next reply, as after any loss.
        let returns =
            |held: &super::model::Lease| executed.id.as_ref() != Some(&held.id) && executed.token > held.token;
        let gave_way = before.holder().filter(|held| returns(held) && !after.holds(&held.id)).map(|held| held.token);
        if before.state.epoch != 0 && before.state.epoch != after.state.epoch || gave_way.is_some() {
            self.server.basis.generation += 1;
        }
        self.server.forced.extend(gave_way);
        let after = &self.server.locks[executed.lock].1;
        let Some((id, token)) = granted(after).filter(|grant| granted(before).as_ref() != Some(grant)) else { return };
        let top = self.server.tokens[executed.lock];
        // A holder that returns after a loss has the token that it had.
        if executed.token == token {
            return;
        }
        let mut broken = None;
        if token <= top && !self.server.forgot_the_time() {
            broken = Some(format!("{id} is granted token {token} after {top} (I3)"));
        }
        let place = before.ticket(&id).unwrap_or(executed.brought);
        let overtaken = before.queue.iter().find(|(ticket, other)| {
            let client = super::model::client_of(other);
            let alive = before.sessions.get(client).is_some_and(|end| *end > after.state.seen);
            *ticket < place && alive && before.entries.contains_key(other)
        });
        // A waiter that leaves, or returns to its place in the same script, is not overtaken.
        if let Some((ticket, other)) = overtaken.filter(|(_, other)| after.ticket(other).is_some()) {
            broken = Some(format!("{id} at {place} is granted before {other} at {ticket} (I2)"));
        }
        self.server.tokens[executed.lock] = top.max(token);
        let broken = broken.or_else(|| self.judge_places_of_before(executed.lock, &id, place));
        if let Some(what) = broken {
            self.fail(what);
        }
    }
}
