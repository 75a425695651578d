//! An attempt to acquire, from its settings to its result. The builders around it say what kind it is.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures_util::FutureExt;

use crate::blocking::{block_on, poll_channel};
use crate::cancel::{CancellationToken, Cancelled};
use crate::error::{AcquireError, Fault, InvalidOption, TryAcquireError};
use crate::guard::Guard;
use crate::keeper::{Acquiring, Handle, Mode, NotGranted};
use crate::options::{Spec, check_text, in_bounds};
use crate::protocol::{CallerData, Secret, Ticket};
use crate::wakers::CallerWaker;

/// The settings of every kind of acquire.
#[derive(Clone)]
pub(crate) struct Plan {
    pub(super) handle: Arc<Handle>,
    pub(super) spec: Arc<Spec>,
    pub(super) label: Arc<str>,
    pub(super) owner: Arc<str>,
    pub(super) timeout: Option<Duration>,
    pub(super) cancellation: Option<CancellationToken>,
}

impl Plan {
    pub(crate) fn new(handle: Arc<Handle>, spec: Arc<Spec>, label: Arc<str>, owner: Arc<str>) -> Self {
        Self { handle, spec, label, owner, timeout: None, cancellation: None }
    }

    fn start(&self, mode: Mode) -> Result<Acquiring, Failed> {
        check_text("the label", &self.label)?;
        check_text("the owner", &self.owner)?;
        let about = CallerData {
            secret: Secret::random(&self.handle.names),
            label: self.label.clone(),
            owner: self.owner.clone(),
        };
        // Without time to wait it is a try, which waits only for the answer.
        let (mode, timeout) = match (mode, self.timeout) {
            (Mode::Wait, Some(Duration::ZERO)) => (Mode::Try, None),
            (mode, timeout) => (mode, timeout.map(in_bounds)),
        };
        Ok(self.handle.acquire(self.spec.clone(), about, mode, timeout)?)
    }

    fn watch(&self) -> Option<Cancelled> {
        self.cancellation.as_ref().map(|cancellation| cancellation.watch(self.handle.process()))
    }
}

/// An acquire from its creation to its result.
pub(super) struct Attempt<F> {
    pub(super) plan: Plan,
    mode: Mode,
    stage: Stage<F>,
}

enum Stage<F> {
    Planned,
    Running { way: CallerWaker, future: F, cancelled: Option<Cancelled> },
    Resolved,
}

impl<T, F: Future<Output = Result<T, Failed>> + From<Acquiring> + Unpin> Attempt<F> {
    pub(super) fn new(plan: Plan, mode: Mode) -> Self {
        Self { plan, mode, stage: Stage::Planned }
    }

    /// A started one, as another kind of attempt.
    pub(super) fn going_on(plan: Plan, mode: Mode, acquiring: Acquiring) -> Self {
        let (way, cancelled) = (CallerWaker::new(plan.handle.wakers.clone()), plan.watch());
        let stage = Stage::Running { way, future: acquiring.into(), cancelled };
        Self { plan, mode, stage }
    }

    /// The acquire under way, if it is.
    pub(super) fn running(&self) -> Option<&F> {
        match &self.stage {
            Stage::Running { future, .. } => Some(future),
            Stage::Planned | Stage::Resolved => None,
        }
    }

    /// Polled with the waker of a caller.
    pub(super) fn poll(&mut self, context: &mut Context<'_>) -> Poll<F::Output> {
        self.poll_by(context, |way, future, context| way.poll(Pin::new(future), context))
    }

    /// Waits on the spot. The waker only unparks the thread that is blocked here, so a keeper may call it.
    pub(super) fn blocking(mut self) -> F::Output {
        block_on(poll_fn(|context| self.poll_by(context, |_, future, context| future.poll_unpin(context))))
    }

