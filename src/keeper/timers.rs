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

    /// Sets the time of this key, unless it has one.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_that_is_set_once_stays_and_one_that_is_set_replaces_it() {
        let mut timers = Timers::new();
        timers.set_once("a", Time(5));
        timers.set_once("a", Time(6));
        assert!(timers.contains(&"a") && !timers.contains(&"b"));
        assert_eq!(timers.next(), Some(Time(5)));
        timers.set("a", Time(7));
        assert_eq!(timers.next(), Some(Time(7)));
    }

    #[test]
    fn keys_are_popped_in_the_order_of_their_times_once_they_are_due() {
        let mut timers = Timers::new();
        [("a", 7), ("b", 5), ("c", 6)].into_iter().for_each(|(key, time)| timers.set(key, Time(time)));
        timers.clear(&"c");
        assert_eq!((timers.pop(Time(4)), timers.pop(Time(5)), timers.pop(Time(6))), (None, Some("b"), None));
        assert_eq!((timers.pop(Time(9)), timers.pop(Time(9)), timers.next()), (Some("a"), None, None));
    }
}
