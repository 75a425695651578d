//! I3: fencing tokens strictly rise in the order of the grants.

use std::collections::BTreeMap;

use super::{
    terms::{Terms, Trouble},
    waits::{History, Hold},
};

impl History {
    /// No fault excuses a token that does not rise, but two servers that grant at once: a store would refuse the rightful holder, or take
    /// the other's writes.
    pub fn tokens_rise(&self, terms: &Terms) -> Result<(), String> {
        let holds = self.holds();
        let mut seen: BTreeMap<u64, &Hold<'_>> = BTreeMap::new();
        for hold in &holds {
            if let Some(other) = seen.insert(hold.token, hold) {
                return Err(format!("the token did not rise from {other} to {hold}"));
            }
        }
        // Who was told at once that its grant is over may have noticed it after the next one did.
        let believed: Vec<&Hold<'_>> = holds.iter().filter(|hold| hold.believed()).collect();
        let by_two = [Trouble::Divided, Trouble::LostData];
        let of_two = |pair: &[&Hold<'_>]| {
            pair.iter().all(|hold| by_two.iter().all(|&trouble| terms.there_was(trouble, hold.granted)))
        };
        match believed.windows(2).find(|pair| pair[1].token <= pair[0].token && !of_two(pair)) {
            Some(pair) => Err(format!("the token did not rise from {} to {}", pair[0], pair[1])),
            None => Ok(()),
        }
    }
}
