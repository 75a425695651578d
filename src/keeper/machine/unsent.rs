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

use super::core::Core;
use super::lock::LockMachine;
use super::waiter::Phase;
use super::{Id, Machine, QuestionId};
use crate::protocol::Ticket;

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
}

impl Unsent {
    pub(in crate::keeper) fn is_empty(&self) -> bool {
        self.leaves.is_empty() && self.questions.is_empty() && self.acquires.is_empty()
    }

    /// Those that leave one lock with the next request.
    fn next_leaves(&mut self) -> Option<(Arc<str>, Vec<Id>)> {
        const BATCH: usize = 100;
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

impl Machine {
    /// Whether requests wait for room.
    pub(crate) fn has_unsent(&self) -> bool {
        !self.core.unsent.is_empty()
    }

    /// Sends what waits, but no more requests than there is room for.
    pub(super) fn send_unsent(&mut self, room: usize) {
        let full = self.core.last_request.0.saturating_add(room as u64);
        while self.core.last_request.0 < full && self.send_next() {}
    }

    /// False if nothing waits.
    fn send_next(&mut self) -> bool {
        if let Some((name, ids)) = self.core.unsent.next_leaves() {
            self.at_lock(&name, |lock, core| lock.send_leave(core, ids));
        } else if let Some(question) = self.core.unsent.questions.pop_first() {
            self.send_question(question);
        } else if let Some((.., id)) = self.core.unsent.acquires.pop_first() {
            self.at(id, |lock, core| lock.turn_has_come(core, id));
        } else {
            return false;
        }
        true
    }
}

impl LockMachine {
    /// The acquire of this waiter is to be sent: the first, or the same again with the ticket that it has, whose answer
    /// tells its position.
    pub(super) fn await_turn(&mut self, core: &mut Core, id: Id) {
        if let Some(waiter) = self.waiters.get_mut(&id).filter(|waiter| waiter.turn.is_none()) {
            let turn = (waiter.ticket.is_none(), waiter.ticket, id);
            core.unsent.acquires.insert(turn);
            waiter.turn = Some(turn);
        }
    }

    fn turn_has_come(&mut self, core: &mut Core, id: Id) {
        let Some(waiter) = self.waiters.get_mut(&id) else { return };
        waiter.turn = None;
        // It may have been granted the lock by a message.
        if matches!(waiter.phase, Phase::Asking | Phase::Queued) && waiter.request.is_none() {
            self.send_acquire(core, id);
        }
    }
}
