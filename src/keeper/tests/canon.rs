//! Whether two worlds are the same, as far as anything can still happen in them.
//!
//! Everything in a world is written down as a list of numbers, in which
//! * moments are told from now, or as "long ago",
//! * stamps (tickets, tokens, epochs) are only told by their order, and whether the last one lies behind the server's
//!   clock,
//! * requests are told from the last one,
//! * texts for people, and the seed of the back-off, are left out.
//!
//! The machine is written down by its derived `Hash`, into a hasher that keeps what it is given. Moments, stamps and
//! requests lie in ranges of their own, so that it can tell them apart.

use std::hash::{Hash, Hasher};

use super::clients::{BOOT_NS, Client};
use super::losses::{Basis, Past};
use super::model::{Lease, Lock};
use super::server::{EPOCH_US, Reply};
use super::world::{MS, World};
use crate::keeper::machine::{Core, Machine};
use crate::protocol::{self, AcquireVerdict, Push, Verdict};

/// A moment further back than this has no effect any more: it is longer than every span of an explored world.
const LONG_AGO: u64 = 200 * MS;
/// What an explored world has.
const USUAL_WORDS: usize = 1000;
pub(super) const FIRST_REQUEST: u64 = 1 << 41;

#[derive(Default)]
struct Notes {
    words: Vec<u64>,
    /// Where stamps stand in `words`.
    stamps: Vec<usize>,
    local: u64,
    last_request: u64,
}

impl Notes {
    fn moment(&mut self, at: u64, now: u64) {
        let relative = (at + LONG_AGO).saturating_sub(now);
        self.words.push(relative);
    }

    fn stamp(&mut self, stamp: u64) {
        if stamp != 0 {
            self.stamps.push(self.words.len());
        }
        self.words.push(stamp);
    }

    fn flag(&mut self, flag: bool) {
        self.words.push(u64::from(flag));
    }

    /// One number for all of it. Stamps become their places in the order of all stamps.
    fn fingerprint(mut self) -> u64 {
        let mut order: Vec<u64> = self.stamps.iter().map(|&at| self.words[at]).collect();
        order.sort_unstable();
        order.dedup();
        for at in self.stamps {
            let place = order.binary_search(&self.words[at]).expect("it was put there") as u64;
            self.words[at] = u64::MAX - place;
        }
        self.words.into_iter().fold(0, mixed)
    }
}

/// No two numbers are mixed with a word to the same, so that worlds that differ once stay apart.
fn mixed(before: u64, word: u64) -> u64 {
    let mixed = (before.rotate_left(5) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed ^ mixed >> 32
}

impl Hasher for Notes {
    fn finish(&self) -> u64 {
        unreachable!("its words are read instead")
    }

    fn write(&mut self, bytes: &[u8]) {
        self.words.push(bytes.len() as u64);
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.words.push(u64::from_le_bytes(word));
        }
    }

    fn write_u8(&mut self, byte: u8) {
        self.words.push(u64::from(byte));
    }

    fn write_u32(&mut self, word: u32) {
        self.words.push(u64::from(word));
    }

    fn write_usize(&mut self, word: usize) {
        self.words.push(word as u64);
    }

    fn write_isize(&mut self, word: isize) {
        self.words.push(word as u64);
    }

    fn write_u64(&mut self, word: u64) {
        match word {
            FIRST_REQUEST..EPOCH_US => self.words.push(self.last_request - word),
            EPOCH_US..BOOT_NS if word < 2 * EPOCH_US => self.stamp(word),
            BOOT_NS.. if word < 2 * BOOT_NS => self.moment(word, self.local),
            _ => self.words.push(word),
        }
    }
}

impl World {
    /// A number for all that matters. With `sent`, also for when each message was sent: in calm times they arrive in
    /// that order.
    pub(super) fn fingerprint(&self, sent: bool) -> u64 {
        let mut notes = Notes::default();
        notes.words.reserve(USUAL_WORDS);
        notes.stamps.reserve(USUAL_WORDS / 4);
        notes.flag(self.server.up);
        for (_, lock) in &self.server.locks {
            self.lock(&mut notes, lock);
        }
        for (_, lock) in &self.server.saved {
            self.lock(&mut notes, lock);
        }
        for &token in &self.server.tokens {
            notes.stamp(token);
        }
        for Past { epoch, unspoken, strangers, asked, waited_for } in &self.server.pasts {
            notes.stamp(if *unspoken { *epoch } else { 0 });
            notes.flag(*unspoken);
            notes.words.extend(strangers.iter().map(|era| u64::from(self.server.basis.era - era)));
            notes.words.push(*asked);
            notes.words.push(waited_for.saturating_sub(self.now));
        }
        for client in &self.clients {
            self.client(&mut notes, client, sent);
        }
        notes.fingerprint()
    }

