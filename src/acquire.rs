//! Acquiring: builders that are futures; callers await them or wait on the spot.

mod attempt;

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

pub(crate) use self::attempt::Plan;
use self::attempt::{Attempt, Queueing};
use crate::cancel::CancellationToken;
use crate::error::{AcquireError, Fault, TryAcquireError};
use crate::guard::Guard;
use crate::keeper::{Acquiring, Handle, Mode};
use crate::operation::Operation;
#[cfg(feature = "operator")]
use crate::protocol::WireId;
use crate::protocol::{LockKeys, Ticket};

macro_rules! builder {
    ($name:ident, $mode:ident) => {
        impl $name {
            pub(crate) fn new(plan: Plan) -> Self {
                Self { attempt: Attempt::new(plan, Mode::$mode) }
            }

            /// The label that others see in [`inspect`](crate::Lock::inspect): at most 4096 bytes (default: the
            /// lock's [label](crate::LockOptions::label), else the client's).
            pub fn label(mut self, label: impl Into<String>) -> Self {
                self.attempt.plan.label = label.into().into();
                self
            }

            /// The owner that others see, for whom the acquire is made: at most 4096 bytes (default: the lock's
            /// [owner](crate::LockOptions::owner), else empty).
            pub fn owner(mut self, owner: impl Into<String>) -> Self {
                self.attempt.plan.owner = owner.into().into();
                self
            }

            /// Fails with `Cancelled` as soon as [`CancellationToken::cancel`] is called, from any thread, and leaves the
            /// queue. For acquires that wait on the spot; an awaited one is cancelled by dropping it.
            pub fn cancelled_by(mut self, cancellation: &CancellationToken) -> Self {
                self.attempt.plan.cancellation = Some(cancellation.clone());
                self
            }
        }

        shown!($name);
    };
}

macro_rules! shown {
    ($name:ident) => {
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let plan = &self.attempt.plan;
                let mut shown = f.debug_struct(stringify!($name));
                shown.field("name", plan.spec.name()).field("label", &plan.label);
                if !plan.owner.is_empty() {
                    shown.field("owner", &plan.owner);
                }
                if let Some(timeout) = &plan.timeout {
                    shown.field("timeout", timeout);
                }
                shown.finish()
            }
        }
    };
}

/// An acquire: await it, or wait on the spot with [`blocking`](Acquire::blocking). Settings after its first poll have
/// no effect.
///
/// Await it with or without a [`timeout`](Acquire::timeout), but not inside `tokio::time::timeout` in a loop: each turn
/// of such a loop would join the queue again, at its end.
///
/// # Errors
/// [`AcquireError`].
///
/// # Cancel safety
/// If the future is dropped, the waiter leaves the queue, and a grant that is on its way is released. The place in the
/// queue is lost.
///
/// # Examples
/// ```no_run
/// # async fn example(lock: fairlock::Lock) -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
///
/// let guard = lock.acquire().timeout(Duration::from_secs(30)).label("job 7").await?;
/// guard.release().await?;
///
/// // It is a future: spawn it, race it, keep it.
/// let task = tokio::spawn(lock.acquire());
/// let guard = task.await??;
/// # Ok(())
/// # }
/// ```
#[must_use = "nothing is acquired until this is awaited"]
pub struct Acquire {
    attempt: Attempt<Acquiring>,
}

/// A try: await it, or wait on the spot with [`blocking`](TryAcquire::blocking). It resolves within 5 seconds, or by
/// its [`timeout`](TryAcquire::timeout).
///
/// # Errors
/// [`TryAcquireError`].
///
/// # Cancel safety
/// If the future is dropped, a grant that is on its way is released.
///
/// # Examples
/// ```no_run
/// # async fn example(lock: fairlock::Lock) -> Result<(), Box<dyn std::error::Error>> {
/// use fairlock::error::TryAcquireError;
///
/// match lock.try_acquire().await {
///     Ok(guard) => println!("granted with token {}", guard.token()),
///     Err(TryAcquireError::Busy { waiting, .. }) => println!("busy, and {waiting} wait"),
///     Err(error) => return Err(error.into()),
/// }
/// # Ok(())
/// # }
/// ```
#[must_use = "nothing is tried until this is awaited"]
pub struct TryAcquire {
    attempt: Attempt<Acquiring>,
}

/// An acquire that resolves as soon as it has a ticket: await it, or wait on the spot with
/// [`blocking`](Enqueue::blocking).
///
/// # Errors
/// [`AcquireError`].
///
/// # Cancel safety
/// If the future is dropped, the waiter leaves the queue.
///
/// # Examples
/// ```no_run
/// # async fn example(lock: fairlock::Lock) -> Result<(), Box<dyn std::error::Error>> {
/// let waiting = lock.enqueue().await?;
/// println!("ticket {}, position {}", waiting.ticket(), waiting.position().await?);
/// let guard = waiting.await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "nothing is enqueued until this is awaited"]
pub struct Enqueue {
    attempt: Attempt<Queueing>,
}

builder!(Acquire, Wait);
builder!(TryAcquire, Try);
builder!(Enqueue, Enqueue);

