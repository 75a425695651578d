//! I9: what a turn leaves behind, and when that goes by itself.

use std::collections::BTreeMap;

use testkit::promises::nothing_left;

use super::super::SLACK;
use super::{Found, Lock, Turn, Witness, waits};

/// The most that passes between a script and the look at what it left.
const MOMENT_MS: i64 = 10_000;
const DAY_MS: i64 = 86_400_000;
const HOUR_MS: i64 = 3_600_000;

impl Witness {
    /// No turn leaves an entry without its owner, or a session without a waiter.
    pub(super) fn garbage(&self, turn: &Turn) -> Result<(), String> {
        let after = &turn.outcome.found.lock;
        for id in after.entries.keys() {
            ensure!(after.ticket(id).is_some() || after.holds(id), "the entry of {id} is left");
        }
        for client in after.sessions.keys() {
            ensure!(waits(after, client), "the session of {client} is left");
        }
        ensure!(!after.is_partial(), "{} are counted, and {} wait", after.state.waiting, after.queue.len());
        Ok(())
    }

    /// Every key goes by itself, those of a lock in use not within a day; and an idle lock leaves its state only,
    /// which remembers what must not come again (I3): for a day, or for an hour if the lock was granted once.
    pub(super) fn leftovers(&self, turn: &Turn) -> Result<(), String> {
        let Found { lock, ttls, .. } = &turn.outcome.found;
        let (before, until) = (&self.before, lock.state.ttl_until);
        let longest = |of: &Lock| {
            let longest = of.state.last_end.max(of.state.live_until).max(of.state.recover_until());
            let longest = longest.saturating_sub(lock.state.seen);
            // Stamps that are ahead of the server's clock must not come again when the clock is there.
            let ahead = of.state.stamp as i64 - (of.state.seen as i64 - of.state.skew);
            (longest as i64).max(ahead) / 1000
        };
        let least = longest(lock);
        let most = longest(lock).max(longest(&self.before.lock)) + 3 * (SLACK / 1000) as i64;
        let idle = match (self.grants, self.returned) {
            (Some(2..), _) => DAY_MS..=DAY_MS,
            (Some(_), None) => HOUR_MS..=HOUR_MS,
            _ => HOUR_MS..=DAY_MS,
        };
        if !lock.stands() {
            let named = |(key, ttl): (&&str, &i64)| (format!(":{key}"), *ttl, 1);
            nothing_left(&ttls.iter().map(named).collect::<Vec<_>>()).map_err(|keys| format!("{keys:?} are left"))?;
        }
        let left = (until as i64 - turn.time as i64) / 1000;
        for (key, ttl) in ttls {
            ensure!(*ttl > 0, "{key} has no end");
            // The server keeps time by a clock that the test does not set, so only a new end can be compared.
            let anew = until != before.lock.state.ttl_until || !before.ttls.contains_key(key);
            if anew || turn.full && *key == "lock" {
                ensure!((ttl - left).abs() < MOMENT_MS, "{key} goes after {ttl} ms and not after {left}");
            }
            if lock.stands() {
                ensure!((DAY_MS + least..=DAY_MS + most).contains(&left), "{key} goes after {left} ms");
            } else {
                let expected = (idle.start() + least..=idle.end() + most).contains(&left);
                ensure!(expected, "{key} is left, for {left} ms");
            }
        }
        let expected: BTreeMap<&str, bool> = [("waiters", !lock.queue.is_empty()), ("lock", lock.stands())].into();
        for (key, expected) in expected {
            ensure!(!expected || ttls.contains_key(key), "{key} is missing");
        }
        Ok(())
    }
}
