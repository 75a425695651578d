//! Events of the library on their way to `logging`.
//!
//! The library tells its events on its waker thread, or on the thread of a caller who may hold the GIL. So an event is
//! only queued here. A thread of Python's (`fairlock/_logging.py`) waits for it and calls `logging`.

use std::collections::VecDeque;
use std::fmt::{self, Write as _};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, Once, PoisonError};
use std::thread::yield_now;

use pyo3::prelude::*;
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::Interest;
use tracing::{Event, Level, Metadata, Subscriber};

/// The most events that wait for Python. Later ones are counted, and left out.
const MOST: usize = 1000;
const ATTEMPTS: u32 = 1000;

/// Level (as in `logging`), text, and fields of an event.
type Entry = (u8, String, Vec<(&'static str, String)>);

#[derive(Default)]
struct Logs {
    entries: VecDeque<Entry>,
    left_out: u64,
    over: bool,
}

static LOGS: Mutex<Logs> = Mutex::new(Logs { entries: VecDeque::new(), left_out: 0, over: false });
static ADDED: Condvar = Condvar::new();
/// The lowest level of `logging` that somebody wants.
static LOWEST: AtomicUsize = AtomicUsize::new(usize::MAX);

fn logs() -> MutexGuard<'static, Logs> {
    LOGS.lock().unwrap_or_else(PoisonError::into_inner)
}

fn number(level: Level) -> u8 {
    match level {
        Level::ERROR => 40,
        Level::WARN => 30,
        Level::INFO => 20,
        Level::DEBUG => 10,
        Level::TRACE => 5,
    }
}

struct Queue;

impl Subscriber for Queue {
    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> Interest {
        if metadata.is_event() { Interest::sometimes() } else { Interest::never() }
    }

    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_event() && usize::from(number(*metadata.level())) >= LOWEST.load(Ordering::Relaxed)
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(LevelFilter::TRACE)
    }

    fn event(&self, event: &Event<'_>) {
        let mut told = Told::default();
        event.record(&mut told);
        // In a forked process a thread of the parent may have the mutex for ever, so this does not wait for it.
        let Some(mut logs) = (0..ATTEMPTS).find_map(|_| {
            LOGS.try_lock().ok().or_else(|| {
                yield_now();
                None
            })
        }) else {
            return;
        };
        if logs.entries.len() < MOST {
            logs.entries.push_back((number(*event.metadata().level()), told.message, told.fields));
        } else {
            logs.left_out += 1;
        }
        drop(logs);
        ADDED.notify_one();
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[derive(Default)]
struct Told {
    message: String,
    fields: Vec<(&'static str, String)>,
}

impl Visit for Told {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.record_debug(field, &format_args!("{value}"));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "message" {
            let _ = write!(self.message, "{value:?}");
        } else {
            self.fields.push((field.name(), format!("{value:?}")));
        }
    }
}

/// From now on events of this level of `logging` and above are queued.
#[pyfunction]
pub(crate) fn log_level(level: usize) {
    static SUBSCRIBED: Once = Once::new();
    SUBSCRIBED.call_once(|| {
        // Nobody else has this copy of `tracing`, so there is no other subscriber.
        let _ = tracing::subscriber::set_global_default(Queue);
    });
    LOWEST.store(level, Ordering::Relaxed);
}

/// Waits without the GIL for events, and takes them, with the number of those that were left out. None at the end.
#[pyfunction]
pub(crate) fn next_logs(py: Python<'_>) -> Option<(Vec<Entry>, u64)> {
    py.detach(|| {
        let mut logs = logs();
        while logs.entries.is_empty() && !logs.over {
            logs = ADDED.wait(logs).unwrap_or_else(PoisonError::into_inner);
        }
        let entries: Vec<Entry> = std::mem::take(&mut logs.entries).into();
        (!entries.is_empty()).then(|| (entries, std::mem::take(&mut logs.left_out)))
    })
}

/// The thread that takes events ends when it has taken all.
#[pyfunction]
pub(crate) fn no_more_logs() {
    logs().over = true;
    LOWEST.store(usize::MAX, Ordering::Relaxed);
    ADDED.notify_all();
}
