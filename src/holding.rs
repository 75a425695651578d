//! What a holder does with its lease beside giving it back: renew, extend, refresh, verify.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use crate::clock::Time;
use crate::error::{Fault, InvalidOption, RenewError};
use crate::guard::Guard;
use crate::keeper::{Handle, Renewal, Shared};
use crate::operation::Operation;
use crate::options::LONGEST;

/// The outcome of [`Guard::refresh`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refreshed {
    /// The lease was renewed to its full length.
    Renewed,
    /// The server says that the lease is held. It was renewed so recently that nothing was written.
    Verified,
}

impl Guard {
    /// Renews the lease to its full length now. One round trip. Needed with
    /// [`manual_renewal`](crate::LockOptions::manual_renewal) only.
    ///
    /// # Errors
    /// [`RenewError::Lost`] if the lease is lost, [`Fault::Unavailable`] if there was no answer within 5 seconds.
    ///
    /// # Cancel safety
    /// If the future is dropped, the renewal may still take place.
    pub fn renew(&self) -> Operation<Result<(), RenewError>> {
        self.ask(|handle, shared| async move { renew(&handle, &shared, None).await })
    }

    /// Extends the lease by this much beyond the end that it has now, once. One round trip. Renewals, automatic or by
    /// hand, never shorten it again. Extensions that are asked for at the same time add up.
    ///
    /// For work that must go on although the lease may not be renewable for a while: a planned restart of the server, a
    /// job that suspends its machine. If this process dies, the others wait until the end of the extension. If the
    /// server then loses its data while others wait, they wait up to that long for the lease to be re-asserted, also
    /// after it was released. Release the lock as soon as the work is done.
    ///
    /// [`max_hold`](crate::LockOptions::max_hold) ends automatic renewals, and does not limit extensions.
    ///
    /// # Errors
    /// [`RenewError::Lost`] if the lease is lost, [`RenewError::Option`] if more than 30 days would be left of it,
    /// [`Fault::Unavailable`] if there was no answer within 5 seconds: the lease may be extended all the same.
    ///
    /// # Cancel safety
    /// If the future is dropped, the extension may still take place.
    ///
    /// # Examples
    /// ```no_run
    /// # async fn example(guard: fairlock::Guard) -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    ///
    /// guard.extend(Duration::from_secs(600)).await?;
    /// assert!(guard.remaining() > Duration::from_secs(600));
    /// # Ok(())
    /// # }
    /// ```
    pub fn extend(&self, additional: Duration) -> Operation<Result<(), RenewError>> {
        self.ask(move |handle, shared| async move {
            shared.check()?;
            let (value, most) = (shared.remaining().saturating_add(additional), LONGEST);
            if value > most {
                let option = "the extended lease";
                return Err(InvalidOption::Duration { option, value, least: Duration::ZERO, most }.into());
            }
            renew(&handle, &shared, Some(additional)).await
        })
    }

    /// Makes sure that the lease is held: asks the server at each call, and renews the lease if it was last renewed, by
    /// this or any other way, longer ago than a tenth of its length or a second, whichever is longer (for leases below
    /// three seconds a third of their length). One round trip, a second one if the server does not know the lease.
    ///
    /// For loops that call it in each turn, mostly with [`manual_renewal`](crate::LockOptions::manual_renewal). A lease
    /// that the server has lost with all its data is re-asserted, if nobody else was granted the lock meanwhile.
    ///
    /// # Errors
    /// [`RenewError::Lost`] if the lease is lost, [`Fault::Unavailable`] if a request has no answer within 5 seconds.
    ///
    /// # Cancel safety
    /// If the future is dropped, the renewal may still take place.
    ///
    /// # Examples
    /// ```no_run
    /// # async fn example(guard: fairlock::Guard, parts: Vec<u32>) -> Result<(), Box<dyn std::error::Error>> {
    /// for part in parts {
    ///     guard.refresh().await?;
    ///     work_on(part).await;
    /// }
    /// # Ok(())
    /// # }
    /// # async fn work_on(part: u32) {}
    /// ```
    pub fn refresh(&self) -> Operation<Result<Refreshed, RenewError>> {
        self.ask(|handle, shared| async move {
            shared.check()?;
            let recently = Time::now().since(shared.renewed_at()) < refresh_interval(shared.spec.lease);
            if recently && is_held(&handle, &shared).await? {
                shared.check()?;
                return Ok(Refreshed::Verified);
            }
            // Where the server does not know the lease, the renewal tells why, or re-asserts it.
            renew(&handle, &shared, None).await?;
            Ok(Refreshed::Renewed)
        })
    }

