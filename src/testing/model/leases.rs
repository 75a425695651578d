//! The leases that a turn reads.
//!
//! A script reads the leases of the ids that its request names and, where it cannot know enough without them, all. That
//! leaves a trace: the first and the last end of a lease are exact when all leases were read; a turn that read less knows
//! of the others only what was known before.

use std::collections::BTreeSet;

use super::queue::may_be_an_outage;
use super::turn::{Ended, Turn};
use super::{Lease, Lock, Request, Seat, State};

/// By this a script finds the lease of an id among others; of two with one tag it reads both.
fn tag(id: &str) -> [u8; 4] {
    let id = id.as_bytes();
    let [third, fourth, fifth] = id[id.len() - 3..] else { unreachable!("three bytes") };
    [id[0], id[1], third, ((10 * u16::from(fourth) + u16::from(fifth)) % 255 + 1) as u8]
}

impl Lock {
    /// Until when this lease lasts, as it is seen at `now`. After a long silence, which may have been an outage, a claim
    /// that stood before it lasts for another heartbeat.
    pub fn end_of(&self, lease: &Lease, now: u64) -> u64 {
        let State { silent_from, silent_until, .. } = self.state;
        let beat = self.entries.get(&lease.id).map_or(0, |entry| entry.heartbeat);
        let stood = lease.claim && !lease.broken && lease.end <= now && lease.end > silent_from;
        let is_spared = stood && may_be_an_outage(silent_until - silent_from, beat);
        if is_spared { lease.end.max(silent_until + beat) } else { lease.end }
    }
}

impl Turn {
    /// Reads the leases that this request is about, and takes out those that are over.
    pub(super) fn read_leases(&mut self, request: &Request) {
        let named: BTreeSet<_> = request.names().map(tag).collect();
        let all = &self.lock.leases;
        let limit = self.lock.limit();
        let unread = all.iter().filter(|lease| !named.contains(&tag(&lease.id)));
        self.unread = unread.clone().map(|lease| lease.slot).collect();
        let knows_enough = unread.clone().any(|lease| lease.most == limit) && self.lock.state.first_end > self.now;
        if !knows_enough || matches!(request, Request::Break { .. }) || self.may_conflict() {
            self.read_all();
        }
        self.spare_claims();
        let now = self.now;
        self.lapsed = self.lock.leases.extract_if(.., |lease| lease.end <= now).collect();
    }

    /// Whether the lease that the request brings, if it comes back, is not sure to fit beside those that are held.
    pub(super) fn may_conflict(&self) -> bool {
        let Lock { leases, state, .. } = &self.lock;
        let (id, seat) = &self.brings;
        let is_there = || self.lock.lease_of(id).is_some_and(|mine| mine.token == seat.token);
        let fits = || leases.len() < self.lock.limit().min(seat.most).into();
        let is_taken = || leases.iter().any(|lease| lease.slot == seat.slot);
        self.recovering() && seat.token > 0 && seat.epoch < state.epoch && !is_there() && (!fits() || is_taken())
    }

    /// The claims that outlast an outage have a later end in this turn.
    fn spare_claims(&mut self) {
        for index in 0..self.lock.leases.len() {
            let lease = &self.lock.leases[index];
            let end = self.lock.end_of(lease, self.now);
            if end > lease.end {
                self.spared.push(lease.clone());
                self.lock.leases[index].end = end;
            }
        }
    }

    /// What is stored is the end without that, so that one outage is not followed by others.
    pub(super) fn store_claims(&mut self) {
        for was in self.spared.drain(..) {
            let stands = |lease: &&mut Lease| lease.token == was.token && lease.claim && !lease.broken;
            self.lock.leases.iter_mut().filter(stands).for_each(|lease| lease.end = was.end);
        }
    }

    pub(super) fn read_all(&mut self) {
        self.unread.clear();
    }

    /// The leases that were read, or came in this turn.
    pub(super) fn read(&self) -> impl Iterator<Item = &Lease> {
        self.lock.leases.iter().filter(|lease| !self.unread.contains(&lease.slot))
    }

    /// No lease ends before this.
    pub(super) fn first_end(&self) -> Option<u64> {
        let others = (!self.unread.is_empty()).then_some(self.lock.state.first_end);
        self.read().map(|lease| lease.end).chain(others).min()
    }

    /// No lease ends after this. 0: there is none.
    pub(super) fn last_end(&self) -> u64 {
        let others = if self.unread.is_empty() { 0 } else { self.lock.state.last_end };
        self.read().map(|lease| lease.end).fold(others, u64::max)
    }

    /// A new lease takes its slot.
    pub(super) fn put(&mut self, lease: Lease) {
        let at = self.lock.leases.partition_point(|other| other.slot < lease.slot);
        self.lock.leases.insert(at, lease);
    }

    /// Ends the lease of this slot before its time.
    pub(super) fn end_lease(&mut self, slot: u16, how: &'static str) {
        for lease in self.lock.leases.extract_if(.., |lease| lease.slot == slot) {
            self.ended.push(Ended { lease, at: self.time, how });
        }
    }

    /// The leases that are over have ended then, and nobody prolongs them any more.
    pub(super) fn end_lapsed(&mut self, how: &'static str) {
        let (time, now) = (self.time, self.now);
        self.ended.extend(self.lapsed.drain(..).map(|lease| Ended { at: time - (now - lease.end), lease, how }));
    }

    /// In a recovery a lease from before the loss takes its slot again, unless leases that were granted later leave no
    /// room for it. Earlier ones give way. `left`: what its holder's clock leaves of it.
    pub(super) fn bring_back(&mut self, id: &str, seat: &Seat, left: u64, most: u16) -> bool {
        let Seat { ticket, token, slot, .. } = *seat;
        if !self.recovering() || left == 0 || token == 0 || seat.epoch >= self.lock.state.epoch {
            return false;
        }
        if most == 1 && token < self.lock.state.token {
            // It was over when the later one was granted.
            return false;
        }
        if self.lapsed.iter().any(|over| over.id == id && over.token == token && over.broken) {
            return false;
        }
        let mut others = self.lock.leases.clone();
        others.sort_by_key(|other| std::cmp::Reverse(other.token));
        let (mut many, mut least, mut give_way) = (1, most, vec![]);
        for other in &others {
            let fits = other.slot != slot && other.id != id && many < least.min(other.most);
            match fits {
                true => (many, least) = (many + 1, least.min(other.most)),
                false if other.token >= token => return false,
                false => give_way.push(other.slot),
            }
        }
        give_way.into_iter().for_each(|slot| self.end_lease(slot, "lost"));
        self.lock.remove_waiter(id);
        let (id, end) = (id.to_owned(), self.now + left);
        self.put(Lease { slot, id, end, token, ticket, most, claim: false, broken: false });
        let state = &mut self.lock.state;
        state.token = state.token.max(token);
        if most == 1 {
            state.sole = state.sole.max(token);
        }
        true
    }
}
