//! What can go wrong, per operation. Every message says what to change or what it means.

use std::sync::Arc;
use std::time::Duration;

use crate::inspect::Holder;

mod connect;

pub use connect::ConnectError;

/// A name or an option that cannot work. Nothing was sent to the server.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidOption {
    /// The name of the lock is empty.
    #[error("the lock's name is empty: give it a name such as \"reports:nightly\"")]
    EmptyName,
    /// The name of the lock is longer than 512 bytes.
    #[error("the lock's name has {length} bytes: use at most 512, for instance a hash of it")]
    NameTooLong {
        /// How long it is, in bytes.
        length: usize,
    },
    /// The name or the prefix contains a brace, which would change the hash slot of its keys in a cluster.
    #[error("{what} {value:?} contains a brace: `{{` and `}}` mark the hash tag of the keys, leave them out")]
    Brace {
        /// Which text: "the lock's name" or "the prefix".
        what: &'static str,
        /// The text.
        value: String,
    },
    /// A duration is zero, too short or absurdly long.
    #[error("{option} is {}: it must be between {least:?} and {}", in_days(.value), in_days(.most))]
    Duration {
        /// The option's name.
        option: &'static str,
        /// What was given.
        value: Duration,
        /// The least that works.
        least: Duration,
        /// The most that is accepted.
        most: Duration,
    },
    /// A renewal would come too late to be of use.
    #[error(
        "renewing every {every:?} with a notice of {notice:?} leaves nothing of a lease of {lease:?}: \
         renew earlier, shorten the notice or lengthen the lease, so that both together stay below it"
    )]
    RenewalTooLate {
        /// The interval of renewals.
        every: Duration,
        /// The notice before the deadline.
        notice: Duration,
        /// The lease.
        lease: Duration,
    },
    /// A label, an owner or the prefix is longer than 4096 bytes.
    #[error("{what} has {length} bytes: use at most 4096")]
    TooLong {
        /// "the label", "the owner" or "the prefix".
        what: &'static str,
        /// How long it is, in bytes.
        length: usize,
    },
}

/// Reasons that any call can fail for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// The client was closed.
    #[error("the client was closed: connect again to use locks")]
    Closed,
    /// The handle belongs to the parent process.
    #[error("this handle was made in the parent process, before a fork: connect again in the child")]
    Forked,
    /// The client's thread died of a bug.
    #[error("the client's thread has panicked: all of its leases are lost; connect again, and report this as a bug")]
    KeeperPanicked,
    /// The server cannot be used, and waiting does not mend that.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The server gave no answer in time, or refused this each time that it was asked.
    #[error("{}", unavailable(.waited, .cause))]
    Unavailable {
        /// How long it was waited for.
        waited: Duration,
        /// The last error, if there was one.
        cause: Option<Arc<str>>,
    },
    /// A key of the lock is in use for something else.
    #[error(
        "a key of the lock {name:?} holds another type ({message}): remove that key, or use another name or prefix"
    )]
    WrongType {
        /// The lock.
        name: Arc<str>,
        /// What the server said.
        message: Arc<str>,
    },
    /// The server refuses the script.
    #[error("the server refuses the request: {message}")]
    Refused {
        /// What the server said.
        message: Arc<str>,
    },
}

