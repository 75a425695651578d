//! Whose requests are next on a connection that has no room for all.
//!
//! The locks of a cluster that share a node share a connection, and each slot has a machine of its own, of which there
//! may be thousands. So the requests without an answer are counted on the connection, and the machines that have more to
//! send take turns: the burst of one lock does not keep the other locks from the server, and a node that hangs only
//! stops those that are there.

use std::collections::{BTreeMap, BTreeSet};

use super::routes::ConnectionId;
use crate::server::Slot;

/// The most requests that a machine sends in one turn.
const TURN: usize = 16;

#[derive(Default)]
pub(super) struct Turns(BTreeMap<ConnectionId, Queue>);

/// The machines that wait for room on one connection.
#[derive(Default)]
struct Queue {
    waiting: BTreeSet<Slot>,
    /// Whose turn was the last.
    last: Slot,
}

impl Turns {
    /// This machine has more to send over this connection.
    pub(super) fn enter(&mut self, connection: ConnectionId, slot: Slot) {
        self.0.entry(connection).or_default().waiting.insert(slot);
    }

    /// Whose turn it is, and how many requests it may send. `room`: how many may be sent over a connection, if there is
    /// one.
    pub(super) fn next(&mut self, room: impl Fn(ConnectionId) -> Option<usize>) -> Option<(Slot, usize)> {
        self.0.retain(|connection, queue| room(*connection).is_some() && !queue.waiting.is_empty());
        self.0.iter_mut().find_map(|(connection, queue)| {
            let room = room(*connection).filter(|room| *room > 0)?;
            let slot = *queue.waiting.range(queue.last + 1..).next().or(queue.waiting.first())?;
            queue.waiting.remove(&slot);
            queue.last = slot;
            Some((slot, room.min(TURN)))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machines_of_a_connection_take_turns() {
        let mut turns = Turns::default();
        [7, 3, 5].into_iter().for_each(|slot| turns.enter(ConnectionId(1), slot));
        let mut order = Vec::new();
        for _ in 0..7 {
            let (slot, room) = turns.next(|_| Some(1000)).unwrap_or_default();
            order.push(slot);
            assert_eq!(room, TURN);
            turns.enter(ConnectionId(1), slot);
        }
        assert_eq!(order, [3, 5, 7, 3, 5, 7, 3]);
    }

    #[test]
    fn a_full_connection_stops_its_own_machines_only() {
        let mut turns = Turns::default();
        turns.enter(ConnectionId(1), 3);
        turns.enter(ConnectionId(2), 5);
        let room = |connection| Some(if connection == ConnectionId(1) { 0 } else { 2 });
        assert_eq!((turns.next(room), turns.next(room)), (Some((5, 2)), None));
        assert_eq!(turns.next(|_| Some(1)), Some((3, 1)));
    }

    #[test]
    fn machines_of_a_connection_that_ended_wait_no_longer() {
        let mut turns = Turns::default();
        turns.enter(ConnectionId(1), 3);
        assert_eq!(turns.next(|_| None), None);
        assert!(turns.0.is_empty());
    }
}