    /// Whether this very lease holds the lock, by the server's word. One round trip, which changes nothing. A lease
    /// that an operator has broken holds the lock until it ends.
    ///
    /// [`check`](Self::check) needs no round trip, and is as sure while the server keeps its data.
    ///
    /// # Errors
    /// [`Fault`]: among others [`Fault::Unavailable`] if there was no answer within 5 seconds.
    ///
    /// # Cancel safety
    /// The future may be dropped at any time.
    pub fn is_locked_by_me(&self) -> Operation<Result<bool, Fault>> {
        self.ask(|handle, shared| async move { is_held(&handle, &shared).await })
    }

    /// Switches the automatic renewal of this lease on or off, as if it had been acquired with other options. No round
    /// trip. A lease whose options name no [interval](crate::LockOptions::renew_every) is renewed every third.
    ///
    /// Switched off, the lease ends by itself unless it is renewed by [`renew`](Self::renew), [`extend`](Self::extend)
    /// or [`refresh`](Self::refresh); [`lost`](Self::lost) tells before it does.
    pub fn set_automatic_renewal(&self, on: bool) {
        let shared = self.shared();
        // Where there is no keeper any more, there is no lease either.
        let _ = self.handle().renew_automatically(shared.spec.name(), shared.id, on);
    }

    /// An operation of this guard that does not borrow it.
    fn ask<T, F: Future<Output = T> + Send + Sync + 'static>(
        &self,
        operation: impl FnOnce(Arc<Handle>, Arc<Shared>) -> F,
    ) -> Operation<T> {
        Operation::relayed(&self.handle().wakers, operation(self.handle().clone(), self.shared().clone()))
    }
}

async fn renew(handle: &Handle, shared: &Shared, extend: Option<Duration>) -> Result<(), RenewError> {
    shared.check()?;
    match handle.renew(shared.spec.name(), shared.id, extend).await? {
        Renewal::Renewed => Ok(()),
        Renewal::Lost(reason) => Err(shared.lost_with(reason).into()),
    }
}

/// Whether the server says that this lease holds the lock, and may be renewed.
async fn is_held(handle: &Handle, shared: &Shared) -> Result<bool, Fault> {
    let holder = handle.inspect(&shared.spec.keys, None, 0).await?.holder;
    Ok(holder.is_some_and(|holder| holder.id == shared.id_seen() && holder.token == shared.token.get()))
}

/// The least time between two writes of [`Guard::refresh`].
pub(crate) fn refresh_interval(lease: Duration) -> Duration {
    const SECOND: Duration = Duration::from_secs(1);
    (lease / 10).max(SECOND).min((lease / 3).max(lease / 10))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_is_refreshed_every_tenth_of_it_and_not_more_often_than_every_second() {
        let seconds = [(5.0, 1.0), (10.0, 1.0), (30.0, 3.0), (100.0, 10.0), (200.0, 20.0), (1000.0, 100.0)];
        for (lease, interval) in seconds.into_iter().chain([(3.0, 1.0), (1.5, 0.5), (0.3, 0.1)]) {
            let of = Duration::from_secs_f64;
            assert_eq!(refresh_interval(of(lease)), of(interval), "{lease} s");
        }
    }
}
