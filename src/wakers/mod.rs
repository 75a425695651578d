//! Calls the code of callers: on one waker thread for the process, and never on a keeper (I12 of `docs/guarantees.md`).
//!
//! A waker is the caller's code. It may block, on a mutex or on the lock of an interpreter, and it may panic. So a
//! keeper never touches one, not even to clone or to drop it: callers poll the keeper's channels by a [`CallerWaker`],
//! with a waker of this crate that queues the caller's. The waker thread calls the queued wakers one after the other. A waker
//! that panics ends nothing. While a waker blocks, the others wait for [`PATIENCE`]; then a second thread takes over
//! the queue, and the first one ends when its waker returns.
//!
//! A subscriber of `tracing` and a recorder of `metrics` are the caller's code too. What a keeper has to tell them goes
//! through the same queue (`keeper/observe.rs`).
//!
//! All threads of the library block signals (`thread.rs`), and so do threads that the caller's code starts from here.
//!
//! A keeper only tries to lock the queue (`kept.rs`).
//!
//! A result is in its caller's channel before the waker is queued. So the order of wakers does not matter, and a
//! process that ends before all are called loses nothing.
//!
//! `blocking()` polls without this. Its waker wakes the thread that blocks and does nothing else, so a keeper may call
//! it. Only a caller that awaits the end or the renewal of a lease is woken by the waker thread in any case
//! (`keeper/shared.rs`).

mod kept;
mod of_process;
mod way;

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

pub(crate) use self::kept::IsKeeper;
pub(crate) use self::way::CallerWaker;
use self::way::WakerProxy;
use crate::fork::Process;
use crate::mutex::lock;
use crate::thread::{self, caught};

/// How long a waker may take while others wait, doubled for each thread that is blocked in one, up to
/// [`MOST_DOUBLINGS`] times: a thousand wakers that all wait for one mutex must not make a thousand threads at once, and
/// a few wakers that never return must not delay all others for long.
const PATIENCE: Duration = Duration::from_millis(5);
const MOST_DOUBLINGS: u32 = 6;

/// The most words that are queued. More are left out.
const MOST_WORDS: usize = 1000;

/// The wakers that are to be called, for the clients of a process. The threads that call them end with the last one that
/// has these.
pub(crate) struct Wakers {
    process: Process,
    threads: Arc<Threads>,
}

/// What the threads share.
struct Threads {
    state: Mutex<State>,
    /// For the current thread: a waker is due.
    due: Condvar,
    /// For the watching thread: a waker is due while another is being called.
    behind: Condvar,
}

#[derive(Default)]
struct State {
    queue: VecDeque<Due>,
    /// How many entries of the queue are words.
    words: usize,
    /// What the current thread does.
    doing: Doing,
    /// Wakers that were called so far.
    calls: u64,
    /// Incremented when another thread takes over the queue.
    turn: u64,
    /// Threads that were replaced and are still blocked in a waker.
    stuck: u32,
    watch: Watch,
    /// The first thread was started.
    begun: bool,
    /// Nobody adds anything any more.
    ended: bool,
}

/// Code of callers that is due.
enum Due {
    Waker(Arc<WakerProxy>),
    /// For a subscriber or a recorder. It may be left out.
    Words(Box<dyn FnOnce() + Send>),
    Call(Box<dyn FnOnce() + Send>),
}

impl State {
    fn add(&mut self, due: Due) {
        let is_word = matches!(due, Due::Words(_));
        if !is_word || self.words < MOST_WORDS {
            self.words += usize::from(is_word);
            self.queue.push_back(due);
        }
    }
}

impl Due {
    fn call(self) {
        let called = caught(move || match self {
            Self::Waker(proxy) => proxy.wake_caller(),
            Self::Words(call) | Self::Call(call) => call(),
        });
        // Nobody waits for it, and the program has seen its own panic.
        drop(called);
    }
}

#[derive(Default, Clone, Copy, PartialEq, Eq)]
enum Doing {
    /// Waits, and was not notified yet.
    Waits,
    #[default]
    Comes,
    Calls,
}

/// The thread that watches the current one. It is started when it is first needed.
#[derive(Default, Clone, Copy, PartialEq, Eq)]
enum Watch {
    #[default]
    Nobody,
    Sleeps,
    Looks,
}

