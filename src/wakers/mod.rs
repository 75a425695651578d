//! Calls the code of callers: on one waker thread for the process, and never on a keeper (I12 of `docs/guarantees.md`).
//!
//! A waker is the caller's code. It may block, on a mutex or on the lock of an interpreter, and it may panic. So a
//! keeper never touches one, not even to clone or to drop it: callers poll the keeper's channels by a [`Way`], with a
//! waker of this crate that queues the caller's. The waker thread calls the queued wakers one after the other. A waker
//! that panics ends nothing. While a waker blocks, the others wait for [`PATIENCE`]; then a second thread takes over
//! the queue, and the first one ends when its waker returns.
//!
//! The waker thread also reads the answers to tasks that have sent their requests themselves (`keeper/direct/`): it
//! would have to wake these tasks anyway.
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
mod nap;
mod of_process;
mod way;

use std::collections::{BTreeMap, VecDeque};
use std::os::fd::AsFd;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

pub(crate) use self::kept::IsKeeper;
use self::nap::Nap;
use self::way::Relay;
pub(crate) use self::way::Way;
use crate::mutex::{lock, try_lock};
use crate::thread;

/// How long a waker may take while others wait, doubled for each thread that is blocked in one, up to
/// [`MOST_DOUBLINGS`] times: a thousand wakers that all wait for one mutex must not make a thousand threads at once, and
/// a few wakers that never return must not delay all others for long.
const PATIENCE: Duration = Duration::from_millis(5);
const MOST_DOUBLINGS: u32 = 6;

/// After so many calls of wakers in a row, answers that have come are read.
const BETWEEN_LOOKS: u64 = 8;
/// The most words that are queued. More are left out.
const MOST_WORDS: usize = 1000;

/// What reads answers, on the waker thread. It waits for nobody and calls no code of callers.
pub(crate) trait Readable: Send + Sync {
    /// The socket that was to be watched can be read.
    fn readable(&self);
}

/// The name of a [`Readable`].
#[derive(Debug)]
pub(crate) struct Reader(u64);

impl Reader {
    pub(crate) fn new() -> Self {
        static LAST: AtomicU64 = AtomicU64::new(0);
        Self(LAST.fetch_add(1, Ordering::Relaxed) + 1)
    }
}

/// The wakers that are to be called, and the threads that call them.
pub(crate) struct Wakers {
    state: Mutex<State>,
    /// How the current thread sleeps: until a waker is due, or a socket can be read.
    nap: Nap,
    /// How many answers the current thread is to read. Keepers change this too, and wait for no mutex.
    awaited: AtomicU32,
    /// One that is gone is forgotten when the next one comes. No keeper locks this.
    readers: Mutex<BTreeMap<u64, Weak<dyn Readable>>>,
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
}

/// Code of callers that is due.
enum Due {
    Waker(Arc<Relay>),
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
        let called = std::panic::catch_unwind(AssertUnwindSafe(move || match self {
            Self::Waker(relay) => relay.wake_caller(),
            Self::Words(call) | Self::Call(call) => call(),
        }));
        // The payload of the panic may panic when it is dropped.
        called.unwrap_or_else(std::mem::forget);
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

impl std::fmt::Debug for Wakers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Wakers").finish_non_exhaustive()
    }
}

impl Wakers {
    /// Whether the waker thread can watch sockets.
    pub(crate) const WATCH_SOCKETS: bool = Nap::WATCHES;

    fn start() -> std::io::Result<Arc<Self>> {
        let (nap, awaited, behind) = (Nap::new()?, AtomicU32::new(0), Condvar::new());
        let wakers = Arc::new(Self { state: Mutex::default(), nap, awaited, readers: Mutex::default(), behind });
        wakers.spawn(|wakers| wakers.call_in_turn(0))?;
        Ok(wakers)
    }

    /// Tells a subscriber or a recorder something, through the waker thread. It is left out if [`MOST_WORDS`] are queued
    /// already.
    pub(crate) fn say(self: &Arc<Self>, words: impl FnOnce() + Send + 'static) {
        self.push(Due::Words(Box::new(words)));
    }

    /// Calls this on the waker thread, for what happens at most once to each lease, or for each future that waits.
    pub(crate) fn call(self: &Arc<Self>, call: impl FnOnce() + Send + 'static) {
        self.push(Due::Call(Box::new(call)));
    }

