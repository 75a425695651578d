//! The way of Linux.

use std::collections::BTreeMap;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::event::epoll::{self, Event, EventData, EventFlags};

use super::super::routes::ConnectionId;
use super::{Watched, timespec};
use crate::notifier::eventfd::Notifier;

/// The most connections that are reported at once. The others are reported by the next sleep.
const REPORTED: usize = 32;
const NOTIFIER: u64 = u64::MAX;

pub(in crate::keeper) struct Poller {
    epoll: OwnedFd,
    /// What the kernel watches for.
    watched: BTreeMap<ConnectionId, EventFlags>,
}

pub(in crate::keeper) fn poller() -> io::Result<(Notifier, Poller)> {
    let (notifier, epoll) = Notifier::with_epoll(NOTIFIER)?;
    Ok((notifier, Poller { epoll, watched: BTreeMap::new() }))
}

impl Poller {
    /// Returns the connections that can be read. An error names a connection that cannot be watched.
    pub(in crate::keeper) fn sleep<F: AsFd>(
        &mut self,
        watched: impl IntoIterator<Item = Watched<F>>,
        longest: Duration,
    ) -> Result<Vec<ConnectionId>, (ConnectionId, io::Error)> {
        for watched in watched {
            self.watch(&watched).map_err(|error| (watched.connection, error))?;
        }
        let mut events = [MaybeUninit::<Event>::uninit(); REPORTED];
        let Ok((events, _)) = epoll::wait(&self.epoll, &mut events, Some(&timespec(longest))) else {
            // A signal has interrupted it.
            return Ok(Vec::new());
        };
        let reported = events.iter().map(|event| (event.data.u64(), event.flags));
        let readable =
            reported.filter(|(connection, flags)| *connection != NOTIFIER && flags.intersects(!EventFlags::OUT));
        Ok(readable.map(|(connection, _)| ConnectionId(connection)).collect())
    }

    fn watch<F: AsFd>(&mut self, Watched { connection, socket, wants_write }: &Watched<F>) -> io::Result<()> {
        let flags = if *wants_write { EventFlags::IN | EventFlags::OUT } else { EventFlags::IN };
        let data = EventData::new_u64(connection.0);
        match self.watched.insert(*connection, flags) {
            None => epoll::add(&self.epoll, socket, data, flags)?,
            Some(before) if before != flags => epoll::modify(&self.epoll, socket, data, flags)?,
            Some(_) => {}
        }
        Ok(())
    }

    /// A connection will be closed. That alone does not end the kernel's watch while a forked process has a copy.
    pub(in crate::keeper) fn forget<F: AsFd>(&mut self, connection: ConnectionId, socket: &F) {
        if self.watched.remove(&connection).is_some() {
            // It fails only for a socket that is not watched.
            let _ = epoll::delete(&self.epoll, socket);
        }
    }
}
