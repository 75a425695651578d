//! Leases of the direct connection (`direct/`), as the keeper takes them over.

use super::direct::{Broke, Handover, Trouble};
use super::machine::{Command, DirectLease, Id, LeaseState};
use super::{Keeper, LOOK, lock, routes};
use crate::clock::Time;

impl Keeper {
    /// Looks for a lease that lasts and for a request without an answer, and closes a connection that nobody uses.
    pub(super) fn look_at_direct(&mut self, now: Time) {
        self.direct.give_up(now);
        self.wakers.look();
        self.direct.lasting(now).into_iter().for_each(|handover| self.adopt(handover));
        if let Some(line) = self.direct.idle() {
            self.routes.handle(now, routes::Event::DirectEnded { line, broke: None });
        }
        self.look_at_direct = self.direct.is_in_use().then(|| now + LOOK);
    }

    /// Takes over the lease of the direct connection, if it is of this kind.
    pub(super) fn take_over(&mut self, which: impl FnOnce(&DirectLease) -> bool) {
        self.direct.take_over(which).into_iter().for_each(|handover| self.adopt(handover));
    }

    /// The same for a lease whose release is the next thing that the machine hears of it.
    pub(super) fn take_over_released(&mut self, id: Id) {
        if let Some(mut handover) = self.direct.take_over(|lease| lease.id == id) {
            let state = &mut handover.lease.state;
            *state = (*state).max(LeaseState::Released);
            self.adopt(handover);
        }
    }

    fn adopt(&mut self, Handover { lease, shared }: Handover) {
        lock(&self.leases).insert(shared.id, shared.clone());
        self.command(shared.spec.name().clone(), Command::Adopt(lease));
    }

    pub(super) fn trouble(&mut self, trouble: Trouble) {
        match trouble {
            Trouble::Unheard => {}
            Trouble::Missed => self.routes.handle(Time::now(), routes::Event::DirectWanted),
            Trouble::Disturbed => self.take_over(|_| true),
            Trouble::Unclear { of, unlikely } => {
                self.command(of.spec.name().clone(), Command::GiveBack { of, unlikely });
            }
            Trouble::Broke(Broke { line, cause }) => {
                self.routes.handle(Time::now(), routes::Event::DirectEnded { line, broke: Some(cause) });
                // Machines hear that nothing is connected before they ask again.
                self.follow();
            }
        }
    }
}