    /// From now on this is called by its name. It must be whole: one that is still being made counts as gone.
    pub(crate) fn register(&self, reader: &Reader, readable: Weak<dyn Readable>) {
        let mut readers = lock(&self.readers);
        readers.retain(|_, readable| readable.strong_count() > 0);
        readers.insert(reader.0, readable);
    }

    #[cfg(test)]
    pub(crate) fn knows(&self, reader: &Reader) -> bool {
        let readers = lock(&self.readers);
        readers.get(&reader.0).is_some_and(|readable| readable.strong_count() > 0)
    }

    /// Calls the reader once, when this socket can be read. An answer must be expected.
    pub(crate) fn watch(&self, reader: &Reader, socket: &impl AsFd) -> std::io::Result<()> {
        self.nap.watch(socket, reader.0)
    }

    /// Until it is [`answered`](Self::answered), no waker that blocks delays the answer for long.
    pub(crate) fn expect_answer(&self) {
        self.awaited.fetch_add(1, Ordering::SeqCst);
    }

    pub(crate) fn answered(&self) {
        self.awaited.fetch_sub(1, Ordering::SeqCst);
    }

    /// Called by keepers now and then: a waker may have blocked since before an answer was expected.
    pub(crate) fn look(self: &Arc<Self>) {
        if let Some(mut state) = try_lock(&self.state)
            && self.is_behind(&state)
        {
            self.see_to_it(&mut state);
        }
    }

    /// The current thread is to do something while it calls a waker.
    fn is_behind(&self, state: &State) -> bool {
        state.doing == Doing::Calls && (!state.queue.is_empty() || self.awaited.load(Ordering::SeqCst) > 0)
    }

    fn spawn(self: &Arc<Self>, work: impl FnOnce(&Arc<Self>) + Send + 'static) -> std::io::Result<()> {
        let wakers = self.clone();
        thread::spawn("fairlock-wakers", move || work(&wakers))
    }

    fn push(self: &Arc<Self>, due: Due) {
        match kept::keep(due) {
            Some(due) => self.add(lock(&self.state), [due]),
            None => drop(self.pass_on()),
        }
    }

    /// Adds these to the queue, and rouses the current thread.
    fn add(self: &Arc<Self>, mut state: MutexGuard<'_, State>, dues: impl IntoIterator<Item = Due>) {
        dues.into_iter().for_each(|due| state.add(due));
        match state.doing {
            Doing::Waits => {
                state.doing = Doing::Comes;
                // Otherwise it wakes while the mutex is still held, and has to sleep again.
                drop(state);
                self.nap.ring();
            }
            Doing::Comes => {}
            Doing::Calls => self.see_to_it(&mut state),
        }
    }

    /// The current thread, until another one takes over.
    fn call_in_turn(self: &Arc<Self>, turn: u64) {
        let mut state = lock(&self.state);
        loop {
            let Some(due) = state.queue.pop_front() else {
                state.doing = Doing::Waits;
                drop(state);
                self.read(&self.nap.sleep());
                state = lock(&self.state);
                continue;
            };
            state.doing = Doing::Calls;
            state.calls += 1;
            state.words -= usize::from(matches!(due, Due::Words(_)));
            if self.is_behind(&state) {
                self.see_to_it(&mut state);
            }
            drop(state);
            due.call();
            state = lock(&self.state);
            if state.turn != turn {
                state.stuck -= 1;
                return;
            }
            // The queue may never be empty.
            if state.calls.is_multiple_of(BETWEEN_LOOKS) && self.awaited.load(Ordering::SeqCst) > 0 {
                // It is in no waker, so nobody is to take over.
                state.doing = Doing::Comes;
                drop(state);
                self.read(&self.nap.look());
                state = lock(&self.state);
            }
        }
    }

    /// The current thread is awake again, and has these sockets to read.
    fn read(&self, readable: &[u64]) {
        // What is pushed meanwhile needs no ring.
        lock(&self.state).doing = Doing::Comes;
        for name in readable {
            let reader = lock(&self.readers).get(name).and_then(Weak::upgrade);
            if let Some(reader) = reader {
                reader.readable();
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
            if !self.is_behind(&state) {
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
