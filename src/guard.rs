//! The handles of a holder: the guard, and views of it.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::Poll;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::sync::futures::Notified;

use crate::clock::Time;
use crate::error::{Fault, Lost, LostReason, ReleaseError, RenewError};
use crate::keeper::{Command, Handle, Message, Outbox, Release, Renewal};
use crate::operation::Operation;
use crate::options::Spec;
use crate::wakers::{Wakers, poll};

/// A lease as the keeper, the guard and views see it.
#[derive(Debug)]
pub(crate) struct Shared {
    spec: Arc<Spec>,
    id: u64,
    token: u64,
    ticket: u64,
    process: u32,
    deadline: AtomicU64,
    taken: AtomicU8,
    lost: OnceLock<LostReason>,
    /// The deadline has moved, or the lease was lost.
    renewed: Notify,
    /// The lease was lost or released.
    ended: Notify,
    wakers: Arc<Wakers>,
}

const WAITING: u8 = 0;
const TAKEN: u8 = 1;
const RECLAIMED: u8 = 2;

impl Shared {
    /// `process`: that of the keeper.
    pub(crate) fn new(
        spec: Arc<Spec>,
        id: u64,
        token: u64,
        ticket: u64,
        deadline: Time,
        process: u32,
        wakers: Arc<Wakers>,
    ) -> Self {
        Self {
            spec,
            id,
            token,
            ticket,
            process,
            deadline: AtomicU64::new(deadline.0),
            taken: AtomicU8::new(WAITING),
            lost: OnceLock::new(),
            renewed: Notify::new(),
            ended: Notify::new(),
            wakers,
        }
    }

    pub(crate) fn prolong(&self, deadline: Time) {
        if self.lost.get().is_none() {
            self.deadline.fetch_max(deadline.0, Ordering::Release);
            self.renewed.notify_waiters();
        }
    }

    pub(crate) fn lose(&self, reason: LostReason) {
        // A lease that has ended leaves nothing; one that is about to end leaves its notice.
        if matches!(reason, LostReason::Ended | LostReason::Released | LostReason::Closed | LostReason::KeeperPanicked)
        {
            self.deadline.store(0, Ordering::Release);
        }
        if self.lost.set(reason.clone()).is_err() {
            return;
        }
        // The caller has asked for this and needs no log record. Other losses are logged before the caller hears of
        // them.
        if !matches!(reason, LostReason::Released | LostReason::Closed) {
            let Lost { name, token, reason } = self.lost_with(reason);
            self.wakers.say(move || tracing::warn!(lock = &*name, token, %reason, "lease lost"));
        }
        self.ended.notify_waiters();
        self.renewed.notify_waiters();
    }

