//! I2 and I7: no waiter is granted the lock while a waiter with a lower ticket is in the queue, whatever has happened
//! since that ticket was given.

use super::{
    terms::{Terms, Trouble, nanos},
    waits::{History, Hold, Wait},
};
use fairlock::__hooks::promises;

impl History {
    /// The order of grants is that of the tokens, which the server gave, not the order in which the processes noticed.
    /// A grant by a try has no ticket; the queue is empty then.
    pub fn order(&self, terms: &Terms) -> Result<(), String> {
        for hold in self.holds() {
            let Some(ticket) = hold.wait.ticket else { continue };
            if terms.there_was(Trouble::Divided, hold.granted) {
                continue;
            }
            let counts = |other: &&Wait| {
                let not_before = other.token.is_none_or(|its| its > hold.token);
                let waiting = other.gone().is_none_or(|gone| hold.granted < gone);
                // The most expensive look-up comes last, since a long history has many pairs.
                not_before
                    && waiting
                    && !other.was_away(terms, hold.granted)
                    && !other.may_have_held(terms, &hold)
                    && !self.admits_overtaking(terms, other, &hold)
            };
            let queue = self.waits().iter().filter_map(|other| Some((other.ticket?, other)));
            promises::order(hold, ticket, queue, counts)?;
        }
        Ok(())
    }

    /// At a server that has lost its data a stranger can be granted the lock before any earlier client is back: a
    /// process that had nothing left of the lock when the data was lost, and that came so soon that no client had to be
    /// back.
    ///
    /// A waiter that the server refused or did not hear for the rest of the recovery could not return in time either.
    fn admits_overtaking(&self, terms: &Terms, overtaken: &Wait, by: &Hold<'_>) -> bool {
        let liveness = nanos(terms.liveness);
        terms.losses().filter(|loss| overtaken.called_ns <= loss.to_ns && loss.from_ns <= by.granted).any(|loss| {
            let soon = by.granted <= loss.to_ns + liveness;
            let open_until = loss.to_ns + terms.recovery();
            let kept_away = terms.silences().any(|silence| {
                let after = silence.to_ns > loss.to_ns && silence.from_ns <= open_until;
                after && by.granted <= silence.to_ns.max(open_until) + liveness
            });
            kept_away || soon && !self.remembers(by.wait, loss)
        })
    }
}

impl Wait {
    /// Whether it may have been granted the lock before this one, which holds it too, and not have heard of that: a
    /// heartbeat later it would have. By then it was gone, or its claim was: it ends while its process stands still, and
    /// with the server's data. Then the waiter has its place again, and is granted the lock later.
    fn may_have_held(&self, terms: &Terms, beside: &Hold<'_>) -> bool {
        let before_it_heard = |at: u64| at <= terms.heard_by(beside.granted);
        let gone = || self.token.is_none() && self.gone().is_some_and(before_it_heard);
        let stood_still = || self.pauses.iter().any(|&(from, _)| beside.granted <= from && before_it_heard(from));
        let lost = || terms.losses().any(|loss| beside.granted <= loss.to_ns && before_it_heard(loss.from_ns));
        self.most > 1 && beside.wait.most > 1 && (gone() || stood_still() || lost())
    }

    /// Whether its process was paused then, or until just before, for so long that it may have lost its place: it
    /// returns to its place as soon as the server hears of it.
    fn was_away(&self, terms: &Terms, at: u64) -> bool {
        self.pauses.iter().any(|&(from, resumed)| {
            let back = terms.heard_by(resumed);
            (from..=back).contains(&at)
        })
    }
}
