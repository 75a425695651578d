//! Questions about a lease, and renewals by the way.

use std::time::Duration;

use crate::clock::Time;
use crate::error::{Fault, RenewError};
use crate::guard::{Guard, renew};
use crate::inspect::Holder;
use crate::keeper::{Handle, Shared};
use crate::lock::{Lock, holders, page};
use crate::operation::Operation;
use crate::protocol::{InspectRequest, WireId};

/// The outcome of [`refresh`].
///
/// # Examples
/// ```no_run
/// # async fn example(guard: fairlock::Guard) -> Result<(), fairlock::error::RenewError> {
/// use fairlock::compat::{Refreshed, refresh};
///
/// if refresh(&guard).await? == Refreshed::Renewed {
///     println!("another {:?}", guard.remaining());
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refreshed {
    /// The lease was renewed to its full length.
    Renewed,
    /// The server says that the lease is held. It was renewed so recently that nothing was written.
    Verified,
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
///     fairlock::compat::refresh(&guard).await?;
///     work_on(part).await;
/// }
/// # Ok(())
/// # }
/// # async fn work_on(part: u32) {}
/// ```
pub fn refresh(guard: &Guard) -> Operation<Result<Refreshed, RenewError>> {
    guard.ask(|handle, shared| async move {
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

/// Whether this very lease holds the lock, by the server's word. One round trip, which changes nothing. A lease that an
/// operator has broken holds the lock until it ends.
///
/// [`check`](crate::Held::check) needs no round trip, and is as sure while the server keeps its data.
///
/// # Errors
/// [`Fault`]: among others [`Fault::Unavailable`] if there was no answer within 5 seconds.
///
/// # Cancel safety
/// The future may be dropped at any time.
pub fn verify(guard: &Guard) -> Operation<Result<bool, Fault>> {
    guard.ask(|handle, shared| async move { is_held(&handle, &shared).await })
}

/// Switches the automatic renewal of this lease on or off, as if it had been acquired with other options. No round
/// trip. A lease whose options name no [interval](crate::LockOptions::renew_every) is renewed every third.
///
/// Switched off, the lease ends by itself unless it is renewed by [`renew`](Guard::renew), [`extend`](Guard::extend)
/// or [`refresh`]; [`lost`](Guard::lost) tells before it does.
pub fn set_automatic_renewal(guard: &Guard, on: bool) {
    let shared = guard.shared();
    // Where there is no keeper any more, there is no lease either.
    let _ = guard.handle().renew_automatically(shared.spec.name(), shared.id, on);
}

/// Whether the lock is held for the caller, by the server's word: by an acquire of this lock's
/// [owner](crate::LockOptions::owner), from whatever client, or, if the lock has no owner, by any acquire of this
/// client. One round trip for every 500 holders, which changes nothing. [`verify`] tells it of one lease.
///
/// # Errors
/// [`Fault`]: among others [`Fault::Unavailable`] if there was no answer within 5 seconds.
///
/// # Cancel safety
/// The future may be dropped at any time.
pub fn is_locked_by_me(lock: &Lock) -> Operation<Result<bool, Fault>> {
    let of = lock.clone();
    Operation::relayed(&lock.handle.wakers, async move {
        let is_mine = |holder: &Holder| match of.owner() {
            "" => WireId::parse(&holder.id).is_some_and(|id| id.is_of(of.handle.client_id())),
            owner => holder.owner == owner,
        };
        Ok(holders(&of.handle, &of.spec.keys).await?.iter().any(is_mine))
    })
}

/// Whether anybody holds the lock, by the server's word. One round trip, which changes nothing.
///
/// A lock that nobody holds may still have waiters, or be recovering: only [`try_acquire`](Lock::try_acquire) tells
/// whether it can be taken.
///
/// # Errors
/// [`Fault`]: among others [`Fault::Unavailable`] if there was no answer within 5 seconds.
///
/// # Cancel safety
/// The future may be dropped at any time.
pub fn is_locked_by_anyone(lock: &Lock) -> Operation<Result<bool, Fault>> {
    let one = InspectRequest { tell_most: 1, ..InspectRequest::first(&lock.spec.keys, 0) };
    let handle = lock.handle.clone();
    Operation::relayed(&lock.handle.wakers, async move { Ok(!page(&handle, one).await?.holders.is_empty()) })
}

/// Whether the server says that this lease holds the lock, and may be renewed.
async fn is_held(handle: &Handle, shared: &Shared) -> Result<bool, Fault> {
    let (tell_from, tell_most) = (shared.slot.into(), 1);
    let its_slot = InspectRequest { tell_from, tell_most, ..InspectRequest::first(&shared.spec.keys, 0) };
    let holders = page(handle, its_slot).await?.holders;
    Ok(holders.iter().any(|holder| holder.id == shared.id_seen() && holder.token == shared.token.get()))
}

/// The least time between two writes of [`refresh`].
fn refresh_interval(lease: Duration) -> Duration {
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
