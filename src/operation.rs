//! What a client does for its caller: awaited, or waited for on the spot.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;

use crate::wakers::{Wakers, Way};

pin_project! {
    /// Something that a client does for its caller: await it, or wait on the spot with [`blocking`](Self::blocking).
    ///
    /// Nothing happens before the first poll, except where a method says otherwise. Polled again after it has resolved, it
    /// panics, as the future of an `async fn` does.
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
    /// Of a future that waits for a keeper.
    pub(crate) fn relayed(wakers: &Arc<Wakers>, future: F) -> Self {
        Self { way: Some(Way::new(wakers.clone())), future }
    }

    /// Of a future that awaits other operations only.
    pub(crate) fn of_others(future: F) -> Self {
        Self { way: None, future }
    }

    /// Waits on the spot; no async runtime is needed.
    ///
    /// Within an async runtime this blocks the thread that calls it. It never returns if what it waits for is to be done
    /// by a task of the same thread, such as the release of a lock by another task of a current-thread runtime: await it
    /// there.
    pub fn blocking(self) -> F::Output {
        // The waker of this wakes one thread and does nothing else, so a keeper may call it.
        pollster::block_on(self.future)
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
