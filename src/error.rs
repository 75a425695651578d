//! The errors of each operation. Every message says what was found, what it means, or what to change.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::inspect::Holder;

mod cause;
mod connect;
mod option;

pub use cause::Cause;
pub use connect::ConnectError;
pub use option::InvalidOption;

/// Several locks were not acquired together, or not held together to the end of a job. None of them is held.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LockAllError {
    /// One of the locks was not acquired.
    #[error("the lock {name:?}, one of several, was not acquired: {error}")]
    #[non_exhaustive]
    Acquire {
        /// The lock.
        name: Arc<str>,
        /// Why.
        #[source]
        error: AcquireError,
    },
    /// The lease of one of the locks was lost, while others were waited for or during the job.
    #[error(transparent)]
    Lost(#[from] Lost),
}

/// Failures that are common to all operations.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// The client was closed.
    #[error("the client was closed: connect again to use locks")]
    Closed,
    /// The handle belongs to the parent process.
    #[error("this handle was made in the parent process, before a fork: connect again in the child")]
    Forked,
    /// The client's thread has panicked, which is a bug.
    #[error("the client's thread has panicked: all of its leases are lost; connect again, and report this as a bug")]
    KeeperPanicked,
    /// The server cannot be used, and waiting will not help.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The server gave no answer in time, or refused the request each time.
    #[error("{}", unavailable(.waited, .cause))]
    #[non_exhaustive]
    Unavailable {
        /// How long the client waited.
        waited: Duration,
        /// The last error, if there was one.
        #[source]
        cause: Option<Cause>,
    },
    /// The server takes longer to answer than a lease lasts, so a lease is over before its grant is known.
    #[error("the server answers more slowly than a lease of {lease:?} lasts: use a longer lease, or a faster server")]
    #[non_exhaustive]
    TooSlow {
        /// The lease.
        lease: Duration,
    },
    /// An operator broke the lease before it was handed out, see [`Lock::break_lease`](crate::Lock::break_lease).
    #[error("an operator broke the lease before it was handed out: acquire again if the operator agrees")]
    LeaseBroken,
    /// A key of the lock is in use with another type.
    #[error(
        "a key of the lock {name:?} holds another type ({message}): remove that key, or use another name or prefix"
    )]
    #[non_exhaustive]
    WrongType {
        /// The lock.
        name: Arc<str>,
        /// The server's error.
        message: Arc<str>,
    },
    /// Clients of another version of fairlock, with another layout of its keys, use this lock.
    #[error(
        "the lock {name:?} is used by another version of fairlock ({message}): let its users upgrade together, or use another name or prefix"
    )]
    #[non_exhaustive]
    OtherLayout {
        /// The lock.
        name: Arc<str>,
        /// The script's error.
        message: Arc<str>,
    },
    /// The server refuses this request each time, or its answer is not one that fairlock's scripts give.
    #[error("the server refuses the request ({message}): docs/errors.md says what to change")]
    #[non_exhaustive]
    Refused {
        /// The server's error.
        message: Arc<str>,
    },
}

/// An acquire did not get the lock. Its place in the queue was given up.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AcquireError {
    /// Its timeout came before its turn.
    #[error("not granted {}{}{}", within(.waited), at(.position), because(.cause))]
    #[non_exhaustive]
    Timeout {
        /// How long it waited.
        waited: Duration,
        /// The last known position in the queue: 1 for the first waiter.
        position: Option<u64>,
        /// The last error, if the server could not be reached.
        #[source]
        cause: Option<Cause>,
    },
    /// As many waiters as the lock's options allow were in the queue:
    /// [`LockOptions::max_waiting`](crate::LockOptions::max_waiting). It has not waited.
    #[error("the queue is full, {waiting} waiting: try again later, or allow more by `max_waiting`")]
    #[non_exhaustive]
    QueueFull {
        /// How many there were.
        waiting: u64,
    },
    /// The lock was granted, but its future was not polled for a whole lease, so it was released.
    #[error(
        "the lock was granted but its future was not polled for {lease:?}, so it was released: poll the future, or use a longer lease"
    )]
    #[non_exhaustive]
    NotTaken {
        /// The lease.
        lease: Duration,
    },
    /// Its [`CancellationToken`](crate::CancellationToken) cancelled it.
    #[error("the acquire was cancelled by its own program")]
    Cancelled,
    /// An option cannot work.
    #[error(transparent)]
    Option(#[from] InvalidOption),
    /// A failure that is common to all operations.
    #[error(transparent)]
    Fault(#[from] Fault),
}

/// A try did not get the lock.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TryAcquireError {
    /// Another process holds the lock or waits for it, or the server lost data and grants nothing for a while.
    #[error("busy: {}, {waiting} waiting", held_by(.holders, .recovering_for))]
    #[non_exhaustive]
    Busy {
        /// The holder, if there is one: one at most, and there may be waiters only.
        holders: Vec<Holder>,
        /// The number of waiters.
        waiting: u64,
        /// For how long nothing is granted at most, because the server lost data and waits for its clients to return.
        recovering_for: Option<Duration>,
    },
    /// The lock was granted, but its future was not polled for a whole lease, so it was released.
    #[error(
        "the lock was granted but its future was not polled for {lease:?}, so it was released: poll the future, or use a longer lease"
    )]
    #[non_exhaustive]
    NotTaken {
        /// The lease.
        lease: Duration,
    },
    /// Its [`CancellationToken`](crate::CancellationToken) cancelled it.
    #[error("the acquire was cancelled by its own program")]
    Cancelled,
    /// An option cannot work.
    #[error(transparent)]
    Option(#[from] InvalidOption),
    /// A failure that is common to all operations.
    #[error(transparent)]
    Fault(#[from] Fault),
}

/// The lease is over, or about to be: stop using what the lock protects.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Lost {
    /// The lock.
    pub name: Arc<str>,
    /// The fencing token of the lease.
    pub token: u64,
    /// Why.
    pub reason: LostReason,
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, token, reason } = self;
        write!(f, "the lease of the lock {name:?} with token {token} is lost: {reason}")
    }
}

