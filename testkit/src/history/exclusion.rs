//! I1, as the holders saw it: no two of them hold the lock at once that cannot, nor more than one of them allows.

use super::{
    terms::Terms,
    waits::{History, Hold},
};

impl History {
    pub fn exclusion(&self, terms: &Terms) -> Result<(), String> {
        let mut standing: Vec<Hold<'_>> = Vec::new();
        for hold in self.holds().into_iter().filter(Hold::believed) {
            standing.retain(|before| hold.from < before.to);
            let admitted = |before: &Hold<'_>| {
                let (older, newer) = if before.token <= hold.token { (before, &hold) } else { (&hold, before) };
                self.admits_belief(terms, older, newer)
            };
            let both = standing.iter().find(|before| before.excludes(&hold, hold.from) && !admitted(before));
            if let Some(before) = both {
                let alone = before.most(hold.from) == 1 || hold.most(hold.from) == 1;
                let what = if alone { "" } else { " in one slot" };
                return Err(format!("two hold at once{what}: {before} and {hold}"));
            }
            self.no_crowd(terms, &standing, &hold, hold.from)?;
            standing.push(hold);
        }
        Ok(())
    }
}