    /// A lock, its moments told from the last script: how much the clock has moved since then comes with them.
    fn lock(&self, notes: &mut Notes, lock: &Lock) {
        let Lock { queue, sessions, beats, leases, entries, state, history: _ } = lock;
        let seen = state.seen;
        let clock = self.server.time(self.now).saturating_add_signed(state.skew);
        notes.words.push(clock.saturating_sub(seen).min(LONG_AGO / 1000));
        notes.words.extend([state.pace, state.pace_next, state.live_until.saturating_sub(seen)]);
        // While all tell the same pace, it does not matter when the next window begins.
        let is_everyones = state.pace == state.pace_next && self.has_one_pace();
        let turn = if is_everyones { 0 } else { state.pace_turn + 3 * state.pace };
        notes.words.push(turn.saturating_sub(seen));
        let silence = [state.silent_from, state.silent_until];
        notes.words.extend(silence.map(|at| (at + LONG_AGO / 1000).saturating_sub(seen)));
        // The stamp is the later one if others were given in the same microsecond.
        notes.flag(state.stamp < self.server.time(self.now));
        notes.stamp(state.stamp);
        notes.stamp(state.token);
        notes.stamp(state.epoch);
        notes.flag(state.recover_from == 0);
        notes.flag(state.calm);
        notes.flag(state.grants > 1);
        notes.words.push(state.recover_until().saturating_sub(seen));
        let recovering = state.recover_until() > seen;
        let recovery = [seen - state.recover_from, state.wait_places, state.wait_leases];
        notes.words.extend(if recovering { recovery } else { [0; 3] });
        notes.stamp(if recovering { state.sole } else { 0 });
        notes.words.extend([state.longest, state.longest_next]);
        notes.stamp(state.generation);
        for (ticket, id) in queue {
            notes.stamp(*ticket);
            id.hash(notes);
        }
        notes.words.push(u64::MAX);
        for (client, end) in sessions.iter().filter(|(_, end)| **end > seen) {
            client.hash(notes);
            notes.words.extend([end - seen, beats.get(client).copied().unwrap_or_default()]);
        }
        notes.words.push(u64::MAX);
        notes.words.extend([state.first_end, state.last_end].map(|end| end.saturating_sub(seen)));
        for Lease { slot, id, end, token, ticket, most, claim, broken } in leases {
            id.hash(notes);
            notes.words.extend([u64::from(*slot), u64::from(*most), end.saturating_sub(seen)]);
            notes.stamp(*token);
            notes.stamp(*ticket);
            notes.flag(*claim);
            notes.flag(*broken);
        }
        notes.words.push(u64::MAX);
        for (id, entry) in entries {
            id.hash(notes);
            notes.words.extend([entry.lease, entry.liveness]);
        }
        notes.words.push(u64::MAX);
    }

    fn has_one_pace(&self) -> bool {
        let mut liveness = self.specs.iter().flatten().map(|spec| spec.liveness);
        let first = liveness.next();
        liveness.all(|other| Some(other) == first)
    }

