//! The callers' side of the keeper: what sends messages to it, and futures of its answers.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::oneshot;

use super::inbox::Outbox;
use super::machine::{AcquireCall, Command, Id, Mode, NotGranted, Question, Release, Renewal};
use super::message::{Caller, End, Message, Origin};
use super::observe;
use super::questions::AnswerSender;
use super::shared::{OwnedLease, Shared};
use super::starter::Starter;
use crate::clock::Time;
use crate::error::{ConnectError, Fault};
use crate::fork::Process;
use crate::options::Spec;
use crate::protocol::{CallerData, ClientId, Names, Reply, Request, Ticket};
use crate::wakers::Wakers;

/// How long the last handle waits for pending releases.
const LAST_DROP: Duration = Duration::from_millis(250);

/// The part that all handles of a client share. Dropping the last one ends the keeper.
pub(crate) struct Handle {
    messages: Outbox<Message>,
    starter: Starter,
    pub(crate) wakers: Arc<Wakers>,
    client: ClientId,
    pub(crate) prefix: Arc<str>,
    process: Process,
    next: AtomicU64,
    /// For the secrets of acquires.
    pub(crate) names: Names,
    end: Arc<End>,
}

impl Handle {
    pub(super) fn new(
        messages: Outbox<Message>,
        starter: Starter,
        wakers: Arc<Wakers>,
        client: ClientId,
        prefix: Arc<str>,
        process: Process,
        end: Arc<End>,
    ) -> Self {
        let (next, names) = (AtomicU64::new(1), Names::default());
        Self { messages, starter, wakers, client, prefix, process, next, names, end }
    }

    pub(crate) fn client_id(&self) -> &ClientId {
        &self.client
    }

    /// The process of this client.
    pub(crate) fn process(&self) -> &Process {
        &self.process
    }

    pub(crate) fn is_forked(&self) -> bool {
        self.process.is_forked()
    }

    pub(crate) fn send(&self, message: Message) -> Result<(), Fault> {
        if self.is_forked() {
            return Err(Fault::Forked);
        }
        self.starter.start(&self.wakers).map_err(|error| ConnectError::Thread { cause: error.into() })?;
        // The keeper outlives its handles, unless it panicked.
        self.messages.send(message).map_err(|()| Fault::KeeperPanicked)
    }

    /// The position of a waiter: 1 for the first one, 0 if it was granted the lock.
    pub(crate) async fn position(&self, lock: &Arc<str>, id: Id) -> Result<u64, Fault> {
        self.question(lock, Question::Position { id }, AnswerSender::Position).await?
    }

    /// Renews a lease, or extends it by this much.
    pub(crate) async fn renew(&self, lock: &Arc<str>, id: Id, extend: Option<Duration>) -> Result<Renewal, Fault> {
        self.question(lock, Question::Renew { id, extend }, AnswerSender::Renewal).await?
    }

    /// Lets readers in beside a writer.
    pub(crate) async fn downgrade(&self, lock: &Arc<str>, id: Id) -> Result<Renewal, Fault> {
        self.question(lock, Question::Downgrade { id }, AnswerSender::Renewal).await?
    }

    /// Switches the automatic renewal of a lease on or off.
    pub(crate) fn renew_automatically(&self, lock: &Arc<str>, id: Id, on: bool) -> Result<(), Fault> {
        self.send(Message::Command { lock: lock.clone(), command: Command::Automatic { id, on } })
    }

    pub(crate) async fn release(&self, lease: Arc<Shared>) -> Result<Release, Fault> {
        let (lock, id) = (lease.spec.name().clone(), lease.id);
        self.question(&lock, Question::Release { id }, |asker| AnswerSender::Release(lease, Some(asker))).await
    }

    /// Sends an operator's request. `read` finds in the reply what its verb tells.
    pub(crate) async fn operator<T>(&self, request: Request, read: fn(Reply) -> Option<T>) -> Result<T, Fault> {
        let lock = request.keys().name.clone();
        let reply = self.question(&lock, Question::Operator(Box::new(request)), AnswerSender::Operator).await??;
        // The wire reads a reply in the type of its request: no server can bring another about.
        read(*reply).ok_or_else(|| Fault::Refused { message: "a reply to another request".into() })
    }

