//! The clients that are connected, and which of them makes room for the next one.

use rustix::process::{Resource, getrlimit};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// So many clients are connected at most, or half as many as this process may have descriptors: the others are for the
/// servers.
const MOST: usize = 64;

/// What this process waits for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// The first byte of the client.
    Silent,
    /// The rest of its question; or, when it is answered, that it reads.
    Slow,
    /// The answer of the server.
    Asking,
}

struct Client {
    phase: watch::Receiver<Phase>,
    task: JoinHandle<()>,
}

pub(super) struct Clients {
    most: usize,
    /// Those that came first stand first.
    all: Vec<Client>,
}

impl Clients {
    pub(super) fn new() -> Self {
        let descriptors = getrlimit(Resource::Nofile).current.and_then(|most| usize::try_from(most).ok());
        Self { most: descriptors.map_or(MOST, |descriptors| MOST.min(descriptors / 2)), all: Vec::new() }
    }

    pub(super) fn push(&mut self, phase: watch::Receiver<Phase>, task: JoinHandle<()>) {
        self.all.push(Client { phase, task });
    }

    pub(super) fn are_too_many(&mut self) -> bool {
        self.all.retain(|client| !client.task.is_finished());
        self.all.len() >= self.most
    }

    /// The client that has been silent or slow longest gives its connection back, which is closed when this returns.
    /// False if all wait for their answers.
    pub(super) async fn make_room(&mut self) -> bool {
        self.all.retain(|client| !client.task.is_finished());
        let of = |phase| (0..self.all.len()).filter(|at| *self.all[*at].phase.borrow() == phase).collect();
        let (silent, slow): (Vec<_>, Vec<_>) = (of(Phase::Silent), of(Phase::Slow));
        // Neither those that say nothing nor those that say little drive out the others: of the larger group one goes.
        let larger = if slow.len() > silent.len() { slow } else { silent };
        let Some(longest) = larger.first() else { return false };
        let Client { task, .. } = self.all.remove(*longest);
        task.abort();
        let _ = task.await;
        true
    }
}
