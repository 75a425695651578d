//! A socket that is written to when something has happened. Ringing it takes no GIL and never blocks.

use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsRawFd as _, RawFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

pub(crate) struct Bell {
    reader: UnixStream,
    writer: UnixStream,
    /// A byte is in the socket, or about to be.
    rung: AtomicBool,
}

impl Bell {
    pub(crate) fn new() -> io::Result<Self> {
        let (reader, writer) = UnixStream::pair()?;
        reader.set_nonblocking(true)?;
        writer.set_nonblocking(true)?;
        Ok(Self { reader, writer, rung: AtomicBool::new(false) })
    }

    pub(crate) fn fd(&self) -> RawFd {
        self.reader.as_raw_fd()
    }

    pub(crate) fn ring(&self) {
        if !self.rung.swap(true, Ordering::AcqRel) {
            // One byte at most is in the socket, so there is room for it.
            let _ = (&self.writer).write(&[0]);
        }
    }

    /// Makes it silent. What has happened before must be looked at after this.
    pub(crate) fn silence(&self) {
        let _ = (&self.reader).read(&mut [0; 8]);
        self.rung.store(false, Ordering::Release);
    }

    /// Sleeps until it rings, a signal arrives, or the time is over.
    pub(crate) fn sleep(&self, longest: Option<Duration>) {
        let longest = longest.and_then(|longest| Timespec::try_from(longest).ok());
        match poll(&mut [PollFd::new(&self.reader, PollFlags::IN)], longest.as_ref()) {
            Ok(0) | Err(Errno::INTR) => {}
            _ => self.silence(),
        }
    }
}
