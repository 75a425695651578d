//! Where the code of callers is called: on a thread for wakers, one for the process, and never on a keeper (I12).
//!
//! A waker is the caller's code. It may block, on a mutex or on the lock of an interpreter, and it may panic. So a keeper
//! never has one in its hands, not even to clone or to drop it: callers poll the keeper's channels by a [`Way`], with a
//! waker of this crate that puts the caller's into a queue. The thread for wakers calls those in the queue one after the
//! other. A waker that panics ends nothing. While a waker blocks, those behind it wait for [`PATIENCE`]: then a second
//! thread takes over the queue, and the first ends when its waker returns.
//!
//! A subscriber of `tracing` is the caller's code too. What a keeper has to say goes through the same queue.
//!
//! What a caller is told lies in its channel before its waker is queued, so the order of wakers is of no importance, and
//! a process that ends before all are called loses nothing.
//!
//! `blocking()` polls without this. Its waker wakes the thread that blocks and does nothing else, so a keeper may call it.

use std::collections::VecDeque;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use futures_util::task::AtomicWaker;

/// How long a waker may take while others wait, doubled for each thread that is inside of one: a thousand wakers that
/// all wait for one mutex must not make a thousand threads.
const PATIENCE: Duration = Duration::from_millis(5);

/// The wakers that are to be called, and the threads that call them.
#[derive(Default)]
pub(crate) struct Wakers {
    state: Mutex<State>,
    /// For the thread whose turn it is: a waker is due.
    due: Condvar,
    /// For the thread that watches: a waker is due while another is being called.
    behind: Condvar,
}

#[derive(Default)]
struct State {
    queue: VecDeque<Due>,
    /// How many of the queue are words.
    words: usize,
    /// What the thread whose turn it is does.
    doing: Doing,
    /// Wakers that were called so far.
    calls: u64,
    /// Rises when another thread takes over the queue.
    turn: u64,
    /// Threads that lost their turn, and are still inside of a waker.
    stuck: u32,
    watch: Watch,
}

/// Code of callers that is to be called.
enum Due {
    Waker(Arc<Relay>),
    Words(Box<dyn FnOnce() + Send>),
}

impl Due {
    fn call(self) {
        let called = std::panic::catch_unwind(AssertUnwindSafe(move || match self {
            Self::Waker(relay) => relay.caller.wake(),
            Self::Words(say) => say(),
        }));
        // What it panicked with may panic when it is dropped.
        called.unwrap_or_else(std::mem::forget);
    }
}

#[derive(Default, Clone, Copy, PartialEq, Eq)]
enum Doing {
    /// Waits, and was not told yet that something is due.
    Waits,
    #[default]
    Comes,
    Calls,
}

/// The thread that watches over the one whose turn it is. It is started when it is needed first.
#[derive(Default, Clone, Copy, PartialEq, Eq)]
enum Watch {
    #[default]
    Nobody,
    Sleeps,
    Looks,
}

impl State {
    /// A waker is due while another is being called.
    fn is_behind(&self) -> bool {
        self.doing == Doing::Calls && !self.queue.is_empty()
    }
}

impl std::fmt::Debug for Wakers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Wakers").finish_non_exhaustive()
    }
}

impl Wakers {
    /// Those of this process; the first client starts the thread.
    pub(crate) fn of_this_process() -> std::io::Result<Arc<Self>> {
        static SHARED: Mutex<Option<Arc<Wakers>>> = Mutex::new(None);
        static PROCESS: AtomicU32 = AtomicU32::new(0);
        let process = std::process::id();
        if PROCESS.compare_exchange(0, process, Ordering::Relaxed, Ordering::Relaxed).is_err_and(|of| of != process) {
            // A forked process: the threads of its parent did not come along, and one of them may have held the lock.
            return Self::start();
        }
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        match &*shared {
            Some(wakers) => Ok(wakers.clone()),
            None => Ok(shared.insert(Self::start()?).clone()),
        }
    }

    fn start() -> std::io::Result<Arc<Self>> {
        let wakers = Arc::<Self>::default();
        wakers.spawn(|wakers| wakers.call_in_turn(0))?;
        Ok(wakers)
    }

