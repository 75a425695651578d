//! Acquiring: builders that are awaited, or waited for on the spot.

use std::future::{Future, IntoFuture};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures_util::FutureExt;

use crate::error::{AcquireError, Fault, OptionError, RunError, TryAcquireError};
use crate::guard::{Guard, Held};
use crate::keeper::{Acquiring, Handle, Mode, Refusal};
use crate::options::{Spec, check_text, check_timeout};
use crate::protocol::About;
use crate::wakers::Relayed;

/// What every kind of acquire can be told.
#[derive(Debug, Clone)]
struct Plan {
    handle: Arc<Handle>,
    spec: Arc<Spec>,
    label: Arc<str>,
    owner: Arc<str>,
    timeout: Option<Duration>,
}

impl Plan {
    fn start(&self, mode: Mode) -> Result<Acquiring, AcquireError> {
        check_text("the label", &self.label)?;
        check_text("the owner", &self.owner)?;
        self.timeout.map_or(Ok(()), check_timeout)?;
        let secret = uuid::Uuid::new_v4().simple().to_string().into();
        let about = About { secret, label: self.label.clone(), owner: self.owner.clone() };
        Ok(self.handle.acquire(self.spec.clone(), about, mode, self.timeout)?)
    }
}

macro_rules! builder {
    ($name:ident) => {
        impl $name {
            pub(crate) fn new(handle: Arc<Handle>, spec: Arc<Spec>, label: Arc<str>) -> Self {
                Self { plan: Plan { handle, spec, label, owner: "".into(), timeout: None } }
            }

            /// What others see of this acquire in [`inspect`](crate::Lock::inspect) (default `host:pid`).
            pub fn label(mut self, label: impl Into<String>) -> Self {
                self.plan.label = label.into().into();
                self
            }

            /// On whose behalf it is made, for others to see (default empty).
            pub fn owner(mut self, owner: impl Into<String>) -> Self {
                self.plan.owner = owner.into().into();
                self
            }
        }
    };
}

/// An acquire that is about to start: await it, or call [`blocking`](Acquire::blocking).
#[derive(Debug, Clone)]
#[must_use = "nothing is acquired until this is awaited"]
pub struct Acquire {
    plan: Plan,
}

/// A try that is about to start: await it, or call [`blocking`](TryAcquire::blocking).
#[derive(Debug, Clone)]
#[must_use = "nothing is tried until this is awaited"]
pub struct TryAcquire {
    plan: Plan,
}

/// An acquire that returns as soon as it stands in the queue: await it, or call [`blocking`](Enqueue::blocking).
#[derive(Debug, Clone)]
#[must_use = "nothing is enqueued until this is awaited"]
pub struct Enqueue {
    plan: Plan,
}

builder!(Acquire);
builder!(TryAcquire);
builder!(Enqueue);

impl Acquire {
    /// Gives up after this time (default: waits for ever). It returns by then also when the server cannot be reached. What
    /// waiting does not mend, such as a wrong password, ends it at once with [`Fault::Connect`] or [`Fault::Refused`].
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.plan.timeout = Some(timeout);
        self
    }

    /// Waits on the spot; no async runtime is needed. Inside of one it blocks its thread.
    ///
    /// # Errors
    /// As when awaited.
    pub fn blocking(self) -> Result<Guard, AcquireError> {
        Ok(pollster::block_on(Resolving::new(self.plan, Mode::Wait))?)
    }

    /// Acquires, runs the job while holding the lock, and releases, see [`Lock::run`](crate::Lock::run).
    ///
    /// # Errors
    /// [`RunError::Acquire`] if the lock was not acquired, [`RunError::Lost`] if the lease was lost, also when the job
    /// ended after that.
    ///
    /// # Cancel safety
    /// If the future is dropped, the job is, and the lock is given back.
    pub async fn run<F, Fut, T>(self, job: F) -> Result<T, RunError>
    where
        F: FnOnce(Held) -> Fut,
        Fut: Future<Output = T>,
    {
        let guard = self.await?;
        let value = {
            let mut lost = pin!(guard.lost());
            let mut job = pin!(job(guard.held()));
            std::future::poll_fn(|context| match lost.as_mut().poll(context) {
                Poll::Ready(lost) => Poll::Ready(Err(lost)),
                Poll::Pending => job.as_mut().poll(context).map(Ok),
            })
            .await?
        };
        // The clock decides, not the order in which tasks were woken.
        guard.check()?;
        match guard.release().await {
            Err(crate::ReleaseError::Lost(lost)) => Err(lost.into()),
            // The job ended under its lease. Whether the server has heard of it is the keeper's business.
            _ => Ok(value),
        }
    }
}

