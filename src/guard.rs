//! The handles of a holder: the guard, and views of it.

use std::fmt;
use std::future::Future;
use std::ops::Deref;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::error::{Fault, InvalidOption, Lost, LostReason, ReleaseError, RenewError};
use crate::keeper::{Handle, Hold, OwnedLease, Release, Renewal, Shared};
use crate::operation::Operation;
use crate::options::LONGEST;

/// Holds the lock until it is dropped or its lease is lost.
///
/// Dropping it releases the lock in the background; [`release`](Guard::release) also reports whether it was held to the
/// end. The client's own thread renews the lease, whatever the threads of the caller do.
///
/// A guard cannot stop its owner from going on after the lease was lost: await [`lost`](Guard::lost), call
/// [`check`](Held::check) before each critical step, and let stores refuse old [`token`](Held::token)s.
///
/// Tasks share a guard as an `Arc<Guard>`: the lock is released when the last clone is dropped.
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
    armed: OwnedLease,
    held: Held,
    handle: Arc<Handle>,
    observed: Hold,
}

impl Guard {
    pub(crate) fn new(armed: OwnedLease, handle: Arc<Handle>) -> Self {
        let (held, observed) =
            (Held { shared: armed.shared.clone() }, Hold::new(&armed.shared.spec, armed.shared.token));
        Self { armed, held, handle, observed }
    }

    /// The `tracing` span of this hold.
    pub(crate) fn span(&self) -> &tracing::Span {
        &self.observed.span
    }

    pub(crate) fn handle(&self) -> &Arc<Handle> {
        &self.handle
    }

    /// A view of the lease to hand to tasks and stores.
    pub fn held(&self) -> Held {
        self.held.clone()
    }

    /// Resolves when the lease is lost: a `notice` before its deadline if it cannot be renewed, at once if it has ended
    /// on the server. Final. No round trip.
    ///
    /// In a forked process it resolves at every poll. A future that was polled before the fork is not woken there: make
    /// a new one, or call [`check`](Held::check).
    ///
    /// It also resolves if the guard is released or dropped meanwhile, with [`LostReason::Released`].
    /// [`Held::ended`] tells a release from a loss.
    ///
    /// # Cancel safety
    /// The future may be dropped and made again at any time.
    pub fn lost(&self) -> Operation<Lost> {
        self.when_over(|lost| lost)
    }

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
    /// [`RenewError::Lost`] if the lease is lost, [`RenewError::Invalid`] if more than 30 days would be left of it, also by
    /// extensions that were asked for before, [`Fault::Unavailable`] if there was no answer within 5 seconds: the lease may be extended all the same.
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
        self.ask(move |handle, shared| async move { renew(&handle, &shared, Some(additional)).await })
    }

    /// Makes a reader of a writer: from now on up to 1000 may hold the lock together, this lease among them. It keeps its
    /// token and its slot, and no other writer comes in between. It is also renewed. One round trip, in which the server
    /// grants the lock to the readers at the front of the queue. A lease that was downgraded stays so; another call
    /// changes nothing.
    ///
    /// From the call on its caller must not write any more. There is no time limit but that of the lease: the client
    /// repeats the request until the server has answered.
    ///
    /// # Errors
    /// [`RenewError::Invalid`] if the lease began as a reader's, or as that of a semaphore with more than one
    /// [slot](crate::LockOptions::slots). A plain lock and a semaphore with one slot count as writers. [`RenewError::Lost`] if the lease is lost. So after an error the
    /// lease is what it was, or over.
    ///
    /// # Cancel safety
    /// If the future is dropped after its first poll, the lease may be a writer's or a reader's, until the server has
    /// answered. To be sure that it is a reader's, call it again.
    ///
    /// # Examples
    /// ```no_run
    /// # async fn example(client: fairlock::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// # async fn write() {}
    /// # async fn read() {}
    /// let guard = client.rw_lock("index")?.write().await?;
    /// write().await;
    /// guard.downgrade().await?;
    /// read().await; // what was written, with others
    /// # Ok(())
    /// # }
    /// ```
    pub fn downgrade(&self) -> Operation<Result<(), RenewError>> {
        self.ask(|handle, shared| async move {
            let most = shared.spec.most;
            if most > 1 {
                let name = shared.spec.name().clone();
                return Err(InvalidOption::NoWriter { name, slots: most.into() }.into());
            }
            shared.check()?;
            let outcome = handle.downgrade(shared.spec.name(), shared.id).await?;
            renewed(&shared, outcome)
        })
    }

    /// Releases the lock and reports whether it was held to the end. One round trip, in which the next waiter is
    /// granted the lock; there may be two if others have asked for the lock only since it was granted.
    ///
    /// # Errors
    /// [`ReleaseError::Lost`] if the lease had ended or an operator had broken it, [`ReleaseError::Unknown`] if the server has not answered
    /// by the lease's deadline. The caller need not do anything in either case: the client repeats the release.
    ///
    /// # Cancel safety
    /// If the future is dropped, the lock is released nevertheless.
    pub fn release(mut self) -> Operation<Result<(), ReleaseError>> {
        let wakers = self.handle.wakers.clone();
        Operation::relayed(&wakers, async move {
            let held = self.check();
            if matches!(held, Err(Lost { reason: LostReason::Forked, .. })) {
                return Err(Fault::Forked.into());
            }
            let shared = self.armed.shared.clone();
            self.armed.disarm();
            shared.end(LostReason::Released);
            let outcome = self.handle.release(shared.clone()).await;
            held?;
            match outcome? {
                Release::Released => Ok(()),
                Release::Lost(reason) => Err(shared.lost_with(reason).into()),
                Release::Unknown(cause) => Err(ReleaseError::Unknown { cause: cause.map(Into::into) }),
            }
        })
    }

    /// An operation of this guard that does not borrow it.
    pub(crate) fn ask<T, F: Future<Output = T> + Send + Sync + 'static>(
        &self,
        operation: impl FnOnce(Arc<Handle>, Arc<Shared>) -> F,
    ) -> Operation<T> {
        Operation::relayed(&self.handle().wakers, operation(self.handle().clone(), self.shared().clone()))
    }
}

