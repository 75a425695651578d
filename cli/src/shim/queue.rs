//! The queue shim: a child of a fairlock that waits, which leaves the queue if fairlock is killed. Otherwise the
//! lock would be granted to the dead when their turn comes, and be free again only when that claim ends.
//!
//! It is started once fairlock waits in a queue: whoever is granted a lock at once pays nothing for it. It learns of
//! the places over its stdin, and acts when that ends, as it does however fairlock dies. It is killed when the wait is
//! over, with a command not before that command's shim is ready, and before the command starts: from then on what it
//! would give up is the lease of that command.
//!
//! As the shim of a command it has its own process group and blocks all signals, so that it outlives `kill -9 -GROUP`,
//! the keys of the terminal and a hang-up. It keeps neither stdout nor stderr open, for which others may wait.

use std::io::BufRead as _;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ExitCode, Stdio};
use std::time::{Duration, Instant};

use fairlock::operator::LookError;
use serde_json::{Value, json};

use super::protocol;
use crate::connect::Server;
use crate::process::{descendants, signals, this_binary};

/// The word that makes this binary a queue shim.
pub(crate) const WORD: &str = "__queue";
/// The name of this process.
pub(super) const NAME: &str = "queue-shim";

/// The pause before another try while the server does not answer, and how long it may take for one answer.
const PAUSE: Duration = Duration::from_millis(500);
const ANSWER: Duration = Duration::from_secs(2);
/// After this time the server counts the waiter as dead, whoever says so: the liveness of a waiter and its buffer.
const USEFUL: Duration = Duration::from_secs(12);

/// The places of this process in queues, and the locks that it was granted while it still waits for others.
pub(crate) struct Places<'a> {
    server: &'a Server,
    /// Those that the shim does not know of yet.
    untold: Vec<(String, String)>,
    shim: Option<QueueShim>,
}

impl<'a> Places<'a> {
    pub(crate) fn new(server: &'a Server) -> Self {
        Self { server, untold: Vec::new(), shim: None }
    }

    /// A place in the queue of this lock, by the id of the waiter.
    pub(crate) fn add(&mut self, name: &str, id: String) {
        self.untold.push((name.to_owned(), id));
        self.tell();
    }

    /// From now on the places do not outlive this process. If no shim can be started, they end with their liveness.
    pub(crate) fn guard(&mut self) {
        if self.shim.is_none() {
            self.shim = QueueShim::start(self.server).ok();
        }
        self.tell();
    }

    /// The shim, if there was a wait.
    pub(crate) fn into_shim(self) -> Option<QueueShim> {
        self.shim
    }

    fn tell(&mut self) {
        let Some(shim) = &self.shim else { return };
        for (name, id) in self.untold.drain(..) {
            shim.tell(&json!({ "name": name, "id": id }));
        }
    }
}

/// The shim, as fairlock sees it. It is dead when this is dropped.
pub(crate) struct QueueShim {
    process: Child,
    socket: UnixStream,
}

impl QueueShim {
    fn start(server: &Server) -> std::io::Result<Self> {
        let (socket, far_end) = UnixStream::pair()?;
        let mut command = this_binary();
        command.arg0(NAME).arg(WORD).process_group(0);
        command.stdin(Stdio::from(OwnedFd::from(far_end))).stdout(Stdio::null()).stderr(Stdio::null());
        let shim = Self { process: descendants::spawn_apart(&mut command)?, socket };
        // Not as an argument: the URL may have a password.
        shim.tell(&server.to_json());
        Ok(shim)
    }

    fn tell(&self, line: &Value) {
        protocol::send(&self.socket, format_args!("{line}\n"));
    }
}

impl Drop for QueueShim {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        descendants::collected(&self.process);
    }
}

pub(crate) fn main() -> ExitCode {
    // Where that fails, a signal ends it, and the places end with their liveness.
    let _ = signals::block_all();
    #[cfg(any(target_os = "linux", target_os = "android"))]
    let _ = rustix::thread::set_name(c"queue-shim");
    let lines = std::io::stdin().lock().lines().map_while(Result::ok);
    let mut told = lines.filter_map(|line| serde_json::from_str::<Value>(&line).ok());
    let server = told.next().and_then(|server| Server::from_json(&server));
    let text = |value: &Value| value.as_str().map(str::to_owned);
    // This ends when fairlock is dead.
    let mut places: Vec<_> = told.filter_map(|place| Some((text(&place["name"])?, text(&place["id"])?))).collect();
    let Some(server) = server else { return ExitCode::FAILURE };
    let died = Instant::now();
    loop {
        leave(&server, &mut places);
        if places.is_empty() || died.elapsed() >= USEFUL {
            return ExitCode::SUCCESS;
        }
        std::thread::sleep(PAUSE);
    }
}

/// Leaves as many of these places as it can, which are then no longer in the list.
fn leave(server: &Server, places: &mut Vec<(String, String)>) {
    let Ok(all) = server.client().places() else { return };
    let Ok(masters) = all.masters(ANSWER) else { return };
    // In a cluster each lock is at one of the masters, and one that is away has only its own locks.
    for master in masters {
        if places.is_empty() {
            break;
        }
        let Ok(mut line) = master.connect(ANSWER) else { continue };
        let mut broken = false;
        places.retain(|(name, id)| {
            if broken {
                return true;
            }
            let left = line.leave(server.prefix(), name, std::slice::from_ref(id), ANSWER);
            broken = matches!(left, Err(LookError::Connection(_)));
            left.is_err()
        });
    }
}
