//! What a loss of data leaves of the promises. A client that knew the lost data shows the server what it has forgotten,
//! and from then on nothing is granted until all had the time to return. So
//! * I1: nobody is granted a lock while another believes in a lease from before the loss,
//! * I2 and I7: a waiter that waited before the loss and stayed in touch with the server is served before later ones.
//!
//! There are three exceptions.
//! * A stranger speaks first: a client that had no answer under the lost data, or only answers that the server still
//!   knows. The server cannot tell that it lost anything, and grants the lock as if it were new. After the next loss
//!   the stranger's lease may come back, and before it the older one. A waiter whose place the server still knows may
//!   be such a stranger: it knows nothing newer, and is granted the lock where a lost renewal would have kept it.
//! * A waiter's heartbeats are rarer than those of which the returned clients know: it came after their last answers.
//! * A lease is longer than those of which the returned clients know, or for which they ask: its holder came or came back
//!   after their last answers, or extended it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::clients::Client;
use super::guards::Holding;
use super::model::Lock;
use super::on_write::OnWrite;
use super::server::{Executed, Words};
use super::world::{MS, World};
use crate::clock::Time;
use crate::protocol::{AcquireVerdict, LockKeys, Verdict};
use crate::testing::promises;

/// How long a message takes at most between the server and a client that is in touch with it.
const SOON: u64 = 5 * MS;

/// The data of the server on which an answer to a client rests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Basis {
    /// Counts the events that make earlier answers void: losses, jumps of the clock, proofs of a loss.
    pub(super) generation: u32,
    /// Counts the losses alone.
    pub(super) era: u32,
    /// How often the clock jumped forwards, and made leases shorter than answers had said.
    pub(super) jumps: u32,
}

impl Basis {
    /// The basis of a grant that is counted from an earlier sign of life: the lease may be over.
    pub(super) fn doubted(self) -> Self {
        Self { generation: u32::MAX, ..self }
    }
}

/// What became of the losses of a lock's data.
#[derive(Clone, Debug, Default)]
pub(super) struct Past {
    /// The epoch of the data that was lost last.
    pub(super) epoch: u64,
    /// No client has told the server of the data before the last loss.
    pub(super) unspoken: bool,
    /// The eras in which a stranger spoke first, or in which nobody who came back knew of so long a lease.
    pub(super) strangers: BTreeSet<u32>,
    /// How long waiters are to be given to return, by all clients that have returned themselves; in ns.
    pub(super) asked: u64,
    /// When the longest lease ends of which a client knew that has returned, or for which it asks; in ns.
    pub(super) waited_for: u64,
}

impl World {
    /// The server has this data from now on.
    pub(super) fn lose_data(&mut self, instead: Vec<(Arc<LockKeys>, OnWrite<Lock>)>) {
        let server = &mut self.server;
        server.basis.generation += 1;
        server.basis.era += 1;
        server.lost_data = true;
        for ((_, lock), past) in server.locks.iter().zip(&mut server.pasts) {
            past.epoch = if past.unspoken { past.epoch.max(lock.state.epoch) } else { lock.state.epoch };
            past.unspoken = true;
        }
        server.locks = instead;
        for ((_, lock), past) in server.locks.iter().zip(&mut server.pasts) {
            past.asked = 3 * 1000 * lock.state.pace;
            past.waited_for = 0;
        }
        let (now, well) = (self.now, self.is_well());
        self.clients.iter_mut().for_each(|client| client.in_touch = well && client.is_prompt(now));
        self.now += MS;
    }

    /// Something has disturbed these clients.
    pub(super) fn lose_touch(&mut self, disturbed: impl Fn(&Client) -> bool) {
        let touched = self.clients.iter_mut().filter(|client| client.in_touch && disturbed(client));
        touched.for_each(|client| client.in_touch = false);
    }

    pub(super) fn watch_touch(&mut self) {
        let (now, well) = (self.now, self.is_well());
        self.lose_touch(|client| !well || !client.is_prompt(now));
    }

    fn is_well(&self) -> bool {
        self.server.up && self.server.refuses.is_none()
    }

    /// Notes which client speaks first after a loss, and what it brings.
    pub(super) fn heed(&mut self, index: usize, executed: &Executed) {
        let (keys, lock) = &self.server.locks[executed.lock];
        let (state, before) = (&lock.state, &executed.before.state);
        let past = &mut self.server.pasts[executed.lock];
        let is_new_to_server = |stamp: u64| stamp > before.stamp;
        let words = executed.words.as_ref();
        let words = words.filter(|_| executed.reply.verdict != Verdict::Acquire(AcquireVerdict::Disbelieved));
        if let Some(words) = words.filter(|words| (1..=past.epoch).contains(&words.epoch))
            && state.seen < state.recover_until()
        {
            past.asked = past.asked.max(words.asked);
            let its = self.clients[index].acquires.values();
            let its = its.filter(|its| its.ticket.is_some() && its.lock == executed.lock);
            let longest = its.map(|its| its.lease.as_nanos() as u64).fold(words.longest, u64::max);
            past.waited_for = past.waited_for.max(self.now + longest);
        }
        if let Some(words) = words {
            let is_news = words.epoch == past.epoch && is_new_to_server(words.highest);
            if words.returns && past.unspoken && !is_news {
                past.strangers.insert(self.server.basis.era);
            }
            past.unspoken &= !words.returns && !is_news;
        }
        // An operator's request brings less than its client knows, so it counts what that one knows.
        let known = self.clients[index].machine.locks.get(&keys.name).and_then(|lock| lock.known.stamp);
        let knows_more = known.is_some_and(|stamp| is_new_to_server(stamp.get()));
        if state.grants > before.grants {
            let era = self.server.basis.era;
            // A lease from before that ends later than all of which a client knew that has returned.
            let is_unknown = |client: &Client, guard: &Holding| {
                let before = guard.lock == executed.lock && guard.basis.is_some_and(|of| of.era < era);
                let outlasts = past.waited_for > 0 && client.when(guard.deadline) > past.waited_for;
                before && guard.is_believed(client.clock(self.now)) && outlasts
            };
            let has_one = |client: &Client| client.guards.values().any(|guard| is_unknown(client, guard));
            if past.unspoken && !knows_more || self.clients.iter().any(|client| has_one(client)) {
                past.strangers.insert(era);
            }
        }
    }

