//! The history of a lock: its latest grants.

use std::time::{Duration, SystemTime};

/// The latest grants of a lock whose leases have ended, as [`Lock::history`](crate::Lock::history) reads them.
///
/// # Examples
/// ```no_run
/// # async fn example(lock: fairlock::Lock) -> Result<(), fairlock::error::Fault> {
/// let history = lock.history(100).await?;
/// let longest = history.grants.iter().map(|grant| grant.waited).max();
/// println!("recorded: {}, longest wait: {longest:?}", history.recorded);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct History {
    /// Whether grants are recorded.
    pub recorded: bool,
    /// The grants, the latest first. The present holder is not among them.
    pub grants: Vec<PastGrant>,
}

/// A grant whose lease has ended.
///
/// # Examples
/// ```no_run
/// # async fn example(lock: fairlock::Lock) -> Result<(), fairlock::error::Fault> {
/// for grant in lock.history(10).await?.grants {
///     println!("{} waited {:?} and held it for {:?}", grant.label, grant.waited, grant.held);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PastGrant {
    /// The former holder's id, as [`Holder::id`](crate::state::Holder::id).
    pub id: String,
    /// The fencing token of its lease.
    pub token: u64,
    /// The label of the holder.
    pub label: String,
    /// The owner of the holder.
    pub owner: String,
    /// For how long it had waited. Zero if that is not known: it did not queue, or the server lost its data meanwhile.
    pub waited: Duration,
    /// For how long it held the lock.
    pub held: Duration,
    /// Which of the slots it had, as [`Holder::slot`](crate::state::Holder::slot).
    pub slot: u32,
    /// How its lease ended.
    pub ended: EndedAs,
}

impl PastGrant {
    /// When it was granted, by the server's clock.
    pub fn granted_at(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_micros(self.token)
    }
}

/// How a lease ended.
///
/// # Examples
/// ```no_run
/// # async fn example(lock: fairlock::Lock) -> Result<(), fairlock::error::Fault> {
/// use fairlock::state::EndedAs;
///
/// let grants = lock.history(100).await?.grants;
/// let died = grants.iter().filter(|grant| grant.ended == EndedAs::Expired).count();
/// println!("{died} of {} holders died or were cut off", grants.len());
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum EndedAs {
    /// The holder released it.
    Released,
    /// Nobody renewed it: its holder is dead, was cut off, or renews by hand.
    Expired,
    /// An operator broke it.
    Broken,
    /// The server lost data, and the lease was not re-asserted.
    Lost,
}
