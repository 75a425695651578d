//! Something that callers await.

use std::future::poll_fn;

use crate::fork::{Process, UnlessForked};
use crate::sync::Notify;
use crate::sync::atomic::{AtomicU32, Ordering, fence};

/// `Notify` has a lock, which each caller that awaits it takes. So the waker thread notifies them, and not the keeper
/// (I12 of `docs/guarantees.md`), and only if somebody waits.
#[derive(Default)]
pub(super) struct Change {
    awaited: AtomicU32,
    notify: Notify,
}

impl Change {
    /// Resolves once `is_over` returns a value. It is asked at once and after each change. In a forked process no keeper
    /// tells of changes, and `is_over` has a value at the next poll.
    pub(super) async fn until<T>(&self, process: &Process, mut is_over: impl FnMut() -> Option<T>) -> T {
        let _counted = Counted::new(&self.awaited);
        loop {
            let notified = self.notify.notified();
            if let Some(over) = is_over() {
                return over;
            }
            let mut notified = UnlessForked::new(process, notified);
            poll_fn(|context| notified.poll(context)).await;
        }
    }

    /// Whether anybody waits for what was changed just before: then [`Self::notify`] is to be called.
    pub(super) fn is_awaited(&self) -> bool {
        // With the one in `Counted`: either this thread sees the future, or the future sees the change.
        fence(Ordering::SeqCst);
        self.awaited.load(Ordering::Relaxed) > 0
    }

    pub(super) fn notify(&self) {
        self.notify.notify_waiters();
    }
}

/// A future that awaits a change.
struct Counted<'a>(&'a AtomicU32);

impl<'a> Counted<'a> {
    fn new(awaited: &'a AtomicU32) -> Self {
        awaited.fetch_add(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        Self(awaited)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