    /// Why the server of this lock does not answer.
    pub(crate) async fn trouble(&self, lock: &Arc<str>) -> Result<Option<Arc<str>>, Fault> {
        self.ask(|reply| Message::Trouble { lock: lock.clone(), reply }).await
    }

    /// Gives up everything that this client has.
    pub(crate) async fn close(&self) -> Result<(), Fault> {
        self.ask(|reply| Message::Close { reply }).await
    }

    /// Asks a question about a lock.
    async fn question<T>(
        &self,
        lock: &Arc<str>,
        question: Question,
        asker: impl FnOnce(oneshot::Sender<T>) -> AnswerSender,
    ) -> Result<T, Fault> {
        self.ask(|reply| Message::Ask { lock: lock.clone(), question, asker: asker(reply) }).await
    }

    /// Asks the keeper and awaits its answer. Dropping the future drops the answer, not the question.
    async fn ask<T>(&self, message: impl FnOnce(oneshot::Sender<T>) -> Message) -> Result<T, Fault> {
        let (reply, answer) = oneshot::channel();
        self.send(message(reply))?;
        tokio::task::unconstrained(answer).await.map_err(|_| Fault::KeeperPanicked)
    }

    pub(crate) fn acquire(
        self: &Arc<Self>,
        spec: Arc<Spec>,
        about: CallerData,
        mode: Mode,
        timeout: Option<Duration>,
    ) -> Result<Acquiring, Fault> {
        if self.is_forked() {
            return Err(Fault::Forked);
        }
        let (queued, ticket) = match mode {
            Mode::Enqueue => Some(oneshot::channel()).unzip(),
            Mode::Wait | Mode::Try => (None, None),
        };
        let (resolved, result) = oneshot::channel();
        let (client, label, owner) = (self.client.clone(), about.label.clone(), about.owner.clone());
        let called = Time::now();
        let origin = Origin { client, process: self.process.clone(), label, owner, called };
        let (lock, observed) = (spec.name().clone(), observe::Wait::new(&spec, &about));
        let id = Id(self.next.fetch_add(1, Ordering::Relaxed));
        let caller = Caller { spec: spec.clone(), origin, queued, resolved };
        self.send(Message::Acquire { id, asked: AcquireCall { spec, about, mode, timeout, called }, caller })?;
        Ok(Acquiring { id, lock, ticket, result: Some(result), handle: self.clone(), observed })
    }

    #[cfg(feature = "__test-hooks")]
    pub(crate) fn panic(&self) {
        let _ = self.messages.send(Message::Panic);
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        if self.is_forked() || !self.starter.has_started() || self.messages.send(Message::End).is_err() {
            return;
        }
        // The keeper itself may drop the last handle; it must not wait for itself.
        if !self.messages.is_of_this_thread() {
            self.end.wait(LAST_DROP);
        }
    }
}

/// An acquire under way. If it is dropped, the waiter leaves the queue, or the grant is released.
pub(crate) struct Acquiring {
    pub(crate) id: Id,
    pub(crate) lock: Arc<str>,
    pub(crate) ticket: Option<oneshot::Receiver<Ticket>>,
    /// None once it was resolved.
    pub(crate) result: Option<oneshot::Receiver<Result<OwnedLease, NotGranted>>>,
    pub(crate) handle: Arc<Handle>,
    pub(crate) observed: observe::Wait,
}

impl Drop for Acquiring {
    fn drop(&mut self) {
        let Some(mut result) = self.result.take() else { return };
        // Closed first: a lease that is sent from now on is dropped by its sender, and one that is already here is
        // dropped below.
        result.close();
        if result.try_recv().is_err() {
            let _ = self
                .handle
                .send(Message::Command { lock: self.lock.clone(), command: Command::Abandon { id: self.id } });
        }
        if !self.handle.is_forked() {
            self.observed.failed(&self.lock, "abandoned");
        }
    }
}