    /// Has the thread for wakers say something: the closure logs it. Beyond 32 that were not said yet, it is dropped.
    pub(crate) fn say(self: &Arc<Self>, words: impl FnOnce() + Send + 'static) {
        const MOST: usize = 32;
        let mut state = self.lock();
        if state.words < MOST {
            state.words += 1;
            self.push(state, Due::Words(Box::new(words)));
        }
    }

    fn spawn(self: &Arc<Self>, work: impl FnOnce(&Arc<Self>) + Send + 'static) -> std::io::Result<()> {
        let wakers = self.clone();
        std::thread::Builder::new().name("fairlock-wakers".into()).spawn(move || work(&wakers)).map(drop)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(self: &Arc<Self>, mut state: MutexGuard<'_, State>, due: Due) {
        state.queue.push_back(due);
        match state.doing {
            Doing::Waits => {
                state.doing = Doing::Comes;
                self.due.notify_one();
            }
            Doing::Comes => {}
            Doing::Calls => self.watch(&mut state),
        }
    }

    /// The thread whose turn it is, until another one takes over.
    fn call_in_turn(self: &Arc<Self>, turn: u64) {
        let mut state = self.lock();
        loop {
            let Some(due) = state.queue.pop_front() else {
                state.doing = Doing::Waits;
                state = self.due.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            state.doing = Doing::Calls;
            state.calls += 1;
            state.words -= usize::from(matches!(due, Due::Words(_)));
            if state.is_behind() {
                self.watch(&mut state);
            }
            drop(state);
            due.call();
            state = self.lock();
            if state.turn != turn {
                state.stuck -= 1;
                return;
            }
        }
    }

    /// Sees to it that the thread whose turn it is is watched.
    fn watch(self: &Arc<Self>, state: &mut State) {
        match state.watch {
            Watch::Looks => {}
            Watch::Sleeps => {
                state.watch = Watch::Looks;
                self.behind.notify_one();
            }
            // Without a thread to be had, the next waker that is due asks for one again.
            Watch::Nobody => {
                if self.spawn(Self::look_on).is_ok() {
                    state.watch = Watch::Looks;
                }
            }
        }
    }

    /// Takes over when a waker blocks while others are due.
    fn look_on(self: &Arc<Self>) {
        let mut state = self.lock();
        loop {
            let (calls, patience) = (state.calls, PATIENCE * (1 << state.stuck.min(10)));
            drop(state);
            std::thread::sleep(patience);
            state = self.lock();
            if !state.is_behind() {
                state.watch = Watch::Sleeps;
                state = self.behind.wait(state).unwrap_or_else(PoisonError::into_inner);
                state.watch = Watch::Looks;
            } else if state.calls == calls {
                state.turn += 1;
                state.stuck += 1;
                state.watch = Watch::Nobody;
                let turn = state.turn;
                drop(state);
                return self.call_in_turn(turn);
            }
        }
    }
}

/// The way to a caller's waker.
#[derive(Debug)]
struct Relay {
    wakers: Arc<Wakers>,
    caller: AtomicWaker,
}

impl Wake for Relay {
    fn wake(self: Arc<Self>) {
        let wakers = self.wakers.clone();
        wakers.push(wakers.lock(), Due::Waker(self));
    }
}

/// How a future that waits for a keeper wakes its caller: by the thread for wakers, whoever wakes it.
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

    /// What to poll with in the place of the caller's waker.
    pub(crate) fn waker(&mut self, caller: &Waker) -> &Waker {
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

/// Polls a channel without tokio's budget for cooperation: on another executor inside of a tokio task, such as
/// [`Operation::blocking`](crate::Operation::blocking), an exhausted budget is never refilled and the poll would be
/// pending for ever.
pub(crate) fn poll<F: Future + Unpin>(future: &mut F, context: &mut Context<'_>) -> Poll<F::Output> {
    pin!(tokio::task::unconstrained(future)).poll(context)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Panics;

    impl Wake for Panics {
        fn wake(self: Arc<Self>) {
            panic!("this is the caller's waker");
        }
    }

    // Another thread would take over from one that such a waker ends, but more slowly each time.
    #[test]
    fn a_waker_that_panics_does_not_end_the_thread_that_calls_it() {
        let relay = Arc::new(Relay { wakers: Arc::default(), caller: AtomicWaker::new() });
        relay.caller.register(&Arc::new(Panics).into());
        Due::Waker(relay).call();
    }
}
