//! The way of every unix. The tests use it on Linux, too.

use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};

use super::super::routes::ConnectionId;
use super::{Watched, timespec};
use crate::notifier::pipe::{Notified, Notifier};

pub(in crate::keeper) struct Poller {
    notified: Notified,
}

pub(in crate::keeper) fn poller() -> io::Result<(Notifier, Poller)> {
    let (notifier, notified) = Notifier::new()?;
    Ok((notifier, Poller { notified }))
}

impl Poller {
    /// Returns the connections that can be read. An error names a connection that cannot be watched.
    pub(in crate::keeper) fn sleep<F: AsFd>(
        &mut self,
        watched: impl IntoIterator<Item = Watched<F>>,
        longest: Duration,
    ) -> Result<Vec<ConnectionId>, (ConnectionId, io::Error)> {
        let watched: Vec<Watched<F>> = watched.into_iter().collect();
        let mut polled = Vec::with_capacity(1 + watched.len());
        polled.push(PollFd::from_borrowed_fd(self.notified.as_fd(), PollFlags::IN));
        polled.extend(watched.iter().map(|watched| {
            let flags = if watched.wants_write { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
            PollFd::new(&watched.socket, flags)
        }));
        // If a signal has interrupted it, nothing is ready.
        if poll(&mut polled, Some(&timespec(longest))).unwrap_or(0) == 0 {
            return Ok(Vec::new());
        }
        let was_notified = !polled[0].revents().is_empty();
        let readable = watched.iter().zip(&polled[1..]);
        let readable = readable.filter(|(_, polled)| polled.revents().intersects(!PollFlags::OUT));
        let readable = readable.map(|(watched, _)| watched.connection).collect();
        if was_notified {
            self.notified.drain();
        }
        Ok(readable)
    }

    /// A connection will be closed.
    pub(in crate::keeper) fn forget<F: AsFd>(&mut self, _line: ConnectionId, _socket: &F) {}
}
