//! What a loss of data excuses, and what not: a client that wanted the lock before it, or had it, remembers, and the first
//! such client that the server hears shows it what it has forgotten. From then on nothing is granted until all had the time
//! to return.

use super::{
    terms::{Admitted, Terms, Trouble, nanos},
    waits::{History, Hold, Wait},
};

impl History {
    /// Whether `older` may believe in its lease although the lock was granted to `newer`.
    pub(super) fn admits_belief(&self, terms: &Terms, older: &Hold<'_>, newer: &Hold<'_>) -> bool {
        let reasons = terms.reasons_to_believe(older.granted, older.to, newer.granted);
        reasons.into_iter().any(|reason| {
            // A stranger can come first, and what the server gives it stands. One who remembers has to wait.
            let too_soon = (reason.from_ns..=reason.from_ns + nanos(terms.liveness)).contains(&newer.granted);
            let divided = terms.there_was(Trouble::Divided, newer.granted);
            reason.trouble != Trouble::LostData || !too_soon || divided || !self.remembers(newer.wait, reason)
        })
    }

    /// Whether the client of this wait knew when it called, or knew ever since, of something that the server has lost: of a
    /// place in the queue, or of a lease. One that has nothing left forgets the lock, and is a stranger again.
    pub(super) fn remembers(&self, wait: &Wait, loss: &Admitted) -> bool {
        self.waits().iter().any(|known| {
            let end = known.released_ns.or(known.lost_ns).or(known.left_ns).or(known.returned_ns).or(known.died_ns);
            known.process == wait.process
                && known.queued_ns.is_some_and(|queued| queued < loss.from_ns)
                && end.is_none_or(|end| end > loss.from_ns.max(wait.called_ns))
        })
    }
}
