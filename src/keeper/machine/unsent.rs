//! Requests that wait for room on the connection, so that a burst of calls stands in nobody's way.
//!
//! A server answers the requests of a connection in their order, so a renewal that is written behind a hundred thousand
//! acquires comes too late. Therefore only so many requests are unanswered on a connection at a time, and the machine
//! keeps the others back. It remembers which waiters, questions and leaves have something to send, and builds a request
//! only when there is room for it, so the request has the client's latest knowledge of the lock. For an acquire that was
//! given up before that, the machine sends nothing at all, not even a leave (I9).
//!
//! Renewals, confirmations, releases and heartbeats do not wait. They have deadlines, or another client waits for the
//! lock, and there is one at a time for each lease, release or lock. So whenever one is due, it is written before every
//! request that waits (I12). The others are sent by kind:
//!
//! 1. leaves: before any acquire that is called later, which would find the lock taken;
//! 2. callers' questions;
//! 3. acquires: first those of waiters that return, which a recovery waits for, in the order of their tickets (I7); then
//!    newcomers in the order of their calls (I2).

use std::collections::BTreeSet;
use std::sync::Arc;

use super::api::QuestionId;
use crate::protocol::{Id, Ticket};

/// The place of an acquire among those that wait. A newcomer has no ticket.
pub(in crate::keeper) type Turn = (IsNewcomer, Option<Ticket>, Id);
type IsNewcomer = bool;

/// The requests that wait. There are none without a connection: the next one begins with asking everything again.
#[derive(Debug, Clone, Default, Hash)]
pub(in crate::keeper) struct Unsent {
    /// By lock: those that leave its queue together use one request.
    pub(in crate::keeper) leaves: BTreeSet<(Arc<str>, Id)>,
    pub(in crate::keeper) questions: BTreeSet<QuestionId>,
    pub(in crate::keeper) acquires: BTreeSet<Turn>,
    /// There was no room for some of them when requests were last sent.
    pub(super) held_back: bool,
}

impl Unsent {
    pub(in crate::keeper) fn is_empty(&self) -> bool {
        self.leaves.is_empty() && self.questions.is_empty() && self.acquires.is_empty()
    }

    /// Those that leave one lock with the next request.
    pub(super) fn next_leaves(&mut self) -> Option<(Arc<str>, Vec<Id>)> {
        // A leave takes the server longer the more ids it names, and a renewal may be written behind a thousand
        // leaves.
        const BATCH: usize = 20;
        let (name, _) = self.leaves.first()?.clone();
        let mut ids = Vec::new();
        while ids.len() < BATCH
            && let Some((_, id)) = self.leaves.first().filter(|(of, _)| *of == name)
        {
            ids.push(*id);
            self.leaves.pop_first();
        }
        Some((name, ids))
    }
}
