//! Errors of the library as JavaScript makes its own of them.

use std::convert::Infallible;
use std::error::Error;
use std::io;
use std::time::Duration;

use fairlock::error::{
    AcquireError, ConnectError, Fault, InvalidOption, LockAllError, Lost, LostReason, ReleaseError, RenewError,
    TryAcquireError,
};
use napi_derive::napi;

use crate::convert::ms;

/// `failure` names a class of `lib/errors.js`; the message is the library's, the other fields are the error's.
#[napi(object, object_from_js = false)]
#[derive(Default)]
pub struct Failure {
    pub failure: String,
    pub message: String,
    /// Each one that of the one before.
    pub causes: Vec<CauseOf>,
    pub waited: Option<f64>,
    pub position: Option<f64>,
    pub position_age: Option<f64>,
    pub waiting: Option<f64>,
    /// The name of the lock.
    pub lock: Option<String>,
    pub token: Option<f64>,
    pub reason: Option<String>,
}

#[napi(object, object_from_js = false)]
pub struct CauseOf {
    pub message: String,
    /// The number of an error of the system.
    pub errno: Option<i32>,
}

fn failure(kind: &str, error: &(dyn Error + 'static)) -> Failure {
    let mut causes = Vec::new();
    let mut source = error.source();
    while let Some(cause) = source {
        let errno = cause.downcast_ref::<io::Error>().and_then(io::Error::raw_os_error);
        causes.push(CauseOf { message: cause.to_string(), errno });
        source = cause.source();
    }
    Failure { failure: kind.to_owned(), message: error.to_string(), causes, ..Failure::default() }
}

/// The library would speak of its futures.
fn not_taken(lease: Duration) -> Failure {
    let message = format!(
        "the lock was granted, but the event loop was blocked for {lease:?} and did not take it, so it was released: \
         do not block the event loop, or use a longer lease"
    );
    bare("NotTaken", &message)
}

/// For what is found out before the library is asked.
pub(crate) fn bare(kind: &str, message: &str) -> Failure {
    Failure { failure: kind.to_owned(), message: message.to_owned(), ..Failure::default() }
}

impl From<Infallible> for Failure {
    fn from(never: Infallible) -> Self {
        match never {}
    }
}

impl From<InvalidOption> for Failure {
    fn from(error: InvalidOption) -> Self {
        failure("InvalidOption", &error)
    }
}

impl From<ConnectError> for Failure {
    fn from(error: ConnectError) -> Self {
        let kind = match error {
            ConnectError::Invalid(_)
            | ConnectError::Url { .. }
            | ConnectError::Address { .. }
            | ConnectError::NotEncrypted { .. } => "InvalidOption",
            ConnectError::Authentication { .. } => "Authentication",
            ConnectError::MissingRight { .. } => "MissingRight",
            _ => "Connection",
        };
        failure(kind, &error)
    }
}

impl From<Fault> for Failure {
    fn from(error: Fault) -> Self {
        let kind = match error {
            Fault::Connect(error) => return error.into(),
            Fault::Closed => "Closed",
            Fault::Unavailable { .. } | Fault::TooSlow { .. } => "Unavailable",
            Fault::LeaseBroken => "LeaseBroken",
            Fault::WrongType { .. } | Fault::OtherLayout { .. } | Fault::Refused { .. } => "Refused",
            _ => "Fairlock",
        };
        failure(kind, &error)
    }
}

impl From<AcquireError> for Failure {
    fn from(error: AcquireError) -> Self {
        match error {
            AcquireError::Timeout { waited, position, position_age, .. } => Self {
                waited: Some(ms(waited)),
                position: position.map(|position| position as f64),
                position_age: position_age.map(ms),
                ..failure("Timeout", &error)
            },
            AcquireError::QueueFull { waiting, .. } => {
                Self { waiting: Some(waiting as f64), ..failure("QueueFull", &error) }
            }
            AcquireError::NotTaken { lease, .. } => not_taken(lease),
            AcquireError::Invalid(error) => error.into(),
            AcquireError::Fault(fault) => fault.into(),
            _ => failure("Fairlock", &error),
        }
    }
}

impl From<TryAcquireError> for Failure {
    fn from(error: TryAcquireError) -> Self {
        match error {
            TryAcquireError::NotTaken { lease, .. } => not_taken(lease),
            TryAcquireError::Invalid(error) => error.into(),
            TryAcquireError::Fault(fault) => fault.into(),
            _ => failure("Fairlock", &error),
        }
    }
}

impl From<LockAllError> for Failure {
    fn from(all: LockAllError) -> Self {
        let message = all.to_string();
        match all {
            // The same class as for one lock, with the name and the message of all.
            LockAllError::Acquire { name, error, .. } => Self { lock: Some(name.to_string()), message, ..error.into() },
            LockAllError::Lost(lost) => lost.into(),
            _ => failure("Fairlock", &all),
        }
    }
}

impl From<Lost> for Failure {
    fn from(lost: Lost) -> Self {
        let reason = match lost.reason {
            LostReason::NotRenewed { .. } => "not renewed",
            LostReason::Ended => "ended",
            LostReason::Broken => "broken",
            LostReason::MaxHold => "maxHold",
            LostReason::Closed => "closed",
            LostReason::Released => "released",
            _ => "client failed",
        };
        Self {
            lock: Some(lost.name.to_string()),
            token: Some(lost.token as f64),
            reason: Some(reason.to_owned()),
            message: lost.to_string().replace("`max_hold`", "`maxHold`"),
            ..failure("LockLost", &lost)
        }
    }
}

impl From<ReleaseError> for Failure {
    fn from(error: ReleaseError) -> Self {
        match error {
            ReleaseError::Lost(lost) => lost.into(),
            ReleaseError::Fault(fault) => fault.into(),
            _ => failure("ReleaseUnknown", &error),
        }
    }
}

impl From<RenewError> for Failure {
    fn from(error: RenewError) -> Self {
        match error {
            RenewError::Lost(lost) => lost.into(),
            RenewError::Invalid(error) => error.into(),
            RenewError::Fault(fault) => fault.into(),
            _ => failure("Fairlock", &error),
        }
    }
}
