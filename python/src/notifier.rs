//! What wakes an event loop.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Wake, Waker};

use pyo3::prelude::*;

use crate::bell::Bell;

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

impl Notifier {
    pub(crate) fn waker(&self, key: u64) -> Waker {
        Arc::new(KeyWaker { shared: self.shared.clone(), key }).into()
    }
}

#[pymethods]
impl Notifier {
    #[new]
    fn new() -> io::Result<Self> {
        Ok(Self { shared: Arc::new(Shared { bell: Bell::new()?, due: Mutex::default() }) })
    }

    fn fileno(&self) -> i32 {
        self.shared.bell.fd()
    }

    /// Silences the socket and takes the keys of the operations that are to be polled again.
    fn drain(&self) -> Vec<u64> {
        self.shared.bell.silence();
        std::mem::take(&mut *self.shared.due.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
