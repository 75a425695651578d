//! What the keeper's inbox carries, from callers and from the keeper's own threads.

use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use tokio::sync::oneshot;

use super::machine::{AcquireCall, Command, Id, NotGranted, Question};
use super::network::SetUp;
use super::questions::AnswerSender;
use super::shared::OwnedLease;
use crate::clock::Time;
use crate::fork::Process;
use crate::mutex::lock;
use crate::options::Spec;
use crate::protocol::{ClientId, Ticket};

pub(crate) enum Message {
    Acquire {
        id: Id,
        asked: AcquireCall,
        caller: Caller,
    },
    /// About the lock of this name, as is the next.
    Ask {
        lock: Arc<str>,
        question: Question,
        asker: AnswerSender,
    },
    Command {
        lock: Arc<str>,
        command: Command,
    },
    /// Why the server of this lock does not answer.
    Trouble {
        lock: Arc<str>,
        reply: oneshot::Sender<Option<Arc<str>>>,
    },
    /// Gives up everything that this client has at all locks.
    Close {
        reply: oneshot::Sender<()>,
    },
    /// A thread that connects to a server, or asks one, has finished.
    SetUp(SetUp),
    /// The last handle was dropped.
    End,
    #[cfg(feature = "__test-hooks")]
    Panic,
}

/// The client and its process, for whom it asked for a lease, and when.
#[derive(Clone)]
pub(crate) struct Origin {
    pub(crate) client: ClientId,
    pub(crate) process: Process,
    pub(crate) label: Arc<str>,
    pub(crate) owner: Arc<str>,
    pub(crate) called: Time,
}

/// The receiver of an acquire's results.
pub(crate) struct Caller {
    pub(crate) spec: Arc<Spec>,
    pub(crate) origin: Origin,
    pub(crate) queued: Option<oneshot::Sender<Ticket>>,
    pub(crate) resolved: oneshot::Sender<Result<OwnedLease, NotGranted>>,
}

/// Set when the keeper has released all that it could.
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

    pub(super) fn wait(&self, longest: Duration) {
        let _ = self.changed.wait_timeout_while(lock(&self.ended), longest, |ended| !*ended);
    }
}