impl Wakers {
    /// Without a thread, until the first keeper [`begin`](Self::begin)s.
    fn new() -> Arc<Self> {
        let threads = Threads { state: Mutex::default(), due: Condvar::new(), behind: Condvar::new() };
        Arc::new(Self { process: Process::this(), threads: Arc::new(threads) })
    }

    /// Starts the thread, unless it was started before.
    pub(crate) fn begin(&self) -> std::io::Result<()> {
        let mut state = lock(&self.threads.state);
        if !state.begun {
            self.threads.spawn(|threads| threads.call_in_turn(0))?;
            state.begun = true;
        }
        Ok(())
    }

    /// Tells a subscriber or a recorder something, through the waker thread. It is left out if [`MOST_WORDS`] are queued
    /// already.
    pub(crate) fn say(&self, words: impl FnOnce() + Send + 'static) {
        self.push(Due::Words(Box::new(words)));
    }

    /// Calls this on the waker thread, for what happens at most once to each lease, or for each future that waits.
    pub(crate) fn call(&self, call: impl FnOnce() + Send + 'static) {
        self.push(Due::Call(Box::new(call)));
    }

    fn push(&self, due: Due) {
        match kept::keep(due) {
            Some(due) => self.threads.add(lock(&self.threads.state), [due]),
            None => drop(self.pass_on()),
        }
    }
}

impl Drop for Wakers {
    fn drop(&mut self) {
        // A forked process has none of these threads, and one of them may have had the mutex at the fork.
        if !self.process.is_forked() {
            // Whoever drops it last, a keeper among them, renews nothing any more.
            lock(&self.threads.state).ended = true;
            self.threads.due.notify_one();
            self.threads.behind.notify_one();
        }
    }
}

impl Threads {
    /// The current thread is to do something while it calls a waker.
    fn is_behind(state: &State) -> bool {
        state.doing == Doing::Calls && !state.queue.is_empty()
    }

    fn spawn(self: &Arc<Self>, work: impl FnOnce(&Arc<Self>) + Send + 'static) -> std::io::Result<()> {
        let threads = self.clone();
        thread::spawn("fairlock-wakers", move || work(&threads))
    }

    /// Adds these to the queue, and rouses the current thread.
    fn add(self: &Arc<Self>, mut state: MutexGuard<'_, State>, dues: impl IntoIterator<Item = Due>) {
        dues.into_iter().for_each(|due| state.add(due));
        match state.doing {
            Doing::Waits => {
                state.doing = Doing::Comes;
                // Otherwise it wakes while the mutex is still held, and has to sleep again.
                drop(state);
                self.due.notify_one();
            }
            Doing::Comes => {}
            Doing::Calls => self.see_to_it(&mut state),
        }
    }

    /// The current thread, until another one takes over, or all is over.
    fn call_in_turn(self: &Arc<Self>, turn: u64) {
        let mut state = lock(&self.state);
        loop {
            let Some(due) = state.queue.pop_front() else {
                if state.ended {
                    return;
                }
                state.doing = Doing::Waits;
                state = self.due.wait(state).unwrap_or_else(PoisonError::into_inner);
                state.doing = Doing::Comes;
                continue;
            };
            state.doing = Doing::Calls;
            state.calls += 1;
            state.words -= usize::from(matches!(due, Due::Words(_)));
            if Self::is_behind(&state) {
                self.see_to_it(&mut state);
            }
            drop(state);
            due.call();
            state = lock(&self.state);
            if state.turn != turn {
                state.stuck -= 1;
                return;
            }
        }
    }

    /// Makes sure that the current thread is watched.
    fn see_to_it(self: &Arc<Self>, state: &mut State) {
        match state.watch {
            Watch::Looks => {}
            Watch::Sleeps => {
                state.watch = Watch::Looks;
                self.behind.notify_one();
            }
            // If no thread can be started, the next due waker tries again.
            Watch::Nobody => {
                if self.spawn(Self::look_on).is_ok() {
                    state.watch = Watch::Looks;
                }
            }
        }
    }

    /// Takes over when a waker blocks while others are due.
    fn look_on(self: &Arc<Self>) {
        let mut state = lock(&self.state);
        loop {
            let (calls, patience) = (state.calls, PATIENCE * (1 << state.stuck.min(MOST_DOUBLINGS)));
            drop(state);
            std::thread::sleep(patience);
            state = lock(&self.state);
            if !Self::is_behind(&state) {
                if state.ended {
                    return;
                }
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

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
