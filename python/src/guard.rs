//! Leases that are held.

use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};

use fairlock::compat::{refresh, set_automatic_renewal, verify};
use fairlock::error::{Lost, LostReason};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::convert::{done, duration, since_epoch, yes_or_no};
use crate::errors::{Raise, lost};
use crate::kept::warn;
use crate::operation::{Brought, Kept, Operation, exits, give_back};

/// A lease. It is given back when this is dropped.
#[pyclass(frozen, module = "fairlock._native")]
pub(crate) struct Guard {
    held: fairlock::Held,
    /// None when it was released.
    guard: Kept<fairlock::Guard>,
}

/// `await lock.acquire()` alone on a line, `if await lock.acquire():` and `token = lock.acquire().wait().token` drop what
/// they get before the next line. What was asked of the lease before that tells nothing of it.
impl Drop for Guard {
    fn drop(&mut self) {
        warn_of(&self.guard, std::slice::from_ref(&self.held));
    }
}

fn warn_of<T>(guard: &Mutex<Option<T>>, leases: &[fairlock::Held]) {
    let held = guard.lock().unwrap_or_else(PoisonError::into_inner).is_some();
    // A lease that is over, or the parent's, is not released here. The holder was told what it lost.
    if held && !exits() && leases.iter().all(|lease| lease.check().is_ok()) {
        let names: Vec<_> = leases.iter().map(|lease| format!("{:?}", lease.name())).collect();
        warn(&format!(
            "the lease of {} was dropped without a release, and is released now, so what follows does not hold the lock: \
             write `with`, or keep it (`held = ...`) until `held.release()`",
            names.join(", ")
        ));
    }
}

/// The loss of a lease that this process has from its parent. Whatever asks or releases it says this.
fn of_parent(held: &fairlock::Held) -> Option<Lost> {
    held.check().err().filter(|lost| matches!(lost.reason, LostReason::Forked))
}

/// Releases a guard, or several.
fn releasing<E: Raise + Send + 'static>(
    held: &[fairlock::Held],
    release: impl Future<Output = Result<(), E>> + Send + 'static,
) -> Operation {
    let of_parent = held.iter().find_map(of_parent);
    let released = move |py: Python<'_>, outcome| match of_parent {
        Some(lost) => Err(lost.raise(py)),
        None => done(py, outcome),
    };
    Operation::new(release, released).begun()
}

/// The end of the interpreter releases everything. What is collected after that, and releases what it holds, as it should,
/// has nothing to complain of.
fn not_at_the_end<T>(guard: T) -> Option<T> {
    (!exits()).then_some(guard)
}

impl Guard {
    pub(crate) fn bring(py: Python<'_>, guard: fairlock::Guard) -> PyResult<Brought> {
        let guard = Self { held: guard.held(), guard: Arc::new(Mutex::new(Some(guard))) };
        let back = give_back(&guard.guard);
        Ok((Py::new(py, guard)?.into_any(), back))
    }

    fn take(&self) -> Option<fairlock::Guard> {
        self.guard.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// An operation of the guard. If it was released, or belongs to the parent process, the lease says so.
    fn ask<T>(&self, py: Python<'_>, operation: impl FnOnce(&fairlock::Guard) -> T) -> PyResult<T> {
        if let Some(lost) = of_parent(&self.held) {
            return Err(lost.raise(py));
        }
        let answer = self.guard.lock().unwrap_or_else(PoisonError::into_inner).as_ref().map(operation);
        // Without the mutex: making an exception runs Python, and with it handlers of signals.
        answer.ok_or_else(|| match self.held.check() {
            Err(lost) => lost.raise(py),
            Ok(()) => crate::errors::invalid("the lock is being released"),
        })
    }
}

#[pymethods]
impl Guard {
    #[getter]
    fn name(&self) -> &str {
        self.held.name()
    }

    #[getter]
    fn token(&self) -> u64 {
        self.held.token()
    }

    #[getter]
    fn ticket(&self) -> u64 {
        self.held.ticket()
    }

    #[getter]
    fn slot(&self) -> u32 {
        self.held.slot()
    }

    #[getter]
    fn slots(&self) -> u32 {
        self.held.slots()
    }

    #[getter]
    fn id(&self) -> String {
        self.held.id()
    }

    #[getter]
    fn owner(&self) -> &str {
        self.held.owner()
    }

    #[getter]
    fn label(&self) -> &str {
        self.held.label()
    }

    #[getter]
    fn lease(&self) -> f64 {
        self.held.lease_length().as_secs_f64()
    }

    #[getter]
    fn granted_at(&self) -> f64 {
        since_epoch(self.held.granted_at())
    }

    #[getter]
    fn waited(&self) -> f64 {
        self.held.waited().as_secs_f64()
    }

    #[getter]
    fn remaining(&self) -> f64 {
        self.held.remaining().as_secs_f64()
    }

    fn check(&self, py: Python<'_>) -> PyResult<()> {
        self.held.check().map_err(|lost| lost.raise(py))
    }

