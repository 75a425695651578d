//! Locks, and places in their queues.

use std::future::IntoFuture as _;
use std::sync::{Arc, Mutex, PoisonError};

use fairlock::LockAll;
use fairlock::compat::{is_locked_by_anyone, is_locked_by_me};
use fairlock::error::InvalidOption;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

use crate::convert::{broken, done, duration, history, lock_state, yes_or_no};
use crate::errors::Raise;
use crate::guard::{AllGuard, Guard};
use crate::operation::{Brought, Kept, Operation, give_back};

#[pyclass(frozen, module = "fairlock._native")]
pub(crate) struct Lock {
    lock: fairlock::Lock,
}

/// An acquire with what its caller gave.
macro_rules! with {
    ($acquire:expr, $timeout:ident, $label:ident, $owner:ident) => {{
        let mut acquire = $acquire;
        if let Some(timeout) = $timeout {
            acquire = acquire.timeout(duration("timeout", timeout)?);
        }
        if let Some(label) = $label {
            acquire = acquire.label(label);
        }
        if let Some(owner) = $owner {
            acquire = acquire.owner(owner);
        }
        acquire
    }};
}

/// A guard as Python gets it.
fn granted<E: Raise>(py: Python<'_>, outcome: Result<fairlock::Guard, E>) -> PyResult<Brought> {
    outcome.map_err(|error| error.raise(py)).and_then(|guard| Guard::bring(py, guard))
}

impl Lock {
    pub(crate) fn new(lock: fairlock::Lock) -> Self {
        Self { lock }
    }
}

#[pymethods]
impl Lock {
    #[getter]
    fn name(&self) -> &str {
        self.lock.name()
    }

    #[getter]
    fn label(&self) -> &str {
        self.lock.label()
    }

    #[getter]
    fn owner(&self) -> &str {
        self.lock.owner()
    }

    #[getter]
    fn lease(&self) -> f64 {
        self.lock.lease_length().as_secs_f64()
    }

    #[getter]
    fn slots(&self) -> u32 {
        self.lock.slots()
    }

    #[getter]
    fn client_id(&self) -> &str {
        self.lock.client_id()
    }

    fn acquire(&self, timeout: Option<f64>, label: Option<String>, owner: Option<String>) -> PyResult<Operation> {
        Ok(Operation::bringing(with!(self.lock.acquire(), timeout, label, owner), granted))
    }

    fn try_acquire(&self, timeout: Option<f64>, label: Option<String>, owner: Option<String>) -> PyResult<Operation> {
        Ok(Operation::bringing(with!(self.lock.try_acquire(), timeout, label, owner), granted))
    }

    fn enqueue(&self, timeout: Option<f64>, label: Option<String>, owner: Option<String>) -> PyResult<Operation> {
        let enqueue = with!(self.lock.enqueue(), timeout, label, owner);
        Ok(Operation::bringing(enqueue, |py, queued| {
            let waiting = Arc::new(Mutex::new(Some(queued.map_err(|error| error.raise(py))?)));
            let back = give_back(&waiting);
            Ok((Py::new(py, Waiting { waiting })?.into_any(), back))
        }))
    }

    fn inspect(&self) -> Operation {
        Operation::new(self.lock.inspect(), |py, state| match state {
            Ok(state) => lock_state(py, &state),
            Err(fault) => Err(fault.raise(py)),
        })
    }

    fn break_lease(&self, token: u64, force: bool) -> Operation {
        let broken_or_not = if force { self.lock.force_break_lease(token) } else { self.lock.break_lease(token) };
        Operation::new(broken_or_not, |py, outcome| match outcome {
            Ok(outcome) => broken(py, outcome),
            Err(fault) => Err(fault.raise(py)),
        })
    }

    fn end_recovery(&self) -> Operation {
        Operation::new(self.lock.end_recovery(), yes_or_no)
    }

    fn history(&self, count: u32) -> Operation {
        Operation::new(self.lock.history(count), |py, past| match past {
            Ok(past) => history(py, &past),
            Err(fault) => Err(fault.raise(py)),
        })
    }

    fn record_history(&self, on: bool) -> Operation {
        Operation::new(self.lock.record_history(on), done)
    }

    fn trouble(&self) -> Operation {
        Operation::new(self.lock.trouble(), |py, trouble| match trouble {
            Ok(text) => Ok(text.as_deref().into_pyobject(py)?.into_any().unbind()),
            Err(fault) => Err(fault.raise(py)),
        })
    }

    fn is_locked_by_me(&self) -> Operation {
        Operation::new(is_locked_by_me(&self.lock), yes_or_no)
    }

    fn is_locked_by_anyone(&self) -> Operation {
        Operation::new(is_locked_by_anyone(&self.lock), yes_or_no)
    }
}

/// Acquires locks of one client together.
#[pyfunction]
pub(crate) fn lock_all(
    py: Python<'_>,
    locks: Vec<PyRef<'_, Lock>>,
    timeout: Option<f64>,
    label: Option<String>,
    owner: Option<String>,
) -> PyResult<Operation> {
    let Some((first, others)) = locks.split_first() else { return Err(InvalidOption::NoNames.raise(py)) };
    let all = others.iter().fold(LockAll::from(&first.lock), |all, other| all.and(&other.lock));
    Ok(Operation::bringing(with!(all, timeout, label, owner).into_future(), |py, acquired| {
        acquired.map_err(|error| error.raise(py)).and_then(|guard| AllGuard::bring(py, guard))
    }))
}

/// A place in the queue, until it is waited for.
#[pyclass(frozen, module = "fairlock._native")]
pub(crate) struct Waiting {
    waiting: Kept<fairlock::Waiting>,
}

impl Waiting {
    fn with<T>(&self, ask: impl FnOnce(&fairlock::Waiting) -> T) -> PyResult<T> {
        let waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.as_ref().map(ask).ok_or_else(over)
    }
}

fn over() -> PyErr {
    PyRuntimeError::new_err("this place in the queue was left, or its grant was waited for already")
}

#[pymethods]
impl Waiting {
    #[getter]
    fn ticket(&self) -> PyResult<u64> {
        self.with(fairlock::Waiting::ticket)
    }

    fn position(&self) -> PyResult<Operation> {
        let position = self.with(fairlock::Waiting::position)?;
        Ok(Operation::new(position, |py, position| match position {
            Ok(position) => Ok(position.into_pyobject(py)?.into_any().unbind()),
            Err(fault) => Err(fault.raise(py)),
        }))
    }

    /// The wait for the grant.
    fn grant(&self) -> PyResult<Operation> {
        let waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner).take();
        Ok(Operation::bringing(waiting.ok_or_else(over)?, granted))
    }

    /// Leaves the queue.
    fn leave(&self) {
        let waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner).take();
        drop(waiting);
    }
}
