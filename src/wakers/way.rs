//! How callers poll what keepers answer.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use futures_util::task::AtomicWaker;

use super::{Due, Wakers};

/// The way to a caller's waker.
#[derive(Debug)]
pub(super) struct Relay {
    wakers: Arc<Wakers>,
    caller: AtomicWaker,
}

impl Relay {
    #[cfg(test)]
    pub(super) fn to(wakers: Arc<Wakers>, caller: &Waker) -> Arc<Self> {
        let relay = Self { wakers, caller: AtomicWaker::new() };
        relay.caller.register(caller);
        Arc::new(relay)
    }

    /// The caller's code.
    pub(super) fn wake_caller(&self) {
        self.caller.wake();
    }
}

impl Wake for Relay {
    fn wake(self: Arc<Self>) {
        let wakers = self.wakers.clone();
        wakers.push(Due::Waker(self));
    }
}

/// How a future that waits for a keeper wakes its caller: always by the waker thread.
#[derive(Debug)]
pub(crate) struct Way {
    wakers: Arc<Wakers>,
    /// With the waker that leads to it. None before the first poll.
    relay: Option<(Arc<Relay>, Waker)>,
}

impl Way {
    pub(crate) fn new(wakers: Arc<Wakers>) -> Self {
        Self { wakers, relay: None }
    }

    /// Polls the future with a waker that leads to the caller's.
    pub(crate) fn poll<F: Future + ?Sized>(
        &mut self,
        future: Pin<&mut F>,
        context: &mut Context<'_>,
    ) -> Poll<F::Output> {
        future.poll(&mut Context::from_waker(self.waker(context.waker())))
    }

    pub(super) fn waker(&mut self, caller: &Waker) -> &Waker {
        let (relay, waker) = self.relay.get_or_insert_with(|| {
            let relay = Arc::new(Relay { wakers: self.wakers.clone(), caller: AtomicWaker::new() });
            (relay.clone(), relay.into())
        });
        relay.caller.register(caller);
        waker
    }
}

impl Drop for Way {
    fn drop(&mut self) {
        // Here, because a keeper may be the last to let go of the relay.
        drop(self.relay.as_ref().and_then(|(relay, _)| relay.caller.take()));
    }
}
