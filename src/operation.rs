//! Operations of a client: awaited, or waited for on the spot.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;

use crate::blocking::block_on;
use crate::wakers::{Wakers, Way};

pin_project! {
    /// An operation of a client: await it, or wait on the spot with [`blocking`](Self::blocking).
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
    pub struct Operation<F> {
        // None: the future calls no keeper by itself, or relays what it awaits of one.
        way: Option<Way>,
        #[pin]
        pub(crate) future: F,
    }
}

impl<F: Future> Operation<F> {
    /// For a future that waits for a keeper.
    pub(crate) fn relayed(wakers: &Arc<Wakers>, future: F) -> Self {
        Self { way: Some(Way::new(wakers.clone())), future }
    }

    /// For a future that awaits only other operations.
    pub(crate) fn of_others(future: F) -> Self {
        Self { way: None, future }
    }

    /// Waits on the spot; no async runtime is needed.
    ///
    /// In an async runtime this blocks the calling thread. It never returns if its result depends on a task of the same
    /// thread, such as the release of a lock by another task of a current-thread runtime: await it there.
    pub fn blocking(self) -> F::Output {
        // This waker only wakes one thread, so a keeper may call it.
        block_on(self.future)
    }
}

impl<F> fmt::Debug for Operation<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Operation").finish_non_exhaustive()
    }
}

impl<F: Future> Future for Operation<F> {
    type Output = F::Output;
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        match this.way {
            Some(way) => this.future.poll(&mut Context::from_waker(way.waker(context.waker()))),
            None => this.future.poll(context),
        }
    }
}
