//! What wakes an event loop.

use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Wake};

use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::bell::Bell;
use crate::errors::no_descriptor;
use crate::operation::Operation;

struct Shared {
    bell: Bell,
    /// The operations that are to be polled again.
    due: Mutex<Vec<u64>>,
}

/// The socket that an event loop watches, and the keys of the operations that are to be polled again.
#[pyclass(frozen, module = "fairlock._native")]
pub(crate) struct Notifier {
    shared: Arc<Shared>,
}

struct KeyWaker {
    shared: Arc<Shared>,
    key: u64,
}

impl Wake for KeyWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.shared.due.lock().unwrap_or_else(PoisonError::into_inner).push(self.key);
        self.shared.bell.ring();
    }
}

#[pymethods]
impl Notifier {
    #[new]
    fn new(py: Python<'_>) -> PyResult<Self> {
        let bell = Bell::new().map_err(|error| no_descriptor(py, &error))?;
        Ok(Self { shared: Arc::new(Shared { bell, due: Mutex::default() }) })
    }

    /// Whether this operation has ended. If not, the notifier names the key when it is to be polled again.
    fn poll(&self, operation: &Operation, key: u64) -> bool {
        let waker = Arc::new(KeyWaker { shared: self.shared.clone(), key }).into();
        operation.step(&mut Context::from_waker(&waker))
    }

    fn fileno(&self) -> i32 {
        self.shared.bell.fd()
    }

    /// Silences the socket, polls the operations that are due, and tells those who wait for one that has ended.
    ///
    /// `pending` has an operation and a function without arguments for each key. All of this is one call without a frame
    /// of Python's: an exception of a signal handler that came in between would leave somebody asleep for ever.
    fn wake_due(&self, pending: &Bound<'_, PyDict>) -> PyResult<()> {
        self.shared.bell.silence();
        let due = std::mem::take(&mut *self.shared.due.lock().unwrap_or_else(PoisonError::into_inner));
        let mut failure = None;
        for key in due {
            let Some(entry) = pending.get_item(key)? else { continue };
            let (operation, wake): (PyRef<'_, Operation>, Bound<'_, PyAny>) = entry.extract()?;
            if self.poll(&operation, key) {
                pending.del_item(key)?;
                if let Err(error) = wake.call0() {
                    failure.get_or_insert(error);
                }
            }
        }
        failure.map_or(Ok(()), Err)
    }
}
