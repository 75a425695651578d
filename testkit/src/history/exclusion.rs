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
            self.beside(terms, &standing, &hold, hold.from)?;
            standing.push(hold);
        }
        Ok(())
    }
}
