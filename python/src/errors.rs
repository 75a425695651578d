//! Errors of the library as exceptions of `fairlock._errors`: the message is the library's, the fields are attributes.

use std::io;
use std::time::Duration;

use fairlock::error::{
    AcquireError, ConnectError, Fault, InvalidOption, LockAllError, Lost, LostReason, ReleaseError, RenewError,
    TryAcquireError,
};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use crate::convert::holders as all;
use crate::kept::make;

/// An exception of this class. `fill` sets its attributes.
fn exception<'py>(
    py: Python<'py>,
    class: &str,
    message: &str,
    fill: impl FnOnce(&Bound<'py, PyDict>) -> PyResult<()>,
) -> PyResult<Bound<'py, PyAny>> {
    let fields = PyDict::new(py);
    fill(&fields)?;
    make(py, class, (message,), &fields)
}

fn raised(made: PyResult<Bound<'_, PyAny>>) -> PyErr {
    made.map_or_else(|failure| failure, PyErr::from_value)
}

pub(crate) fn bare(py: Python<'_>, class: &str, message: &str) -> PyErr {
    raised(exception(py, class, message, |_| Ok(())))
}

/// For what is found out before the library is asked.
pub(crate) fn invalid(message: &str) -> PyErr {
    Python::attach(|py| bare(py, "InvalidOption", message))
}

/// A wait that the system has no descriptor for.
pub(crate) fn no_descriptor(py: Python<'_>, error: &io::Error) -> PyErr {
    bare(
        py,
        "Error",
        &format!(
            "the wait needs two descriptors: {error}. The main thread and each event loop need a pair: raise the limit \
             (`ulimit -n`), or close what the program does not use"
        ),
    )
}

fn cause(cause: &Option<fairlock::error::Cause>) -> Option<String> {
    cause.as_ref().map(ToString::to_string)
}

fn seconds(time: &Duration) -> f64 {
    time.as_secs_f64()
}

/// What each error of the library is in Python.
pub(crate) trait Raise {
    fn raise(&self, py: Python<'_>) -> PyErr;
}

impl Raise for InvalidOption {
    fn raise(&self, py: Python<'_>) -> PyErr {
        bare(py, "InvalidOption", &self.to_string())
    }
}

impl Raise for ConnectError {
    fn raise(&self, py: Python<'_>) -> PyErr {
        let class = match self {
            Self::Invalid(error) => return error.raise(py),
            Self::Url { .. } | Self::Address { .. } | Self::NotEncrypted { .. } => "InvalidOption",
            Self::Authentication { .. } => "AuthenticationError",
            Self::MissingRight { .. } => "MissingRight",
            _ => "ConnectionError",
        };
        bare(py, class, &self.to_string())
    }
}

impl Raise for Fault {
    fn raise(&self, py: Python<'_>) -> PyErr {
        let class = match self {
            Self::Connect(error) => return error.raise(py),
            Self::Closed => "Closed",
            Self::Forked => "Forked",
            Self::Unavailable { .. } | Self::TooSlow { .. } => "Unavailable",
            Self::LeaseBroken => "LeaseBroken",
            Self::WrongType { .. } | Self::OtherLayout { .. } | Self::Refused { .. } => "Refused",
            _ => "Error",
        };
        bare(py, class, &self.to_string())
    }
}

impl Raise for AcquireError {
    fn raise(&self, py: Python<'_>) -> PyErr {
        let message = self.to_string();
        match self {
            Self::Timeout { waited, position, position_age, cause: last, .. } => {
                raised(exception(py, "Timeout", &message, |fields| {
                    fields.set_item("waited", seconds(waited))?;
                    fields.set_item("position", position)?;
                    fields.set_item("position_age", position_age.as_ref().map(seconds))?;
                    fields.set_item("cause", cause(last))
                }))
            }
            Self::QueueFull { waiting, .. } => {
                raised(exception(py, "QueueFull", &message, |fields| fields.set_item("waiting", waiting)))
            }
            Self::NotTaken { .. } => bare(py, "NotTaken", &message),
            Self::Invalid(error) => error.raise(py),
            Self::Fault(fault) => fault.raise(py),
            _ => bare(py, "Error", &message),
        }
    }
}

impl Raise for TryAcquireError {
    fn raise(&self, py: Python<'_>) -> PyErr {
        let message = self.to_string();
        match self {
            Self::Busy { holders, held, slots, waiting, recovering_for, .. } => {
                raised(exception(py, "Busy", &message, |fields| {
                    fields.set_item("holders", all(py, holders)?)?;
                    fields.set_item("held", held)?;
                    fields.set_item("slots", slots)?;
                    fields.set_item("waiting", waiting)?;
                    fields.set_item("recovering_for", recovering_for.as_ref().map(seconds))
                }))
            }
            Self::NotTaken { .. } => bare(py, "NotTaken", &message),
            Self::Invalid(error) => error.raise(py),
            Self::Fault(fault) => fault.raise(py),
            _ => bare(py, "Error", &message),
        }
    }
}

impl Raise for LockAllError {
    fn raise(&self, py: Python<'_>) -> PyErr {
        match self {
            Self::Acquire { name, error, .. } => {
                let raised = error.raise(py);
                // The same class as for one lock, with the name and the message of all.
                let value = raised.value(py);
                let named = value
                    .setattr("name", &**name)
                    .and_then(|()| value.setattr("args", PyList::new(py, [self.to_string()])?.to_tuple()));
                named.err().unwrap_or(raised)
            }
            Self::Lost(lost) => lost.raise(py),
            _ => bare(py, "Error", &self.to_string()),
        }
    }
}

/// An exception that need not be raised: an event has it.
pub(crate) fn lost<'py>(py: Python<'py>, lost: &Lost) -> PyResult<Bound<'py, PyAny>> {
    let reason = match &lost.reason {
        LostReason::NotRenewed { .. } => "not renewed",
        LostReason::Ended => "ended",
        LostReason::Broken => "broken",
        LostReason::MaxHold => "max_hold",
        LostReason::Closed => "closed",
        LostReason::Released => "released",
        LostReason::Forked => "forked",
        _ => "client failed",
    };
    exception(py, "LockLost", &lost.to_string(), |fields| {
        fields.set_item("name", &*lost.name)?;
        fields.set_item("token", lost.token)?;
        fields.set_item("reason", reason)
    })
}

impl Raise for Lost {
    fn raise(&self, py: Python<'_>) -> PyErr {
        raised(lost(py, self))
    }
}

impl Raise for ReleaseError {
    fn raise(&self, py: Python<'_>) -> PyErr {
        match self {
            Self::Lost(lost) => lost.raise(py),
            Self::Fault(fault) => fault.raise(py),
            _ => bare(py, "ReleaseUnknown", &self.to_string()),
        }
    }
}

impl Raise for RenewError {
    fn raise(&self, py: Python<'_>) -> PyErr {
        match self {
            Self::Lost(lost) => lost.raise(py),
            Self::Invalid(error) => error.raise(py),
            Self::Fault(fault) => fault.raise(py),
            _ => bare(py, "Error", &self.to_string()),
        }
    }
}
