//! Deadlines of machines and routes: one per key, the earliest first.

use std::collections::{BTreeMap, BTreeSet};

use crate::clock::Time;

#[derive(Debug, Clone, Hash)]
pub(super) struct Timers<K> {
    order: BTreeSet<(Time, K)>,
    at: BTreeMap<K, Time>,
}

impl<K: Ord + Clone> Timers<K> {
    pub(super) fn new() -> Self {
        Self { order: BTreeSet::new(), at: BTreeMap::new() }
    }

    pub(super) fn set(&mut self, key: K, time: Time) {
        self.clear(&key);
        self.at.insert(key.clone(), time);
        self.order.insert((time, key));
    }

    /// Sets the time of this key, unless it has an earlier one.
    pub(super) fn set_once(&mut self, key: K, time: Time) {
        if !self.contains(&key) {
            self.set(key, time);
        }
    }

    /// Brings the time of this key forward, if it has one and that is later.
    pub(super) fn set_earlier(&mut self, key: K, time: Time) {
        if let Some(set) = self.at.get(&key) {
            self.set(key, time.min(*set));
        }
    }

    pub(super) fn contains(&self, key: &K) -> bool {
        self.at.contains_key(key)
    }

    pub(super) fn clear(&mut self, key: &K) {
        if let Some(time) = self.at.remove(key) {
            self.order.remove(&(time, key.clone()));
        }
    }

    pub(super) fn next(&self) -> Option<Time> {
        self.order.first().map(|&(time, _)| time)
    }

    /// The first key that is due.
    pub(super) fn pop(&mut self, now: Time) -> Option<K> {
        if self.next()? > now {
            return None;
        }
        let (_, key) = self.order.pop_first()?;
        self.at.remove(&key);
        Some(key)
    }
}
