//! Acquiring: builders that are futures; callers await them or wait on the spot.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures_util::FutureExt;

use crate::blocking::block_on;
use crate::cancel::{Cancelled, Canceller};
use crate::error::{AcquireError, Fault, InvalidOption, TryAcquireError};
use crate::guard::Guard;
use crate::keeper::{Acquiring, Handle, Mode, NotGranted};
use crate::operation::Operation;
use crate::options::{Spec, check_text, in_bounds};
use crate::protocol::{About, Secret, Ticket};
use crate::wakers::poll;

/// The settings of every kind of acquire.
#[derive(Clone)]
pub(crate) struct Plan {
    handle: Arc<Handle>,
    spec: Arc<Spec>,
    label: Arc<str>,
    owner: Arc<str>,
    timeout: Option<Duration>,
    canceller: Option<Canceller>,
}

impl Plan {
    pub(crate) fn new(handle: Arc<Handle>, spec: Arc<Spec>, label: Arc<str>, owner: Arc<str>) -> Self {
        Self { handle, spec, label, owner, timeout: None, canceller: None }
    }

    fn start(&self, mode: Mode) -> Result<Acquiring, Failed> {
        check_text("the label", &self.label)?;
        check_text("the owner", &self.owner)?;
        let about = About { secret: Secret::random(), label: self.label.clone(), owner: self.owner.clone() };
        // Without time to wait it is a try, which waits only for the answer.
        let (mode, timeout) = match (mode, self.timeout) {
            (Mode::Wait, Some(Duration::ZERO)) => (Mode::Try, None),
            (mode, timeout) => (mode, timeout.map(in_bounds)),
        };
        Ok(self.handle.acquire(self.spec.clone(), about, mode, timeout)?)
    }

    fn watch(&self) -> Option<Cancelled> {
        self.canceller.as_ref().map(Canceller::watch)
    }
}

/// An acquire from its creation to its result.
struct Attempt<F> {
    plan: Plan,
    mode: Mode,
    stage: Stage<F>,
}

enum Stage<F> {
    Planned,
    Running { operation: Operation<F>, cancelled: Option<Cancelled> },
    Resolved,
}

impl<T, F: Future<Output = Result<T, Failed>> + From<Acquiring> + Unpin> Attempt<F> {
    fn new(plan: Plan, mode: Mode) -> Self {
        Self { plan, mode, stage: Stage::Planned }
    }

    /// A started one, as another kind of attempt.
    fn going_on(plan: Plan, mode: Mode, acquiring: Acquiring) -> Self {
        let operation = Operation::relayed(&plan.handle.wakers, acquiring.into());
        let stage = Stage::Running { operation, cancelled: plan.watch() };
        Self { plan, mode, stage }
    }

    /// Polled with the waker of a caller.
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<F::Output> {
        self.poll_by(context, |operation, context| operation.poll_unpin(context))
    }

    /// Waits on the spot. The waker only unparks the thread that is blocked here, so a keeper may call it.
    fn blocking(mut self) -> F::Output {
        block_on(poll_fn(|context| self.poll_by(context, |operation, context| operation.future.poll_unpin(context))))
    }

