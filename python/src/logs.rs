//! Events of the library on their way to `logging`.
//!
//! The library tells its events on its waker thread, or on the thread of a caller who may hold the GIL. So an event is
//! only queued here. A thread of Python's, or a greenlet (`fairlock/_logging.py`), waits for it and calls `logging`.

use std::collections::VecDeque;
use std::fmt::{self, Write as _};
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use once_cell::race::OnceBox;
use pyo3::prelude::*;
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::Interest;
use tracing::{Event, Level, Metadata, Subscriber};

use crate::bell::Bell;

/// The most events that wait for Python. Later ones are counted, and left out.
const MOST: usize = 1000;

/// Level (as in `logging`), text, and fields of an event.
type Entry = (u8, String, Vec<(&'static str, String)>);

#[derive(Default)]
struct Logs {
    entries: VecDeque<Entry>,
    left_out: u64,
    over: bool,
}

/// The events of one process. A forked one has its own: the events of its parent are told there, and a thread of the
/// parent may have had the mutex at the fork. For the same reason nobody waits at a [`OnceBox`].
struct OfProcess {
    process: u32,
    logs: Mutex<Logs>,
    /// Rings when there is an event, or no more will come.
    bell: Bell,
    forked: OnceBox<OfProcess>,
}

impl OfProcess {
    fn new() -> io::Result<Box<Self>> {
        let process = std::process::id();
        Ok(Box::new(Self { process, logs: Mutex::default(), bell: Bell::new()?, forked: OnceBox::new() }))
    }

    fn this() -> io::Result<&'static Self> {
        static FIRST: OnceBox<OfProcess> = OnceBox::new();
        let mut of_process = FIRST.get_or_try_init(Self::new)?;
        while of_process.process != std::process::id() {
            of_process = of_process.forked.get_or_try_init(Self::new)?;
        }
        Ok(of_process)
    }

    fn logs(&self) -> MutexGuard<'_, Logs> {
        self.logs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What has been queued, with the number of events that were left out. None at the end.
    fn take(&self) -> Option<(Vec<Entry>, u64)> {
        self.bell.silence();
        let mut logs = self.logs();
        let entries: Vec<Entry> = std::mem::take(&mut logs.entries).into();
        (!entries.is_empty() || !logs.over).then(|| (entries, std::mem::take(&mut logs.left_out)))
    }
}

/// The lowest level of `logging` that somebody wants.
static LOWEST: AtomicUsize = AtomicUsize::new(usize::MAX);

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
        // Without a descriptor for the bell nobody could hear of it.
        let Ok(of_process) = OfProcess::this() else { return };
        let mut logs = of_process.logs();
        if logs.entries.len() < MOST {
            logs.entries.push_back((number(*event.metadata().level()), told.message, told.fields));
        } else {
            logs.left_out += 1;
        }
        drop(logs);
        of_process.bell.ring();
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

/// When the module is imported.
pub(crate) fn subscribe() {
    // Nobody else has this copy of `tracing`, so there is no other subscriber.
    let _ = tracing::subscriber::set_global_default(Queue);
}

/// From now on events of this level of `logging` and above are queued.
#[pyfunction]
pub(crate) fn log_level(level: usize) {
    LOWEST.store(level, Ordering::Relaxed);
}

/// Waits without the GIL for events, and takes them, with the number of those that were left out. None at the end.
#[pyfunction]
pub(crate) fn next_logs(py: Python<'_>) -> PyResult<Option<(Vec<Entry>, u64)>> {
    let of_process = OfProcess::this()?;
    Ok(py.detach(|| {
        of_process.bell.sleep(None);
        of_process.take()
    }))
}

/// As [`next_logs`], without waiting.
#[pyfunction]
pub(crate) fn take_logs() -> PyResult<Option<(Vec<Entry>, u64)>> {
    Ok(OfProcess::this()?.take())
}

/// Is readable when there are events.
#[pyfunction]
pub(crate) fn logs_fileno() -> PyResult<i32> {
    Ok(OfProcess::this()?.bell.fd())
}

/// Those who take events end when they have taken all.
#[pyfunction]
pub(crate) fn no_more_logs() -> PyResult<()> {
    LOWEST.store(usize::MAX, Ordering::Relaxed);
    let of_process = OfProcess::this()?;
    of_process.logs().over = true;
    of_process.bell.ring();
    Ok(())
}
