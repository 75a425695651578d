//! The connections through a proxy: two threads for each, one for each direction.

use std::{
    collections::VecDeque,
    fs::File,
    io::Write as _,
    os::fd::OwnedFd,
    os::unix::net::UnixStream,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    net::{Shutdown, shutdown},
};

use super::{Act, Inner, Shared};
use crate::{
    faults::Side,
    resp::{Frames, is_push, words},
};

/// A connection of a client, and the one to the server behind it.
#[derive(Debug)]
pub(super) struct Connection {
    client: File,
    server: File,
    /// The unanswered requests, in order.
    asked: Mutex<VecDeque<Asked>>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) cut: bool,
    /// A request is being held.
    pub(super) holds: bool,
    /// Directions that have ended.
    pub(super) ended: u8,
}

#[derive(Debug)]
enum Asked {
    Server(Vec<Vec<u8>>),
    /// The proxy answers it when its turn comes.
    Here(&'static str),
}

impl Shared {
    pub(super) fn take(self: &Arc<Self>, client: OwnedFd) {
        // The server does not see refused clients: it would count them.
        let (refused, server) = {
            let inner = self.lock();
            (inner.refuses, inner.server.clone())
        };
        let server = (!refused).then(|| UnixStream::connect(server)).and_then(Result::ok);
        let Some(server) = server else { return self.count(|counts| counts.refused += 1) };
        let (client, server) = (File::from(client), File::from(OwnedFd::from(server)));
        let connection = Arc::new(Connection { client, server, asked: Mutex::default(), state: Mutex::default() });
        {
            let mut inner = self.lock();
            inner.connections.push(connection.clone());
            inner.counts.connections += 1;
            inner.counts.open += 1;
        }
        self.changed.notify_all();
        for pump in [Shared::requests, Shared::replies] {
            let (shared, connection) = (self.clone(), connection.clone());
            std::thread::spawn(move || {
                pump(&shared, &connection);
                shared.ended(&connection);
            });
        }
    }

    /// One direction has ended. The other may still deliver what was sent before.
    fn ended(&self, connection: &Arc<Connection>) {
        let mut inner = self.lock();
        let mut state = connection.state();
        state.ended += 1;
        if state.ended == 2 {
            inner.connections.retain(|other| !Arc::ptr_eq(other, connection));
            inner.counts.open -= 1;
        }
        // Also for a frame that is held when the other direction has just been cut.
        self.changed.notify_all();
    }

    fn requests(&self, connection: &Connection) {
        let mut frames = Frames::new(&connection.client);
        while let Some(frame) = frames.next() {
            let words = words(&frame);
            match self.judge(connection, Side::Request, &words, frame.len(), frames.arrived()) {
                None if connection.state().cut => return,
                None => {
                    let gone = connection.client_gone();
                    connection.asked().push_back(Asked::Server(words));
                    let delivered = (&connection.server).write_all(&frame).is_ok();
                    self.count(|counts| {
                        counts.requests += u64::from(delivered);
                        counts.late += u64::from(gone && delivered);
                        counts.late_refused += u64::from(gone && !delivered);
                    });
                }
                Some(Act::Answer(error)) => {
                    let mut asked = connection.asked();
                    asked.push_back(Asked::Here(error));
                    connection.answer_here(&mut asked);
                }
                Some(Act::Cut(bytes)) => {
                    let _ = (&connection.server).write_all(&frame[..bytes.min(frame.len())]);
                    return connection.cut();
                }
                // All later frames are lost too.
                Some(_) => while frames.next().is_some() {},
            }
        }
        // A server that cannot send its reply ends the connection, and does not read the requests that are still in it.
        let _ = shutdown(&connection.server, Shutdown::Write);
    }

    fn replies(&self, connection: &Connection) {
        let mut frames = Frames::new(&connection.server);
        while let Some(frame) = frames.next() {
            let push = is_push(&frame);
            let verdict = if push {
                self.judge(connection, Side::Push, &words(&frame), frame.len(), frames.arrived())
            } else {
                // It stays first until it has passed, so that no other answer overtakes it.
                let words = match connection.asked().front() {
                    Some(Asked::Server(words)) => words.clone(),
                    other => panic!("a reply to {other:?}"),
                };
                self.judge(connection, Side::Reply, &words, frame.len(), frames.arrived())
            };
            let (bytes, end) = match verdict {
                None => (frame, false),
                Some(Act::Answer(_)) => (vec![], false),
                Some(Act::Repeat(times)) => (frame.repeat(times), false),
                Some(Act::Cut(bytes)) => (frame[..bytes.min(frame.len())].to_vec(), true),
                Some(_) => {
                    while frames.next().is_some() {}
                    break;
                }
            };
            let mut asked = connection.asked();
            // The end of a client does not end the server's side: requests of it may still be on their way.
            let _ = (&connection.client).write_all(&bytes);
            if !push {
                asked.pop_front();
            }
            if let Some(Act::Answer(error)) = verdict {
                asked.push_front(Asked::Here(error));
            }
            connection.answer_here(&mut asked);
            drop(asked);
            if end {
                return connection.cut();
            }
            self.count(|counts| if push { counts.pushes += 1 } else { counts.replies += 1 });
        }
        let _ = shutdown(&connection.client, Shutdown::Both);
    }

    /// The act for this frame, if it is not simply passed on. Waits as long as the frame is held.
    fn judge(
        &self,
        connection: &Connection,
        side: Side,
        words: &[Vec<u8>],
        length: usize,
        arrived: Instant,
    ) -> Option<Act> {
        // A fault of an unawaited answer would not be noticed.
        if side != Side::Request && connection.client_gone() {
            return None;
        }
        let mut inner = self.lock();
        let (number, act) = inner.rules.strike(side, words, length)?;
        connection.state().holds = side == Side::Request && matches!(act, Act::Hold);
        self.changed.notify_all();
        let lasts = |inner: &Inner| inner.rules.lasts(number) && !connection.state().cut;
        match act {
            Act::Hold => {
                let held = self.changed.wait_while(inner, |inner| lasts(inner));
                drop(held.unwrap_or_else(PoisonError::into_inner));
                connection.state().holds = false;
                None
            }
            Act::Delay(time) => {
                drop(inner);
                std::thread::sleep(time.saturating_sub(arrived.elapsed()));
                None
            }
            act => Some(act),
        }
    }
}

impl Connection {
    fn asked(&self) -> MutexGuard<'_, VecDeque<Asked>> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends the proxy's own answers that are due.
    fn answer_here(&self, asked: &mut VecDeque<Asked>) {
        while let Some(Asked::Here(error)) = asked.front() {
            let _ = (&self.client).write_all(format!("-{error}\r\n").as_bytes());
            asked.pop_front();
        }
    }

    pub(super) fn cut(&self) {
        self.state().cut = true;
        let _ = (shutdown(&self.client, Shutdown::Both), shutdown(&self.server, Shutdown::Both));
    }

    /// Ends the client's side only.
    pub(super) fn abandon(&self) {
        let _ = shutdown(&self.client, Shutdown::Both);
    }

    pub(super) fn client_gone(&self) -> bool {
        let mut fds = [PollFd::new(&self.client, PollFlags::RDHUP)];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut fds, Some(&now)).is_ok() && !fds[0].revents().is_empty()
    }
}