/// An acquire did not get the lock. Its place in the queue was given up.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AcquireError {
    /// Its time was over before its turn came.
    #[error("not granted within {}{}{}", brief(.waited), at(.position), because(.cause))]
    Timeout {
        /// How long it waited.
        waited: Duration,
        /// The last position in the queue that was known, 1 for the next one to be granted.
        position: Option<u64>,
        /// The last error, if the server could not be reached.
        cause: Option<Arc<str>>,
    },
    /// The lock was granted, but its future was not polled for a whole lease, so it was given back.
    #[error(
        "the lock was granted but nobody took it for {lease:?}, so it was given back: poll the future, or use a longer lease"
    )]
    NotTaken {
        /// The lease.
        lease: Duration,
    },
    /// Its [`Canceller`](crate::Canceller) was told to end it.
    #[error("the acquire was cancelled by its own program")]
    Cancelled,
    /// An option cannot work.
    #[error(transparent)]
    Option(#[from] InvalidOption),
    /// A reason that any call can fail for.
    #[error(transparent)]
    Fault(#[from] Fault),
}

/// A try did not get the lock.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TryAcquireError {
    /// Somebody else holds the lock or is before us, or the server lost data and grants nothing for a while.
    #[error("busy: {}, {waiting} waiting", held_by(.holder, .recovering_for))]
    Busy {
        /// Who holds it, if anybody does: there may be only waiters.
        holder: Option<Box<Holder>>,
        /// How many wait.
        waiting: u64,
        /// For how long at most nothing is granted, because the server lost data and waits for its clients to return.
        recovering_for: Option<Duration>,
    },
    /// The lock was granted, but its future was not polled for a whole lease, so it was given back.
    #[error(
        "the lock was granted but nobody took it for {lease:?}, so it was given back: poll the future, or use a longer lease"
    )]
    NotTaken {
        /// The lease.
        lease: Duration,
    },
    /// Its [`Canceller`](crate::Canceller) was told to end it.
    #[error("the acquire was cancelled by its own program")]
    Cancelled,
    /// An option cannot work.
    #[error(transparent)]
    Option(#[from] InvalidOption),
    /// A reason that any call can fail for.
    #[error(transparent)]
    Fault(#[from] Fault),
}

/// The lease is over, or about to be: stop using what the lock protects.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the lease of the lock {name:?} with token {token} is lost: {reason}")]
pub struct Lost {
    /// The lock.
    pub name: Arc<str>,
    /// The fencing token of the lease.
    pub token: u64,
    /// Why.
    pub reason: LostReason,
}

/// Why a lease is lost.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LostReason {
    /// It was not renewed in time.
    #[error("it was not renewed in time{}", because(.cause))]
    NotRenewed {
        /// The last error, if there was one.
        cause: Option<Arc<str>>,
    },
    /// The server says that it is over.
    #[error("the server says that it has ended")]
    Ended,
    /// An operator broke it.
    #[error("an operator broke it")]
    Broken,
    /// It was held for as long as `max_hold` allows.
    #[error("it reached its longest hold")]
    MaxHold,
    /// The client was closed.
    #[error("the client was closed")]
    Closed,
    /// It was given back, by a release or by dropping its guard.
    #[error("it was given back")]
    Released,
    /// The client's thread died of a bug.
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
    /// The lease had ended before: somebody else may have held the lock meanwhile.
    #[error(transparent)]
    Lost(#[from] Lost),
    /// No answer came before the local deadline of the lease. The client goes on trying in the background.
    #[error("it is not known whether the release reached the server{}; the lease ends by itself", because(.cause))]
    Unknown {
        /// The last error, if there was one.
        cause: Option<Arc<str>>,
    },
    /// A reason that any call can fail for.
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
    /// A reason that any call can fail for.
    #[error(transparent)]
    Fault(#[from] Fault),
}

/// A job under [`run`](crate::Lock::run) was not run, or not to its end under the lease.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// The lock was not acquired, the job was not started.
    #[error(transparent)]
    Acquire(#[from] AcquireError),
    /// The lease was lost before the job had ended. The job was cancelled, or it ended too late.
    #[error(transparent)]
    Lost(#[from] Lost),
}

/// A long time in days: nobody knows how long so many seconds are.
fn in_days(duration: &Duration) -> String {
    const DAY: u64 = 24 * 3600;
    match duration.as_secs() / DAY {
        0 | 1 => format!("{duration:?}"),
        days if duration.subsec_nanos() == 0 && duration.as_secs().is_multiple_of(DAY) => format!("{days} days"),
        days => format!("more than {days} days"),
    }
}

/// A duration for people, who need no nanoseconds.
pub(crate) fn brief(duration: &Duration) -> String {
    let rounded = match duration {
        short if short.as_secs() == 0 => Duration::from_millis(short.as_millis().try_into().unwrap_or(0)),
        middling if middling.as_secs() < 10 => {
            Duration::from_millis((middling.as_millis() / 100 * 100).try_into().unwrap_or(0))
        }
        long => Duration::from_secs(long.as_secs()),
    };
    format!("{rounded:?}")
}

fn unavailable(waited: &Duration, cause: &Option<Arc<str>>) -> String {
    let waited = brief(waited);
    match cause {
        Some(cause) => format!("the server did not serve this within {waited}: {cause}"),
        None => format!("no answer from the server within {waited}"),
    }
}

fn because(cause: &Option<Arc<str>>) -> String {
    cause.as_ref().map_or_else(String::new, |cause| format!(" (last error: {cause})"))
}

fn at(position: &Option<u64>) -> String {
    position.map_or_else(String::new, |position| format!(", last known at position {position} of the queue"))
}

fn held_by(holder: &Option<Box<Holder>>, recovering_for: &Option<Duration>) -> String {
    match (holder, recovering_for) {
        (Some(holder), _) => {
            format!("held by {:?} for another {} unless renewed", holder.label, brief(&holder.remaining))
        }
        (None, Some(longest)) => {
            format!("nothing is granted for up to {} because the server lost data", brief(longest))
        }
        (None, None) => "free, but others are first".into(),
    }
}
