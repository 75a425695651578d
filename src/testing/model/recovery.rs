//! Data that was lost: what clients bring back, and how long nothing is granted until then.

use std::cmp::Ordering;

use super::turn::Turn;
use super::{DAY, Entry, Lock, Memory, Seat, State};

/// Stamps further ahead of the server's clock are implausible.
const IMPLAUSIBLE: u64 = DAY;

/// What a memory or a seat says of the server's data. The worse counts.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Loss {
    None,
    /// Of the loss for which a recovery is open.
    Known,
    /// All data, and the state was made anew since.
    MadeAnew,
    RolledBack,
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
        self.lock.beats.clear();
        self.lock.entries.clear();
    }

    pub(super) fn recovering(&self) -> bool {
        self.now < self.lock.state.recover_until
    }

    fn loss(&self, epoch: u64, is_beyond: bool) -> Loss {
        let state = &self.lock.state;
        match epoch.cmp(&state.epoch) {
            Ordering::Greater => Loss::RolledBack,
            Ordering::Equal if is_beyond => Loss::RolledBack,
            Ordering::Equal => Loss::None,
            // There is none.
            Ordering::Less if epoch == 0 => Loss::None,
            Ordering::Less if state.recover_until == 0 => Loss::MadeAnew,
            Ordering::Less if self.recovering() => Loss::Known,
            Ordering::Less => Loss::None,
        }
    }

    /// False if what the client brings is too implausible to be believed. `asks`: the lease that it asks for, or what
    /// it has left of one.
    pub(super) fn restore(&mut self, memory: &Memory, seat: &Seat, pace: u64, asks: u64) -> bool {
        let highest = memory.highest().max(seat.highest());
        // What the server gave itself is plausible, even if its clock was set back since.
        if highest > (self.time + IMPLAUSIBLE).max(self.lock.state.stamp) {
            return false;
        }
        let State { stamp, token, .. } = self.lock.state;
        let by_memory = self.loss(memory.epoch, memory.stamp > stamp || memory.token > token);
        let by_seat = self.loss(seat.epoch, seat.ticket > stamp || seat.token > token);
        let loss = if memory.is_strangers() { Loss::None } else { by_memory.max(by_seat) };

        self.lock.state.stamp = stamp.max(highest);
        let left = if memory.token.max(seat.token) + 1 < token { 0 } else { asks.max(memory.longest) };
        if loss >= Loss::MadeAnew {
            self.lock.state.epoch = self.next_stamp();
            let state = &mut self.lock.state;
            state.recover_from = self.now;
            state.recover_pace = state.recover_pace.max(state.pace);
        }
        let state = &mut self.lock.state;
        if loss > Loss::None {
            // A client that returns later may know of slower waiters, or of longer leases.
            state.recover_pace = state.recover_pace.max(memory.pace).max(pace);
            state.longest = state.longest.max(left);
            state.recover_until = state.recover_until.max(state.recover_from + left.max(3 * state.recover_pace));
        }
        if self.recovering() {
            let until = self.lock.state.recover_until;
            self.lock.state.token = token.max(memory.token);
            // A lease that may be older than the last grant. To break a lease takes one token.
            let is_older = |held: &Entry| memory.token > held.token + u64::from(held.broken);
            if loss == Loss::RolledBack || self.lock.held().is_some_and(|(_, _, held)| is_older(&held)) {
                self.lock.lease.iter_mut().for_each(|(_, end)| *end = until.min(*end));
                self.lock.mark_holder(|held| held.cut = true);
            }
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
