//! The way of Linux.

use std::collections::BTreeMap;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use rustix::event::epoll::{self, Event, EventData, EventFlags};
use rustix::io::Errno;

use super::super::routes::Line;
use super::{Watched, timespec};
use crate::bell::eventfd::Bell;

/// The most connections that are reported at once. The others are reported by the next sleep.
const REPORTED: usize = 32;
const BELL: u64 = u64::MAX;

#[derive(Debug)]
pub(in crate::keeper) struct Lookout {
    epoll: Arc<OwnedFd>,
    /// What the kernel watches for.
    watched: BTreeMap<Line, EventFlags>,
}

pub(in crate::keeper) fn lookout() -> io::Result<(Bell, Lookout)> {
    let (bell, epoll) = Bell::with_epoll(BELL)?;
    Ok((bell, Lookout { epoll: Arc::new(epoll), watched: BTreeMap::new() }))
}

/// Has the sleeper wake once, as soon as a connection can be read that it is about to get.
#[derive(Debug)]
pub(in crate::keeper) struct Arm(Arc<OwnedFd>);

impl Arm {
    /// False if it has to be told.
    pub(in crate::keeper) fn arm(&self, line: Line, socket: &impl AsFd) -> bool {
        watch(&self.0, line, socket, EventFlags::IN | EventFlags::ONESHOT).is_ok()
    }
}

/// The kernel forgets a socket that is closed.
fn watch(epoll: &OwnedFd, line: Line, socket: &impl AsFd, flags: EventFlags) -> rustix::io::Result<()> {
    let data = EventData::new_u64(line.0);
    match epoll::modify(epoll, socket, data, flags) {
        Err(Errno::NOENT) => epoll::add(epoll, socket, data, flags),
        watched => watched,
    }
}

impl Lookout {
    pub(in crate::keeper) fn arm(&self) -> Arm {
        Arm(self.epoll.clone())
    }

    /// Returns the connections that can be read. An error names a connection that cannot be watched.
    pub(in crate::keeper) fn sleep<F: AsFd>(
        &mut self,
        watched: impl IntoIterator<Item = Watched<F>>,
        longest: Duration,
    ) -> Result<Vec<Line>, (Line, io::Error)> {
        for watched in watched {
            self.watch(&watched).map_err(|error| (watched.line, error))?;
        }
        let mut events = [MaybeUninit::<Event>::uninit(); REPORTED];
        let Ok((events, _)) = epoll::wait(&self.epoll, &mut events, Some(&timespec(longest))) else {
            // A signal has interrupted it.
            return Ok(Vec::new());
        };
        for event in &*events {
            let line = Line(event.data.u64());
            if self.watched.get(&line).is_some_and(|flags| flags.contains(EventFlags::ONESHOT)) {
                self.watched.remove(&line);
            }
        }
        let reported = events.iter().map(|event| (event.data.u64(), event.flags));
        let readable = reported.filter(|(line, flags)| *line != BELL && flags.intersects(!EventFlags::OUT));
        Ok(readable.map(|(line, _)| Line(line)).collect())
    }

    fn watch<F: AsFd>(&mut self, Watched { line, socket, wants_write, once }: &Watched<F>) -> io::Result<()> {
        let mut flags = EventFlags::IN;
        flags.set(EventFlags::OUT, *wants_write);
        flags.set(EventFlags::ONESHOT, *once);
        if self.watched.insert(*line, flags) != Some(flags) {
            watch(&self.epoll, *line, socket, flags)?;
        }
        Ok(())
    }

    /// A connection will be closed. That alone does not end the kernel's watch while a forked process has a copy.
    pub(in crate::keeper) fn forget<F: AsFd>(&mut self, line: Line, socket: &F) {
        if self.watched.remove(&line).is_some() {
            // It fails only for a socket that is not watched.
            let _ = epoll::delete(&self.epoll, socket);
        }
    }
}
