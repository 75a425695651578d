//! The order of the queue: whose client is alive, and who is granted the lock next.

use super::turn::Turn;
use super::{Entry, LONGEST, Lease, MOST, State, Terms, client_of};

/// How many waiters one turn grants the lock by message.
const GRANTS: usize = 16;

/// The asking id, if its request may grant it the lock.
pub(super) struct Contender {
    pub(super) id: String,
    /// Its ticket, or the one that it would have. A try comes after all waiters.
    pub(super) place: u64,
    pub(super) entry: Entry,
    /// When its lease would end.
    pub(super) end: u64,
}

/// Whether a silence was so long that a client may have missed a heartbeat because of it.
pub(super) fn may_be_an_outage(silence: u64, beat: u64) -> bool {
    2 * silence > 3 * beat
}

impl Turn {
    pub(super) fn alive(&self, client: &str) -> bool {
        self.alive_until(client) > self.now
    }

    /// After a long silence, which may have been an outage, a client that was alive before it has another heartbeat.
    fn alive_until(&self, client: &str) -> u64 {
        let State { silent_from, silent_until, .. } = self.lock.state;
        let (Some(&end), Some(&beat)) = (self.lock.sessions.get(client), self.lock.beats.get(client)) else { return 0 };
        let may_miss = end > silent_from && may_be_an_outage(silent_until - silent_from, beat);
        if may_miss { end.max(silent_until + beat) } else { end }
    }

    pub(super) fn refresh(&mut self, client: &str, terms: &Terms) {
        let end = self.lock.sessions.entry(client.to_owned()).or_default();
        *end = (*end).max(self.now + terms.liveness + terms.buffer);
        self.lock.beats.insert(client.to_owned(), terms.heartbeat);
        let State { pace, pace_next, pace_turn, live_until, .. } = &mut self.lock.state;
        *live_until = (*live_until).max(*end);
        // The sessions of the window before are over, also those that outlast a silence.
        if self.now >= *pace_turn + 3 * *pace {
            (*pace, *pace_next, *pace_turn) = (*pace_next, 0, *live_until);
        }
        (*pace, *pace_next) = ((*pace).max(terms.heartbeat), (*pace_next).max(terms.heartbeat));
    }

    /// `place` is its ticket, or the one that it would have.
    fn grant(&mut self, id: &str, entry: Entry, place: u64, end: u64, claim: bool) -> Lease {
        let token = self.next_stamp();
        let ticket = place.min(token);
        self.lock.remove_waiter(id);
        let last_end = self.last_end();
        let state = &mut self.lock.state;
        (state.token, state.grants) = (token, state.grants + 1);
        state.close_recovery();
        if ticket > state.generation {
            // Whoever came before that had its turn. Of the leases that they asked for some may last.
            state.longest = state.longest_next.max(last_end.saturating_sub(self.now));
            (state.longest_next, state.generation) = (0, token);
        }
        self.asks_for(entry.lease);
        let slot = self.lowest_free_slot();
        let (id, most) = (id.to_owned(), entry.most.min(MOST));
        self.lock.entries.insert(id.clone(), entry);
        let lease = Lease { slot, id, end, token, ticket, most, claim, broken: false };
        self.put(lease.clone());
        lease
    }

    fn lowest_free_slot(&self) -> u16 {
        let taken = self.lock.leases.iter().zip(0..).take_while(|(lease, slot)| lease.slot == *slot);
        taken.count() as u16
    }

    /// A lease of this length may be held.
    pub(super) fn asks_for(&mut self, lease: u64) {
        let State { longest, longest_next, .. } = &mut self.lock.state;
        (*longest, *longest_next) = ((*longest).max(lease), (*longest_next).max(lease));
    }

    /// The first live waiter before `place`. The dead before it leave the queue, as far as the batch limit allows.
    pub(super) fn head(&mut self, place: u64) -> Option<(u64, String)> {
        while self.looked < self.batch && !self.lock.queue.is_empty() {
            let (ticket, id) = self.line.get(self.looked).filter(|(ticket, _)| *ticket < place).cloned()?;
            // It may have left in this turn.
            if self.lock.queue.contains(&(ticket, id.clone())) && self.alive(client_of(&id)) {
                return Some((ticket, id));
            }
            self.lock.remove_waiter(&id);
            self.looked += 1;
        }
        self.again = !self.lock.queue.is_empty();
        None
    }

    /// While one more may hold beside those who do, the first live waiter is granted the lowest free slot. One that does
    /// not fit stops all behind it. A contender needs no message. True if it was granted the lock.
    pub(super) fn promote(&mut self, mut contender: Option<Contender>) -> bool {
        let mut is_granted = false;
        while self.lock.leases.len() < self.lock.limit().into() && !self.recovering() {
            let place = contender.as_ref().map_or(u64::MAX, |contender| contender.place);
            let head = self.head(place);
            let fits = |turn: &Turn, entry: &Entry| turn.lock.leases.len() < entry.most.min(MOST).into();
            if let Some((ticket, id)) = head {
                let entry = self.lock.entries.get(&id).cloned().unwrap_or_default();
                if !fits(self, &entry) {
                    break;
                }
                if self.told.len() == GRANTS {
                    self.again = true;
                    break;
                }
                // A claim, that its waiter has a heartbeat's time to confirm.
                let beat = self.lock.beats.get(client_of(&id)).copied().unwrap_or(0);
                let longest = self.now + entry.lease.max(entry.liveness).max(3 * beat).min(LONGEST);
                let end = longest.min(self.alive_until(client_of(&id)));
                let lease = self.grant(&id, entry, ticket, end, true);
                self.tell("grant", &lease);
                is_granted |= contender.take_if(|contender| contender.id == lease.id).is_some();
            } else if let Some(Contender { id, place, entry, end }) = contender.take_if(|_| !self.again)
                && fits(self, &entry)
            {
                let is_short = end < self.now + entry.lease;
                self.grant(&id, entry, place, end, is_short);
                is_granted = true;
            } else {
                break;
            }
        }
        is_granted
    }
}
