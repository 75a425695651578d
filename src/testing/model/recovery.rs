//! Data that was lost: what clients bring back, and how long nothing is granted until then.

use std::cmp::Ordering;

use super::turn::Turn;
use super::{DAY, Lock, Memory, Seat, State};

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
        let Lock { queue, state, .. } = &mut self.lock;
        if state.epoch == 0
            && let Some((ticket, _)) = queue.last()
        {
            state.stamp = *ticket;
        }
        queue.clear();
        self.lock.sessions.clear();
        self.lock.beats.clear();
        self.drop_leases();
        self.open_recovery();
        let state = &mut self.lock.state;
        state.wait_places = state.wait_places.max(self.own_pace);
        let last_session = state.live_until.saturating_sub(self.now);
        state.wait_leases = state.wait_leases.max(state.longest).max(last_session);
        if state.recover_until() == self.now {
            // An operator's question knows of nobody for whom the recovery would wait.
            state.recover_from = 0;
        }
        state.live_until = 0;
        (state.pace, state.pace_next, state.pace_turn) = (0, 0, 0);
    }

    /// Nothing is granted in it, and its epoch shows the loss.
    fn open_recovery(&mut self) {
        self.lock.state.epoch = self.next_stamp();
        let state = &mut self.lock.state;
        state.recover_from = self.now;
        state.wait_places = state.wait_places.max(state.pace);
        state.sole = 0;
    }

    /// The leases are from before a loss. Holders that believe in theirs bring them back.
    fn drop_leases(&mut self) {
        self.read_all();
        let slots: Vec<u16> = self.lock.leases.iter().map(|lease| lease.slot).collect();
        slots.into_iter().for_each(|slot| self.end_lease(slot, "lost"));
        self.end_lapsed("lost");
    }

    pub(super) fn recovering(&self) -> bool {
        self.now < self.lock.state.recover_until()
    }

    fn loss(&self, epoch: u64, is_beyond: bool) -> Loss {
        let state = &self.lock.state;
        match epoch.cmp(&state.epoch) {
            Ordering::Greater => Loss::RolledBack,
            Ordering::Equal if is_beyond => Loss::RolledBack,
            Ordering::Equal => Loss::None,
            // There is none.
            Ordering::Less if epoch == 0 => Loss::None,
            Ordering::Less if state.recover_from == 0 => Loss::MadeAnew,
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
        if loss >= Loss::MadeAnew {
            self.open_recovery();
        }
        let state = &mut self.lock.state;
        if loss > Loss::None {
            // A client that returns later may know of slower waiters, of longer leases, or of a later grant.
            let lasts = asks.max(memory.longest);
            state.wait_places = state.wait_places.max(memory.pace).max(pace);
            state.wait_leases = state.wait_leases.max(lasts);
            state.longest = state.longest.max(lasts);
            state.token = token.max(memory.token).max(seat.token);
        }
        if loss == Loss::RolledBack {
            // They may be over, and granted to others since.
            self.drop_leases();
        }
        if self.may_conflict() {
            self.read_all();
        }
        true
    }
}
