//! Operations of a client: awaited, or waited for on the spot.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use crate::blocking::block_on;
use crate::wakers::{CallerWaker, Wakers};

/// An operation of a client that resolves to `T`: await it, or wait on the spot with [`blocking`](Self::blocking). It
/// borrows nothing, so it can be kept and sent to other threads. It costs one allocation.
///
/// Nothing happens before the first poll, unless a method says otherwise. If it is polled again after it has
/// resolved, it panics like the future of an `async fn`.
///
/// # Examples
/// ```no_run
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let client = fairlock::Client::connect("redis://127.0.0.1/").blocking()?;
/// let state = client.lock("reports:nightly")?.inspect().blocking()?;
/// println!("{} wait", state.waiting);
/// # Ok(())
/// # }
/// ```
#[must_use = "nothing happens until this is awaited, or waited for with `blocking()`"]
pub struct Operation<T> {
    // None: the future calls no keeper by itself, or relays what it awaits of one.
    way: Option<CallerWaker>,
    future: Pin<Box<dyn Future<Output = T> + Send + Sync>>,
}

impl<T> Operation<T> {
    /// For a future that waits for a keeper.
    pub(crate) fn relayed(wakers: &Arc<Wakers>, future: impl Future<Output = T> + Send + Sync + 'static) -> Self {
        Self { way: Some(CallerWaker::new(wakers.clone())), future: Box::pin(future) }
    }

    /// For a future that awaits only other operations.
    pub(crate) fn of_others(future: impl Future<Output = T> + Send + Sync + 'static) -> Self {
        Self { way: None, future: Box::pin(future) }
    }

    /// Waits on the spot; no async runtime is needed.
    ///
    /// In an async runtime this blocks the calling thread. It never returns if its result depends on a task of the same
    /// thread, such as the release of a lock by another task of a current-thread runtime: await it there.
    pub fn blocking(self) -> T {
        // This waker only unparks one thread, so a keeper may call it.
        block_on(self.future)
    }
}

impl<T> fmt::Debug for Operation<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Operation").finish_non_exhaustive()
    }
}

impl<T> Future for Operation<T> {
    type Output = T;
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        let Self { way, future } = &mut *self;
        match way {
            Some(way) => way.poll(future.as_mut(), context),
            None => future.as_mut().poll(context),
        }
    }
}