impl Enqueue {
    /// Gives up after this time, counted from now, not from the ticket (default: waits for ever).
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.plan.timeout = Some(timeout);
        self
    }

    /// Waits for the ticket on the spot; no async runtime is needed.
    ///
    /// # Errors
    /// As when awaited.
    pub fn blocking(self) -> Result<Waiting, AcquireError> {
        pollster::block_on(Queueing::new(self.plan))
    }
}

impl TryAcquire {
    /// Waits for the answer on the spot; no async runtime is needed.
    ///
    /// # Errors
    /// As when awaited.
    pub fn blocking(self) -> Result<Guard, TryAcquireError> {
        Ok(pollster::block_on(Resolving::new(self.plan, Mode::Try))?)
    }
}

impl IntoFuture for Acquire {
    type Output = Result<Guard, AcquireError>;
    type IntoFuture = AcquireFuture;
    fn into_future(self) -> AcquireFuture {
        AcquireFuture { inner: Resolving::new(self.plan, Mode::Wait).relayed() }
    }
}

impl IntoFuture for TryAcquire {
    type Output = Result<Guard, TryAcquireError>;
    type IntoFuture = TryAcquireFuture;
    fn into_future(self) -> TryAcquireFuture {
        TryAcquireFuture { inner: Resolving::new(self.plan, Mode::Try).relayed() }
    }
}

impl IntoFuture for Enqueue {
    type Output = Result<Waiting, AcquireError>;
    type IntoFuture = EnqueueFuture;
    fn into_future(self) -> EnqueueFuture {
        let wakers = self.plan.handle.wakers.clone();
        EnqueueFuture { inner: wakers.relay(Queueing::new(self.plan)) }
    }
}

/// Polls a channel without tokio's budget for cooperation: on another executor inside of a tokio task, such as
/// [`Acquire::blocking`], an exhausted budget is never refilled and the poll would be pending for ever.
fn poll<F: Future + Unpin>(future: &mut F, context: &mut Context<'_>) -> Poll<F::Output> {
    pin!(tokio::task::unconstrained(future)).poll(context)
}

/// Both ways in which an acquire can fail, before they are told apart by its kind.
enum Failed {
    Refused(Refusal),
    NotTaken(Duration),
    Other(AcquireError),
}

/// An acquire from its first poll to its result.
#[derive(Debug)]
struct Resolving {
    plan: Plan,
    mode: Mode,
    acquiring: Option<Acquiring>,
}

impl Resolving {
    fn new(plan: Plan, mode: Mode) -> Self {
        Self { plan, mode, acquiring: None }
    }

    fn relayed(self) -> Relayed<Self> {
        self.plan.handle.wakers.clone().relay(self)
    }

    fn started(&mut self) -> Result<&mut Acquiring, AcquireError> {
        // What was started before a fork is answered in the parent alone.
        if self.plan.handle.is_forked() {
            return Err(Fault::Forked.into());
        }
        let acquiring = match self.acquiring.take() {
            Some(acquiring) => acquiring,
            None => self.plan.start(self.mode)?,
        };
        Ok(self.acquiring.insert(acquiring))
    }
}

impl Future for Resolving {
    type Output = Result<Guard, Failed>;
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let handle = self.plan.handle.clone();
        handle.say_notes();
        let acquiring = match self.started() {
            Ok(acquiring) => acquiring,
            Err(error) => return Poll::Ready(Err(Failed::Other(error))),
        };
        let Some(result) = acquiring.result.as_mut() else { return Poll::Pending };
        let result = ready!(poll(result, context));
        acquiring.result = None;
        handle.say_notes();
        Poll::Ready(match result {
            Ok(Ok(armed)) => match armed.into_guard(handle) {
                Ok(guard) => {
                    tracing::debug!(lock = guard.name(), ticket = guard.ticket(), token = guard.token(), "granted");
                    Ok(guard)
                }
                Err(lease) => Err(Failed::NotTaken(lease)),
            },
            Ok(Err(refusal)) => Err(Failed::Refused(refusal)),
            Err(_) => Err(Failed::Other(Fault::KeeperPanicked.into())),
        })
    }
}

impl From<Failed> for AcquireError {
    fn from(failed: Failed) -> Self {
        match failed {
            Failed::Refused(Refusal::Timeout { waited, position, cause }) => {
                AcquireError::Timeout { waited, position, cause }
            }
            Failed::Refused(Refusal::Fault(fault)) => fault.into(),
            Failed::Refused(Refusal::Busy { .. }) => {
                Fault::Refused { message: "it says that the lock is busy to an acquire that waits".into() }.into()
            }
            Failed::NotTaken(lease) => AcquireError::NotTaken { lease },
            Failed::Other(error) => error,
        }
    }
}

