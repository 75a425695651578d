//! The callers' side of the keeper: messages to it, and what awaits its answers.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::ThreadId;
use std::time::Duration;

use tokio::sync::oneshot;

use super::inbox::Outbox;
use super::lock;
use super::machine::{CallId, Command, Id, Mode, Outcome, Refusal};
use super::network::SetUp;
use crate::clock::Time;
use crate::error::Fault;
use crate::guard::Armed;
use crate::options::Spec;
use crate::protocol::About;
use crate::wakers::Wakers;

/// How long the last handle waits until what is pending is given back.
const LAST_DROP: Duration = Duration::from_millis(250);

pub(crate) enum Message {
    Acquire {
        id: Id,
        spec: Arc<Spec>,
        about: About,
        mode: Mode,
        timeout: Option<Duration>,
        called: Time,
        caller: Caller,
    },
    /// About the lock of this name, like the next.
    Call {
        lock: Arc<str>,
        call: CallId,
        command: Command,
        reply: oneshot::Sender<Outcome>,
    },
    Command {
        lock: Arc<str>,
        command: Command,
    },
    /// What is in the way of the server of the lock of this name?
    Trouble {
        lock: Arc<str>,
        reply: oneshot::Sender<Option<Arc<str>>>,
    },
    /// Ends all that this client has at all locks.
    Close {
        call: CallId,
        reply: oneshot::Sender<Outcome>,
    },
    /// A thread that connects to a server, or asks one, is done.
    SetUp(SetUp),
    /// The last handle is gone.
    End,
    #[cfg(feature = "test-hooks")]
    Panic,
}

/// Where an acquire's results go.
pub(crate) struct Caller {
    pub(crate) queued: Option<oneshot::Sender<u64>>,
    pub(crate) resolved: oneshot::Sender<Result<Armed, Refusal>>,
}

/// Set when the keeper has given back all that it can.
#[derive(Default)]
pub(super) struct End {
    ended: Mutex<bool>,
    changed: Condvar,
}

impl End {
    pub(super) fn set(&self) {
        *lock(&self.ended) = true;
        self.changed.notify_all();
    }

    fn wait(&self, longest: Duration) {
        let _ = self.changed.wait_timeout_while(lock(&self.ended), longest, |ended| !*ended);
    }
}

/// What the keeper has to say to people. A subscriber's code could block it, so callers say it when they come by.
#[derive(Default)]
pub(crate) struct Notes(Mutex<VecDeque<(bool, String)>>);

impl Notes {
    const MOST: usize = 32;

    pub(super) fn warn(&self, text: String) {
        self.add(true, text);
    }

    pub(super) fn info(&self, text: String) {
        self.add(false, text);
    }

    fn add(&self, warning: bool, text: String) {
        let mut notes = lock(&self.0);
        notes.truncate(Self::MOST - 1);
        notes.push_back((warning, text));
    }
}

/// What all handles of a client share. The last one to go ends the keeper.
pub(crate) struct Handle {
    messages: Outbox<Message>,
    pub(crate) wakers: Arc<Wakers>,
    client: Arc<str>,
    pub(crate) prefix: Arc<str>,
    keeper: ThreadId,
    process: u32,
    next: AtomicU64,
    end: Arc<End>,
    notes: Arc<Notes>,
}

impl std::fmt::Debug for Handle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Handle").field("client", &self.client).finish_non_exhaustive()
    }
}

impl Handle {
    pub(super) fn new(
        messages: Outbox<Message>,
        wakers: Arc<Wakers>,
        client: Arc<str>,
        prefix: Arc<str>,
        keeper: ThreadId,
        end: Arc<End>,
        notes: Arc<Notes>,
    ) -> Self {
        let (process, next) = (std::process::id(), AtomicU64::new(1));
        Self { messages, wakers, client, prefix, keeper, process, next, end, notes }
    }

    pub(crate) fn client_id(&self) -> &Arc<str> {
        &self.client
    }

    pub(crate) fn is_forked(&self) -> bool {
        std::process::id() != self.process
    }

    pub(crate) fn send(&self, message: Message) -> Result<(), Fault> {
        if self.is_forked() {
            return Err(Fault::Forked);
        }
        // The keeper outlives its handles, unless it panicked.
        self.messages.send(message).map_err(|()| Fault::KeeperPanicked)
    }

