//! The errors of each operation. Every message says what was found, what it means, or what to change.

use std::sync::Arc;
use std::time::Duration;

use crate::inspect::Holder;

mod cause;
mod connect;
mod lost;
mod option;
mod words;

pub use cause::Cause;
pub use connect::ConnectError;
pub use lost::{Lost, LostReason};
pub use option::InvalidOption;
pub(crate) use words::brief;
use words::{at, because, held_by, numbers, unavailable, within};

/// Several locks were not acquired together, or not held together to the end of a job. None of them is held.
///
/// # Examples
/// ```no_run
/// # async fn example(client: fairlock::Client) -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
/// use fairlock::error::LockAllError;
///
/// match client.lock_all(["account:7", "account:3"])?.timeout(Duration::from_secs(5)).await {
///     Ok(_guard) => {}
///     Err(LockAllError::Acquire { name, error, .. }) => println!("{name} was the one: {error}"),
///     Err(other) => return Err(other.into()),
/// }
/// # Ok(())
/// # }
/// ```
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
///
/// # Examples
/// ```no_run
/// # async fn example(lock: fairlock::Lock) {
/// use fairlock::error::{AcquireError, Fault};
///
/// if let Err(AcquireError::Fault(Fault::Forked)) = lock.acquire().await {
///     // A worker that was forked after its parent had connected: it needs a client of its own.
/// }
/// # }
/// ```
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
        "{:?} or {:?}, a key of the lock {name:?}, holds another type ({message}): remove that key, or use another name or prefix",
        .keys[0], .keys[1]
    )]
    #[non_exhaustive]
    WrongType {
        /// The lock.
        name: Arc<str>,
        /// Its keys. One of them has another type, or both have.
        keys: [Arc<str>; 2],
        /// The server's error.
        message: Arc<str>,
    },
    /// Another version of fairlock, with another layout of the keys, uses this lock or did so within the last day; or
    /// what its keys have was not written by fairlock.
    #[error(
        "the lock {name:?} is used by another version of fairlock ({message}): let its users upgrade together, or use another name or prefix; when nobody holds the lock or waits for it any more, delete the keys {:?} and {:?}",
        .keys[0], .keys[1]
    )]
    #[non_exhaustive]
    OtherLayout {
        /// The lock.
        name: Arc<str>,
        /// Its keys. Without them it begins anew, for whoever comes first.
        keys: [Arc<str>; 2],
        /// The script's error, which names both layouts.
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
///
/// # Examples
/// ```no_run
/// # async fn example(lock: fairlock::Lock) -> u16 {
/// use std::time::Duration;
/// use fairlock::error::AcquireError;
///
/// match lock.acquire().timeout(Duration::from_millis(800)).await {
///     Ok(_guard) => 200,
///     Err(AcquireError::QueueFull { .. }) => 429,
///     Err(AcquireError::Timeout { .. }) => 503,
///     Err(error) => {
///         eprintln!("{error}"); // says what was found, and what to change
///         500
///     }
/// }
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AcquireError {
    /// The timeout came before the turn.
    #[error("not granted {}{}{}", within(.waited), at(.position, .position_age), because(.cause))]
    #[non_exhaustive]
    Timeout {
        /// How long it waited.
        waited: Duration,
        /// The last position in the queue that the client heard of, 1 for the first waiter. It asks for it 250 ms before
        /// the timeout, if it has not heard of it for as long, and does not wait for the answer beyond the timeout.
        position: Option<u64>,
        /// How old that is: others may have been served since.
        position_age: Option<Duration>,
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
    Invalid(#[from] InvalidOption),
    /// A failure that is common to all operations.
    #[error(transparent)]
    Fault(#[from] Fault),
}

/// A try did not get the lock.
///
/// # Examples
/// ```no_run
/// # async fn example(lock: fairlock::Lock) -> Result<(), Box<dyn std::error::Error>> {
/// use fairlock::error::TryAcquireError;
///
/// match lock.try_acquire().await {
///     Ok(_guard) => {}
///     Err(TryAcquireError::Busy { holders, waiting, .. }) => {
///         let holder = holders.first().map_or("nobody", |holder| &holder.label);
///         println!("held by {holder}, {waiting} waiting");
///     }
///     Err(other) => return Err(other.into()),
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TryAcquireError {
    /// Another process holds the lock or waits for it, or the server lost data and grants nothing for a while.
    #[error("busy: {}, {waiting} waiting{}", held_by(.holders, .held, .recovering_for), numbers(.holders, .held, .slots))]
    #[non_exhaustive]
    Busy {
        /// The holders, of more than 16 those of the lowest slots. There may be none, only waiters.
        /// [`inspect`](crate::Lock::inspect) tells all.
        holders: Vec<Holder>,
        /// How many hold the lock.
        held: u64,
        /// How many may hold it together as this try said: [`Lock::slots`](crate::Lock::slots). A holder may have said less.
        slots: u32,
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
    Invalid(#[from] InvalidOption),
    /// A failure that is common to all operations.
    #[error(transparent)]
    Fault(#[from] Fault),
}

/// A release that was not confirmed as the regular end of the hold.
///
/// # Examples
/// ```no_run
/// # async fn example(guard: fairlock::Guard) -> Result<(), fairlock::error::ReleaseError> {
/// use fairlock::error::ReleaseError;
///
/// match guard.release().await {
///     // The work is done. Its lock is given back in the background, or ends by itself.
///     Err(ReleaseError::Unknown { .. }) => Ok(()),
///     // Another holder may have been at work before this one had finished.
///     held_to_the_end => held_to_the_end,
/// }
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReleaseError {
    /// The lease had ended before, and another process may have held the lock meanwhile; or an operator had broken it.
    /// Then nobody else has held the lock, unless the lease was ended [by
    /// force](crate::Lock::force_break_lease).
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

/// A renewal, an extension or a downgrade did not take place.
///
/// # Examples
/// ```no_run
/// # async fn example(guard: fairlock::Guard) -> Result<(), fairlock::error::RenewError> {
/// use fairlock::error::RenewError;
///
/// match guard.renew().await {
///     // No answer: the lease goes on until its end, and `guard.lost()` tells before it comes.
///     Err(RenewError::Fault(fault)) => println!("not renewed yet: {fault}"),
///     renewed_or_lost => renewed_or_lost?,
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RenewError {
    /// The lease is lost.
    #[error(transparent)]
    Lost(#[from] Lost),
    /// The lease cannot be extended by this much, or is no writer's and cannot be
    /// [downgraded](crate::Guard::downgrade).
    #[error(transparent)]
    Invalid(#[from] InvalidOption),
    /// A failure that is common to all operations.
    #[error(transparent)]
    Fault(#[from] Fault),
}

/// A job of [`run`](crate::Acquire::run) was not run, or not to its end under the lease.
///
/// # Examples
/// ```no_run
/// # async fn example(lock: fairlock::Lock) -> Result<(), Box<dyn std::error::Error>> {
/// use fairlock::error::RunError;
///
/// match lock.acquire().run(|held| async move { held.token() }).await {
///     Ok(token) => println!("done under token {token}"),
///     Err(RunError::Lost(lost)) => println!("dropped halfway: {lost}"),
///     Err(never_begun) => return Err(never_begun.into()),
/// }
/// # Ok(())
/// # }
/// ```
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
///
/// # Examples
/// ```no_run
/// # async fn example(lock: fairlock::Lock) -> Result<(), Box<dyn std::error::Error>> {
/// use fairlock::error::{TryAcquireError, TryRunError};
///
/// match lock.try_acquire().run(|_held| async { /* the job */ }).await {
///     Ok(()) => println!("done"),
///     Err(TryRunError::Acquire(TryAcquireError::Busy { .. })) => println!("another host does it"),
///     Err(other) => return Err(other.into()),
/// }
/// # Ok(())
/// # }
/// ```
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
