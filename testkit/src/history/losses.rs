//! What a loss of data excuses, and what it does not: a client that wanted the lock before it, or had it, remembers,
//! and the first such client that the server hears shows it what it has forgotten. From then on nothing is granted
//! until all had the time to return, and until the lease is over that was lost.
//!
//! A stranger, which remembers nothing, can be the first that the server hears: then the server grants the lock as if
//! it were new.
//!
//! A loss may reach further back than the moment in which the server falls silent: to the state with which it comes
//! back. That may know of a claim which the lost server took back because the claim's client was away.

use super::{
    terms::{Admitted, Terms, Trouble, nanos},
    waits::{History, Hold, Wait},
};

impl History {
    /// How many leases were lost although, since they were asked for, nothing had befallen their processes or the server:
    /// somebody did not renew them. A machine that is too busy can be the reason, so no judge demands that there is none.
    pub fn lost_for_nothing(&self, terms: &Terms) -> usize {
        let for_nothing = |wait: &&Wait| {
            wait.lost_ns.is_some_and(|lost| {
                let befallen = |from: u64, to: u64| from <= lost && wait.called_ns <= to;
                let paused = wait.pauses.iter().any(|&(from, to)| befallen(from, to));
                !paused && !terms.admitted.iter().any(|fault| befallen(fault.from_ns, fault.to_ns))
            })
        };
        self.waits().iter().filter(for_nothing).count()
    }

    /// Whether `older` may believe in its lease although the lock was granted to `newer`.
    pub(super) fn admits_belief(&self, terms: &Terms, older: &Hold<'_>, newer: &Hold<'_>) -> bool {
        let divided = terms.there_was(Trouble::Divided, newer.granted);
        let explained = self.reasons(terms, older, newer).any(|reason| {
            reason.trouble != Trouble::LostData || divided || self.explains_belief(terms, reason, older, newer)
        });
        explained || self.has_its_claim_again(terms, older, newer)
    }

    /// Whether `older` may have confirmed its claim at a server that came back with the claim and without the grant to
    /// `newer`, which was made while `older` was away. It is told when a client is back that knows of the later grant;
    /// or never, if it lets in others and the later lease is over by then.
    pub(super) fn has_its_claim_again(&self, terms: &Terms, older: &Hold<'_>, newer: &Hold<'_>) -> bool {
        terms.admitted.iter().filter(|admitted| admitted.trouble == Trouble::LostData).any(|loss| {
            let forgotten = (loss.lost_since_ns..=loss.from_ns).contains(&newer.granted);
            let confirmed_after = self.granted_by(older, loss.from_ns) && loss.from_ns <= older.from;
            let deadline = loss.to_ns + terms.lease_ns();
            let ends = older.to <= deadline || older.most(older.to) > 1 && newer.to <= deadline;
            let was_away = || older.wait.was_disturbed(terms, loss.lost_since_ns, newer.granted);
            forgotten && confirmed_after && ends && was_away()
        })
    }

    /// Whether it may because the server's clock jumped.
    pub(super) fn jumped(&self, terms: &Terms, older: &Hold<'_>, newer: &Hold<'_>) -> bool {
        self.reasons(terms, older, newer).any(|reason| reason.trouble == Trouble::Jumped)
    }

    fn reasons<'a>(
        &'a self,
        terms: &'a Terms,
        older: &'a Hold<'_>,
        newer: &Hold<'_>,
    ) -> impl Iterator<Item = &'a Admitted> {
        let granted_by = |at| self.granted_by(older, at);
        let later_over = (older.most(older.to) > 1).then_some(newer.to);
        terms.reasons_to_believe(granted_by, older.to, newer.granted, later_over)
    }

    /// Whether the server may have granted it by that moment.
    fn granted_by(&self, hold: &Hold<'_>, at: u64) -> bool {
        hold.granted <= at || self.clock.may_have_reached(hold.token, at)
    }

    fn explains_belief(&self, terms: &Terms, loss: &Admitted, older: &Hold<'_>, newer: &Hold<'_>) -> bool {
        let within_recovery = (loss.from_ns..=loss.to_ns + nanos(terms.shortest)).contains(&newer.granted);
        if within_recovery {
            // A stranger can come first, and keeps what the server gives it. A client that remembers has to wait.
            return !self.remembers(newer.wait, loss);
        }
        // A holder that was connected all the time has renewed its lease since, unless a stranger kept the loss from
        // being seen.
        older.wait.was_disturbed(terms, loss.from_ns, newer.granted) || self.a_stranger_came_first(terms, loss)
    }

    /// Whether the client of this wait knew, at its call or ever since, of a place in the queue or a lease that the
    /// server has lost. A client that has nothing left forgets the lock and is a stranger again.
    pub(super) fn remembers(&self, wait: &Wait, loss: &Admitted) -> bool {
        self.knew(wait, loss, Wait::told)
    }

    /// Whether a waiter whose client knew of nothing that was lost called in time to be the first that the server
    /// heard.
    fn a_stranger_came_first(&self, terms: &Terms, loss: &Admitted) -> bool {
        let first_by = loss.to_ns + nanos(terms.liveness);
        // Not every wait records when it hears of its ticket, but the ticket itself is the time at which it was given.
        let heard_of_its_place = |known: &Wait| {
            let given = known.ticket.zip(known.waited_until());
            let given = given.and_then(|(ticket, until)| self.clock.latest(ticket, known.called_ns, until));
            let heard = given.map(|given| given + terms.heartbeat());
            heard.into_iter().chain(known.told()).min()
        };
        // The wait was granted the lock at once, unless it left before it heard of that.
        let at_once = |wait: &Wait| match wait.token.zip(wait.granted_ns) {
            Some((token, heard)) => {
                self.clock.latest(token, wait.called_ns, heard).is_none_or(|granted| granted <= first_by)
            }
            None => true,
        };
        let came = |wait: &&Wait| {
            wait.called_ns <= first_by && wait.end().is_none_or(|end| end > loss.from_ns) && at_once(wait)
        };
        self.waits().iter().filter(came).any(|wait| !self.knew(wait, loss, heard_of_its_place))
    }

    fn knew(&self, wait: &Wait, loss: &Admitted, since: impl Fn(&Wait) -> Option<u64>) -> bool {
        self.waits().iter().any(|known| {
            known.process == wait.process
                && known.end().is_none_or(|end| end > loss.from_ns.max(wait.called_ns))
                && since(known).is_some_and(|since| since < loss.from_ns)
        })
    }
}

impl Wait {
    /// The first record of its place or its grant.
    fn told(&self) -> Option<u64> {
        self.queued_ns.into_iter().chain(self.granted_ns).min()
    }

    /// From this moment on its client needs nothing of the lock for this wait.
    pub(crate) fn end(&self) -> Option<u64> {
        self.released_ns.or(self.lost_ns).or(self.left_ns).or(self.returned_ns).or(self.died_ns)
    }

    /// Whether its process or the server was paused meanwhile, or nothing came through between the two.
    fn was_disturbed(&self, terms: &Terms, from: u64, to: u64) -> bool {
        let stopped = self.pauses.iter().any(|&(paused, resumed)| paused <= to && from <= resumed);
        stopped || terms.silences().any(|silence| silence.from_ns <= to && from <= silence.to_ns)
    }
}
