//! Cancelling acquires from any thread.

use std::sync::Arc;
use std::task::{Context, Poll};

use crate::fork::{OfProcess, Process, UnlessForked};
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::{Notify, OwnedNotified};

/// Cancels acquires from any thread: those that were given it with [`cancelled_by`](crate::Acquire::cancelled_by), both
/// under way and later ones. Clones are the same token.
///
/// An awaited acquire is cancelled by dropping its future. This is for acquires that wait on the spot.
///
/// # Examples
/// ```no_run
/// use fairlock::{CancellationToken, Client, error::AcquireError};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let lock = Client::connect_lazy("redis://127.0.0.1/")?.lock("reports:nightly")?;
/// let cancellation = CancellationToken::new();
/// let worker = std::thread::spawn({
///     let cancellation = cancellation.clone();
///     move || lock.acquire().cancelled_by(&cancellation).blocking()
/// });
/// cancellation.cancel();
/// assert!(matches!(worker.join().unwrap(), Err(AcquireError::Cancelled)));
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Default)]
pub struct CancellationToken {
    cancelled: Arc<AtomicBool>,
    /// Whom `cancel` wakes.
    changed: Arc<OfProcess<Arc<Notify>>>,
}

impl CancellationToken {
    /// A token that was not used yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Cancels its acquires: they leave the queue and fail with
    /// [`AcquireError::Cancelled`](crate::error::AcquireError::Cancelled). Final.
    pub fn cancel(&self) {
        self.cancelled.store(true, Ordering::Release);
        self.changed.get().notify_waiters();
    }

    /// Whether [`cancel`](Self::cancel) was called.
    pub fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Acquire)
    }

    /// `process`: that of the acquire.
    pub(crate) fn watch(&self, process: &Process) -> Cancelled {
        // From here on no call of `cancel` is missed.
        let changed = UnlessForked::new(process, self.changed.get().clone().notified_owned());
        Cancelled { changed, cancellation: self.clone() }
    }
}

/// An acquire's view of its cancellation token.
pub(crate) struct Cancelled {
    changed: UnlessForked<OwnedNotified>,
    cancellation: CancellationToken,
}

impl Cancelled {
    /// Resolves when `cancel` was called.
    pub(crate) fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        match self.cancellation.is_cancelled() {
            true => Poll::Ready(()),
            false => self.changed.poll(context),
        }
    }
}
