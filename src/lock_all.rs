//! Several locks at once, under one guard.

use std::fmt;
use std::future::{Future, IntoFuture};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::StreamExt as _;
use futures_util::future::{join_all, pending};
use futures_util::stream::FuturesUnordered;
use tracing::{Instrument as _, Span};

use crate::acquire::Acquire;
use crate::cancel::CancellationToken;
use crate::client::Client;
use crate::error::{AcquireError, InvalidOption, LockAllError, Lost, ReleaseError};
use crate::guard::{Guard, Held};
use crate::lock::Lock;
use crate::operation::Operation;
use crate::options::LockOptions;
use crate::run::{job_under, outcome};

/// An acquire of several locks, all or nothing: await it, or wait on the spot with [`blocking`](LockAll::blocking).
/// Made by [`Client::lock_all`].
///
/// The locks are taken one after the other, in the order of the bytes of their names, whatever order they were given
/// in. So two of these cannot wait for each other, nor for one that takes single locks in this order. Each lock is held
/// while the next one is waited for.
///
/// [`and`](Self::and) adds locks with options of their own, such as a semaphore or the reader of a read-write lock:
/// `LockAll::from(&gpus).and(index.reader())`.
///
/// # Errors
/// [`LockAllError`]: a lock was not acquired (or is [of another client](InvalidOption::OtherClient)), or the lease of
/// one was lost while others were waited for. The locks that were acquired are released.
///
/// # Cancel safety
/// If the future is dropped, the waiter leaves its queue, and the locks that are held are released.
///
/// # Examples
/// ```no_run
/// # async fn example(client: fairlock::Client) -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
///
/// let guard = client.lock_all(["account:7", "account:3"])?.timeout(Duration::from_secs(30)).await?;
/// for (name, token) in guard.tokens() {
///     println!("{name} has token {token}");
/// }
/// guard.check()?; // before what matters: are all leases still ours?
/// guard.release().await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "nothing is acquired until this is awaited"]
#[derive(Clone)]
pub struct LockAll {
    locks: Vec<Lock>,
    /// The name of a lock of another client.
    stranger: Option<Arc<str>>,
    label: Option<Arc<str>>,
    owner: Option<Arc<str>>,
    timeout: Option<Duration>,
    cancellation: Option<CancellationToken>,
}

impl Client {
    /// An acquire of all locks with these names, with the usual options. A name that occurs twice counts once. No round
    /// trip until it is awaited; then one for each lock if they are free.
    ///
    /// # Errors
    /// [`InvalidOption`] if there is no name, or one that cannot be a lock's.
    pub fn lock_all<S: AsRef<str>>(&self, names: impl IntoIterator<Item = S>) -> Result<LockAll, InvalidOption> {
        self.lock_all_with(names, LockOptions::default())
    }

    /// An acquire of all locks with these names, with these options.
    ///
    /// # Errors
    /// [`InvalidOption`] if there is no name, or a name or an option cannot work.
    pub fn lock_all_with<S: AsRef<str>>(
        &self,
        names: impl IntoIterator<Item = S>,
        options: LockOptions,
    ) -> Result<LockAll, InvalidOption> {
        let lock = |name: S| self.lock_with(name.as_ref(), options.clone());
        let locks = names.into_iter().map(lock).collect::<Result<Vec<_>, _>>()?;
        let (first, others) = locks.split_first().ok_or(InvalidOption::NoNames)?;
        Ok(others.iter().fold(first.into(), LockAll::and))
    }
}

/// An acquire of this lock, to which [`and`](LockAll::and) adds others.
impl From<&Lock> for LockAll {
    fn from(lock: &Lock) -> Self {
        let locks = vec![lock.clone()];
        Self { locks, stranger: None, label: None, owner: None, timeout: None, cancellation: None }
    }
}

impl LockAll {
    /// This lock, too, with its own options, label and owner. A name that occurs twice counts once, with the options of
    /// the lock with fewer [slots](LockOptions::slots). All locks must be of one client.
    ///
    /// # Examples
    /// ```no_run
    /// # async fn example(client: fairlock::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// let (gpus, index) = (client.semaphore("gpu", 4)?, client.rw_lock("index")?);
    /// let guard = client.lock_all(["reports"])?.and(&gpus).and(index.reader()).await?;
    /// for held in guard.guards() {
    ///     println!("{}, slot {}", held.name(), held.slot());
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn and(mut self, lock: &Lock) -> Self {
        if self.locks.first().is_some_and(|first| !Arc::ptr_eq(&first.handle, &lock.handle)) {
            self.stranger.get_or_insert_with(|| lock.name().into());
        }
        match self.locks.binary_search_by(|other| other.name().cmp(lock.name())) {
            Ok(at) if lock.spec.most < self.locks[at].spec.most => self.locks[at] = lock.clone(),
            Ok(_) => {}
            Err(at) => self.locks.insert(at, lock.clone()),
        }
        self
    }