impl From<Failed> for TryAcquireError {
    fn from(failed: Failed) -> Self {
        match failed {
            Failed::Refused(Refusal::Busy { holder, waiting, recovering_for }) => {
                TryAcquireError::Busy { holder, waiting, recovering_for }
            }
            Failed::NotTaken(lease) => TryAcquireError::NotTaken { lease },
            other => match AcquireError::from(other) {
                AcquireError::Option(error) => error.into(),
                AcquireError::Fault(fault) => fault.into(),
                AcquireError::NotTaken { lease } => TryAcquireError::NotTaken { lease },
                AcquireError::Timeout { waited, cause, .. } => Fault::Unavailable { waited, cause }.into(),
            },
        }
    }
}

impl From<OptionError> for Failed {
    fn from(error: OptionError) -> Self {
        Failed::Other(error.into())
    }
}

/// The future of an [`Acquire`].
///
/// # Cancel safety
/// Dropped, it leaves the queue; a grant that was on its way is given back.
#[derive(Debug)]
#[must_use = "futures do nothing unless they are awaited"]
pub struct AcquireFuture {
    inner: Relayed<Resolving>,
}

impl Future for AcquireFuture {
    type Output = Result<Guard, AcquireError>;
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.inner.poll_unpin(context).map_err(AcquireError::from)
    }
}

/// The future of a [`TryAcquire`]. It resolves within 5 seconds.
///
/// # Cancel safety
/// Dropped, it gives back what may have been granted.
#[derive(Debug)]
#[must_use = "futures do nothing unless they are awaited"]
pub struct TryAcquireFuture {
    inner: Relayed<Resolving>,
}

impl Future for TryAcquireFuture {
    type Output = Result<Guard, TryAcquireError>;
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.inner.poll_unpin(context).map_err(TryAcquireError::from)
    }
}

/// The future of an [`Enqueue`]. It resolves when the server has given the place, or by its timeout.
///
/// # Cancel safety
/// Dropped, it leaves the queue.
#[derive(Debug)]
#[must_use = "futures do nothing unless they are awaited"]
pub struct EnqueueFuture {
    inner: Relayed<Queueing>,
}

impl Future for EnqueueFuture {
    type Output = Result<Waiting, AcquireError>;
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.inner.poll_unpin(context)
    }
}

/// An acquire from its first poll to its ticket.
#[derive(Debug)]
struct Queueing {
    inner: Option<Resolving>,
}

impl Queueing {
    fn new(plan: Plan) -> Self {
        Self { inner: Some(Resolving::new(plan, Mode::Enqueue)) }
    }
}

impl Future for Queueing {
    type Output = Result<Waiting, AcquireError>;
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(resolving) = self.inner.as_mut() else { return Poll::Pending };
        let acquiring = resolving.started()?;
        if let Some(ticket) = acquiring.ticket.as_mut()
            && let Ok(ticket) = ready!(poll(ticket, context))
        {
            acquiring.ticket = None;
            return Poll::Ready(match self.inner.take() {
                Some(inner) => Ok(Waiting { ticket, inner: inner.relayed() }),
                None => Err(Fault::Closed.into()),
            });
        }
        // No ticket will come, so there is a reason for it.
        acquiring.ticket = None;
        resolving.poll_unpin(context).map(|result| match result {
            Ok(_) => Err(Fault::Closed.into()),
            Err(failed) => Err(failed.into()),
        })
    }
}

/// A place in the queue: await it for the lock.
///
/// # Cancel safety
/// Dropped, it leaves the queue; a grant that was on its way is given back.
#[derive(Debug)]
#[must_use = "the place in the queue is given up as soon as this is dropped"]
pub struct Waiting {
    ticket: u64,
    inner: Relayed<Resolving>,
}

impl Waiting {
    /// The ticket: lower ones are served first.
    pub fn ticket(&self) -> u64 {
        self.ticket
    }

    /// The position in the queue: 1 for the next one to be granted, 0 if it was granted already. One round trip.
    ///
    /// # Errors
    /// [`Fault`]: among others [`Fault::Unavailable`] if there was no answer within 5 seconds.
    ///
    /// # Cancel safety
    /// The future may be dropped at any time. It borrows nothing, so that it can be awaited beside the wait itself.
    pub fn position(&self) -> impl Future<Output = Result<u64, Fault>> + Send + use<> {
        let handle = self.inner.future.plan.handle.clone();
        let waiter = self.inner.future.acquiring.as_ref().map(|acquiring| (acquiring.id, acquiring.lock.clone()));
        async move {
            let Some((id, lock)) = waiter else { return Ok(0) };
            handle.position(&lock, id).await
        }
    }

    /// Waits on the spot; no async runtime is needed.
    ///
    /// # Errors
    /// As when awaited.
    pub fn blocking(mut self) -> Result<Guard, AcquireError> {
        Ok(pollster::block_on(&mut self.inner.future)?)
    }
}

impl Future for Waiting {
    type Output = Result<Guard, AcquireError>;
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.inner.poll_unpin(context).map_err(AcquireError::from)
    }
}
