//! The order of the queue: whose client is alive, and who is granted the lock next.

use super::turn::Turn;
use super::{Entry, State, Terms, client_of};

impl Turn {
    pub(super) fn alive(&self, client: &str) -> bool {
        self.alive_until(client) > self.now
    }

    /// After a long silence, which may have been an outage, a client that was alive before it has another heartbeat.
    fn alive_until(&self, client: &str) -> u64 {
        let State { silent_from, silent_until, .. } = self.lock.state;
        let (Some(&end), Some(&beat)) = (self.lock.sessions.get(client), self.lock.beats.get(client)) else { return 0 };
        let may_miss = end > silent_from && silent_until - silent_from > 2 * beat;
        if may_miss { end.max(silent_until + beat) } else { end }
    }

    pub(super) fn refresh(&mut self, client: &str, terms: &Terms) {
        let end = self.lock.sessions.entry(client.to_owned()).or_default();
        *end = (*end).max(self.now + terms.liveness + terms.buffer);
        self.lock.beats.insert(client.to_owned(), terms.heartbeat);
        let State { pace, pace_until, live_until, .. } = &mut self.lock.state;
        *live_until = (*live_until).max(*end);
        if terms.heartbeat > *pace || self.now >= *pace_until {
            (*pace, *pace_until) = (terms.heartbeat, *end);
        } else if terms.heartbeat == *pace {
            *pace_until = (*pace_until).max(*end);
        }
    }

    /// A client that brings this token, or a lower one, is not restored any more.
    pub(super) fn pass_over(&mut self, token: u64) {
        let state = &mut self.lock.state;
        state.token = state.token.max(token + 1);
        state.stamp = state.stamp.max(state.token);
    }

    /// `place` is its ticket, or the one that it would have.
    pub(super) fn grant(&mut self, id: &str, entry: Entry, place: u64, end: u64, claim: bool) {
        let token = self.next_stamp();
        let ticket = place.min(token);
        self.lock.remove_waiter(id);
        let state = &mut self.lock.state;
        (state.token, state.grants) = (token, state.grants + 1);
        if ticket > state.generation {
            // Whoever came before that is gone.
            (state.longest, state.longest_next, state.generation) = (state.longest_next, 0, token);
        }
        self.asks_for(entry.lease);
        self.lock.entries.insert(id.to_owned(), Entry { token, ticket, broken: false, cut: false, claim, ..entry });
        self.lock.lease = Some((id.to_owned(), end));
    }

    /// A lease of this length may be held.
    pub(super) fn asks_for(&mut self, lease: u64) {
        let State { longest, longest_next, .. } = &mut self.lock.state;
        (*longest, *longest_next) = ((*longest).max(lease), (*longest_next).max(lease));
    }

    /// Takes the dead out of the front of the queue.
    pub(super) fn purge(&mut self) {
        while self.batch > 0
            && let Some((_, id)) = self.lock.queue.first().cloned()
            && !self.alive(client_of(&id))
        {
            self.batch -= 1;
            self.lock.remove_waiter(&id);
        }
        self.again = self.batch == 0 && !self.lock.queue.is_empty();
    }

    /// Grants a free lock to the first live waiter before `limit` (a ticket), and purges the dead before it. True if
    /// nobody there is left to be served first.
    pub(super) fn promote(&mut self, limit: u64) -> bool {
        if self.lock.lease.is_some() || self.recovering() {
            return false;
        }
        for _ in 0..self.batch {
            let Some((ticket, id)) = self.lock.queue.first().cloned() else { return true };
            if ticket >= limit {
                return true;
            }
            let (entry, alive_until) = (self.lock.entries.get(&id).cloned(), self.alive_until(client_of(&id)));
            self.lock.remove_waiter(&id);
            if let Some(entry) = entry
                && alive_until > self.now
            {
                // A claim, that its waiter has a heartbeat's time to confirm.
                let end = (self.now + entry.lease.max(entry.liveness)).min(alive_until);
                self.grant(&id, entry, ticket, end, true);
                self.tell("grant");
                return false;
            }
        }
        self.again = !self.lock.queue.is_empty();
        !self.again
    }
}
