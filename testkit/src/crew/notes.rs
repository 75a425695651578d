//! How a member of the crew records what happens to its waiters, whatever becomes of their futures and guards.
//!
//! Everything is recorded by dropping, before the recorded future or guard is dropped itself. So a cancelled task, a
//! panic and an ordinary end are recorded alike. A separate thread, the witness, watches all guards: it records that
//! their own check says that they hold the lock, and when that ends, also while the runtime of their tasks is blocked.

use std::{
    future::Future,
    path::Path,
    pin::Pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use fairlock::{
    Guard, Held,
    error::{AcquireError, Fault, RenewError, TryAcquireError},
};

use crate::history::{Event, Recorder, now_ns};

/// The interval between two looks of the witness; it is shorter when a lease is about to end.
const LOOK: Duration = Duration::from_millis(10);
const CLOSE_LOOK: Duration = Duration::from_millis(1);
/// The more holders there are, the fewer of them are noted to hold at each look, so that the history remains short.
const NOTED: usize = 16;
/// How long a call without a timeout of its own may wait for the server's answer.
pub const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

pub struct Notes {
    record: Recorder,
    holding: Mutex<Vec<(String, Held)>>,
}

impl Notes {
    pub fn open(path: &Path, process: &str) -> Arc<Notes> {
        let record = Recorder::open(path, process).expect("opening the history");
        Arc::new(Notes { record, holding: Mutex::new(Vec::new()) })
    }

    /// Watches the guards until the process ends. `long` is a pause that may cost a process its place: the machine can
    /// be so busy that the process stands still for that long, which excuses as much as a pause.
    pub fn witness(self: &Arc<Notes>, lease: Duration, long: Duration) {
        let notes = self.clone();
        std::thread::spawn(move || {
            let (mut looked, mut looks) = (now_ns(), 0);
            loop {
                looked = notes.record.note_pause(looked, long);
                looks += 1;
                std::thread::sleep(if notes.look(lease, looks) { CLOSE_LOOK } else { LOOK });
            }
        });
    }

    /// Whether one of them is close to its end.
    fn look(&self, lease: Duration, looks: usize) -> bool {
        let mut close = false;
        let mut holding = self.holding();
        let (mut nth, one_in) = (looks, holding.len() / NOTED + 1);
        holding.retain(|(waiter, held)| {
            nth += 1;
            let at = now_ns();
            let holds = held.check().is_ok();
            if holds {
                if nth.is_multiple_of(one_in) {
                    self.record.note_at(at, waiter, Event::Held);
                }
                close |= held.remaining() < lease / 4;
            } else {
                self.record.note(waiter, Event::Lost);
            }
            holds
        });
        close
    }

    fn holding(&self) -> MutexGuard<'_, Vec<(String, Held)>> {
        self.holding.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An acquire is about to begin, of a lease with which so many may hold together.
    pub fn call(self: &Arc<Notes>, waiter: String, timeout: Option<Duration>, most: u32) -> Call {
        let called_ns = now_ns();
        let timeout_ns = timeout.map(|timeout| timeout.as_nanos() as u64);
        let event = timeout_ns.map_or(Event::Called, Event::CalledFor);
        self.record.note_at(called_ns, &waiter, event);
        if most > 1 {
            self.record.note_at(called_ns, &waiter, Event::Shares(most));
        }
        let notes = self.clone();
        Call(Arc::new(Called { notes, waiter, called_ns, timeout_ns, resolved: AtomicBool::new(false) }))
    }
}

struct Called {
    notes: Arc<Notes>,
    waiter: String,
    called_ns: u64,
    timeout_ns: Option<u64>,
    resolved: AtomicBool,
}

/// An acquire on record, until it is resolved.
#[derive(Clone)]
pub struct Call(Arc<Called>);

impl Call {
    /// `future`, as the one whose cancellation ends this acquire.
    pub fn attend<F>(&self, future: F) -> Attended<F> {
        Attended { leaves: Leaves(Some(self.clone())), future: Box::pin(future) }
    }

    pub fn queued(&self, ticket: u64) {
        self.note(Event::Queued(ticket));
    }

    pub fn granted(&self, guard: Guard) -> Holding {
        self.queued(guard.ticket());
        Holding { releases: self.held(&guard.held()), guard: Some(guard) }
    }

    /// It holds the lock, with a ticket that is not known.
    pub fn held(&self, held: &Held) -> Releases {
        self.resolve();
        let mut holding = self.0.notes.holding();
        let at = now_ns();
        self.note_at(at, Event::Granted(held.token(), held.slot()));
        if held.check().is_ok() {
            // Even if the process is stopped now, this much is certain.
            self.note_at(at, Event::Held);
            holding.push((self.0.waiter.clone(), held.clone()));
        } else {
            self.note_at(at, Event::Lost);
        }
        Releases(self.0.clone())
    }

    pub fn failed(&self, error: &AcquireError) {
        match error {
            AcquireError::Timeout { .. } => self.gave_up(self.0.timeout_ns.expect("who has one")),
            AcquireError::NotTaken { .. } => self.returned(now_ns(), Event::Untaken),
            AcquireError::Fault(fault) => self.fault(fault),
            other => panic!("{}: {other}", self.0.waiter),
        }
    }

    pub fn try_failed(&self, error: &TryAcquireError) {
        match error {
            TryAcquireError::Busy { .. } => self.returned(self.0.called_ns, Event::Left),
            TryAcquireError::NotTaken { .. } => self.returned(now_ns(), Event::Untaken),
            TryAcquireError::Fault(fault) => self.fault(fault),
            other => panic!("{}: {other}", self.0.waiter),
        }
    }

    /// Only what a silent or slow server can lead to.
    fn fault(&self, fault: &Fault) {
        match fault {
            Fault::Unavailable { .. } => self.gave_up(ANSWER_TIMEOUT.as_nanos() as u64),
            // When its place ended is not known.
            Fault::TooSlow { .. } => {
                self.returned(self.0.called_ns, Event::Left);
            }
            other => panic!("{}: {other}", self.0.waiter),
        }
    }

    fn gave_up(&self, after_ns: u64) {
        self.returned(self.0.called_ns + after_ns, Event::Left);
    }

    fn returned(&self, at_ns: u64, event: Event) {
        self.resolve();
        self.note(Event::Returned);
        self.note_at(at_ns, event);
    }

    fn resolve(&self) -> bool {
        !self.0.resolved.swap(true, Ordering::AcqRel)
    }

    fn note(&self, event: Event) {
        self.0.notes.record.note(&self.0.waiter, event);
    }

    fn note_at(&self, at_ns: u64, event: Event) {
        self.0.notes.record.note_at(at_ns, &self.0.waiter, event);
    }
}

/// An acquire that leaves when this is dropped, unless it was resolved.
struct Leaves(Option<Call>);

impl Drop for Leaves {
    fn drop(&mut self) {
        if let Some(call) = self.0.take().filter(Call::resolve) {
            call.note(Event::Left);
        }
    }
}

/// A future whose acquire is on record. The note is dropped first.
pub struct Attended<F> {
    leaves: Leaves,
    future: Pin<Box<F>>,
}

impl<F: Future> Future for Attended<F> {
    type Output = F::Output;
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let result = self.future.as_mut().poll(context);
        if result.is_ready() {
            // The caller records how it ended.
            self.leaves.0 = None;
        }
        result
    }
}