impl std::error::Error for Lost {
    /// That of the reason, which the message has already.
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.reason.source()
    }
}

/// Why a lease is lost.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LostReason {
    /// It was not renewed in time.
    #[error("it was not renewed in time{}", because(.cause))]
    #[non_exhaustive]
    NotRenewed {
        /// The last error, if there was one.
        #[source]
        cause: Option<Cause>,
    },
    /// The lease has ended on the server.
    #[error("it has ended on the server")]
    Ended,
    /// An operator broke it.
    #[error("an operator broke it")]
    Broken,
    /// It was held for the configured `max_hold`.
    #[error("it was held for the configured `max_hold`")]
    MaxHold,
    /// The client was closed.
    #[error("the client was closed")]
    Closed,
    /// It was released, with `release` or by dropping its guard.
    #[error("it was released")]
    Released,
    /// The client's thread has panicked, which is a bug.
    #[error("the client's thread has panicked")]
    KeeperPanicked,
    /// The guard belongs to the parent process.
    #[error("the guard belongs to the parent process")]
    Forked,
}

/// A release that was not confirmed as the regular end of the hold.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReleaseError {
    /// The lease had ended before: another process may have held the lock meanwhile.
    #[error(transparent)]
    Lost(#[from] Lost),
    /// No answer came before the deadline of the lease. The client goes on repeating the release in the background.
    #[error("it is not known whether the release reached the server{}; the lease ends by itself", because(.cause))]
    #[non_exhaustive]
    Unknown {
        /// The last error, if there was one.
        #[source]
        cause: Option<Cause>,
    },
    /// A failure that is common to all operations.
    #[error(transparent)]
    Fault(#[from] Fault),
}

/// A renewal did not prolong the lease.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RenewError {
    /// The lease is lost.
    #[error(transparent)]
    Lost(#[from] Lost),
    /// The lease cannot be extended by this much.
    #[error(transparent)]
    Option(#[from] InvalidOption),
    /// A failure that is common to all operations.
    #[error(transparent)]
    Fault(#[from] Fault),
}

/// A job of [`run`](crate::Acquire::run) was not run, or not to its end under the lease.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// The lock was not acquired, and the job was not started.
    #[error(transparent)]
    Acquire(#[from] AcquireError),
    /// The lease was lost before the job had ended. The job was cancelled, or it ended too late.
    #[error(transparent)]
    Lost(#[from] Lost),
}

/// A job of a [try](crate::TryAcquire::run) was not run, or not to its end under the lease.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TryRunError {
    /// The lock was not acquired, and the job was not started.
    #[error(transparent)]
    Acquire(#[from] TryAcquireError),
    /// The lease was lost before the job had ended. The job was cancelled, or it ended too late.
    #[error(transparent)]
    Lost(#[from] Lost),
}

/// A duration for people, without nanoseconds. A millisecond at least, because "0ns" reads like an error.
pub(crate) fn brief(duration: &Duration) -> String {
    let rounded = match duration {
        short if short.as_secs() == 0 => Duration::from_millis(short.subsec_millis().max(1).into()),
        middling if middling.as_secs() < 10 => {
            Duration::from_millis((middling.as_millis() / 100 * 100).try_into().unwrap_or(0))
        }
        long => Duration::from_secs(long.as_secs()),
    };
    format!("{rounded:?}")
}

fn unavailable(waited: &Duration, cause: &Option<Cause>) -> String {
    let waited = brief(waited);
    match cause {
        Some(cause) => format!("no result from the server within {waited}: {cause}"),
        None => format!("no answer from the server within {waited}"),
    }
}

/// An acquire without time to wait is a try.
fn within(waited: &Duration) -> String {
    if waited.is_zero() { "at once".to_owned() } else { format!("within {}", brief(waited)) }
}

fn because(cause: &Option<Cause>) -> String {
    cause.as_ref().map_or_else(String::new, |cause| format!(" (last error: {cause})"))
}

fn at(position: &Option<u64>) -> String {
    position.map_or_else(String::new, |position| format!(", last known at position {position} of the queue"))
}

fn held_by(holders: &[Holder], recovering_for: &Option<Duration>) -> String {
    match (holders.first(), recovering_for) {
        (Some(holder), _) => {
            format!("held by {:?} for another {} unless renewed", holder.label, brief(&holder.remaining))
        }
        (None, Some(longest)) => {
            format!("nothing is granted for up to {} because the server lost data", brief(longest))
        }
        (None, None) => "free, but its waiters are first".into(),
    }
}
