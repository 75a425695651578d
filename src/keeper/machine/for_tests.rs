//! What tests see of a machine.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::core::Core;
use super::line::Turn;
use super::lock::LockMachine;
use super::record::{Lease, Next, Phase, Record, Waiter};
use super::{Id, Machine};
use crate::clock::Time;
use crate::protocol::Token;

impl Machine {
    pub(in crate::keeper) fn patience(&self) -> Duration {
        self.core.patience()
    }

    pub(in crate::keeper) fn lease(&self, id: Id) -> Option<&Lease> {
        self.core.records.get(&id)?.lease()
    }

    /// The token under which this waiter confirms its grant, or this lease is held.
    pub(in crate::keeper) fn token_of(&self, id: Id) -> Option<Token> {
        let confirmed = |waiter: &Waiter| match waiter.phase {
            Phase::Confirming { token } => Some(token),
            _ => None,
        };
        self.lease(id).map(|lease| lease.token).or_else(|| self.core.waiter(id).and_then(confirmed))
    }

    pub(in crate::keeper) fn releases(&self) -> impl Iterator<Item = Id> {
        self.core.records.iter().filter(|(_, record)| record.leaving().is_some()).map(|(id, _)| *id)
    }

    /// The stamp of what this client knows of each lock.
    pub(in crate::keeper) fn highest_stamps(&self, now: Time) -> BTreeMap<Arc<str>, u64> {
        let known = |lock: &LockMachine| lock.known.stamp.filter(|_| !lock.slept(&self.core, now));
        let highest = |lock: &LockMachine| known(lock).map_or(0, |stamp| stamp.get());
        self.locks.iter().map(|(name, lock)| (name.clone(), highest(lock))).collect()
    }

    /// The counts and indices over all records agree with them.
    pub(in crate::keeper) fn adds_up(&self) -> Result<(), String> {
        let Core { records, members, line, now, connected, .. } = &self.core;
        let count = records.values().filter(|record| record.is_member()).count();
        if count != *members {
            return Err(format!("{members} members are counted, there are {count}"));
        }
        let of_locks: BTreeMap<Id, &Arc<str>> =
            self.locks.values().flat_map(|lock| lock.ids.iter().map(|id| (*id, lock.name()))).collect();
        if records
            .iter()
            .map(|(id, record)| (*id, &record.keys.name))
            .ne(of_locks.iter().map(|(id, name)| (*id, *name)))
        {
            return Err(format!("locks have {of_locks:?}, and there are {records:?}"));
        }
        let waits = |record: &Record| *connected && matches!(record.next(*now), Some(Next::Acquire | Next::Leave));
        let turns = records.iter().filter(|(_, record)| waits(record)).map(|(id, record)| record.turn(*id));
        let turns: BTreeSet<Turn> = turns.collect();
        if let Some(turn) = turns.difference(&line.turns).next() {
            return Err(format!("{turn:?} is to be sent, and does not wait for room"));
        }
        let in_line = records.iter().filter(|(_, record)| record.in_line).map(|(id, record)| record.turn(*id));
        let questions = self.questions.keys().map(|question| Turn::Question(*question));
        let all: BTreeSet<Turn> = in_line.chain(questions.filter(|turn| line.turns.contains(turn))).collect();
        if all != line.turns {
            return Err(format!("{:?} wait for room, and {all:?} would", line.turns));
        }
        // Whatever is to be sent at once, and needs no room, was sent.
        let sends = |record: &&Record| *connected && record.next(*now).is_some() && !waits(record);
        if let Some(record) = records.values().find(sends) {
            return Err(format!("{record:?} has something to send"));
        }
        match self.locks.values().find(|lock| lock.is_empty()) {
            Some(lock) => Err(format!("{} is remembered for nothing", lock.name())),
            None => Ok(()),
        }
    }
}