/// A recorded hold: it is over when this is dropped, and the guard must not be gone before.
pub struct Releases(Arc<Called>);

impl Releases {
    fn note(&self, event: Event) {
        self.0.notes.record.note(&self.0.waiter, event);
    }
}

impl Drop for Releases {
    fn drop(&mut self) {
        let Called { notes, waiter, .. } = &*self.0;
        let mut holding = notes.holding();
        // A waiter that is not listed any more was told that its lease is lost.
        let Some(at) = holding.iter().position(|(its, _)| its == waiter) else { return };
        let (_, held) = holding.swap_remove(at);
        let now = now_ns();
        let end = if held.check().is_ok() { Event::Released } else { Event::Lost };
        notes.record.note_at(now, waiter, end);
    }
}

/// A guard on record. The note is dropped first.
pub struct Holding {
    releases: Releases,
    guard: Option<Guard>,
}

impl Holding {
    /// The guard, which is about to become that of a reader, with as many others as this.
    pub fn downgrades(&self, most: u32) -> &Guard {
        self.releases.note(Event::Downgrades(most));
        self.guard.as_ref().expect("nobody has taken it")
    }

    /// What became of it. Its caller finds out by itself if its lease is lost.
    pub fn downgraded(&self, outcome: &Result<(), RenewError>) {
        match outcome {
            Ok(()) => self.releases.note(Event::Downgraded),
            Err(RenewError::Lost(_) | RenewError::Fault(Fault::Unavailable { .. } | Fault::TooSlow { .. })) => {}
            Err(other) => panic!("{}: {other}", self.releases.0.waiter),
        }
    }

    /// The guard, to be released; from here on it is not held any more.
    pub fn into_guard(mut self) -> Guard {
        self.guard.take().expect("nobody else takes it")
    }
}
