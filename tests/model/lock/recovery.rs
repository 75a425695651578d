//! Data that was lost: what clients bring back, and how long nothing is granted until then.

use super::turn::Turn;
use super::{DAY, Lock, Memory};

/// Stamps further ahead of the server's clock are absurd.
const ABSURD: u64 = DAY;

/// What a client that returns had been given.
pub(super) enum Brought {
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
            let open = state.recover_until.saturating_sub(self.now);
            let live = state.live_until.saturating_sub(self.now);
            state.recover_for = open.max(3 * state.pace).max(live).max(state.longest);
            state.recover_until = self.now + state.recover_for;
        }
        (state.longest, state.live_until) = (0, 0);
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
        let returns = !rolled_back && !made_anew && (1..state.epoch).contains(&epoch);
        if returns && self.now < state.recover_until && left > state.recover_for {
            // Another client opened the recovery, and knew of shorter leases.
            state.recover_until += left - state.recover_for;
            state.recover_for = left;
        }
        if rolled_back || made_anew {
            let slowest = 3 * pace.max(state.pace);
            self.lock.state.epoch = self.next_stamp();
            let until = self.lock.state.recover_until.max(self.now + liveness.max(slowest).max(left));
            self.lock.state.recover_until = until;
            self.lock.state.recover_for = until - self.now;
            if rolled_back && let Some((_, end)) = &mut self.lock.lease {
                *end = until.min(*end);
                self.lock.mark_holder(|held| held.cut = true);
            }
        }
        true
    }

    /// The recovery ends by then at the latest, or now.
    pub(super) fn end_recovery_by(&mut self, by: u64) {
        let until = self.lock.state.recover_until.min(by.max(self.now));
        self.lock.state.recover_until = until;
        let cut = self.lock.held().is_some_and(|(_, _, held)| held.cut);
        if let Some((_, end)) = self.lock.lease.as_mut().filter(|_| cut) {
            *end = until.min(*end);
            if *end <= self.now {
                self.lock.end_lease();
            }
        }
    }

    pub(super) fn operator_ends_recovery(&mut self) {
        self.end_recovery_by(self.now + 3 * self.lock.state.pace);
        // No client that returns prolongs it.
        self.lock.state.recover_for = 30 * ABSURD;
    }
}
