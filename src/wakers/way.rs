//! How callers poll what keepers answer.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use futures_util::task::AtomicWaker;

use super::{Due, Wakers};

/// The way to a caller's waker.
pub(super) struct WakerProxy {
    wakers: Arc<Wakers>,
    caller: AtomicWaker,
}

impl WakerProxy {
    #[cfg(test)]
    pub(super) fn to(wakers: Arc<Wakers>, caller: &Waker) -> Arc<Self> {
        let proxy = Self { wakers, caller: AtomicWaker::new() };
        proxy.caller.register(caller);
        Arc::new(proxy)
    }

    /// The caller's code.
    pub(super) fn wake_caller(&self) {
        self.caller.wake();
    }
}

impl Wake for WakerProxy {
    fn wake(self: Arc<Self>) {
        let wakers = self.wakers.clone();
        wakers.push(Due::Waker(self));
    }
}

/// How a future that waits for a keeper wakes its caller: always by the waker thread.
pub(crate) struct CallerWaker {
    wakers: Arc<Wakers>,
    /// With the waker that leads to it. None before the first poll.
    proxy: Option<(Arc<WakerProxy>, Waker)>,
}

impl CallerWaker {
    pub(crate) fn new(wakers: Arc<Wakers>) -> Self {
        Self { wakers, proxy: None }
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
        let (proxy, waker) = self.proxy.get_or_insert_with(|| {
            let proxy = Arc::new(WakerProxy { wakers: self.wakers.clone(), caller: AtomicWaker::new() });
            (proxy.clone(), proxy.into())
        });
        proxy.caller.register(caller);
        waker
    }
}

impl Drop for CallerWaker {
    fn drop(&mut self) {
        // Here, because a keeper may be the last to let go of the proxy.
        drop(self.proxy.as_ref().and_then(|(proxy, _)| proxy.caller.take()));
    }
}
