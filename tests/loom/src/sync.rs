//! What the library's `sync` has, with loom's types.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use self::atomic::{AtomicBool, Ordering};

pub(crate) use loom::sync::{Mutex, atomic};
pub(crate) use loom::thread;

/// Loom's does not know `const { … }`.
macro_rules! of_thread {
    ($(#[$doc:meta])* static $name:ident: $type:ty = const { $value:expr };) => {
        loom::thread_local! { $(#[$doc])* static $name: $type = $value; }
    };
}
pub(crate) use of_thread as thread_local;

/// A value that one thread sets.
#[derive(Debug)]
pub(crate) struct OnceLock<T> {
    is_set: AtomicBool,
    value: std::sync::OnceLock<T>,
}

impl<T> OnceLock<T> {
    pub(crate) fn new() -> Self {
        Self { is_set: AtomicBool::new(false), value: std::sync::OnceLock::new() }
    }

    pub(crate) fn get(&self) -> Option<&T> {
        if self.is_set.load(Ordering::Acquire) { self.value.get() } else { None }
    }

    pub(crate) fn set(&self, value: T) -> Result<(), T> {
        let set = self.value.set(value);
        self.is_set.store(true, Ordering::Release);
        set
    }
}

/// As tokio's: whoever calls `notified` hears of each later call of `notify_waiters`, polled or not.
#[derive(Debug)]
pub(crate) struct Notify(Mutex<Waiters>);

#[derive(Debug, Default)]
struct Waiters {
    calls: usize,
    wakers: Vec<Waker>,
}

impl Default for Notify {
    fn default() -> Self {
        Self(Mutex::new(Waiters::default()))
    }
}

impl Notify {
    pub(crate) fn notify_waiters(&self) {
        let mut waiters = self.0.lock().unwrap();
        waiters.calls += 1;
        let wakers = std::mem::take(&mut waiters.wakers);
        drop(waiters);
        wakers.into_iter().for_each(Waker::wake);
    }

    pub(crate) fn notified(&self) -> Notified<&Self> {
        Notified { since: self.0.lock().unwrap().calls, notify: self }
    }

    pub(crate) fn notified_owned(self: Arc<Self>) -> OwnedNotified {
        let since = self.0.lock().unwrap().calls;
        Notified { since, notify: self }
    }
}

pub(crate) type OwnedNotified = Notified<Arc<Notify>>;

pub(crate) struct Notified<N> {
    since: usize,
    notify: N,
}

impl<N: std::ops::Deref<Target = Notify> + Unpin> Future for Notified<N> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let mut waiters = self.notify.0.lock().unwrap();
        if waiters.calls > self.since {
            return Poll::Ready(());
        }
        waiters.wakers.push(context.waker().clone());
        Poll::Pending
    }
}
