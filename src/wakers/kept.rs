//! What keepers have for the waker thread. A keeper waits for nobody (I12 of `docs/guarantees.md`): a thread that has
//! the queue may lose its processor, for seconds if its priority is low. So a keeper only tries to lock the queue, and
//! keeps what is due until its next round.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::Arc;

use super::{Due, Wakers};
use crate::mutex::{lock, try_lock};

thread_local! {
    /// Oldest first. None on a thread that is no keeper.
    static KEPT: RefCell<Option<VecDeque<Due>>> = const { RefCell::new(None) };
}

/// While this lives, its thread is a keeper.
pub(crate) struct IsKeeper(Arc<Wakers>);

impl IsKeeper {
    pub(crate) fn new(wakers: &Arc<Wakers>) -> Self {
        KEPT.set(Some(VecDeque::new()));
        Self(wakers.clone())
    }
}

impl Drop for IsKeeper {
    fn drop(&mut self) {
        // It renews nothing any more, so it may wait.
        let kept = KEPT.take().unwrap_or_default();
        if !kept.is_empty() {
            self.0.threads.add(lock(&self.0.threads.state), kept);
        }
    }
}

/// Keeps this, on a keeper. On other threads it comes back.
pub(super) fn keep(due: Due) -> Option<Due> {
    let mut due = Some(due);
    // It fails on a thread that ends and has dropped the variable already. A keeper does that last.
    let _ = KEPT.try_with(|kept| {
        if let Some(kept) = &mut *kept.borrow_mut() {
            kept.extend(due.take());
        }
    });
    due
}

impl Wakers {
    /// Passes on what this keeper has kept. False while another thread has the queue.
    pub(crate) fn pass_on(&self) -> bool {
        KEPT.with_borrow_mut(|kept| {
            let Some(kept) = kept.as_mut().filter(|kept| !kept.is_empty()) else { return true };
            let Some(state) = try_lock(&self.threads.state) else { return false };
            self.threads.add(state, kept.drain(..));
            true
        })
    }
}
