//! The thread of the service: it owns all connections and all locks. It sleeps until a connection can be read or
//! written, or the service wants something of it.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, PipeReader, Read as _};
use std::net::{Shutdown, TcpListener};
use std::sync::mpsc::{Receiver, Sender};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use socket2::SockRef;

use super::locks::Locks;
use crate::server::{Stream, Value};

/// What the service wants of its thread.
pub(super) type Task = Box<dyn FnOnce(&mut Server) + Send>;

pub(super) struct Server {
    listener: TcpListener,
    /// Has a byte for each task.
    wake: PipeReader,
    tasks: Receiver<Task>,
    /// By their ids. No id is given twice.
    pub(super) connections: BTreeMap<u64, Connection>,
    pub(super) run_id: String,
    accepted: u64,
    pub(super) locks: Locks,
    /// Nothing is read and nothing is written.
    pub(super) paused: bool,
    /// The service is being dropped. Its sender is dropped last.
    pub(super) over: Option<Sender<()>>,
}

pub(super) struct Connection {
    pub(super) stream: Stream,
    pub(super) channels: BTreeSet<String>,
}

impl Server {
    pub(super) fn new(listener: TcpListener, wake: PipeReader, tasks: Receiver<Task>) -> Self {
        let run_id = uuid::Uuid::new_v4().simple().to_string();
        let (connections, locks) = (BTreeMap::new(), Locks::new());
        Self { listener, wake, tasks, connections, run_id, accepted: 0, locks, paused: false, over: None }
    }

    /// Serves until the service is dropped.
    pub(super) fn serve(mut self) {
        while self.over.is_none() && self.turn().is_ok() {}
        // On Linux nobody can connect any more, even if a forked process has a copy of the descriptor.
        let _ = SockRef::from(&self.listener).shutdown(Shutdown::Both);
    }

    fn turn(&mut self) -> io::Result<()> {
        let (is_asked, is_called, ready) = self.sleep()?;
        if is_asked {
            let _ = self.wake.read(&mut [0; 64])?;
            while let Ok(task) = self.tasks.try_recv() {
                task(self);
            }
        }
        if self.paused || self.over.is_some() {
            return Ok(());
        }
        if is_called && let Ok((socket, _)) = self.listener.accept() {
            socket.set_nonblocking(true)?;
            socket.set_nodelay(true)?;
            self.accepted += 1;
            let connection = Connection { stream: Stream::new(socket.into()), channels: BTreeSet::new() };
            self.connections.insert(self.accepted, connection);
        }
        self.hear(ready);
        // What one connection asks for is told to others, too.
        self.connections.retain(|_, connection| connection.stream.flush().is_ok());
        Ok(())
    }

    /// Whether the service wants something, whether somebody connects, and which connections are ready.
    fn sleep(&self) -> io::Result<(bool, bool, Vec<u64>)> {
        let mut polled = vec![PollFd::new(&self.wake, PollFlags::IN)];
        if !self.paused {
            polled.push(PollFd::new(&self.listener, PollFlags::IN));
            polled.extend(self.connections.values().map(|Connection { stream, .. }| {
                let wants = if stream.wants_write() { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
                PollFd::new(stream, wants)
            }));
        }
        match poll(&mut polled, None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let mut ready = polled.iter().map(|one| !one.revents().is_empty());
        let (is_asked, is_called) = (ready.next().unwrap_or(false), ready.next().unwrap_or(false));
        let ready = self.connections.keys().zip(ready).filter(|(_, ready)| *ready).map(|(id, _)| *id);
        Ok((is_asked, is_called, ready.collect()))
    }

    /// Answers all that has arrived on these connections, and drops those that are over.
    pub(super) fn hear(&mut self, ids: impl IntoIterator<Item = u64>) {
        for id in ids {
            if self.hear_one(id).is_none() {
                self.connections.remove(&id);
            }
        }
    }

    fn hear_one(&mut self, id: u64) -> Option<()> {
        let filled = self.connections.get_mut(&id)?.stream.fill();
        while let Some(frame) = self.connections.get_mut(&id)?.stream.frames.next().ok()? {
            let Value::List(words) = frame else { return None };
            let word = |word: Value<'_>| if let Value::Text(text) = word { Some(text.into_owned()) } else { None };
            let words: Vec<Vec<u8>> = words.into_iter().map(word).collect::<Option<_>>()?;
            self.answer(id, &words);
        }
        filled.ok()
    }
}
