//! The history of a lock: its latest grants.

use std::future::Future;
use std::time::{Duration, SystemTime};

use crate::error::Fault;
use crate::lock::Lock;
use crate::operation::Operation;

/// The latest grants of a lock whose leases have ended, as [`Lock::history`] reads them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct History {
    /// Whether grants are recorded.
    pub recorded: bool,
    /// The grants, the latest first. The present holder is not among them.
    pub grants: Vec<PastGrant>,
}

/// A grant whose lease has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PastGrant {
    /// The former holder's id, as [`Holder::id`](crate::Holder::id).
    pub id: String,
    /// The fencing token of its lease.
    pub token: u64,
    /// Its label.
    pub label: String,
    /// Its owner.
    pub owner: String,
    /// For how long it had waited. Zero if that is not known: it did not queue, or the server lost its data meanwhile.
    pub waited: Duration,
    /// For how long it held the lock.
    pub held: Duration,
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

impl Lock {
    /// The latest grants of this lock, at most `count` of them, if [`record_history`](Self::record_history) has switched
    /// the recording on. One round trip.
    ///
    /// # Errors
    /// [`Fault`]: among others [`Fault::Unavailable`] if there was no answer within 5 seconds.
    ///
    /// # Cancel safety
    /// The future may be dropped at any time.
    ///
    /// # Examples
    /// ```no_run
    /// # async fn example(lock: fairlock::Lock) -> Result<(), Box<dyn std::error::Error>> {
    /// lock.record_history(true).await?;
    /// // Later:
    /// for grant in lock.history(20).await?.grants {
    ///     println!("{} waited {:?} and held it {:?}", grant.label, grant.waited, grant.held);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn history(&self, count: u32) -> Operation<impl Future<Output = Result<History, Fault>> + Send + Sync + use<>> {
        let lock = self.clone();
        Operation::relayed(&self.handle.wakers, async move { lock.handle.history(&lock.spec.keys, None, count).await })
    }

    /// Has the server record the grants of this lock from now on, whoever they go to, or no longer. It keeps the latest
    /// 1,000, for a week after the lock was last used, and for each grant executes one command more. Switching it off
    /// drops what was recorded. One round trip.
    ///
    /// It needs Redis 6.2, and the rights to XADD, XDEL, XREVRANGE, EXISTS and DEL. Clients without the right to XADD use
    /// the lock as before, and what they end is not recorded.
    ///
    /// # Errors
    /// [`Fault`]: among others [`Fault::Unavailable`] if there was no answer within 5 seconds.
    ///
    /// # Cancel safety
    /// If the future is dropped, the server may or may not have executed the request.
    pub fn record_history(&self, on: bool) -> Operation<impl Future<Output = Result<(), Fault>> + Send + Sync + use<>> {
        let lock = self.clone();
        Operation::relayed(&self.handle.wakers, async move {
            lock.handle.history(&lock.spec.keys, Some(on), 0).await.map(drop)
        })
    }
}