    fn client(&self, notes: &mut Notes, client: &Client, sent: bool) {
        notes.flag(client.alive);
        if !client.alive {
            client.limbo.hash(notes);
            return;
        }
        notes.local = client.clock(self.now).0;
        notes.last_request = client.machine.core.last_request.0;
        machine(notes, &client.machine);
        notes.flag(client.paused);
        notes.flag(client.ending);
        notes.words.push(client.next);
        notes.words.push(client.connecting.map_or(0, |at| 1 + self.now - at));
        for (_, command) in &client.inbox {
            format!("{command:?}").hash(notes);
        }
        notes.words.push(u64::MAX);
        client.limbo.hash(notes);
        notes.flag(client.link.is_some());
        if let Some(link) = &client.link {
            notes.flag(link.dead);
            for (at, request, call) in &link.out {
                (*request, call).hash(notes);
                notes.words.push(self.now - *at);
            }
            notes.words.push(u64::MAX);
            assert!(link.questions.is_empty(), "no explored world has replicas");
            for (at, reply) in &link.back {
                self.reply(notes, reply);
                notes.words.push(self.now - *at);
            }
            notes.words.push(u64::MAX);
            for (at, Push { kind, id, token, ticket, slot: _, seat, known, secret: _, lock: _ }, of) in &link.pushes {
                notes.words.push(*kind as u64);
                id.hash(notes);
                notes.stamp(token.get());
                notes.stamp(ticket.get());
                (seat, known).hash(notes);
                self.basis(notes, *of);
                notes.words.push(self.now - *at);
            }
            notes.words.push(u64::MAX);
        }
        for (id, acquire) in &client.acquires {
            notes.words.push(id.0);
            notes.stamp(acquire.ticket.unwrap_or_default());
            notes.flag(acquire.wanted);
        }
        notes.words.push(u64::MAX);
        for (id, guard) in &client.guards {
            notes.words.push(id.0);
            notes.stamp(guard.token);
            notes.words.extend([u64::from(guard.slot), u64::from(guard.most)]);
            notes.flag(guard.is_reader);
            notes.moment(guard.deadline.0, notes.local);
            notes.moment(guard.tell_by.0, notes.local);
            notes.moment(if sent { guard.granted.0 } else { 0 }, notes.local);
            notes.flag(guard.lost);
            notes.flag(guard.tended);
            notes.words.push(guard.taken as u64);
            guard.basis.into_iter().for_each(|basis| self.basis(notes, basis));
            notes.words.push(u64::from(self.server.basis.era - guard.era));
        }
        notes.words.push(u64::MAX);
        for of in client.kept.values() {
            notes.flag(*of == self.server.basis);
        }
        notes.flag(client.in_touch);
    }

    /// What the judges make of it.
    fn basis(&self, notes: &mut Notes, of: Basis) {
        let now = self.server.basis;
        notes.flag(of == now);
        notes.flag(of.jumps == now.jumps);
        notes.words.push(u64::from(now.era - of.era));
    }

    fn reply(&self, notes: &mut Notes, reply: &Reply) {
        let Reply { request, lock: _, result, basis } = reply;
        request.hash(notes);
        self.basis(notes, *basis);
        let protocol::Reply { common, verdict } = result.as_ref().expect("an explored server refuses nothing");
        common.hash(notes);
        std::mem::discriminant(verdict).hash(notes);
        match verdict {
            Verdict::Acquire(verdict) => {
                std::mem::discriminant(verdict).hash(notes);
                match verdict {
                    AcquireVerdict::Queued { ticket, seat, rank } => (ticket, seat, rank).hash(notes),
                    AcquireVerdict::Granted | AcquireVerdict::Busy(_) | AcquireVerdict::Disbelieved => {}
                }
            }
            Verdict::Heartbeat(verdict) => verdict.hash(notes),
            Verdict::Renew(verdict) => verdict.hash(notes),
            Verdict::Release(verdict) => verdict.hash(notes),
            Verdict::Leave => {}
            other => panic!("no explored world has an operator: {other:?}"),
        }
    }
}

fn machine(notes: &mut Notes, machine: &Machine) {
    let Machine { core, prefix: _, locks, kept, questions, closed, closing } = machine;
    let Core {
        now: _,
        client: _,
        random: _,
        connected,
        can_kill,
        requests,
        last_request: _,
        timers,
        effects,
        records,
        members: _,
        line,
        cause: _,
        refusals,
        needed,
        suspects,
        has_all: _,
        given_up,
    } = core;
    assert!(effects.is_empty(), "effects are carried out at once");
    (connected, can_kill, locks, records, questions, requests).hash(notes);
    let local = notes.local;
    for (name, known, until) in kept.locks().filter(|(.., until)| until.0 > local) {
        (name, known, until).hash(notes);
    }
    (timers, refusals, needed, suspects, given_up, closed, closing, line).hash(notes);
}
