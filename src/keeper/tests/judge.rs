//! The promises, judged after every step by what callers may believe and what the server holds.

use super::guards::Holding;
use super::model::Lease;
use super::server::Executed;
use super::world::{MS, World};
use crate::inspect::READERS;
use crate::keeper::machine::Id;
use crate::protocol::Verb;
use crate::testing::promises::{self, Holder};

/// How many requests a second one client may send without a reason: every heartbeat, renewal and repetition of up to
/// ten locks fits in, no busy loop does.
const BUSY: u32 = 400;

impl World {
    /// I1 and I4: holders believe in their leases only while that is true, and no more of them than each lets in.
    pub(super) fn judge(&mut self) {
        let mut broken = None;
        let mut believed: Vec<(String, &Holding)> = Vec::new();
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
                let lease = self.server.locks[guard.lock].1.lease_of(&who);
                if guard.is_reader && lease.is_some_and(|lease| lease.most < READERS) {
                    broken = Some(format!("{who} was told that it is a reader, and the server does not know"));
                }
                believed.push((who, guard));
            }
        }
        for lock in 0..self.server.locks.len() {
            let of_lock = believed.iter().filter(|(_, guard)| guard.lock == lock);
            let holders: Vec<_> = of_lock.map(|(who, guard)| guard.holder(who)).collect();
            broken = promises::exclusion_of_all(&holders).err().or(broken);
        }
        if let Some(what) = broken.or_else(|| self.judge_beliefs_of_before()) {
            self.fail(what);
        }
        self.watch_touch();
    }

    /// Whether the server still has the data on which this guard rests, and no jump of its clock shortened the lease.
    fn counts(&self, guard: &Holding) -> bool {
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
        let asked = client.machine.core.requests.values().filter(|sent| sent.verb == Some(Verb::Acquire)).count();
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
        // A returner shows that the state is an old one: what was granted in it since is dropped, or gives way to a later
        // token. Its holder had it by the exception for strangers, and is told at its next reply, as after any loss.
        let returns = |held: &&Lease| {
            let is_over = held.end <= after.state.seen;
            !is_over && executed.id.as_ref() != Some(&held.id) && executed.token > held.token
        };
        let gave_way = before.leases.iter().filter(returns).filter(|held| !after.holds(&held.id));
        let gave_way: Vec<u64> = gave_way.map(|held| held.token).collect();
        if before.state.epoch != 0 && before.state.epoch != after.state.epoch || !gave_way.is_empty() {
            self.server.basis.generation += 1;
        }
        self.server.forced.extend(gave_way);
        if let Some(what) = self.judge_room(executed.lock) {
            self.fail(what);
        }
        let after = &self.server.locks[executed.lock].1.leases;
        let stood = |lease: &&Lease| before.leases.iter().any(|was| (&was.id, was.token) == (&lease.id, lease.token));
        // A holder that returns after a loss has the token that it had.
        let new = after.iter().filter(|lease| !stood(lease) && executed.token != lease.token);
        let mut new: Vec<(String, u64)> = new.map(|lease| (lease.id.clone(), lease.token)).collect();
        new.sort_by_key(|(_, token)| *token);
        new.into_iter().for_each(|(id, token)| self.judge_grant(executed, id, token));
    }

    /// I1 on the server, and that each holder lets in as many as it asked for.
    fn judge_room(&self, lock: usize) -> Option<String> {
        let leases = &self.server.locks[lock].1.leases;
        let holders: Vec<Holder<&str>> = leases.iter().map(Holder::from).collect();
        let crowded = promises::exclusion_of_all(&holders).err();
        crowded.or_else(|| {
            leases.iter().find_map(|Lease { id, most, .. }| {
                let (name, number) = id.split_once('.')?;
                let client = self.clients.iter().find(|client| client.name.as_str() == name)?;
                let (first, after) = *client.asked_most.get(&Id(number.parse().ok()?))?;
                (*most != first && *most != after).then(|| format!("{id} has {most}, and asked for {first} (I1)"))
            })
        })
    }

    /// I2 and I3: the lock is granted to this id.
    fn judge_grant(&mut self, executed: &Executed, id: String, token: u64) {
        let (after, before) = (&self.server.locks[executed.lock].1, &executed.before);
        let top = self.server.tokens[executed.lock];
        let rises = promises::token_rises((top, top), (token, format_args!("{token} of {id}")));
        let rises = if self.server.forgot_the_time() { Ok(()) } else { rises };
        let brought = if executed.id.as_ref() == Some(&id) { executed.brought } else { u64::MAX };
        let place = before.ticket(&id).unwrap_or(brought);
        // A waiter that leaves, or returns to its place in the same script, is not overtaken.
        let counts = |other: &&String| {
            let client = super::model::client_of(other);
            let alive = before.sessions.get(client).is_some_and(|end| *end > after.state.seen);
            alive && before.entries.contains_key(*other) && after.ticket(other).is_some()
        };
        let queue = before.queue.iter().map(|(ticket, other)| (*ticket, other));
        let kept = promises::order(&id, place, queue, counts);
        self.server.tokens[executed.lock] = top.max(token);
        let broken = rises.and(kept).and_then(|()| self.judge_places_of_before(executed.lock, &id, place)).err();
        if let Some(what) = broken {
            self.fail(what);
        }
    }
}
