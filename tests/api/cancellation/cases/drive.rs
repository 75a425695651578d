//! Polls futures by hand, exactly as often as wanted.

use std::fmt::Debug;
use std::future::{Future, IntoFuture};
use std::pin::{Pin, pin};
use std::sync::{Arc, Condvar, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use testkit::{SOON, eventually};

const LOOK: Duration = Duration::from_millis(1);
/// On a busy machine a client may have to find out twice that its connection is silent, and connect.
const LONG: Duration = Duration::from_secs(120);

#[derive(Default)]
struct Woken {
    woken: Mutex<bool>,
    changed: Condvar,
}

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        *self.woken.lock().unwrap() = true;
        self.changed.notify_all();
    }
}

impl Woken {
    /// Waits for a wake-up, and takes it.
    fn take(&self, longest: Duration) -> bool {
        let woken = self.woken.lock().unwrap();
        let (mut woken, _) = self.changed.wait_timeout_while(woken, longest, |woken| !*woken).unwrap();
        std::mem::take(&mut *woken)
    }
}

/// A future that is polled by hand. Each method is true if it has completed.
pub struct Driver<'a, F: ?Sized> {
    future: Pin<&'a mut F>,
    woken: Arc<Woken>,
    polled: bool,
    completed: bool,
}

impl<'a, F: Future + ?Sized> Driver<'a, F> {
    pub fn new(future: Pin<&'a mut F>) -> Self {
        Driver { future, woken: Arc::default(), polled: false, completed: false }
    }

    fn poll(&mut self) -> bool {
        let waker = Waker::from(self.woken.clone());
        self.polled = true;
        self.completed = self.completed || self.future.as_mut().poll(&mut Context::from_waker(&waker)).is_ready();
        self.completed
    }

    /// Polls so many times. Each poll but the first waits until the future has asked for it.
    #[track_caller]
    pub fn polls(&mut self, times: u32) -> bool {
        for _ in 0..times {
            assert!(self.completed || !self.polled || self.woken.take(SOON), "it hangs");
            self.poll();
        }
        self.completed
    }

    /// Polls as often as the future asks for it, until this holds.
    #[track_caller]
    pub fn when(&mut self, mut holds: impl FnMut() -> bool) -> bool {
        let start = Instant::now();
        while !self.completed && !holds() {
            assert!(start.elapsed() < LONG, "this hangs");
            if !self.polled || self.woken.take(LOOK) {
                self.poll();
            }
        }
        self.completed
    }

    /// Polls once, unless the future was polled before, and then not again until this holds.
    #[track_caller]
    pub fn unpolled(&mut self, mut holds: impl FnMut() -> bool) -> bool {
        if !self.polled {
            self.poll();
        }
        eventually("what an unpolled future is there for", SOON, || self.completed || holds());
        self.completed
    }
}

/// A future that should be ready soon, waited for on the spot.
#[track_caller]
pub fn complete<F: IntoFuture>(future: F) -> F::Output {
    let mut output = None;
    {
        let future = pin!(async { output = Some(future.await) });
        Driver::new(future).when(|| false);
    }
    output.expect("it is complete")
}

/// The same for a future with an answer timeout of its own, which outlasts a machine that stands still for seconds.
#[track_caller]
pub fn insist<F: IntoFuture<Output = Result<T, E>>, T, E: Debug>(make: impl Fn() -> F) -> T {
    let start = Instant::now();
    loop {
        match complete(make()) {
            Ok(value) => return value,
            Err(error) => assert!(start.elapsed() < LONG, "{error:?}"),
        }
    }
}

/// Is pending at the first poll, and asks for a second.
pub async fn pause() {
    let mut paused = false;
    std::future::poll_fn(move |context| {
        context.waker().wake_by_ref();
        if std::mem::replace(&mut paused, true) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}
