//! What tests see of a machine.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::lease::Lease;
use super::lock::LockMachine;
use super::unsent::Turn;
use super::waiter::{Phase, Waiter};
use super::{Id, Machine};
use crate::clock::Time;
use crate::protocol::Token;

impl Machine {
    pub(in crate::keeper) fn patience(&self) -> Duration {
        self.core.patience()
    }

    pub(in crate::keeper) fn lease(&self, id: Id) -> Option<&Lease> {
        self.locks.values().find_map(|lock| lock.leases.get(&id))
    }

    /// The token under which this waiter confirms its grant, or this lease is held.
    pub(in crate::keeper) fn token_of(&self, id: Id) -> Option<Token> {
        let confirmed = |waiter: &Waiter| match waiter.phase {
            Phase::Confirming { token } => Some(token),
            _ => None,
        };
        let waiting = || self.locks.values().find_map(|lock| lock.waiters.get(&id).and_then(confirmed));
        self.lease(id).map(|lease| lease.token).or_else(waiting)
    }

    pub(in crate::keeper) fn releases(&self) -> impl Iterator<Item = Id> {
        self.locks.values().flat_map(|lock| lock.releases.keys().copied())
    }

    /// The stamp of what this client knows of each lock.
    pub(in crate::keeper) fn highest_stamps(&self, now: Time) -> BTreeMap<Arc<str>, u64> {
        let known = |lock: &LockMachine| lock.known.stamp.filter(|_| !lock.slept(now));
        let highest = |lock: &LockMachine| known(lock).map_or(0, |stamp| stamp.get());
        self.locks.iter().map(|(name, lock)| (name.clone(), highest(lock))).collect()
    }

    /// The counts and indices over all locks agree with the locks.
    pub(in crate::keeper) fn adds_up(&self) -> Result<(), String> {
        let members: usize = self.locks.values().map(|lock| lock.waiters.len() + lock.leases.len()).sum();
        if members != self.core.members {
            return Err(format!("{} members are counted, there are {members}", self.core.members));
        }
        let ids = |lock: &LockMachine| {
            let ids: Vec<Id> =
                lock.waiters.keys().chain(lock.leases.keys()).chain(lock.releases.keys()).copied().collect();
            ids
        };
        let found: BTreeMap<Id, Arc<str>> =
            self.locks.iter().flat_map(|(name, lock)| ids(lock).into_iter().map(|id| (id, name.clone()))).collect();
        if found != self.core.locks_of {
            return Err(format!("ids are looked up in {:?}, and are in {found:?}", self.core.locks_of));
        }
        let turns: BTreeSet<Turn> =
            self.locks.values().flat_map(|lock| lock.waiters.values().filter_map(|waiter| waiter.turn)).collect();
        if turns.iter().ne(self.core.unsent.acquires.iter()) {
            return Err(format!("{turns:?} wait for room, and {:?} are to be sent", self.core.unsent.acquires));
        }
        match self.locks.values().find(|lock| lock.is_empty()) {
            Some(lock) => Err(format!("{} is remembered for nothing", lock.name())),
            None => Ok(()),
        }
    }
}