    /// Asks the keeper, and awaits its answer. Dropping the future drops the question's answer, not the question.
    pub(crate) async fn call(
        &self,
        lock: &Arc<str>,
        command: impl FnOnce(CallId) -> Command,
    ) -> Result<Outcome, Fault> {
        let lock = lock.clone();
        self.ask(|call, reply| Message::Call { lock, call, command: command(call), reply }).await
    }

    /// Asks the keeper what is in the way of the server of this lock.
    pub(crate) async fn trouble(&self, lock: &Arc<str>) -> Result<Option<Arc<str>>, Fault> {
        let (reply, answer) = oneshot::channel();
        self.send(Message::Trouble { lock: lock.clone(), reply })?;
        self.wakers.relay(tokio::task::unconstrained(answer)).await.map_err(|_| Fault::KeeperPanicked)
    }

    /// Ends all that this client has.
    pub(crate) async fn close(&self) -> Result<Outcome, Fault> {
        self.ask(|call, reply| Message::Close { call, reply }).await
    }

    async fn ask(&self, message: impl FnOnce(CallId, oneshot::Sender<Outcome>) -> Message) -> Result<Outcome, Fault> {
        let (reply, answer) = oneshot::channel();
        let call = self.next.fetch_add(1, Ordering::Relaxed);
        self.send(message(call, reply))?;
        match self.wakers.relay(tokio::task::unconstrained(answer)).await {
            Ok(Outcome::Fault(fault)) => Err(fault),
            Ok(outcome) => Ok(outcome),
            Err(_) => Err(Fault::KeeperPanicked),
        }
    }

    /// Starts an acquire.
    pub(crate) fn acquire(
        self: &Arc<Self>,
        spec: Arc<Spec>,
        about: About,
        mode: Mode,
        timeout: Option<Duration>,
    ) -> Result<Acquiring, Fault> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let (queued, ticket) = match mode {
            Mode::Enqueue => Some(oneshot::channel()).unzip(),
            Mode::Wait | Mode::Try => (None, None),
        };
        let (resolved, result) = oneshot::channel();
        let caller = Caller { queued, resolved };
        let lock = spec.name().clone();
        self.send(Message::Acquire { id, spec, about, mode, timeout, called: Time::now(), caller })?;
        Ok(Acquiring { id, lock, ticket, result: Some(result), handle: self.clone() })
    }

    /// Says what the keeper had to say. On the caller's side, because a subscriber may block.
    pub(crate) fn say_notes(&self) {
        let notes = std::mem::take(&mut *lock(&self.notes.0));
        for (warning, text) in notes {
            if warning {
                tracing::warn!(client = %self.client, "{text}");
            } else {
                tracing::info!(client = %self.client, "{text}");
            }
        }
    }

    #[cfg(feature = "test-hooks")]
    pub(crate) fn panic(&self) {
        let _ = self.messages.send(Message::Panic);
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        if self.is_forked() || self.messages.send(Message::End).is_err() {
            return;
        }
        // The keeper itself may drop the last handle; it must not wait for itself.
        if std::thread::current().id() != self.keeper {
            self.end.wait(LAST_DROP);
        }
    }
}

/// An acquire under way. Dropped, it leaves the queue or gives back what was granted.
#[derive(Debug)]
pub(crate) struct Acquiring {
    pub(crate) id: Id,
    pub(crate) lock: Arc<str>,
    pub(crate) ticket: Option<oneshot::Receiver<u64>>,
    /// None when it was resolved.
    pub(crate) result: Option<oneshot::Receiver<Result<Armed, Refusal>>>,
    pub(crate) handle: Arc<Handle>,
}

impl Drop for Acquiring {
    fn drop(&mut self) {
        let Some(mut result) = self.result.take() else { return };
        // Closed first: a lease that is sent from now on comes back to the keeper, one that is there is dropped here.
        result.close();
        if result.try_recv().is_err() {
            let _ = self
                .handle
                .send(Message::Command { lock: self.lock.clone(), command: Command::Abandon { id: self.id } });
        }
    }
}