    fn poll_by(
        &mut self,
        context: &mut Context<'_>,
        poll: impl FnOnce(&mut Operation<F>, &mut Context<'_>) -> Poll<F::Output>,
    ) -> Poll<F::Output> {
        let polled = self.advance(context, poll);
        if polled.is_ready() {
            // Gives up the attempt that is under way.
            self.stage = Stage::Resolved;
        }
        polled
    }

    fn advance(
        &mut self,
        context: &mut Context<'_>,
        poll: impl FnOnce(&mut Operation<F>, &mut Context<'_>) -> Poll<F::Output>,
    ) -> Poll<F::Output> {
        // An attempt that was started before a fork is answered in the parent only.
        if self.plan.handle.is_forked() {
            return Poll::Ready(Err(Fault::Forked.into()));
        }
        if let Stage::Planned = self.stage {
            if self.plan.canceller.as_ref().is_some_and(Canceller::is_cancelled) {
                return Poll::Ready(Err(Failed::Cancelled));
            }
            let acquiring = self.plan.start(self.mode)?;
            *self = Self::going_on(self.plan.clone(), self.mode, acquiring);
        }
        let Stage::Running { operation, cancelled } = &mut self.stage else {
            panic!("the future of an acquire was polled after it had resolved");
        };
        // With the caller's own waker, because `cancel` is not called on a keeper.
        if cancelled.as_mut().is_some_and(|cancelled| cancelled.poll(context).is_ready()) {
            return Poll::Ready(Err(Failed::Cancelled));
        }
        poll(operation, context)
    }
}

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

            /// Fails with `Cancelled` as soon as [`Canceller::cancel`] is called, from any thread, and leaves the
            /// queue. For acquires that wait on the spot; an awaited one is cancelled by dropping it.
            pub fn cancelled_by(mut self, canceller: &Canceller) -> Self {
                self.attempt.plan.canceller = Some(canceller.clone());
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
    attempt: Attempt<Resolving>,
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
/// use fairlock::TryAcquireError;
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
    attempt: Attempt<Resolving>,
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
    /// error that waiting does not mend, such as a wrong password, ends it at once with [`Fault::Connect`] or
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

/// Why an attempt failed, before its kind turns that into an error.
enum Failed {
    NotGranted(NotGranted),
    NotTaken(Duration),
    Invalid(InvalidOption),
    Cancelled,
}

impl From<Fault> for Failed {
    fn from(fault: Fault) -> Self {
        Self::NotGranted(NotGranted::Fault(fault))
    }
}

impl From<InvalidOption> for Failed {
    fn from(error: InvalidOption) -> Self {
        Self::Invalid(error)
    }
}

/// An attempt under way, until its result.
struct Resolving(Acquiring);

impl From<Acquiring> for Resolving {
    fn from(acquiring: Acquiring) -> Self {
        Self(acquiring)
    }
}

impl Future for Resolving {
    type Output = Result<Guard, Failed>;
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let acquiring = &mut self.0;
        let result = match acquiring.result.as_mut() {
            Some(result) => ready!(poll(result, context)),
            None => return Poll::Ready(Err(Fault::Closed.into())),
        };
        acquiring.result = None;
        Poll::Ready(match result {
            Ok(Ok(armed)) => match armed.take() {
                Ok(armed) => {
                    acquiring.observed.granted(&armed.shared);
                    Ok(Guard::new(armed, acquiring.handle.clone()))
                }
                Err(lease) => {
                    acquiring.observed.failed(&acquiring.lock, "not_taken");
                    Err(Failed::NotTaken(lease))
                }
            },
            Ok(Err(why)) => {
                acquiring.observed.not_granted(&acquiring.lock, &why);
                Err(Failed::NotGranted(why))
            }
            Err(_) => {
                acquiring.observed.failed(&acquiring.lock, "fault");
                Err(Fault::KeeperPanicked.into())
            }
        })
    }
}

impl From<Failed> for AcquireError {
    fn from(failed: Failed) -> Self {
        match failed {
            Failed::NotGranted(NotGranted::Timeout { waited, position, cause }) => {
                AcquireError::Timeout { waited, position, cause: cause.map(Into::into) }
            }
            Failed::NotGranted(NotGranted::Fault(fault)) => fault.into(),
            Failed::NotGranted(NotGranted::QueueFull { waiting }) => AcquireError::QueueFull { waiting },
            // A try, because it had no time to wait.
            Failed::NotGranted(NotGranted::Busy { .. }) => {
                AcquireError::Timeout { waited: Duration::ZERO, position: None, cause: None }
            }
            Failed::NotTaken(lease) => AcquireError::NotTaken { lease },
            Failed::Invalid(error) => error.into(),
            Failed::Cancelled => AcquireError::Cancelled,
        }
    }
}

impl From<Failed> for TryAcquireError {
    fn from(failed: Failed) -> Self {
        match failed {
            Failed::NotGranted(NotGranted::Busy { holder, waiting, recovering_for }) => {
                TryAcquireError::Busy { holder, waiting, recovering_for }
            }
            // A try joins no queue.
            Failed::NotGranted(NotGranted::QueueFull { waiting }) => {
                TryAcquireError::Busy { holder: None, waiting, recovering_for: None }
            }
            Failed::NotGranted(NotGranted::Timeout { waited, cause, .. }) => {
                Fault::Unavailable { waited, cause: cause.map(Into::into) }.into()
            }
            Failed::NotGranted(NotGranted::Fault(fault)) => fault.into(),
            Failed::NotTaken(lease) => TryAcquireError::NotTaken { lease },
            Failed::Invalid(error) => error.into(),
            Failed::Cancelled => TryAcquireError::Cancelled,
        }
    }
}

/// An attempt under way, until its ticket.
struct Queueing(Option<Acquiring>);

impl From<Acquiring> for Queueing {
    fn from(acquiring: Acquiring) -> Self {
        Self(Some(acquiring))
    }
}

impl Future for Queueing {
    type Output = Result<(Ticket, Acquiring), Failed>;
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let ticket = match self.0.as_mut().and_then(|acquiring| acquiring.ticket.as_mut()) {
            Some(ticket) => ready!(poll(ticket, context)).ok(),
            None => None,
        };
        let Some(mut acquiring) = self.0.take() else { return Poll::Ready(Err(Fault::Closed.into())) };
        acquiring.ticket = None;
        if let Some(ticket) = ticket {
            return Poll::Ready(Ok((ticket, acquiring)));
        }
        // No ticket will come: the keeper has sent the reason, or is gone.
        let mut resolving = Resolving(acquiring);
        let Poll::Ready(result) = resolving.poll_unpin(context) else {
            self.0 = Some(resolving.0);
            return Poll::Pending;
        };
        Poll::Ready(Err(result.err().unwrap_or_else(|| Fault::Closed.into())))
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
/// See [`Enqueue`].
#[must_use = "the place in the queue is given up as soon as this is dropped"]
pub struct Waiting {
    ticket: Ticket,
    attempt: Attempt<Resolving>,
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

    /// The position in the queue: 1 for the first waiter, 0 if the lock was granted already. One round trip.
    ///
    /// # Errors
    /// [`Fault`]: among others [`Fault::Unavailable`] if there was no answer within 5 seconds.
    ///
    /// # Cancel safety
    /// The future may be dropped at any time. It borrows nothing, so it can be awaited beside the wait itself.
    pub fn position(&self) -> Operation<impl Future<Output = Result<u64, Fault>> + Send + Sync + use<>> {
        let handle = self.attempt.plan.handle.clone();
        let waiter = match &self.attempt.stage {
            Stage::Running { operation, .. } => Some((operation.future.0.id, operation.future.0.lock.clone())),
            Stage::Planned | Stage::Resolved => None,
        };
        Operation::relayed(&self.attempt.plan.handle.wakers, async move {
            let Some((id, lock)) = waiter else { return Ok(0) };
            handle.position(&lock, id).await
        })
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
