//! The keeper's side of the direct connection. It waits for no caller.

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::super::machine::{DirectLease, TAKEN_OVER_WITHIN};
use super::super::routes::Line;
use super::super::{LOOK, lock};
use super::task::PATIENCE;
use super::{Direct, Handover, LEAST_LEASE, Unanswered};
use crate::clock::Time;
use crate::error::LostReason;
use crate::server::Wire;

/// The keeper takes over leases of this age.
const SHORT: Duration = Duration::from_millis(500);
const _: () = assert!((SHORT.as_millis() + LOOK.as_millis()) * TAKEN_OVER_WITHIN as u128 <= LEAST_LEASE.as_millis());
/// After this many looks of the keeper without a use the connection is closed.
const IDLE_LOOKS: u32 = 10;

impl Direct {
    /// From now on callers may use this connection. False if a caller is in the way: the connection is dropped then.
    pub(in crate::keeper) fn offer(&self, line: Line, wire: Wire) -> bool {
        let offered = self.look_inside(|inside| {
            let is_free = inside.awaited.is_none();
            if is_free {
                inside.wire = Some((line, wire));
                inside.looks_without_use = 0;
                self.line.store(line.0, Ordering::SeqCst);
            }
            is_free
        });
        offered == Some(true)
    }

    /// From now on callers may not use this connection.
    pub(in crate::keeper) fn withdraw(&self, line: Line) {
        if self.line.compare_exchange(line.0, 0, Ordering::SeqCst, Ordering::SeqCst).is_ok() {
            self.give_up(Time::now());
        }
    }

    /// Whether it is worth a look.
    pub(in crate::keeper) fn is_in_use(&self) -> bool {
        self.line.load(Ordering::SeqCst) != 0 || self.is_taken()
    }

    /// Whether a caller has the connection, or a request of a caller that is gone.
    pub(in crate::keeper) fn is_taken(&self) -> bool {
        self.taken.load(Ordering::SeqCst)
    }

    /// A lease that has lasted for a while, or whose connection is gone.
    pub(in crate::keeper) fn lasting(&self, now: Time) -> Option<Handover> {
        let withdrawn = self.line.load(Ordering::SeqCst) == 0;
        self.take_over(|lease| withdrawn || lease.granted + SHORT <= now)
    }

    /// The lease, if it is of this kind and its caller is not releasing it.
    pub(in crate::keeper) fn take_over(&self, which: impl FnOnce(&DirectLease) -> bool) -> Option<Handover> {
        let handover = self.take(which)?;
        self.leave();
        Some(handover)
    }

    /// Ends the wait for an answer to a task that does not come in time, or whose connection was withdrawn.
    pub(in crate::keeper) fn give_up(&self, now: Time) {
        let settled = self.look_inside(|inside| {
            let answer = if !self.is_connected(inside) {
                Err(Unanswered::Gone)
            } else if inside.awaited.as_ref()?.sent + PATIENCE > now {
                return None;
            } else {
                // It may have come, if the machine was suspended or the waker thread did not run.
                let answer = self.answer(inside).transpose();
                answer.unwrap_or_else(|| Err(inside.broke("the server does not answer".into())))
            };
            self.settle(inside, answer)
        });
        self.tell(settled.flatten());
    }

    /// Closes the connection if nobody has used it for some looks. At once: a request that a caller sent meanwhile
    /// would have no line that ends it.
    pub(in crate::keeper) fn idle(&self) -> Option<Line> {
        self.look_inside(|inside| {
            if self.leased.load(Ordering::SeqCst) != 0 || inside.awaited.is_some() {
                return None;
            }
            inside.looks_without_use += 1;
            let idle = inside.looks_without_use > IDLE_LOOKS;
            let (line, _) = inside.wire.take_if(|_| idle)?;
            self.line.store(0, Ordering::SeqCst);
            Some(line)
        })?
    }

    /// The client is closed: its callers hear that from the keeper.
    pub(in crate::keeper) fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
    }

    /// The keeper has panicked: nobody renews a lease any more.
    pub(in crate::keeper) fn end(&self) {
        self.closed.store(true, Ordering::SeqCst);
        // A keeper that has nothing else to do may wait.
        let mut inside = lock(&self.inside);
        if let Some(handover) = self.take(|_| true) {
            handover.shared.end(LostReason::KeeperPanicked);
        }
        inside.wire = None;
        // Its caller sees its channel closed.
        if inside.awaited.take().is_some() {
            self.wakers.answered();
        }
    }
}