impl Acquire {
    /// Gives up after this time (default: waits for ever). It returns by then even if the server cannot be reached. An
    /// error that waiting will not fix, such as a wrong password, ends it at once with [`Fault::Connect`] or
    /// [`Fault::Refused`].
    ///
    /// With `Duration::ZERO` it is a try: it is granted at once or times out, as soon as the server answers. Other
    /// times are clamped to between a millisecond and 366 days.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.attempt.plan.timeout = Some(timeout);
        self
    }

    /// Waits on the spot; no async runtime is needed. [`Operation::blocking`] says what this blocks in a runtime. To
    /// end the wait from another thread, use [`cancelled_by`](Self::cancelled_by).
    ///
    /// # Errors
    /// As when awaited.
    pub fn blocking(self) -> Result<Guard, AcquireError> {
        Ok(self.attempt.blocking()?)
    }
}

impl Future for Acquire {
    type Output = Result<Guard, AcquireError>;
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.attempt.poll(context).map_err(AcquireError::from)
    }
}

impl TryAcquire {
    /// The owner that it will name.
    pub(crate) fn chosen_owner(&self) -> Arc<str> {
        self.attempt.plan.owner.clone()
    }

    /// The lock that it takes, and its client.
    pub(crate) fn of(&self) -> (Arc<Handle>, Arc<LockKeys>) {
        (self.attempt.plan.handle.clone(), self.attempt.plan.spec.keys.clone())
    }

    /// How long it waits for the server's answer (default 5 seconds), between a millisecond and 366 days. After that it
    /// fails with [`Fault::Unavailable`].
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.attempt.plan.timeout = Some(timeout);
        self
    }

    /// Waits for the answer on the spot; no async runtime is needed.
    ///
    /// # Errors
    /// As when awaited.
    pub fn blocking(self) -> Result<Guard, TryAcquireError> {
        Ok(self.attempt.blocking()?)
    }
}

impl Future for TryAcquire {
    type Output = Result<Guard, TryAcquireError>;
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.attempt.poll(context).map_err(TryAcquireError::from)
    }
}

impl Enqueue {
    /// Gives up after this time, between a millisecond and 366 days (default: waits for ever). The time counts from the
    /// first poll of this future, not from the ticket, and goes on in the [`Waiting`].
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.attempt.plan.timeout = Some(timeout);
        self
    }

    /// Waits for the ticket on the spot; no async runtime is needed.
    ///
    /// # Errors
    /// As when awaited.
    pub fn blocking(self) -> Result<Waiting, AcquireError> {
        let plan = self.attempt.plan.clone();
        let (ticket, acquiring) = self.attempt.blocking()?;
        Ok(Waiting::new(ticket, plan, acquiring))
    }
}

impl Future for Enqueue {
    type Output = Result<Waiting, AcquireError>;
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let (ticket, acquiring) = ready!(self.attempt.poll(context))?;
        Poll::Ready(Ok(Waiting::new(ticket, self.attempt.plan.clone(), acquiring)))
    }
}

/// A place in the queue: await it to get the lock, or wait on the spot with [`blocking`](Waiting::blocking).
///
/// # Errors
/// [`AcquireError`].
///
/// # Cancel safety
/// If it is dropped, the waiter leaves the queue, and a grant that is on its way is released.
///
/// # Examples
/// ```no_run
/// # async fn example(lock: fairlock::Lock) -> Result<(), Box<dyn std::error::Error>> {
/// let waiting = lock.enqueue().await?; // has a ticket
/// println!("place {} in line", waiting.position().await?);
/// let guard = waiting.await?;
/// # drop(guard);
/// # Ok(())
/// # }
/// ```
#[must_use = "the place in the queue is given up as soon as this is dropped"]
pub struct Waiting {
    ticket: Ticket,
    attempt: Attempt<Acquiring>,
}

shown!(Waiting);

impl Waiting {
    fn new(ticket: Ticket, plan: Plan, acquiring: Acquiring) -> Self {
        Self { ticket, attempt: Attempt::going_on(plan, Mode::Enqueue, acquiring) }
    }

    /// The ticket: lower tickets are served first.
    pub fn ticket(&self) -> u64 {
        self.ticket.get()
    }

    /// The position in the queue: 1 for the first waiter, 0 if it waits no longer, because the lock was granted or the
    /// wait has failed. Which of them, this future tells when it is awaited. One round trip.
    ///
    /// # Errors
    /// [`Fault`]: among others [`Fault::Unavailable`] if there was no answer within 5 seconds.
    ///
    /// # Cancel safety
    /// The future may be dropped at any time. It borrows nothing, so it can be awaited together with the wait itself.
    pub fn position(&self) -> Operation<Result<u64, Fault>> {
        let handle = self.attempt.plan.handle.clone();
        let waiter = self.attempt.running().map(|acquiring| (acquiring.id, acquiring.lock.clone()));
        Operation::relayed(&self.attempt.plan.handle.wakers, async move {
            let Some((id, lock)) = waiter else { return Ok(0) };
            handle.position(&lock, id).await
        })
    }

    /// As everybody else sees it.
    #[cfg(feature = "operator")]
    pub(crate) fn wire_id(&self) -> String {
        let id = self.attempt.running().map(|acquiring| acquiring.id);
        id.map(|id| WireId::new(self.attempt.plan.handle.client_id(), id).as_str().to_owned()).unwrap_or_default()
    }

    /// Waits on the spot; no async runtime is needed.
    ///
    /// # Errors
    /// As when awaited.
    pub fn blocking(self) -> Result<Guard, AcquireError> {
        Ok(self.attempt.blocking()?)
    }
}

impl Future for Waiting {
    type Output = Result<Guard, AcquireError>;
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.attempt.poll(context).map_err(AcquireError::from)
    }
}