    /// I1 over losses: two that believe in leases that cannot be held together, the older of which rests on data that was
    /// lost.
    pub(super) fn judge_beliefs_of_before(&self) -> Option<String> {
        let Basis { jumps, .. } = self.server.basis;
        let believed = self.clients.iter().filter(|client| client.alive).flat_map(|client| {
            let local = client.clock(self.now);
            let guards = client.guards.iter().filter(move |(_, guard)| guard.is_believed(local));
            guards.filter_map(move |(id, guard)| Some((client, id, guard, guard.basis?)))
        });
        let stands = |token| !self.server.forced.contains(token);
        let believed: Vec<_> =
            believed.filter(|(_, _, guard, basis)| basis.jumps == jumps && stands(&guard.token)).collect();
        if self.server.forgot_the_time() {
            return None;
        }
        believed.iter().find_map(|(client, id, older, before)| {
            let another = believed.iter().find(|(.., newer, since)| {
                let excluded = older.holder(()).excludes(&newer.holder(()));
                let same = newer.lock == older.lock && older.token < newer.token && excluded;
                let strangers = &self.server.pasts[older.lock].strangers;
                let a_stranger = older.era < newer.era && strangers.contains(&newer.era);
                same && before.era < since.era && !a_stranger && strangers.range(before.era + 1..).next().is_none()
            });
            another.map(|(other, its, newer, _)| {
                let (who, beside) = (format!("{}.{id}", client.name), format!("{}.{its}", other.name));
                format!("{}, of before a loss", promises::both(&older.holder(who), &newer.holder(beside)))
            })
        })
    }

    /// I2 and I7 over losses: a waiter that is not back in the queue yet, and was overtaken by a grant to `id`, which
    /// had `place`.
    pub(super) fn judge_places_of_before(&self, lock: usize, id: &str, place: u64) -> Result<(), String> {
        let (past, basis) = (&self.server.pasts[lock], self.server.basis);
        if basis.era == 0 || past.unspoken || past.strangers.contains(&basis.era) {
            return Ok(());
        }
        let name = &self.server.locks[lock].0.name;
        let is_known = |client: &Client| {
            let interval = client.machine.locks.get(name).map(|lock| lock.heartbeat_interval());
            interval.is_some_and(|interval| interval.as_nanos() as u64 + SOON <= past.asked)
        };
        let returning = self.clients.iter().filter(|client| client.in_touch && is_known(client)).flat_map(|client| {
            let wanted = client.acquires.iter().filter(|(_, acquire)| acquire.lock == lock && acquire.wanted);
            wanted.filter_map(|(its, acquire)| Some((acquire.ticket?, format!("{}.{its}", client.name))))
        });
        // It may have been granted the lock together with this one, and not know.
        let counts = |who: &String| who != id && !self.server.locks[lock].1.holds(who);
        promises::order(id, place, returning, counts).map_err(|what| format!("{what}, and was about to return"))
    }
}

impl Client {
    /// Any request may be the first that a server with old data executes. So all that it has just sent, beyond the first
    /// ones of its connection, tell what it knew before and knows still.
    pub(super) fn judge_words(&self, local: Time, before: &BTreeMap<Arc<str>, u64>, first: usize) -> Option<String> {
        let after = self.machine.highest_stamps(local);
        self.link.iter().flat_map(|link| link.out.iter().skip(first)).find_map(|(_, _, call)| {
            let name = &call.keys().name;
            let known = *before.get(name)?.min(after.get(name)?);
            let told = Words::of(call)?.highest;
            (told < known).then(|| format!("{} knows of {known}, and does not tell it (I1, I7): {call:?}", self.name))
        })
    }

    /// Whether it is awake and connected, and nothing of it or for it has been under way for long.
    fn is_prompt(&self, now: u64) -> bool {
        let Some(link) = self.link.as_ref().filter(|link| !link.dead && self.runs()) else { return false };
        let under_way = [
            self.inbox.front().map(|(at, _)| at),
            link.out.front().map(|(at, ..)| at),
            link.back.front().map(|(at, _)| at),
            link.pushes.front().map(|(at, ..)| at),
            link.questions.front().map(|(at, ..)| at),
        ];
        under_way.into_iter().flatten().all(|at| now <= at + SOON)
    }
}