    /// Ends when the lease is over: with the loss as an exception that is not raised, or None if it was released.
    fn ended(&self) -> Operation {
        Operation::new(self.held.ended(), |py, ended| match ended {
            Some(loss) => Ok(lost(py, &loss)?.unbind()),
            None => Ok(py.None()),
        })
    }

    /// Ends at the next renewal, with what is left of the lease.
    fn renewed(&self) -> Operation {
        Operation::new(self.held.renewed(), |py, renewed| match renewed {
            Ok(remaining) => Ok(remaining.as_secs_f64().into_pyobject(py)?.into_any().unbind()),
            Err(lost) => Err(lost.raise(py)),
        })
    }

    fn renew(&self, py: Python<'_>) -> PyResult<Operation> {
        Ok(Operation::new(self.ask(py, fairlock::Guard::renew)?, done))
    }

    fn extend(&self, py: Python<'_>, additional: f64) -> PyResult<Operation> {
        let additional = duration("the extension", additional)?;
        Ok(Operation::new(self.ask(py, |guard| guard.extend(additional))?, done))
    }

    /// After it has ended without an error, the lease is a reader's.
    fn downgrade(&self, py: Python<'_>) -> PyResult<Operation> {
        Ok(Operation::new(self.ask(py, fairlock::Guard::downgrade)?, done))
    }

    fn verify(&self, py: Python<'_>) -> PyResult<Operation> {
        Ok(Operation::new(self.ask(py, verify)?, yes_or_no))
    }

    /// Ends with true, or an error.
    fn refresh(&self, py: Python<'_>) -> PyResult<Operation> {
        Ok(Operation::new(self.ask(py, refresh)?, |py, refreshed| yes_or_no(py, refreshed.map(|_| true))))
    }

    fn set_automatic_renewal(&self, py: Python<'_>, on: bool) -> PyResult<()> {
        self.ask(py, |guard| set_automatic_renewal(guard, on))
    }

    /// Whether it was released or dropped, whatever had become of the lease.
    #[getter]
    fn given_back(&self) -> bool {
        self.guard.lock().unwrap_or_else(PoisonError::into_inner).is_none()
    }

    /// Begins at once. None if it was released before.
    fn release(&self) -> Option<Operation> {
        let guard = not_at_the_end(self.take()?)?;
        Some(releasing(std::slice::from_ref(&self.held), guard.release()))
    }

    /// Releases it in the background.
    fn drop(&self) {
        drop(self.take());
    }
}

/// The leases of several locks.
#[pyclass(frozen, module = "fairlock._native")]
pub(crate) struct AllGuard {
    /// Views, which outlive the release.
    held: Vec<fairlock::Held>,
    guard: Kept<fairlock::AllGuard>,
}

impl Drop for AllGuard {
    fn drop(&mut self) {
        warn_of(&self.guard, &self.held);
    }
}

impl AllGuard {
    pub(crate) fn bring(py: Python<'_>, guard: fairlock::AllGuard) -> PyResult<Brought> {
        let held = guard.guards().iter().map(|guard| guard.held()).collect();
        let guard = Self { held, guard: Arc::new(Mutex::new(Some(guard))) };
        let back = give_back(&guard.guard);
        Ok((Py::new(py, guard)?.into_any(), back))
    }

    fn take(&self) -> Option<fairlock::AllGuard> {
        self.guard.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

#[pymethods]
impl AllGuard {
    /// Name and token of each lock.
    #[getter]
    fn tokens<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let tokens = PyDict::new(py);
        for held in &self.held {
            tokens.set_item(held.name(), held.token())?;
        }
        Ok(tokens)
    }

    /// Name and slot of each lock.
    #[getter]
    fn slot_of<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let slots = PyDict::new(py);
        for held in &self.held {
            slots.set_item(held.name(), held.slot())?;
        }
        Ok(slots)
    }

    /// Of each lock the id of its acquire, its name, and how many may hold it together while this lease lasts.
    #[getter]
    fn leases(&self) -> Vec<(String, &str, u32)> {
        self.held.iter().map(|held| (held.id(), held.name(), held.slots())).collect()
    }

    #[getter]
    fn remaining(&self) -> f64 {
        self.held.iter().map(fairlock::Held::remaining).min().unwrap_or_default().as_secs_f64()
    }

    fn check(&self, py: Python<'_>) -> PyResult<()> {
        self.held.iter().try_for_each(fairlock::Held::check).map_err(|lost| lost.raise(py))
    }

    /// As for one guard.
    fn ended(&self) -> Option<Operation> {
        let guard = self.guard.lock().unwrap_or_else(PoisonError::into_inner);
        Some(Operation::new(guard.as_ref()?.lost(), |py, loss| match loss.reason {
            LostReason::Released => Ok(py.None()),
            _ => Ok(lost(py, &loss)?.unbind()),
        }))
    }

    fn release(&self) -> Option<Operation> {
        let guard = not_at_the_end(self.take()?)?;
        Some(releasing(&self.held, guard.release()))
    }

    fn drop(&self) {
        drop(self.take());
    }
}
