//! I1, as the holders saw it: no two of them hold the lock at once.

use super::{
    terms::Terms,
    waits::{History, Hold},
};

impl History {
    pub fn exclusion(&self, terms: &Terms) -> Result<(), String> {
        let mut standing: Vec<Hold<'_>> = Vec::new();
        for hold in self.holds().into_iter().filter(Hold::believed) {
            standing.retain(|before| hold.from < before.to);
            let admitted = |before: &&Hold<'_>| {
                let (older, newer) = if before.token <= hold.token { (*before, &hold) } else { (&hold, *before) };
                self.admits_belief(terms, older, newer)
            };
            if let Some(before) = standing.iter().find(|before| !admitted(before)) {
                return Err(format!("two hold at once: {before} and {hold}"));
            }
            standing.push(hold);
        }
        Ok(())
    }
}