    /// Gives up after this time, for all locks together (default: waits for ever). With `Duration::ZERO` each lock is
    /// only tried. Otherwise see [`Acquire::timeout`].
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// The label that others see at each of the locks, see [`Acquire::label`].
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.label = Some(label.into().into());
        self
    }

    /// The owner that others see at each of the locks, see [`Acquire::owner`].
    pub fn owner(mut self, owner: impl Into<String>) -> Self {
        self.owner = Some(owner.into().into());
        self
    }

    /// Fails with `Cancelled` as soon as [`CancellationToken::cancel`] is called, see [`Acquire::cancelled_by`].
    pub fn cancelled_by(mut self, cancellation: &CancellationToken) -> Self {
        self.cancellation = Some(cancellation.clone());
        self
    }

    /// The names of the locks, in the order in which they are taken.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.locks.iter().map(Lock::name)
    }

    /// Waits on the spot; no async runtime is needed, see [`Acquire::blocking`].
    ///
    /// # Errors
    /// As when awaited.
    pub fn blocking(self) -> Result<AllGuard, LockAllError> {
        self.into_future().blocking()
    }

    /// Acquires all locks, runs the job while holding them, and releases them, see [`Acquire::run`]. The job is given
    /// a view of each lease, in the order of the names, and is polled within the nested `tracing` spans of all locks. If
    /// the locks are free, one round trip for each and one to release them.
    ///
    /// # Errors
    /// [`LockAllError::Acquire`] if a lock was not acquired, [`LockAllError::Lost`] if a lease was lost, even if the job
    /// ended after that.
    ///
    /// # Cancel safety
    /// If the future is dropped, the job is dropped and the locks are released.
    pub async fn run<F, Fut, T>(self, job: F) -> Result<T, LockAllError>
    where
        F: FnOnce(Vec<Held>) -> Fut,
        Fut: Future<Output = T>,
    {
        let guard = self.await?;
        let value = job_under(guard.lost(), job(guard.held()).instrument(guard.span())).await?;
        guard.check()?;
        Ok(outcome(value, guard.release().await)?)
    }

    /// Acquires all locks on the spot, runs the job on this thread, and releases them, see [`run`](Self::run) and
    /// [`Acquire::run_blocking`].
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub fn run_blocking<T>(self, job: impl FnOnce(Vec<Held>) -> T) -> Result<T, LockAllError> {
        let guard = self.blocking()?;
        let value = guard.span().in_scope(|| job(guard.held()));
        guard.check()?;
        Ok(outcome(value, guard.release().blocking())?)
    }

    async fn acquire_all(self) -> Result<AllGuard, LockAllError> {
        if let Some(name) = self.stranger {
            let error = InvalidOption::OtherClient { name: name.clone() }.into();
            return Err(LockAllError::Acquire { name, error });
        }
        let begun = Instant::now();
        let mut all = AllGuard { guards: Vec::with_capacity(self.locks.len()) };
        let mut losses = Losses(FuturesUnordered::new());
        for lock in &self.locks {
            let failed = |error| LockAllError::Acquire { name: lock.name().into(), error };
            let Some(acquire) = self.acquire(lock, begun.elapsed()) else {
                let waited = begun.elapsed();
                return Err(failed(AcquireError::Timeout { waited, position: None, position_age: None, cause: None }));
            };
            let acquired = job_under(losses.first(), acquire.instrument(all.span())).await?;
            let guard = acquired.map_err(failed)?;
            losses.0.push(guard.lost());
            all.guards.push(guard);
        }
        all.check()?;
        Ok(all)
    }

    /// The acquire of one of the locks, if there is any time left for it.
    fn acquire(&self, lock: &Lock, spent: Duration) -> Option<Acquire> {
        let mut lock = lock.clone();
        self.label.iter().for_each(|label| lock.label = label.clone());
        self.owner.iter().for_each(|owner| lock.owner = owner.clone());
        let mut acquire = lock.acquire();
        if let Some(timeout) = self.timeout {
            let left = timeout.saturating_sub(spent);
            if left.is_zero() && !timeout.is_zero() {
                return None;
            }
            acquire = acquire.timeout(left);
        }
        if let Some(cancellation) = &self.cancellation {
            acquire = acquire.cancelled_by(cancellation);
        }
        Some(acquire)
    }
}

impl IntoFuture for LockAll {
    type Output = Result<AllGuard, LockAllError>;
    type IntoFuture = Operation<Self::Output>;
    fn into_future(self) -> Self::IntoFuture {
        Operation::of_others(self.acquire_all())
    }
}

impl fmt::Debug for LockAll {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.names().collect();
        f.debug_struct("LockAll").field("names", &names).field("timeout", &self.timeout).finish_non_exhaustive()
    }
}

