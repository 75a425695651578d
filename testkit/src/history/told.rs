//! I4: a holder is told that its lease is over before the server grants the lock to another.
//!
//! Exclusion compares what two processes noticed, and the second process notices its grant some time after the server
//! made it. Here the server's own time of the grant counts: it is the token.

use super::{
    terms::Terms,
    waits::{History, Hold},
};

impl History {
    pub fn told_before_taken(&self, terms: &Terms) -> Result<(), String> {
        let mut grants = self.holds();
        grants.sort_by_key(|hold| hold.token);
        if grants.len() > 1 && self.clock.is_empty() {
            return Err("the history does not tell the server's clock".into());
        }
        // When the earliest grant from each one on was, by the clock: a holder that knew by then has no part in them.
        let mut earliest: Vec<u64> = grants.iter().map(|hold| hold.granted).collect();
        for at in (1..earliest.len()).rev() {
            earliest[at - 1] = earliest[at - 1].min(earliest[at]);
        }
        let mut standing: Vec<Hold<'_>> = Vec::new();
        for (next, earliest) in grants.into_iter().zip(earliest) {
            standing.retain(|hold| earliest < hold.to);
            let believes = |hold: &Hold<'_>| next.granted < hold.to;
            let its = next.holder(next.granted);
            let taken = |hold: &Hold<'_>| believes(hold) && hold.holder(next.granted).excludes(&its);
            if let Some(hold) = standing.iter().find(|hold| taken(hold) && !self.admits_belief(terms, hold, &next)) {
                let late = (hold.to - next.granted) as f64 / 1e6;
                return Err(format!("{hold} believed in its lease {late:.3} ms after it was granted to {next}"));
            }
            // From here on the excuse is that of its belief, whoever comes next.
            standing.retain(|hold| !taken(hold));
            let believing: Vec<Hold<'_>> = standing.iter().filter(|hold| believes(hold)).copied().collect();
            self.beside(terms, &believing, &next, next.granted)?;
            if next.believed() {
                standing.push(next);
            }
        }
        Ok(())
    }
}
