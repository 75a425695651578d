//! Data that was lost: what clients bring back, and how long nothing is granted until then.

use super::turn::Turn;
use super::{DAY, Lock, Memory};

/// Stamps further ahead of the server's clock are absurd.
const ABSURD: u64 = DAY;

/// What a client that returns had been given.
pub(super) enum Brought {
    Nothing,
    Ticket(u64),
    Token(u64),
}

impl Turn {
    /// A key is missing: what is left is dropped, and a new epoch tells the clients, which bring back what they know.
    pub(super) fn drop_the_rest(&mut self) {
        let Lock { queue, lease, state, .. } = &mut self.lock;
        let numbers_left = state.epoch > 0;
        if !numbers_left && let Some((ticket, _)) = queue.last() {
            state.stamp = *ticket;
        }
        state.stamp = self.time.max(state.stamp + 1);
        state.epoch = state.stamp;
        if numbers_left {
            state.recover_from = self.now;
            state.recover_pace = state.recover_pace.max(state.pace);
            let needed = self.now + state.longest.max(3 * state.recover_pace);
            state.recover_until = needed.max(state.live_until);
        }
        state.live_until = 0;
        self.lapsed = None;
        *lease = None;
        queue.clear();
        self.lock.sessions.clear();
        self.lock.entries.clear();
    }

    pub(super) fn recovering(&self) -> bool {
        self.now < self.lock.state.recover_until
    }

    /// False if what the client brings is too absurd to be believed.
    pub(super) fn restore(&mut self, brought: Brought, memory: &Memory, liveness: u64) -> bool {
        let Memory { epoch, floor, mut left, last_token, pace } = *memory;
        let (brought, last) = match brought {
            Brought::Nothing => (0, 0),
            Brought::Ticket(ticket) => (ticket, self.lock.state.stamp),
            Brought::Token(token) => (token, self.lock.state.token),
        };
        let highest = epoch.max(brought).max(floor).max(last_token);
        // What the server gave itself is not absurd, even if its clock was set back since.
        if highest > (self.time + ABSURD).max(self.lock.state.stamp) {
            return false;
        }
        let state = &mut self.lock.state;
        let rolled_back = match epoch {
            0 => highest > state.stamp,
            _ if epoch == state.epoch => highest > state.stamp || brought > last,
            _ => epoch > state.epoch,
        };
        let made_anew = (1..state.epoch).contains(&epoch) && state.recover_until == 0;
        state.stamp = state.stamp.max(highest);
        if last_token < state.token {
            // That lease is over: the lock was granted again since.
            left = 0;
        }
        let returns = (1..state.epoch).contains(&epoch) && self.now < state.recover_until;
        let opens = rolled_back || made_anew;
        if opens {
            state.recover_from = self.now;
            state.recover_pace = state.recover_pace.max(state.pace).max(liveness.div_ceil(3));
        }
        if opens || returns {
            // A client that returns later may know of slower waiters, or of longer leases.
            state.recover_pace = state.recover_pace.max(pace);
            state.longest = state.longest.max(left);
            let needed = left.max(3 * state.recover_pace);
            state.recover_until = state.recover_until.max(state.recover_from + needed);
        }
        let until = state.recover_until;
        if opens {
            self.lock.state.epoch = self.next_stamp();
        }
        if rolled_back && let Some((_, end)) = &mut self.lock.lease {
            *end = until.min(*end);
            self.lock.mark_holder(|held| held.cut = true);
        }
        if self.recovering() {
            // A lease that it knows to be older than the last grant is not restored.
            self.lock.state.token = self.lock.state.token.max(last_token);
        }
        true
    }

    /// From now on the recovery waits only for waiters that are returning.
    pub(super) fn end_wait_for_leases(&mut self) {
        let state = &mut self.lock.state;
        if state.recover_from > 0 {
            state.recover_until = self.now.max(state.recover_from + 3 * state.recover_pace);
        }
        let until = state.recover_until;
        if until <= self.now {
            state.recover_pace = 0;
        }
        let cut = self.lock.held().is_some_and(|(_, _, held)| held.cut);
        if let Some((_, end)) = self.lock.lease.as_mut().filter(|_| cut) {
            *end = until.min(*end);
            if *end <= self.now {
                self.lock.end_lease();
            }
        }
    }

    pub(super) fn operator_ends_recovery(&mut self) {
        self.end_wait_for_leases();
        // No client that returns prolongs it.
        self.lock.state.recover_from = 0;
    }
}
