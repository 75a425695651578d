//! Wakers as callers' code may have them: they block, or they panic.

use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Duration,
};

use super::turn::Panic;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    Wakes,
    /// Then blocks its caller.
    Blocks(Duration),
    /// Then panics.
    Panics,
}

struct Whim {
    wake: Wake,
    waker: Waker,
}

impl std::task::Wake for Whim {
    fn wake(self: Arc<Self>) {
        self.waker.wake_by_ref();
        match self.wake {
            Wake::Wakes => {}
            Wake::Blocks(span) => std::thread::sleep(span),
            Wake::Panics => std::panic::resume_unwind(Box::new(Panic)),
        }
    }
}

/// A future that is polled with such a waker. It must be one of fairlock's: the timers of a runtime do not cope with
/// it.
pub struct Woken<F> {
    wake: Wake,
    future: Pin<Box<F>>,
}

impl Wake {
    pub fn around<F: Future>(self, future: F) -> Woken<F> {
        Woken { wake: self, future: Box::pin(future) }
    }
}

impl<F: Future> Future for Woken<F> {
    type Output = F::Output;
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        if self.wake == Wake::Wakes {
            return self.future.as_mut().poll(context);
        }
        let waker = Waker::from(Arc::new(Whim { wake: self.wake, waker: context.waker().clone() }));
        self.future.as_mut().poll(&mut Context::from_waker(&waker))
    }
}
