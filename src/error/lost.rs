//! The loss of a lease.

use std::fmt;
use std::sync::Arc;

use super::Cause;
use super::words::because;

/// The lease is over, or about to be: stop using what the lock protects.
///
/// # Examples
/// ```no_run
/// # async fn example(guard: fairlock::Guard) -> Result<(), fairlock::error::Lost> {
/// # async fn work() {}
/// tokio::select! {
///     lost = guard.lost() => return Err(lost), // nobody else has the lock yet
///     () = work() => {}
/// }
/// guard.check() // the same error, without waiting for it
/// # }
/// ```
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
///
/// # Examples
/// ```no_run
/// # async fn example(guard: fairlock::Guard) {
/// use fairlock::error::LostReason;
///
/// match guard.lost().await.reason {
///     LostReason::Broken => println!("somebody wants us to stop"),
///     reason => println!("stopping, because {reason}"),
/// }
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LostReason {
    /// The lease was not renewed in time.
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
    /// The lease was held for the configured `max_hold`.
    #[error("it was held for the configured `max_hold`")]
    MaxHold,
    /// The client was closed.
    #[error("the client was closed")]
    Closed,
    /// The lease was released, with `release` or by dropping its guard.
    #[error("it was released")]
    Released,
    /// The client's thread has panicked, which is a bug.
    #[error("the client's thread has panicked")]
    KeeperPanicked,
    /// The guard belongs to the parent process.
    #[error("the guard belongs to the parent process")]
    Forked,
}
