//! What a client knows of locks where it has nothing any more. It keeps that for as long as the server says, so that it is
//! no stranger if it comes back after a loss of data. To forget sooner is always safe.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::lock::LockMachine;
use crate::clock::Time;
use crate::protocol::Knowledge;

/// A client that uses a million locks, one after the other, keeps what it knows of the latest.
const MOST: usize = 10_000;

#[derive(Debug, Clone, Default, Hash)]
pub(in crate::keeper) struct KnowledgeCache {
    known: BTreeMap<Arc<str>, (Knowledge, Time)>,
    ends: BTreeSet<(Time, Arc<str>)>,
}

impl KnowledgeCache {
    /// The client has nothing at this lock any more.
    pub(super) fn keep(&mut self, lock: &LockMachine) {
        let until = lock.known.heard + lock.keep;
        if lock.known.is_strangers() {
            return;
        }
        self.known.insert(lock.name().clone(), (lock.known, until));
        self.ends.insert((until, lock.name().clone()));
        if self.known.len() > MOST
            && let Some((_, first)) = self.ends.pop_first()
        {
            self.known.remove(&first);
        }
    }

    /// The client comes back.
    pub(super) fn take(&mut self, now: Time, name: &Arc<str>) -> Knowledge {
        let Some((known, until)) = self.known.remove(name) else { return Knowledge::default() };
        self.ends.remove(&(until, name.clone()));
        if now < until { known } else { Knowledge::default() }
    }

    #[cfg(test)]
    pub(in crate::keeper) fn locks(&self) -> impl Iterator<Item = (&Arc<str>, &Knowledge, Time)> {
        self.known.iter().map(|(name, (known, until))| (name, known, *until))
    }
}
