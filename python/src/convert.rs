//! Values of the library as Python objects: records are the dataclasses of `fairlock._state`.

use std::time::{Duration, SystemTime};

use fairlock::state::{BreakOutcome, EndedAs, History, Holder, LockState, PastGrant, QueuedWaiter};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use crate::errors::{Raise, invalid};
use crate::kept::make;

/// Seconds of Python as a duration.
pub(crate) fn duration(option: &str, seconds: f64) -> PyResult<Duration> {
    Duration::try_from_secs_f64(seconds)
        .map_err(|_| invalid(&format!("{option} is {seconds} s, but must be a finite time from 0 on")))
}

pub(crate) fn since_epoch(time: SystemTime) -> f64 {
    time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}

fn record<'py>(py: Python<'py>, class: &str, fields: &Bound<'py, PyDict>) -> PyResult<Bound<'py, PyAny>> {
    make(py, class, (), fields)
}

fn holder<'py>(py: Python<'py>, holder: &Holder) -> PyResult<Bound<'py, PyAny>> {
    let fields = PyDict::new(py);
    fields.set_item("id", &holder.id)?;
    fields.set_item("slot", holder.slot)?;
    fields.set_item("slots", holder.slots)?;
    fields.set_item("token", holder.token)?;
    fields.set_item("label", &holder.label)?;
    fields.set_item("owner", &holder.owner)?;
    fields.set_item("remaining", holder.remaining.as_secs_f64())?;
    fields.set_item("held_for", holder.held_for.as_secs_f64())?;
    fields.set_item("broken", holder.broken)?;
    fields.set_item("confirmed", holder.confirmed)?;
    record(py, "Holder", &fields)
}

pub(crate) fn holders<'py>(py: Python<'py>, all: &[Holder]) -> PyResult<Bound<'py, PyList>> {
    PyList::new(py, all.iter().map(|one| holder(py, one)).collect::<PyResult<Vec<_>>>()?)
}

fn waiter<'py>(py: Python<'py>, waiter: &QueuedWaiter) -> PyResult<Bound<'py, PyAny>> {
    let fields = PyDict::new(py);
    fields.set_item("id", &waiter.id)?;
    fields.set_item("ticket", waiter.ticket)?;
    fields.set_item("label", &waiter.label)?;
    fields.set_item("owner", &waiter.owner)?;
    fields.set_item("waited", waiter.waited.as_secs_f64())?;
    fields.set_item("alive", waiter.alive)?;
    fields.set_item("slots", waiter.slots)?;
    record(py, "QueuedWaiter", &fields)
}

pub(crate) fn lock_state(py: Python<'_>, state: &LockState) -> PyResult<Py<PyAny>> {
    let fields = PyDict::new(py);
    fields.set_item("holders", holders(py, &state.holders)?)?;
    fields.set_item("waiting", state.waiting)?;
    let queue = state.queue.iter().map(|queued| waiter(py, queued)).collect::<PyResult<Vec<_>>>()?;
    fields.set_item("queue", PyList::new(py, queue)?)?;
    fields.set_item("recovering_for", state.recovering_for.map(|longest| longest.as_secs_f64()))?;
    Ok(record(py, "LockState", &fields)?.unbind())
}

pub(crate) fn broken(py: Python<'_>, outcome: BreakOutcome) -> PyResult<Py<PyAny>> {
    let (outcome, remaining) = match outcome {
        BreakOutcome::Told { remaining, .. } => ("told", Some(remaining.as_secs_f64())),
        BreakOutcome::Ended => ("ended", None),
        _ => ("unknown", None),
    };
    let fields = PyDict::new(py);
    fields.set_item("outcome", outcome)?;
    fields.set_item("remaining", remaining)?;
    Ok(record(py, "Broken", &fields)?.unbind())
}

fn past_grant<'py>(py: Python<'py>, grant: &PastGrant) -> PyResult<Bound<'py, PyAny>> {
    let fields = PyDict::new(py);
    fields.set_item("id", &grant.id)?;
    fields.set_item("token", grant.token)?;
    fields.set_item("label", &grant.label)?;
    fields.set_item("owner", &grant.owner)?;
    fields.set_item("waited", grant.waited.as_secs_f64())?;
    fields.set_item("held", grant.held.as_secs_f64())?;
    fields.set_item("slot", grant.slot)?;
    fields.set_item("granted_at", since_epoch(grant.granted_at()))?;
    let ended = match grant.ended {
        EndedAs::Released => "released",
        EndedAs::Expired => "expired",
        EndedAs::Broken => "broken",
        _ => "lost",
    };
    fields.set_item("ended", ended)?;
    record(py, "PastGrant", &fields)
}

pub(crate) fn history(py: Python<'_>, history: &History) -> PyResult<Py<PyAny>> {
    let fields = PyDict::new(py);
    fields.set_item("recorded", history.recorded)?;
    let grants = history.grants.iter().map(|grant| past_grant(py, grant)).collect::<PyResult<Vec<_>>>()?;
    fields.set_item("grants", PyList::new(py, grants)?)?;
    Ok(record(py, "History", &fields)?.unbind())
}

pub(crate) fn yes_or_no<E: Raise>(py: Python<'_>, answer: Result<bool, E>) -> PyResult<Py<PyAny>> {
    match answer {
        Ok(answer) => Ok(answer.into_pyobject(py)?.to_owned().into_any().unbind()),
        Err(error) => Err(error.raise(py)),
    }
}

pub(crate) fn done<E: Raise>(py: Python<'_>, outcome: Result<(), E>) -> PyResult<Py<PyAny>> {
    outcome.map(|()| py.None()).map_err(|error| error.raise(py))
}
