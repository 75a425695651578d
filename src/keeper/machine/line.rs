//! Requests that wait for room on the connection, so that a burst of calls stands in nobody's way.
//!
//! A server answers the requests of a connection in their order, so a renewal that is written behind a hundred thousand
//! acquires comes too late. Therefore only so many requests are unanswered on a connection at a time, and the machine
//! keeps the others back. It remembers who has something to send, and builds a request only when there is room for it,
//! so the request has the client's latest knowledge of the lock. For an acquire that was given up before that, the
//! machine sends nothing at all, not even a leave (I9).
//!
//! Renewals, confirmations, releases and heartbeats do not wait. They have deadlines, or another client waits for the
//! lock, and there is one at a time for each record or lock. So whenever one is due, it is written before every request
//! that waits (I12). The order of the others is that of [`Turn`].

use std::collections::BTreeSet;
use std::sync::Arc;

use super::api::QuestionId;
use crate::protocol::{Id, Ticket};

/// The turn of a request that waits for room.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(in crate::keeper) enum Turn {
    /// Before any acquire that is called later, which would find the lock taken. Those that leave one lock together use
    /// one request.
    Leave(Arc<str>, Id),
    /// A caller's.
    Question(QuestionId),
    /// The acquire of a waiter that returns, which a recovery waits for, or that asks for its position: in the order of
    /// the tickets (I7).
    Returner(Ticket, Id),
    /// In the order of the calls (I2).
    Newcomer(Id),
}

/// There are none without a connection: the next one begins with asking everything again.
#[derive(Debug, Clone, Default, Hash)]
pub(in crate::keeper) struct Line {
    pub(in crate::keeper) turns: BTreeSet<Turn>,
    /// There was no room for some of them when requests were last sent.
    pub(super) held_back: bool,
}

impl Line {
    /// Those that leave this lock, too, with the same request.
    pub(super) fn pop_leaves_of(&mut self, lock: &Arc<str>, first: Id) -> Vec<Id> {
        // A leave takes the server longer the more ids it names, and a renewal may be written behind a thousand
        // leaves.
        const BATCH: usize = 20;
        let mut ids = vec![first];
        while ids.len() < BATCH
            && let Some(&Turn::Leave(ref name, id)) = self.turns.first()
            && name == lock
        {
            ids.push(id);
            self.turns.pop_first();
        }
        ids
    }
}
