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
        // The earliest of the later grants: at the next grant by the clock nobody else may believe in a lease.
        let mut next: Option<Hold<'_>> = None;
        for hold in grants.into_iter().rev() {
            if let Some(next) = next
                && hold.believed()
                && next.granted < hold.to
                && !self.admits_belief(terms, &hold, &next)
            {
                let late = (hold.to - next.granted) as f64 / 1e6;
                return Err(format!("{hold} believed in its lease {late:.3} ms after it was granted to {next}"));
            }
            next = Some(next.filter(|next| next.granted <= hold.granted).unwrap_or(hold));
        }
        Ok(())
    }
}
