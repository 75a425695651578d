//! I3: fencing tokens strictly rise in the order of the grants.

use std::collections::BTreeMap;

use super::{
    terms::{Terms, Trouble, nanos},
    waits::{History, Hold},
};

impl History {
    /// No fault excuses a token that does not rise, except two servers that grant at once: a store would refuse the
    /// rightful holder, or take the other's writes. But two that hold at once may notice their grants in either order.
    pub fn tokens_rise(&self, terms: &Terms) -> Result<(), String> {
        let holds = self.holds();
        let mut seen: BTreeMap<u64, &Hold<'_>> = BTreeMap::new();
        for hold in &holds {
            if let Some(other) = seen.insert(hold.token, hold) {
                return Err(format!("the token did not rise from {other} to {hold}"));
            }
        }
        // A holder that was told at once that its lease is over may have noticed its grant after the next holder did.
        let believed = holds.iter().filter(|hold| hold.believed());
        let of_two = |hold: &Hold<'_>| {
            [Trouble::Divided, Trouble::LostData].iter().all(|&trouble| terms.there_was(trouble, hold.granted))
        };
        let mut highest: Option<&Hold<'_>> = None;
        for hold in believed {
            let Some(before) = highest.filter(|before| hold.token <= before.token) else {
                highest = Some(hold);
                continue;
            };
            // Where data was lost, both may believe, and the older one may have noticed later.
            let in_order = hold.granted < before.wait.called_ns;
            let by_two = of_two(before) && of_two(hold);
            // A jump of the clock ended the older lease while its grant was on its way to a process that was slow: the
            // next holder may even have released the lock again.
            let by_jump = hold.from < before.to + nanos(terms.lateness) && self.jumped(terms, hold, before);
            if !in_order && !by_two && !by_jump {
                return Err(format!("the token did not rise from {before} to {hold}"));
            }
        }
        Ok(())
    }
}