/// Holds several locks until it is dropped or a lease of them is lost. Made by [`Client::lock_all`].
///
/// Dropping it releases all of them in the background. [`LockAll`] has an example.
///
/// # Examples
/// ```no_run
/// # async fn example(client: fairlock::Client) -> Result<(), Box<dyn std::error::Error>> {
/// # async fn transfer() {}
/// let guard = client.lock_all(["account:7", "account:3"])?.await?;
/// tokio::select! {
///     lost = guard.lost() => return Err(lost.into()), // of whichever lock
///     () = transfer() => {}
/// }
/// guard.release().await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "the locks are released as soon as their guard is dropped"]
#[derive(Debug)]
pub struct AllGuard {
    pub(crate) guards: Vec<Guard>,
}

impl AllGuard {
    /// The `tracing` span of the lock that was acquired last. It is within those of the others, so it names all locks.
    fn span(&self) -> Span {
        self.guards.last().map_or_else(Span::none, |guard| guard.span().clone())
    }

    /// Views of the leases, in the order of the names.
    fn held(&self) -> Vec<Held> {
        self.guards.iter().map(|guard| guard.held()).collect()
    }

    /// The guards of the single locks, in the order of their names.
    pub fn guards(&self) -> &[Guard] {
        &self.guards
    }

    /// Name and fencing token of each lock.
    pub fn tokens(&self) -> impl Iterator<Item = (&str, u64)> {
        self.guards.iter().map(|guard| (guard.name(), guard.token()))
    }

    /// What is left of the lease that ends first, see [`Held::remaining`].
    pub fn remaining(&self) -> Duration {
        self.guards.iter().map(|guard| guard.remaining()).min().unwrap_or_default()
    }

    /// Fails unless all leases are held, see [`Held::check`]. No round trip.
    ///
    /// # Errors
    /// [`Lost`] with the first lock whose lease is lost, or about to be.
    pub fn check(&self) -> Result<(), Lost> {
        self.guards.iter().try_for_each(|guard| guard.check())
    }

    /// Resolves when the first lease is lost, see [`Guard::lost`]. The others are held until the guard is dropped. No
    /// round trip.
    ///
    /// # Cancel safety
    /// The future may be dropped and made again at any time.
    pub fn lost(&self) -> Operation<Lost> {
        let mut losses = Losses(self.guards.iter().map(Guard::lost).collect());
        Operation::of_others(async move { losses.first().await })
    }

    /// Releases all locks and reports whether they were held to the end. One round trip for all together.
    ///
    /// # Errors
    /// The first of [`ReleaseError`], see [`Guard::release`]. Nothing need be done: all locks are released in any case.
    ///
    /// # Cancel safety
    /// If the future is dropped, the locks are released nevertheless.
    pub fn release(self) -> Operation<Result<(), ReleaseError>> {
        Operation::of_others(async move {
            let released = join_all(self.guards.into_iter().map(Guard::release)).await;
            released.into_iter().collect()
        })
    }
}

/// The losses of leases that are held together. One that was polled is polled again only when it was woken, so what a
/// lock costs does not grow with the number of locks that are held already.
struct Losses<F>(FuturesUnordered<F>);

impl<F: Future<Output = Lost>> Losses<F> {
    async fn first(&mut self) -> Lost {
        match self.0.next().await {
            Some(lost) => lost,
            None => pending().await, // nothing is held yet
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::cell::Cell;
    use std::future::{poll_fn, ready};
    use std::task::Poll;

    use super::*;
    use crate::blocking::block_on;
    use crate::error::LostReason;

    /// How often the losses of so many locks are polled while the locks are acquired one after the other.
    fn polls_for(locks: usize) -> usize {
        let polls = Cell::new(0);
        let lost = || {
            poll_fn(|_| {
                polls.set(polls.get() + 1);
                Poll::Pending
            })
        };
        let mut losses = Losses(FuturesUnordered::new());
        for _ in 0..locks {
            block_on(job_under(losses.first(), ready(()))).unwrap();
            losses.0.push(lost());
        }
        polls.get()
    }

    #[test]
    fn a_lock_costs_the_same_however_many_are_held() {
        assert_eq!((polls_for(100), polls_for(1000)), (99, 999));
    }

    #[test]
    fn the_loss_of_any_lease_ends_the_wait_for_the_next_lock() {
        for which in 0..3 {
            let losses = (0..3).map(|number| async move {
                if number != which {
                    pending::<()>().await;
                }
                Lost { name: number.to_string().into(), token: 1, reason: LostReason::Broken }
            });
            let lost = block_on(job_under(Losses(losses.collect()).first(), pending::<()>())).unwrap_err();
            assert_eq!(*lost.name, *which.to_string());
        }
    }
}
