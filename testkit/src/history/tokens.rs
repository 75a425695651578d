//! I3: fencing tokens strictly rise in the order of the grants.

use std::collections::BTreeMap;

use super::{
    terms::{Terms, Trouble, nanos},
    waits::{History, Hold},
};
use fairlock::__hooks::promises::token_rises;

impl History {
    /// No fault excuses a token that does not rise, except two servers that grant at once, or a claim that a rolled-back
    /// server knows of again: a store would refuse the rightful holder, or take the other's writes. But two that hold
    /// at once may notice their grants in either order.
    pub fn tokens_rise(&self, terms: &Terms) -> Result<(), String> {
        let holds = self.holds();
        let mut seen: BTreeMap<u64, &Hold<'_>> = BTreeMap::new();
        for hold in &holds {
            if let Some(other) = seen.insert(hold.token, hold) {
                return rises(other, hold);
            }
        }
        // A holder that was told at once that its lease is over may have noticed its grant after the next holder did.
        let believed: Vec<&Hold<'_>> = holds.iter().filter(|hold| hold.believed()).collect();
        let mut rise = Rise::default();
        for (number, hold) in believed.iter().enumerate() {
            let noticed = believed[..number].partition_point(|before| before.from < hold.wait.called_ns);
            let before = [rise.before(hold), noticed.checked_sub(1).map(|last| rise.highest[last])];
            for before in before.into_iter().flatten() {
                rises(before, hold)
                    .or_else(|no| if self.may_be_lower(terms, hold, before) { Ok(()) } else { Err(no) })?;
            }
            rise.add(hold);
        }
        Ok(())
    }

    /// Whether this hold's token may be lower than that of one that was noticed before.
    fn may_be_lower(&self, terms: &Terms, hold: &Hold<'_>, before: &Hold<'_>) -> bool {
        let of_two = |hold: &Hold<'_>| {
            [Trouble::Divided, Trouble::LostData].iter().all(|&trouble| terms.there_was(trouble, hold.granted))
        };
        // Where data was lost, both may believe, and the older one may have noticed later.
        let in_order = hold.granted < before.wait.called_ns;
        let by_two = of_two(before) && of_two(hold);
        // A jump of the clock ended the older lease while its grant was on its way to a process that was slow: the
        // next holder may even have released the lock again.
        let by_jump = hold.from < before.to + nanos(terms.lateness) && self.jumped(terms, hold, before);
        let by_claim = self.has_its_claim_again(terms, hold, before);
        in_order || by_two || by_jump || by_claim
    }
}

fn rises(before: &Hold<'_>, after: &Hold<'_>) -> Result<(), String> {
    token_rises((before.token, before), (after.token, after))
}

/// The highest tokens until now. Two that can hold at once may notice their grants in either order; but not one that
/// called when the other had noticed.
#[derive(Default)]
struct Rise<'a> {
    /// Of each number of holds, in the order in which they were noticed.
    highest: Vec<&'a Hold<'a>>,
    in_slot: BTreeMap<u32, &'a Hold<'a>>,
    alone: Option<&'a Hold<'a>>,
}

impl<'a> Rise<'a> {
    /// The one with the highest token of those that cannot hold together with this one.
    fn before(&self, hold: &Hold<'_>) -> Option<&'a Hold<'a>> {
        if hold.wait.most == 1 {
            return self.highest.last().copied();
        }
        self.in_slot.get(&hold.wait.slot).copied().into_iter().chain(self.alone).max_by_key(|before| before.token)
    }

    fn add(&mut self, hold: &'a Hold<'a>) {
        let higher = |before: Option<&'a Hold<'a>>| before.filter(|before| before.token > hold.token).unwrap_or(hold);
        self.highest.push(higher(self.highest.last().copied()));
        self.in_slot.insert(hold.wait.slot, higher(self.in_slot.get(&hold.wait.slot).copied()));
        if hold.wait.most == 1 {
            self.alone = Some(higher(self.alone));
        }
    }
}
