//! How often each lock was granted lately.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use fairlock::operator::Seen;

/// One column of a sparkline.
pub(crate) const STEP: Duration = Duration::from_secs(10);
const STEPS: usize = 180;

pub(crate) struct Rates {
    /// The start of the newest step.
    step: Instant,
    of: BTreeMap<String, Rate>,
}

#[derive(Default)]
struct Rate {
    /// The last token that was seen.
    token: Option<u64>,
    /// Grants in each step, newest first.
    steps: VecDeque<u64>,
}

impl Rates {
    pub(crate) fn new(now: Instant) -> Self {
        Self { step: now, of: BTreeMap::new() }
    }

    /// Another token is a grant. Of several grants between two looks one is seen.
    pub(crate) fn take(&mut self, now: Instant, locks: &BTreeMap<String, Seen>) {
        while now.duration_since(self.step) >= STEP {
            self.step += STEP;
            for rate in self.of.values_mut() {
                rate.steps.push_front(0);
                rate.steps.truncate(STEPS);
            }
        }
        self.of.retain(|name, _| locks.contains_key(name));
        for (name, seen) in locks {
            let rate = self.of.entry(name.clone()).or_default();
            if rate.steps.is_empty() {
                rate.steps.push_front(0);
            }
            let granted = rate.token.is_some_and(|token| token != seen.token);
            rate.steps[0] += u64::from(granted);
            rate.token = Some(seen.token);
        }
    }

    /// Grants in each of the last steps, newest first.
    pub(crate) fn steps(&self, name: &str) -> impl Iterator<Item = u64> {
        self.of.get(name).into_iter().flat_map(|rate| rate.steps.iter().copied())
    }

    /// Grants within the last minute.
    pub(crate) fn a_minute(&self, name: &str) -> u64 {
        self.steps(name).take(6).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fairlock::LockState;

    #[test]
    fn another_token_is_a_grant_and_steps_move_on() {
        let start = Instant::now();
        let mut rates = Rates::new(start);
        let mut look = |after: u64, token: u64| {
            let seen = Seen { state: LockState::default(), token, epoch: 1 };
            rates.take(start + Duration::from_secs(after), &BTreeMap::from([("x".to_owned(), seen)]));
            (rates.steps("x").collect::<Vec<_>>(), rates.a_minute("x"))
        };
        assert_eq!(look(0, 7), (vec![0], 0), "the first look shows no grant");
        assert_eq!(look(1, 7), (vec![0], 0));
        assert_eq!(look(2, 8), (vec![1], 1));
        assert_eq!(look(9, 9), (vec![2], 2));
        assert_eq!(look(31, 10), (vec![1, 0, 0, 2], 3));
        assert_eq!(look(61, 10), (vec![0, 0, 0, 1, 0, 0, 2], 1), "the last is older than a minute");
    }
}
