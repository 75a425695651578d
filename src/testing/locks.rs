//! All that the service stores, and its clock.

use std::collections::BTreeMap;
use std::time::{Duration, Instant, SystemTime};

use super::model::{Answer, Entry, Lock, Message, Request, channel, client_of};

/// How many dead waiters one request looks at, as in `lua/lib/plan.lua`.
const BATCH: usize = 100;
/// The latest time to which the clock is set, in µs: the year 2112. What follows it stays below 2^53.
const LATEST: u64 = 1 << 52;

pub(super) struct Locks {
    /// By their keys.
    locks: BTreeMap<String, Lock>,
    started: Instant,
    /// What the clock would have shown at the start, after all steps, in µs.
    since: u64,
}

impl Locks {
    pub(super) fn new() -> Self {
        let since = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
        Self { locks: BTreeMap::new(), started: Instant::now(), since: since.as_micros() as u64 }
    }

    fn time(&self) -> u64 {
        self.since + self.started.elapsed().as_micros() as u64
    }

    /// Does what a script does.
    pub(super) fn turn(&mut self, key: &str, request: &Request, about: Entry) -> (Answer, Vec<Message>) {
        let time = self.time();
        // No lock is ever forgotten: the clients, whose clocks are not set forward, would take that for a loss of data.
        let mut lock = self.locks.remove(key).unwrap_or_default();
        let told = lock.turn(time, request, about, BATCH, key);
        if lock != Lock::default() {
            self.locks.insert(key.to_owned(), lock);
        }
        told
    }

    pub(super) fn lose(&mut self) {
        self.locks.clear();
    }

    /// Ends the leases of the locks with this name, one for each prefix.
    pub(super) fn break_lease(&mut self, name: &str) -> (bool, Vec<Message>) {
        let (mut broke, mut messages) = (false, Vec::new());
        let tokens = |lock: &Lock| lock.leases.iter().map(|lease| lease.token).collect::<Vec<_>>();
        let named = |key: &str| key.split_once(":{").is_some_and(|(_, rest)| rest.strip_suffix("}:lock") == Some(name));
        let found = self.locks.iter().filter(|(key, _)| named(key));
        let found: Vec<_> =
            found.flat_map(|(key, lock)| tokens(lock).into_iter().map(|token| (key.clone(), token))).collect();
        for (key, token) in found {
            let (answer, told) = self.turn(&key, &Request::Break { token, force: true }, Entry::default());
            broke |= answer.word == "ended";
            messages.extend(told);
        }
        (broke, messages)
    }

    /// Moves the clock, as if all clients that are connected had sent their heartbeats meanwhile, and no holder a
    /// renewal.
    pub(super) fn advance(&mut self, by: Duration, hears: impl Fn(&str) -> bool) -> Vec<Message> {
        let by = u64::try_from(by.as_micros()).unwrap_or(u64::MAX).min(LATEST.saturating_sub(self.time()));
        self.since += by;
        for (key, Lock { sessions, entries, state, .. }) in &mut self.locks {
            // The last of these heartbeats came just now, so there was no silence.
            state.seen += by;
            state.live_until += by;
            state.pace_turn += by;
            for (client, end) in sessions {
                let heard = |(id, entry): (&String, &Entry)| hears(&channel(key, id, &entry.hash_tag));
                if entries.iter().any(|of| client_of(of.0) == client && heard(of)) {
                    *end += by;
                }
            }
        }
        let keys: Vec<String> = self.locks.keys().cloned().collect();
        // A request that is about no lease: it ends what is over, and grants what is free.
        let look = Request::Break { token: 0, force: false };
        keys.iter().flat_map(|key| self.turn(key, &look, Entry::default()).1).collect()
    }
}
