//! What the classes of Python are built on where an exception of a signal handler must find no frame of Python's: such an
//! exception comes before any line of a function, the first one too, and whoever keeps it keeps the frame.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::kept::warn;
use crate::operation::Operation;

/// A call that waits, before and after it was begun.
#[pyclass(frozen, subclass, module = "fairlock._native")]
pub(crate) struct Call {
    what: String,
    begun: AtomicBool,
    /// An error has said that it was not begun.
    told: AtomicBool,
    operation: Mutex<Option<Py<Operation>>>,
}

impl Call {
    fn operation(&self) -> MutexGuard<'_, Option<Py<Operation>>> {
        self.operation.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[pymethods]
impl Call {
    /// The other arguments are for the class that is built on this one.
    #[new]
    #[pyo3(signature = (what, *_more))]
    fn new(what: String, _more: &Bound<'_, PyTuple>) -> Self {
        Self { what, begun: AtomicBool::new(false), told: AtomicBool::new(false), operation: Mutex::default() }
    }

    #[getter]
    fn _what(&self) -> &str {
        &self.what
    }

    #[getter]
    fn _begun(&self) -> bool {
        self.begun.load(Ordering::Relaxed)
    }

    /// From now on it needs no warning, and cannot be begun again.
    fn _mark_begun(&self) -> PyResult<()> {
        if self.begun.swap(true, Ordering::Relaxed) {
            return Err(PyRuntimeError::new_err(format!("{} was waited for already: call it again", self.what)));
        }
        Ok(())
    }

    /// From now on it needs no warning.
    fn _mark_told(&self) {
        self.told.store(true, Ordering::Relaxed);
    }

    /// The operation that `make` makes, if there is something to do.
    fn _start(&self, py: Python<'_>, make: &Bound<'_, PyAny>) -> PyResult<Option<Py<Operation>>> {
        let made: Option<Py<Operation>> = make.call0()?.extract()?;
        *self.operation() = made.as_ref().map(|made| made.clone_ref(py));
        Ok(made)
    }

    /// Gives up what was begun, and what it has brought: an exception came before the caller had it.
    fn _give_up(&self) {
        let given_up = self.operation().take();
        if let Some(operation) = given_up {
            operation.get().cancel();
        }
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        if *self.begun.get_mut() || *self.told.get_mut() {
            return;
        }
        warn(&format!(
            "{} was neither awaited nor waited for, so nothing was done: use `with`, `async with`, `await` or `.wait()`",
            self.what
        ));
    }
}

/// What has a `with` block: a lease, or, as `_entered`, an object with one.
#[pyclass(frozen, subclass, module = "fairlock._native")]
pub(crate) struct Block;

#[pymethods]
impl Block {
    #[new]
    #[pyo3(signature = (*_more))]
    fn new(_more: &Bound<'_, PyTuple>) -> Self {
        Self
    }

    /// Begins the release first of all. The rest, `_ended`, waits for the answer.
    fn __exit__(
        slf: &Bound<'_, Self>,
        kind: &Bound<'_, PyAny>,
        error: &Bound<'_, PyAny>,
        _trace: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let held = match slf.getattr_opt("_entered")? {
            Some(entered) => entered,
            None => slf.as_any().clone(),
        };
        let releasing = held.getattr("_guard")?.call_method0("release")?;
        held.call_method1("_ended", (releasing, kind, error)).map(drop)
    }
}
