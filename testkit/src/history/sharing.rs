//! Several holders: while a lease lasts, at most its number hold the lock together, each in a slot of its own, and
//! nothing but a downgrade of its holder raises the number.

use std::collections::BTreeMap;

use super::{
    terms::Terms,
    waits::{History, Hold, Wait},
};
use fairlock::__hooks::promises::{self, Holder};

impl Hold<'_> {
    /// What it is at that moment.
    pub(super) fn holder(&self, at: u64) -> Holder<&Self> {
        Holder { who: self, slot: self.wait.slot, most: self.most(at) }
    }

    /// How many may hold together at that moment, itself among them.
    pub(super) fn most(&self, at: u64) -> u32 {
        let lets_in = self.wait.downgrades.filter(|&(from, _)| from <= at);
        lets_in.map_or(self.wait.most, |(_, most)| most)
    }
}

impl History {
    /// Whether `newer` may hold at that moment beside these. One that may believe in a lease which the server gave to
    /// another gives way.
    pub(super) fn beside(&self, terms: &Terms, standing: &[Hold<'_>], newer: &Hold<'_>, at: u64) -> Result<(), String> {
        let gives_way =
            |hold: &&Hold<'_>, other: &&Hold<'_>| hold.token <= other.token && self.admits_belief(terms, hold, other);
        let standing: Vec<_> = standing.iter().map(|hold| hold.holder(at)).collect();
        promises::exclusion(&standing, &newer.holder(at), gives_way)
    }

    /// The server shows each lease in the slot in which it was granted, and with no higher number than its holder wants.
    pub fn raised_by_downgrades_alone(&self) -> Result<(), String> {
        let granted = |wait: &'_ Wait| wait.token.is_some();
        let by_token: BTreeMap<Option<u64>, &Wait> =
            self.waits().iter().filter(|wait| granted(wait)).map(|wait| (wait.token, wait)).collect();
        for &(at, token, slot, most) in &self.seen {
            let Some(wait) = by_token.get(&Some(token)) else { continue };
            let Wait { waiter, slot: own, .. } = wait;
            if slot != *own {
                return Err(format!("{waiter} was granted slot {own}, and the server showed it in slot {slot}"));
            }
            let downgraded = wait.downgrades.filter(|&(from, _)| from <= at).map(|(_, most)| most);
            let allowed = wait.most.max(downgraded.unwrap_or_default());
            if most > allowed {
                return Err(format!("{waiter} allows {allowed}, and the server showed {most} for it"));
            }
        }
        Ok(())
    }

    /// The most that held the lock together.
    pub fn most_at_once(&self) -> usize {
        let mut standing: Vec<Hold<'_>> = Vec::new();
        let holds = self.holds().into_iter().filter(Hold::believed).map(|hold| {
            standing.retain(|before| hold.from < before.to);
            standing.push(hold);
            standing.len()
        });
        holds.max().unwrap_or_default()
    }
}
