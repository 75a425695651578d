//! I2 and I7: nobody is granted while somebody with a lower ticket stands in the queue, also when much has happened since it
//! got that ticket.

use super::{
    terms::{Terms, Trouble, nanos},
    waits::{History, Hold, Wait},
};

impl History {
    /// Who was granted first is told by the tokens, which the server gave, not by when the processes noticed. Who was
    /// granted by a try has no ticket, and there the queue is empty.
    pub fn order(&self, terms: &Terms) -> Result<(), String> {
        for hold in self.holds() {
            let Some(ticket) = hold.wait.ticket else { continue };
            if terms.there_was(Trouble::Divided, hold.granted) {
                continue;
            }
            let overtaken = self.waits().iter().find(|other| {
                let lower = other.ticket.is_some_and(|its| its < ticket);
                let not_before = other.token.is_none_or(|its| its > hold.token);
                let waiting = other.gone().is_none_or(|gone| hold.granted < gone);
                lower && not_before && waiting && !self.admits_overtaking(terms, other, &hold)
            });
            if let Some(other) = overtaken {
                let its = other.ticket.unwrap_or_default();
                return Err(format!(
                    "{} (ticket {its}) waited when {hold} was granted with ticket {ticket}",
                    other.waiter
                ));
            }
        }
        Ok(())
    }

    /// At a server that has lost its data a stranger can be granted before anybody who was there before is back: one whose
    /// process had nothing left of what it wanted of the lock when the data was lost, and so soon that nobody had to be back.
    fn admits_overtaking(&self, terms: &Terms, overtaken: &Wait, by: &Hold<'_>) -> bool {
        terms.losses().any(|loss| {
            let of_before = overtaken.called_ns <= loss.to_ns;
            let soon = (loss.from_ns..=loss.to_ns + nanos(terms.liveness)).contains(&by.granted);
            of_before && soon && !self.remembers(by.wait, loss)
        })
    }
}
