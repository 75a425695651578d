//! The order of the queue: whose client is alive, and who is granted the lock next.

use super::turn::Turn;
use super::{Entry, State, Terms, client_of};

impl Turn {
    pub(super) fn alive(&self, client: &str) -> bool {
        self.lock.sessions.get(client).is_some_and(|end| *end > self.now)
    }

    pub(super) fn refresh(&mut self, client: &str, terms: &Terms) {
        let end = self.lock.sessions.entry(client.to_owned()).or_default();
        *end = (*end).max(self.now + terms.liveness + terms.buffer);
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
    pub(super) fn grant(&mut self, id: &str, entry: Entry, place: u64, end: u64) -> u64 {
        let token = self.next_stamp();
        let ticket = place.min(token);
        self.lock.remove_waiter(id);
        self.lock.state.token = token;
        self.lock.state.grants += 1;
        self.lock.state.longest = self.lock.state.longest.max(entry.lease);
        let claim = end < self.now + entry.lease;
        self.lock.entries.insert(id.to_owned(), Entry { token, ticket, broken: false, cut: false, claim, ..entry });
        self.lock.lease = Some((id.to_owned(), end));
        token
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
            let entry = self.lock.entries.get(&id).cloned();
            let session = self.lock.sessions.get(client_of(&id)).copied().unwrap_or_default();
            self.lock.remove_waiter(&id);
            if let Some(entry) = entry
                && session > self.now
            {
                let end = (self.now + entry.lease).min(self.now + entry.liveness).min(session);
                let (channel, secret) = (entry.channel.clone(), entry.secret.clone());
                let token = self.grant(&id, entry, ticket, end);
                self.messages.push((channel, format!("grant {id} {token} {ticket} {} {secret}", end - self.now)));
                return false;
            }
        }
        self.again = !self.lock.queue.is_empty();
        !self.again
    }
}
