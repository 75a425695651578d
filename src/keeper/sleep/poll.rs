//! The way of every unix: `poll`, and a pipe as the bell. The tests use it on Linux, too.

use std::io::{self, PipeReader, PipeWriter, Read as _, Write as _};
use std::os::fd::AsFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};

use super::super::routes::Line;
use super::{Watched, timespec};

#[derive(Debug)]
pub(in crate::keeper) struct Bell(PipeWriter);

impl Bell {
    pub(in crate::keeper) fn ring(&self) {
        // It is rung once for each sleep and read after it, so the pipe is never full.
        let _ = (&self.0).write(&[1]);
    }
}

#[derive(Debug)]
pub(in crate::keeper) struct Lookout {
    bell: PipeReader,
}

pub(in crate::keeper) fn lookout() -> io::Result<(Bell, Lookout)> {
    let (bell, rope) = io::pipe()?;
    Ok((Bell(rope), Lookout { bell }))
}

impl Lookout {
    /// Returns the connections that can be read. An error names a connection that cannot be watched.
    pub(in crate::keeper) fn sleep<F: AsFd>(
        &mut self,
        watched: impl IntoIterator<Item = Watched<F>>,
        longest: Duration,
    ) -> Result<Vec<Line>, (Line, io::Error)> {
        let watched: Vec<Watched<F>> = watched.into_iter().collect();
        let mut polled = Vec::with_capacity(1 + watched.len());
        polled.push(PollFd::from_borrowed_fd(self.bell.as_fd(), PollFlags::IN));
        polled.extend(watched.iter().map(|watched| {
            let flags = if watched.wants_write { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
            PollFd::new(&watched.socket, flags)
        }));
        // If a signal has interrupted it, nothing is ready.
        if poll(&mut polled, Some(&timespec(longest))).unwrap_or(0) == 0 {
            return Ok(Vec::new());
        }
        let has_rung = !polled[0].revents().is_empty();
        let readable = watched.iter().zip(&polled[1..]);
        let readable = readable.filter(|(_, polled)| polled.revents().intersects(!PollFlags::OUT));
        let readable = readable.map(|(watched, _)| watched.line).collect();
        if has_rung {
            let _ = (&self.bell).read(&mut [0; 64]);
        }
        Ok(readable)
    }

    /// A connection will be closed.
    pub(in crate::keeper) fn forget<F: AsFd>(&mut self, _line: Line, _socket: &F) {}
}
