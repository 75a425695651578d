//! Jobs that run while their caller holds the lock.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

use tracing::Instrument as _;

use crate::acquire::{Acquire, TryAcquire};
use crate::error::{Lost, ReleaseError, RunError, TryRunError};
use crate::guard::{Guard, Held};

impl Acquire {
    /// Acquires the lock, runs the job while holding it, and releases it. If the lease is lost, the job is dropped at
    /// its current await. The job is polled within a `tracing` span that names the lock and the token. Two round trips
    /// if the lock is free.
    ///
    /// # Errors
    /// [`RunError::Acquire`] if the lock was not acquired, [`RunError::Lost`] if the lease was lost, even if the job
    /// ended after that.
    ///
    /// # Cancel safety
    /// If the future is dropped, the job is dropped and the lock is released.
    ///
    /// # Examples
    /// ```no_run
    /// # async fn example(lock: fairlock::Lock) -> Result<(), Box<dyn std::error::Error>> {
    /// let written = lock.acquire().run(|held| async move { write_report(held.token()).await }).await?;
    /// # Ok(())
    /// # }
    /// # async fn write_report(token: u64) -> u64 { token }
    /// ```
    pub async fn run<F, Fut, T>(self, job: F) -> Result<T, RunError>
    where
        F: FnOnce(Held) -> Fut,
        Fut: Future<Output = T>,
    {
        Ok(run(self.await?, job).await?)
    }

    /// Acquires the lock on the spot, runs the job on this thread while holding it, and releases it; no async runtime
    /// is needed. Two round trips if the lock is free.
    ///
    /// A job that is no future cannot be ended from outside: a long one calls [`Held::check`] before what matters.
    ///
    /// # Errors
    /// As [`run`](Self::run). If the lease was lost before the job ended, its result is dropped.
    ///
    /// # Examples
    /// ```no_run
    /// # fn example(lock: fairlock::Lock) -> Result<(), Box<dyn std::error::Error>> {
    /// let written = lock.acquire().run_blocking(|held| write_report(held.token()))?;
    /// # Ok(())
    /// # }
    /// # fn write_report(token: u64) -> u64 { token }
    /// ```
    pub fn run_blocking<T>(self, job: impl FnOnce(Held) -> T) -> Result<T, RunError> {
        Ok(run_blocking(self.blocking()?, job)?)
    }
}

impl TryAcquire {
    /// Runs the job if the lock is free and has no waiters, and does not wait otherwise. As [`Acquire::run`] in all
    /// else. Two round trips, or one if the job is not run.
    ///
    /// # Errors
    /// [`TryRunError::Acquire`], mostly with [`TryAcquireError::Busy`](crate::error::TryAcquireError::Busy), if the job was not
    /// run; [`TryRunError::Lost`] if the lease was lost, even if the job ended after that.
    ///
    /// # Cancel safety
    /// If the future is dropped, the job is dropped and the lock is released.
    ///
    /// # Examples
    /// ```no_run
    /// # async fn example(lock: fairlock::Lock) -> Result<(), Box<dyn std::error::Error>> {
    /// use fairlock::error::{TryAcquireError, TryRunError};
    ///
    /// match lock.try_acquire().run(|_| async { 5 }).await {
    ///     Ok(value) => println!("done: {value}"),
    ///     Err(TryRunError::Acquire(TryAcquireError::Busy { .. })) => println!("another process does it"),
    ///     Err(error) => return Err(error.into()),
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn run<F, Fut, T>(self, job: F) -> Result<T, TryRunError>
    where
        F: FnOnce(Held) -> Fut,
        Fut: Future<Output = T>,
    {
        Ok(run(self.await?, job).await?)
    }

    /// The same on the spot, for a job that is no future, see [`Acquire::run_blocking`].
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub fn run_blocking<T>(self, job: impl FnOnce(Held) -> T) -> Result<T, TryRunError> {
        Ok(run_blocking(self.blocking()?, job)?)
    }
}

async fn run<F, Fut, T>(guard: Guard, job: F) -> Result<T, Lost>
where
    F: FnOnce(Held) -> Fut,
    Fut: Future<Output = T>,
{
    let job = job(guard.held()).instrument(guard.span().clone());
    let value = job_under(guard.lost(), job).await?;
    // The clock decides, not the order in which tasks were woken.
    guard.check()?;
    outcome(value, guard.release().await)
}

/// The result of the job, unless its lease is lost before.
pub(crate) async fn job_under<J: Future>(lost: impl Future<Output = Lost>, job: J) -> Result<J::Output, Lost> {
    let (mut lost, mut job) = (pin!(lost), pin!(job));
    poll_fn(|context| match lost.as_mut().poll(context) {
        Poll::Ready(lost) => Poll::Ready(Err(lost)),
        Poll::Pending => job.as_mut().poll(context).map(Ok),
    })
    .await
}

fn run_blocking<T>(guard: Guard, job: impl FnOnce(Held) -> T) -> Result<T, Lost> {
    let value = guard.span().in_scope(|| job(guard.held()));
    guard.check()?;
    outcome(value, guard.release().blocking())
}

/// The result of a job that ended under its lease, unless the release says that the lease was lost before.
pub(crate) fn outcome<T>(value: T, released: Result<(), ReleaseError>) -> Result<T, Lost> {
    match released {
        Err(ReleaseError::Lost(lost)) => Err(lost),
        // The keeper sees to it that the server hears of the release.
        _ => Ok(value),
    }
}
