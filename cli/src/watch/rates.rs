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
    /// The grants of the lock at the last look.
    counted: Option<u64>,
    /// Grants in each step, newest first.
    steps: VecDeque<u64>,
}

impl Rates {
    pub(crate) fn new(now: Instant) -> Self {
        Self { step: now, of: BTreeMap::new() }
    }

    /// The server counts the grants of a lock, and begins anew where it lost its data or forgot an idle lock.
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
            let before = rate.counted.replace(seen.grants).unwrap_or(seen.grants);
            rate.steps[0] += seen.grants.checked_sub(before).unwrap_or(seen.grants);
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
    use fairlock::state::LockState;

    #[test]
    fn grants_are_counted_and_steps_move_on() {
        let start = Instant::now();
        let mut rates = Rates::new(start);
        let mut look = |after: u64, grants: u64| {
            let seen = Seen { state: LockState::default(), token: 1, grants, epoch: 1 };
            rates.take(start + Duration::from_secs(after), &BTreeMap::from([("x".to_owned(), seen)]));
            (rates.steps("x").collect::<Vec<_>>(), rates.a_minute("x"))
        };
        assert_eq!(look(0, 7), (vec![0], 0), "the first look shows no grant");
        assert_eq!(look(1, 7), (vec![0], 0));
        assert_eq!(look(2, 8), (vec![1], 1));
        assert_eq!(look(9, 12), (vec![5], 5));
        assert_eq!(look(31, 13), (vec![1, 0, 0, 5], 6));
        assert_eq!(look(61, 13), (vec![0, 0, 0, 1, 0, 0, 5], 1), "the first are older than a minute");
        assert_eq!(look(62, 2), (vec![2, 0, 0, 1, 0, 0, 5], 3), "the server began anew");
    }
}
