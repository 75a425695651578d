//! Ending acquires that wait, from any thread.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use tokio::sync::Notify;
use tokio::sync::futures::OwnedNotified;

/// Ends acquires that wait, from any thread: of the acquires that were given it with
/// [`cancelled_by`](crate::Acquire::cancelled_by), those under way and those to come. Clones are the same canceller.
///
/// An awaited acquire is cancelled by dropping its future; this is for those that wait on the spot.
///
/// # Examples
/// ```no_run
/// use fairlock::{AcquireError, Canceller, Client};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let lock = Client::connect_lazy("redis://127.0.0.1/")?.lock("reports:nightly")?;
/// let canceller = Canceller::new();
/// let worker = std::thread::spawn({
///     let canceller = canceller.clone();
///     move || lock.acquire().cancelled_by(&canceller).blocking()
/// });
/// canceller.cancel();
/// assert!(matches!(worker.join().unwrap(), Err(AcquireError::Cancelled)));
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Default)]
pub struct Canceller {
    cancelled: Arc<AtomicBool>,
    changed: Arc<Notify>,
}

impl Canceller {
    /// One that ends nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Ends the acquires that were given this: they leave the queue, and fail with
    /// [`AcquireError::Cancelled`](crate::AcquireError::Cancelled). Final.
    pub fn cancel(&self) {
        self.cancelled.store(true, Ordering::Release);
        self.changed.notify_waiters();
    }

    /// Whether [`cancel`](Self::cancel) was called.
    pub fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Acquire)
    }

    pub(crate) fn watch(&self) -> Cancelled {
        // From now on no call is missed.
        Cancelled { changed: Box::pin(self.changed.clone().notified_owned()), canceller: self.clone() }
    }
}

/// What an acquire sees of its canceller.
#[derive(Debug)]
pub(crate) struct Cancelled {
    changed: Pin<Box<OwnedNotified>>,
    canceller: Canceller,
}

impl Cancelled {
    /// Ready when it was cancelled.
    pub(crate) fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        match self.canceller.is_cancelled() {
            true => Poll::Ready(()),
            false => crate::wakers::poll(&mut self.changed, context),
        }
    }
}
