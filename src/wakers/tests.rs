use std::cell::RefCell;
use std::future::Future as _;
use std::sync::{Barrier, mpsc};
use std::task::{Context, Wake};

use super::*;

const SOON: Duration = Duration::from_secs(20);

struct Panics;

impl Wake for Panics {
    fn wake(self: Arc<Self>) {
        panic!("this is the caller's waker");
    }
}

fn begun() -> Arc<Wakers> {
    let wakers = Wakers::new();
    wakers.begin().unwrap();
    wakers
}

// Another thread would replace one that such a waker ends, but more slowly each time.
#[test]
fn a_waker_that_panics_does_not_end_the_thread_that_calls_it() {
    let wakers = Wakers::of_this_process();
    Due::Waker(WakerProxy::to(wakers, &Arc::new(Panics).into())).call();
}

struct Blocks(Barrier, Barrier);

impl Wake for Blocks {
    fn wake(self: Arc<Self>) {
        self.0.wait();
        self.1.wait();
    }
}

struct Calls(mpsc::Sender<()>);

impl Wake for Calls {
    fn wake(self: Arc<Self>) {
        let _ = self.0.send(());
    }
}

/// Each of them makes its successor wait longer, but not without bound.
#[test]
fn a_waker_is_called_soon_though_many_others_never_return() {
    let wakers = begun();
    let blocked = [(); 16].map(|()| Arc::new(Blocks(Barrier::new(2), Barrier::new(2))));
    let (called, calls) = mpsc::channel();
    let callers = blocked.iter().map(|waker| waker.clone().into()).chain([Arc::new(Calls(called)).into()]);
    let _ways: Vec<CallerWaker> = callers
        .map(|caller| {
            let mut way = CallerWaker::new(wakers.clone());
            way.waker(&caller).wake_by_ref();
            way
        })
        .collect();
    calls.recv_timeout(SOON).unwrap();
    for waker in &blocked {
        waker.0.wait();
        waker.1.wait();
    }
}

#[test]
fn a_keeper_does_not_wait_for_a_thread_that_has_the_queue() {
    let wakers = begun();
    let (called, calls) = mpsc::channel();
    let (kept, keeps) = mpsc::channel();
    let (unlocked, unlocks) = mpsc::channel::<()>();
    // A thread that lost its processor with the lock in its hand.
    let held = lock(&wakers.threads.state);
    let keeper = std::thread::spawn({
        let wakers = wakers.clone();
        move || {
            let _keeper = IsKeeper::new(&wakers);
            for number in 0..2 {
                let called = called.clone();
                wakers.call(move || called.send(number).unwrap());
            }
            kept.send(wakers.pass_on()).unwrap();
            unlocks.recv().unwrap();
            kept.send(wakers.pass_on()).unwrap();
            // The rest is passed on when the keeper ends.
            let held = lock(&wakers.threads.state);
            wakers.call(move || called.send(2).unwrap());
            drop(held);
        }
    });
    assert!(!keeps.recv_timeout(SOON).unwrap(), "the lock is held");
    calls.try_recv().unwrap_err();
    drop(held);
    unlocked.send(()).unwrap();
    // The waker thread may have the lock, for a moment.
    let _ = keeps.recv_timeout(SOON).unwrap();
    assert_eq!([(); 3].map(|()| calls.recv_timeout(SOON).unwrap()), [0, 1, 2]);
    keeper.join().unwrap();
}

// A runtime in a thread-local variable drops its tasks, and their guards, when its thread ends.
#[test]
fn a_thread_that_ends_still_has_callers_called() {
    struct Calls(Arc<Wakers>, mpsc::Sender<()>);
    impl Drop for Calls {
        fn drop(&mut self) {
            let called = self.1.clone();
            self.0.call(move || called.send(()).unwrap());
        }
    }
    thread_local! {
        static EARLY: RefCell<Option<Calls>> = const { RefCell::new(None) };
        static LATE: RefCell<Option<Calls>> = const { RefCell::new(None) };
    }
    let wakers = begun();
    let (called, calls) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        // The variable of `kept.rs` comes between them, because the order in which they are destroyed is not promised.
        EARLY.set(Some(Calls(wakers.clone(), called.clone())));
        drop(Calls(wakers.clone(), called.clone()));
        LATE.set(Some(Calls(wakers, called)));
    });
    thread.join().unwrap();
    (0..3).for_each(|_| calls.recv_timeout(SOON).unwrap());
}

#[test]
fn words_are_left_out_where_too_many_wait_and_calls_never() {
    let wakers = begun();
    let (called, calls) = mpsc::channel();
    let keeper = IsKeeper::new(&wakers);
    // All are added at once.
    let held = lock(&wakers.threads.state);
    for _ in 0..2 * MOST_WORDS {
        let (word, call) = (called.clone(), called.clone());
        wakers.say(move || word.send("word").unwrap());
        wakers.call(move || call.send("call").unwrap());
    }
    drop((held, keeper, called));
    let called: Vec<_> = std::iter::from_fn(|| calls.recv_timeout(SOON).ok()).collect();
    let count = |what| called.iter().filter(|called| **called == what).count();
    assert_eq!((count("word"), count("call")), (MOST_WORDS, 2 * MOST_WORDS));
}

#[test]
fn a_keeper_passes_wakers_on_later_if_it_cannot_at_once() {
    let client = crate::Client::connect_lazy("redis://127.0.0.1:1/").unwrap();
    // The first message starts the threads, which needs the queue, too.
    client.close().blocking();
    let wakers = Wakers::of_this_process();
    let (called, calls) = mpsc::channel();
    let waker = Arc::new(Calls(called)).into();
    // The keeper may be slower than this thread, and find the queue unlocked again. It is not so each time.
    for _ in 0..100 {
        // Nothing was acquired, so it is answered without a server.
        let mut close = Box::pin(client.close());
        let held = lock(&wakers.threads.state);
        // Ready if the keeper has answered before the future was polled.
        let is_pending = close.as_mut().poll(&mut Context::from_waker(&waker)).is_pending();
        while is_pending && close.as_mut().poll(&mut Context::from_waker(&waker)).is_pending() {
            std::thread::yield_now();
        }
        drop(held);
        if is_pending {
            calls.recv_timeout(SOON).unwrap();
        }
    }
}

/// All that is queued is called before. A thread that looks whether a waker blocks ends, too, and one that has taken over.
#[test]
fn the_threads_end_with_the_last_client() {
    let wakers = begun();
    let threads = Arc::downgrade(&wakers.threads);
    let (called, calls) = mpsc::channel();
    let waker = Arc::new(Blocks(Barrier::new(2), Barrier::new(2)));
    let mut way = CallerWaker::new(wakers.clone());
    way.waker(&waker.clone().into()).wake_by_ref();
    waker.0.wait();
    let first = called.clone();
    wakers.call(move || first.send("by another thread").unwrap());
    assert_eq!(calls.recv_timeout(SOON).unwrap(), "by another thread");
    waker.1.wait();
    let keeper = IsKeeper::new(&wakers);
    wakers.call(move || called.send("last").unwrap());
    drop((way, wakers, keeper));
    assert_eq!(calls.recv_timeout(SOON).unwrap(), "last");
    let start = std::time::Instant::now();
    while threads.strong_count() > 0 {
        assert!(start.elapsed() < SOON, "a thread has not ended");
        std::thread::sleep(Duration::from_millis(1));
    }
}
