//! Waiting for a future on the spot.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake};

use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::thread::{Thread, current, park};

/// Polls a channel without tokio's budget for cooperation: on another executor inside of a tokio task, such as
/// [`Operation::blocking`](crate::Operation::blocking), an exhausted budget is never refilled and the poll would be
/// pending for ever.
pub(crate) fn poll_channel<F: Future + Unpin>(future: &mut F, context: &mut Context<'_>) -> Poll<F::Output> {
    pin!(tokio::task::unconstrained(future)).poll(context)
}

/// Unparks one thread and does nothing else. A mutex with a condition variable would wake it into the mutex that the
/// waking thread still holds, which costs both of them system calls.
struct Sleeper {
    thread: Thread,
    /// Parking may end without a reason, and code of the future may park by itself.
    woken: AtomicBool,
}

impl Wake for Sleeper {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.woken.swap(true, Ordering::Release) {
            self.thread.unpark();
        }
    }
}

/// Polls the future on this thread until it resolves.
pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    let sleeper = Arc::new(Sleeper { thread: current(), woken: AtomicBool::new(false) });
    let waker = sleeper.clone().into();
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return output;
        }
        while !sleeper.woken.swap(false, Ordering::Acquire) {
            park();
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn wake_ups_are_heard_also_before_and_during_the_sleep() {
        let (mut polls, mut woken) = (0, None::<std::thread::JoinHandle<()>>);
        let future = std::future::poll_fn(|context| {
            polls += 1;
            // This token may be for other code: it must neither count as a wake-up nor be taken away.
            current().unpark();
            let waker = context.waker().clone();
            match polls {
                1 => waker.wake(),
                2 => woken = Some(std::thread::spawn(move || waker.wake())),
                _ => return Poll::Ready(()),
            }
            park();
            Poll::Pending
        });
        block_on(future);
        assert_eq!((polls, woken.is_some()), (3, true));
    }
}
