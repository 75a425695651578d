//! I1, as the holders saw it: no two of them hold the lock at once that cannot, nor more than one of them allows.

use super::{
    terms::Terms,
    waits::{History, Hold},
};
use crate::promises::both;

impl History {
    pub fn exclusion(&self, terms: &Terms) -> Result<(), String> {
        let mut standing: Vec<Hold<'_>> = Vec::new();
        for hold in self.holds().into_iter().filter(Hold::believed) {
            standing.retain(|before| hold.from < before.to);
            let admitted = |before: &Hold<'_>| {
                let (older, newer) = if before.token <= hold.token { (before, &hold) } else { (&hold, before) };
                self.admits_belief(terms, older, newer)
            };
            let its = hold.holder(hold.from);
            let mut excluded = standing.iter().filter(|before| before.holder(hold.from).excludes(&its));
            if let Some(before) = excluded.find(|before| !admitted(before)) {
                return Err(both(&before.holder(hold.from), &its));
            }
            self.no_crowd(terms, &standing, &hold, hold.from)?;
            standing.push(hold);
        }
        Ok(())
    }
}