    fn poll_by(
        &mut self,
        context: &mut Context<'_>,
        poll: impl FnOnce(&mut CallerWaker, &mut F, &mut Context<'_>) -> Poll<F::Output>,
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
        poll: impl FnOnce(&mut CallerWaker, &mut F, &mut Context<'_>) -> Poll<F::Output>,
    ) -> Poll<F::Output> {
        // An attempt that was started before a fork is answered in the parent only.
        if self.plan.handle.is_forked() {
            return Poll::Ready(Err(Fault::Forked.into()));
        }
        if let Stage::Planned = self.stage {
            if self.plan.cancellation.as_ref().is_some_and(CancellationToken::is_cancelled) {
                return Poll::Ready(Err(Failed::Cancelled));
            }
            let acquiring = self.plan.start(self.mode)?;
            *self = Self::going_on(self.plan.clone(), self.mode, acquiring);
        }
        let Stage::Running { way, future, cancelled } = &mut self.stage else {
            panic!("the future of an acquire was polled after it had resolved");
        };
        // With the caller's own waker, because `cancel` is not called on a keeper.
        if cancelled.as_mut().is_some_and(|cancelled| cancelled.poll(context).is_ready()) {
            return Poll::Ready(Err(Failed::Cancelled));
        }
        poll(way, future, context)
    }
}

/// Why an attempt failed, before its kind turns that into an error.
pub(crate) enum Failed {
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

/// Until the result.
impl Future for Acquiring {
    type Output = Result<Guard, Failed>;
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let result = match self.result.as_mut() {
            Some(result) => ready!(poll_channel(result, context)),
            None => return Poll::Ready(Err(Fault::Closed.into())),
        };
        self.result = None;
        Poll::Ready(match result {
            Ok(Ok(armed)) => match armed.take() {
                Ok(armed) => {
                    let lease = &armed.shared;
                    self.observed.granted(&lease.spec, lease.ticket, lease.token, lease.waited());
                    Ok(Guard::new(armed, self.handle.clone()))
                }
                Err(lease) => {
                    self.observed.failed(&self.lock, "not_taken");
                    Err(Failed::NotTaken(lease))
                }
            },
            Ok(Err(why)) => {
                self.observed.not_granted(&self.lock, &why);
                Err(Failed::NotGranted(why))
            }
            Err(_) => {
                self.observed.failed(&self.lock, "fault");
                Err(Fault::KeeperPanicked.into())
            }
        })
    }
}

impl From<Failed> for AcquireError {
    fn from(failed: Failed) -> Self {
        match failed {
            Failed::NotGranted(NotGranted::Timeout { waited, position, cause }) => {
                let (position, position_age) = position.unzip();
                AcquireError::Timeout { waited, position, position_age, cause: cause.map(Into::into) }
            }
            Failed::NotGranted(NotGranted::Fault(fault)) => fault.into(),
            Failed::NotGranted(NotGranted::QueueFull { waiting }) => AcquireError::QueueFull { waiting },
            // A try, because it had no time to wait.
            Failed::NotGranted(NotGranted::Busy { .. }) => {
                AcquireError::Timeout { waited: Duration::ZERO, position: None, position_age: None, cause: None }
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
            Failed::NotGranted(NotGranted::Busy { holders, held, most, waiting, recovering_for }) => {
                let slots = most.into();
                TryAcquireError::Busy { holders, held, slots, waiting, recovering_for }
            }
            // A try joins no queue.
            Failed::NotGranted(NotGranted::QueueFull { waiting }) => {
                TryAcquireError::Busy { holders: Vec::new(), held: 0, slots: 1, waiting, recovering_for: None }
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
pub(super) struct Queueing(Option<Acquiring>);

impl From<Acquiring> for Queueing {
    fn from(acquiring: Acquiring) -> Self {
        Self(Some(acquiring))
    }
}

impl Future for Queueing {
    type Output = Result<(Ticket, Acquiring), Failed>;
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let ticket = match self.0.as_mut().and_then(|acquiring| acquiring.ticket.as_mut()) {
            Some(ticket) => ready!(poll_channel(ticket, context)).ok(),
            None => None,
        };
        let Some(mut acquiring) = self.0.take() else { return Poll::Ready(Err(Fault::Closed.into())) };
        acquiring.ticket = None;
        if let Some(ticket) = ticket {
            return Poll::Ready(Ok((ticket, acquiring)));
        }
        // No ticket will come: the keeper has sent the reason, or is gone.
        let Poll::Ready(result) = acquiring.poll_unpin(context) else {
            self.0 = Some(acquiring);
            return Poll::Pending;
        };
        Poll::Ready(Err(result.err().unwrap_or_else(|| Fault::Closed.into())))
    }
}