    /// The keeper takes the lease back if its caller has not taken it.
    pub(crate) fn reclaim(&self) -> bool {
        self.taken.compare_exchange(WAITING, RECLAIMED, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    fn take(&self) -> bool {
        self.taken.compare_exchange(WAITING, TAKEN, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    fn lost_with(&self, reason: LostReason) -> Lost {
        Lost { name: self.spec.name().clone(), token: self.token, reason }
    }

    fn is_forked(&self) -> bool {
        std::process::id() != self.process
    }

    fn remaining(&self) -> Duration {
        Time(self.deadline.load(Ordering::Acquire)).since(Time::now())
    }

    fn check(&self) -> Result<(), Lost> {
        if self.is_forked() {
            return Err(self.lost_with(LostReason::Forked));
        }
        if let Some(reason) = self.lost.get() {
            return Err(self.lost_with(reason.clone()));
        }
        if self.remaining().is_zero() {
            return Err(self.lost_with(LostReason::NotRenewed { cause: None }));
        }
        Ok(())
    }

    /// Resolves when this is notified; in a forked process, where no keeper runs, at every poll.
    async fn notified(&self, mut notified: Pin<&mut Notified<'_>>) {
        poll_fn(|context| match self.is_forked() {
            true => Poll::Ready(()),
            false => poll(&mut notified, context),
        })
        .await;
    }

    /// The reason, once there is one.
    async fn ended(&self) -> LostReason {
        loop {
            let notified = pin!(self.ended.notified());
            if self.is_forked() {
                return LostReason::Forked;
            }
            if let Some(reason) = self.lost.get() {
                return reason.clone();
            }
            self.notified(notified).await;
        }
    }

    /// The remaining time, once the lease lasts beyond this deadline.
    async fn renewed(&self, before: u64) -> Result<Duration, Lost> {
        loop {
            let notified = pin!(self.renewed.notified());
            self.check()?;
            if self.deadline.load(Ordering::Acquire) > before {
                return Ok(self.remaining());
            }
            self.notified(notified).await;
        }
    }

    /// The next renewal from now on.
    fn next_renewal(self: &Arc<Self>) -> Operation<impl Future<Output = Result<Duration, Lost>> + Send + Sync + use<>> {
        let (shared, before) = (self.clone(), self.deadline.load(Ordering::Acquire));
        Operation::relayed(&self.wakers, async move { shared.renewed(before).await })
    }

    fn show(&self, kind: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct(kind);
        shown.field("name", &self.spec.name()).field("token", &self.token).field("remaining", &self.remaining());
        shown.finish()
    }
}

/// A lease on its way to a caller, and in its guard. If it is dropped, the lock is released.
#[derive(Debug)]
pub(crate) struct Armed {
    shared: Arc<Shared>,
    messages: Outbox<Message>,
    armed: bool,
}

impl Armed {
    pub(crate) fn new(shared: Arc<Shared>, messages: Outbox<Message>) -> Self {
        Self { shared, messages, armed: true }
    }

    /// The guard, unless the keeper has taken the lease back: then how long it had waited to be taken.
    pub(crate) fn into_guard(mut self, handle: Arc<Handle>) -> Result<Guard, Duration> {
        if self.shared.take() {
            Ok(Guard { armed: self, handle })
        } else {
            self.armed = false;
            Err(self.shared.spec.lease)
        }
    }
}

impl Drop for Armed {
    fn drop(&mut self) {
        if self.armed && !self.shared.is_forked() {
            self.shared.lose(LostReason::Released);
            let (lock, id) = (self.shared.spec.name().clone(), self.shared.id);
            let _ = self.messages.send(Message::Command { lock, command: Command::Release { question: None, id } });
        }
    }
}

/// Holds the lock until it is dropped or its lease is lost.
///
/// Dropping it releases the lock in the background; [`release`](Guard::release) also reports whether it was held to the
/// end. The client's own thread renews the lease, whatever the threads of the caller do.
///
/// A guard cannot stop its owner from going on after the lease was lost: await [`lost`](Guard::lost), call
/// [`check`](Guard::check) before each critical step, and let stores refuse old [`token`](Guard::token)s.
///
/// If it is the last handle of its client, the drop waits up to 250 ms until the lock is released, see
/// [`Client`](crate::Client).
///
/// # Examples
/// ```no_run
/// # async fn example(lock: fairlock::Lock) -> Result<(), Box<dyn std::error::Error>> {
/// let guard = lock.acquire().await?;
/// tokio::select! {
///     lost = guard.lost() => return Err(lost.into()),
///     () = work(guard.token()) => {}
/// }
/// guard.release().await?;
/// # Ok(())
/// # }
/// # async fn work(token: u64) {}
/// ```
#[must_use = "the lock is released as soon as its guard is dropped"]
pub struct Guard {
    // Dropped before the handle: the release must be sent before the last handle ends the keeper.
    armed: Armed,
    handle: Arc<Handle>,
}

impl Guard {
    /// The lock's name.
    pub fn name(&self) -> &str {
        self.armed.shared.spec.name()
    }

    /// The fencing token: it rises with every grant of this lock. Pass it on to stores that refuse lower ones.
    pub fn token(&self) -> u64 {
        self.armed.shared.token
    }

    /// The ticket: the place in the order of arrival, lower than the token. For a try, which never waits, it is the
    /// token.
    pub fn ticket(&self) -> u64 {
        self.armed.shared.ticket
    }

    /// What is left of the lease by the local clock, which counts suspended time. Every renewal prolongs it.
    pub fn remaining(&self) -> Duration {
        self.armed.shared.remaining()
    }

    /// Fails unless the lease is held. It checks the clock, not only the keeper's messages. No round trip.
    ///
    /// # Errors
    /// [`Lost`] if the lease is lost, or about to be.
    pub fn check(&self) -> Result<(), Lost> {
        self.armed.shared.check()
    }

    /// A view of the lease to hand to tasks and stores.
    pub fn held(&self) -> Held {
        Held { shared: self.armed.shared.clone() }
    }

    /// Resolves when the lease is lost: a `notice` before its deadline if it cannot be renewed, at once if it has ended
    /// on the server. Final. No round trip.
    ///
    /// In a forked process it resolves at every poll. A future that was polled before the fork is not woken there: make
    /// a new one, or call [`check`](Guard::check).
    ///
    /// It borrows the guard, which cannot be released meanwhile. For an independent task, use [`Held::lost`].
    ///
    /// # Cancel safety
    /// The future may be dropped and made again at any time.
    pub fn lost(&self) -> Operation<impl Future<Output = Lost> + Send + Sync + '_> {
        let shared = &self.armed.shared;
        Operation::relayed(&shared.wakers, async { shared.lost_with(shared.ended().await) })
    }

    /// Resolves at the next renewal of the lease, with the remaining time after it. No round trip.
    ///
    /// # Errors
    /// [`Lost`] when the lease is lost.
    ///
    /// # Cancel safety
    /// The future may be dropped at any time. It counts renewals from this call on, whenever it is polled.
    ///
    /// # Examples
    /// ```no_run
    /// # async fn example(guard: fairlock::Guard) {
    /// let held = guard.held();
    /// tokio::spawn(async move {
    ///     while let Ok(remaining) = held.renewed().await {
    ///         println!("renewed, {remaining:?} left");
    ///     }
    /// });
    /// # }
    /// ```
    pub fn renewed(&self) -> Operation<impl Future<Output = Result<Duration, Lost>> + Send + Sync + use<>> {
        self.armed.shared.next_renewal()
    }

    /// Renews the lease to its full length now. One round trip. Needed with
    /// [`manual_renewal`](crate::LockOptions::manual_renewal) only.
    ///
    /// # Errors
    /// [`RenewError::Lost`] if the lease is lost, [`Fault::Unavailable`] if there was no answer within 5 seconds.
    ///
    /// # Cancel safety
    /// If the future is dropped, the renewal may still take place.
    pub fn renew(&self) -> Operation<impl Future<Output = Result<(), RenewError>> + Send + Sync + use<>> {
        let (handle, shared) = (self.handle.clone(), self.armed.shared.clone());
        Operation::relayed(&self.handle.wakers, async move {
            shared.check()?;
            match handle.renew(shared.spec.name(), shared.id).await? {
                Renewal::Renewed => Ok(()),
                Renewal::Lost(reason) => Err(shared.lost_with(reason).into()),
            }
        })
    }

    /// Releases the lock and reports whether it was held to the end. One round trip, in which the next waiter is
    /// granted the lock.
    ///
    /// # Errors
    /// [`ReleaseError::Lost`] if the lease had ended before, [`ReleaseError::Unknown`] if the server has not answered
    /// by the lease's deadline. The caller need not do anything in either case: the client repeats the release.
    ///
    /// # Cancel safety
    /// If the future is dropped, the lock is released nevertheless.
    pub fn release(mut self) -> Operation<impl Future<Output = Result<(), ReleaseError>> + Send + Sync + use<>> {
        let wakers = self.handle.wakers.clone();
        Operation::relayed(&wakers, async move {
            let held = self.check();
            if matches!(held, Err(Lost { reason: LostReason::Forked, .. })) {
                return Err(Fault::Forked.into());
            }
            let shared = self.armed.shared.clone();
            self.armed.armed = false;
            shared.lose(LostReason::Released);
            let outcome = self.handle.release(shared.spec.name(), shared.id).await;
            tracing::debug!(lock = &**shared.spec.name(), token = shared.token, ?outcome, "released");
            held?;
            match outcome? {
                Release::Released => Ok(()),
                Release::Lost(reason) => Err(shared.lost_with(reason).into()),
                Release::Unknown(cause) => Err(ReleaseError::Unknown { cause: cause.map(Into::into) }),
            }
        })
    }
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.armed.shared.show("Guard", f)
    }
}

/// A view of a lease. It does not keep the lock: it may outlive its guard, and reports then that the lease is over.
///
/// # Examples
/// ```no_run
/// # async fn example(guard: fairlock::Guard) {
/// let held = guard.held();
/// tokio::spawn(async move {
///     if let Some(lost) = held.lost().await {
///         eprintln!("stop the work: {lost}");
///     }
/// });
/// # }
/// ```
#[derive(Clone)]
pub struct Held {
    shared: Arc<Shared>,
}

impl Held {
    /// The lock's name.
    pub fn name(&self) -> &str {
        self.shared.spec.name()
    }

    /// The fencing token, see [`Guard::token`].
    pub fn token(&self) -> u64 {
        self.shared.token
    }

    /// What is left of the lease, see [`Guard::remaining`].
    pub fn remaining(&self) -> Duration {
        self.shared.remaining()
    }

    /// Whether the lease is held, see [`Guard::check`].
    ///
    /// # Errors
    /// [`Lost`] if the lease is lost, or about to be.
    pub fn check(&self) -> Result<(), Lost> {
        self.shared.check()
    }

    /// Resolves when the lease is over: with the loss, or None if the lock was released with `release` or by dropping
    /// its guard. Otherwise like [`Guard::lost`]. No round trip.
    ///
    /// In `tokio::select!` write `Some(lost) = held.lost() => …`: a release then disables the branch.
    ///
    /// # Cancel safety
    /// The future may be dropped and made again at any time.
    pub fn lost(&self) -> Operation<impl Future<Output = Option<Lost>> + Send + Sync + use<>> {
        let shared = self.shared.clone();
        Operation::relayed(&self.shared.wakers, async move {
            let reason = shared.ended().await;
            (reason != LostReason::Released).then(|| shared.lost_with(reason))
        })
    }

    /// Resolves at the next renewal of the lease, see [`Guard::renewed`].
    ///
    /// # Errors
    /// [`Lost`] when the lease is lost or released.
    pub fn renewed(&self) -> Operation<impl Future<Output = Result<Duration, Lost>> + Send + Sync + use<>> {
        self.shared.next_renewal()
    }
}

impl fmt::Debug for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.shared.show("Held", f)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::options::LockOptions;
    use crate::protocol::LockKeys;

    fn lease_until(deadline: Time) -> Shared {
        let spec = LockOptions::new().of(LockKeys::new("fairlock", "x")).unwrap();
        Shared::new(spec, 1, 7, 6, deadline, std::process::id(), Wakers::of_this_process().unwrap())
    }

    // If the machine was suspended, or the keeper did not run.
    #[test]
    fn a_lease_ends_by_the_clock_though_nobody_has_said_so() {
        let now = Time::now();
        lease_until(now + Duration::from_secs(60)).check().unwrap();
        let over = lease_until(now).check().unwrap_err();
        assert!(matches!(over.reason, LostReason::NotRenewed { cause: None }), "{over:?}");
    }

    #[test]
    fn what_is_lost_is_not_renewed() {
        let later = |seconds| Time::now() + Duration::from_secs(seconds);
        let shared = lease_until(later(60));
        shared.prolong(later(120));
        assert!(shared.remaining() > Duration::from_secs(60));
        shared.lose(LostReason::Ended);
        shared.prolong(later(180));
        assert!(shared.remaining().is_zero(), "{:?}", shared.remaining());
        shared.check().unwrap_err();
    }
}