impl Deref for Guard {
    type Target = Held;
    fn deref(&self) -> &Held {
        &self.held
    }
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.armed.shared.show("Guard", f)
    }
}

pub(crate) async fn renew(handle: &Handle, shared: &Shared, extend: Option<Duration>) -> Result<(), RenewError> {
    shared.check()?;
    renewed(shared, handle.renew(shared.spec.name(), shared.id, extend).await?)
}

fn renewed(shared: &Shared, outcome: Renewal) -> Result<(), RenewError> {
    match outcome {
        Renewal::Renewed => Ok(()),
        Renewal::Lost(reason) => Err(shared.lost_with(reason).into()),
        Renewal::TooLong { left } => {
            let (option, least, most) = ("the extended lease", Duration::ZERO, LONGEST);
            Err(InvalidOption::Duration { option, value: left, least, most }.into())
        }
    }
}

/// A view of a lease. It does not keep the lock: it may outlive its guard, and reports then that the lease is over.
/// A [`Guard`] has all that a view has.
///
/// # Examples
/// ```no_run
/// # async fn example(guard: fairlock::Guard) {
/// let held = guard.held();
/// tokio::spawn(async move {
///     if let Some(lost) = held.ended().await {
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
    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// The lock's name.
    pub fn name(&self) -> &str {
        self.shared.spec.name()
    }

    /// The fencing token: it rises with every grant of this lock. Pass it on to stores that refuse lower ones. For a
    /// semaphore a store compares it with tokens of the same [`slot`](Self::slot): of two holders either may have the
    /// higher one. Who holds the name alone ([`slots`](Self::slots) is 1) uses what all slots stand for, and first writes its
    /// token for each of them.
    pub fn token(&self) -> u64 {
        self.shared.token.get()
    }

    /// The ticket: the place in the order of arrival, lower than the token. For a try, which never waits, it is the
    /// token.
    pub fn ticket(&self) -> u64 {
        self.shared.ticket.get()
    }

    /// The slot: which of the [`slots`](crate::LockOptions::slots) this lease has, from 0 on, the lowest that was free
    /// at its grant. No two leases have one slot at the same time, so it can say which of several things to use. Stays
    /// as it is when the lease is lost. Of a lock that only one may hold it is 0.
    pub fn slot(&self) -> u32 {
        self.shared.slot.into()
    }

    /// How many may hold the lock together while this lease lasts, its own holder among them: as many as its
    /// [`slots`](crate::LockOptions::slots), 1 for a lock or a writer, 1000 for a reader. It changes when a writer becomes
    /// a [reader](Guard::downgrade), as soon as the server has said so.
    pub fn slots(&self) -> u32 {
        self.shared.most().into()
    }

    /// The id of this acquire, as others see it in [`inspect`](crate::Lock::inspect): [`Holder::id`](crate::state::Holder::id).
    pub fn id(&self) -> String {
        self.shared.id_seen()
    }

    /// The owner that the acquire named; empty if it named none.
    pub fn owner(&self) -> &str {
        &self.shared.origin.owner
    }

    /// The label that others see.
    pub fn label(&self) -> &str {
        &self.shared.origin.label
    }

    /// The length of the lease, to which every renewal prolongs it.
    pub fn lease_length(&self) -> Duration {
        self.shared.spec.lease
    }

    /// When this client heard of its grant, by the local wall clock.
    pub fn granted_at(&self) -> SystemTime {
        self.shared.granted_at()
    }

    /// How long the acquire took from its first poll to the grant, by the local clock, which counts suspended time.
    pub fn waited(&self) -> Duration {
        self.shared.waited()
    }

    /// What is left of the lease by the local clock, which counts suspended time. Every renewal prolongs it. Zero in a
    /// forked process, which does not hold it.
    pub fn remaining(&self) -> Duration {
        self.shared.remaining()
    }

    /// Fails unless the lease is held. It checks the clock, not only the keeper's messages. No round trip.
    ///
    /// # Errors
    /// [`Lost`] if the lease is lost, or about to be.
    pub fn check(&self) -> Result<(), Lost> {
        self.shared.check()
    }

    /// Resolves when the lease is over: with the loss, or None if the lock was released with `release` or by dropping
    /// its guard. Otherwise like [`Guard::lost`]. No round trip.
    ///
    /// In `tokio::select!` write `Some(lost) = held.ended() => …`: a release then disables the branch.
    ///
    /// # Cancel safety
    /// The future may be dropped and made again at any time.
    pub fn ended(&self) -> Operation<Option<Lost>> {
        self.when_over(|lost| (lost.reason != LostReason::Released).then_some(lost))
    }

    /// What this makes of the end of the lease, which may be its release.
    pub(crate) fn when_over<T: 'static>(&self, tell: impl FnOnce(Lost) -> T + Send + Sync + 'static) -> Operation<T> {
        let shared = self.shared.clone();
        Operation::relayed(&self.shared.wakers, async move { tell(shared.lost_with(shared.ended().await)) })
    }

    /// Resolves at the next renewal, automatic or by hand, with the remaining time after it. No round trip.
    ///
    /// An [extended](Guard::extend) lease is renewed as often as any other. These renewals count too, although they do
    /// not move its end: they tell that the server has the lease.
    ///
    /// # Errors
    /// [`Lost`] when the lease is lost or released.
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
    pub fn renewed(&self) -> Operation<Result<Duration, Lost>> {
        let (shared, before) = (self.shared.clone(), self.shared.renewals());
        Operation::relayed(&self.shared.wakers, async move { shared.renewed(before).await })
    }
}

impl fmt::Debug for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.shared.show("Held", f)
    }
}
