//! A socket of this process. A write to a connection that has ended is an error and no signal (SIGPIPE ends a process
//! in which nobody has ignored it). When the socket is dropped, its connection ends, even if a forked process has a copy
//! of the descriptor.

use std::io::{self, IoSlice, Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd};

use rustix::net::{SendAncillaryBuffer, SendFlags};
use socket2::Socket;

use crate::fork::Process;

#[cfg(not(target_vendor = "apple"))]
const NO_SIGNAL: SendFlags = SendFlags::NOSIGNAL;
/// Here it is an option of the socket, SO_NOSIGPIPE, which `Socket::new` has set.
#[cfg(target_vendor = "apple")]
const NO_SIGNAL: SendFlags = SendFlags::empty();

pub(super) struct OwnSocket {
    socket: Socket,
    process: Process,
}

impl OwnSocket {
    pub(super) fn new(socket: Socket) -> Self {
        Self { socket, process: Process::this() }
    }
}

impl AsFd for OwnSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Read for OwnSocket {
    fn read(&mut self, space: &mut [u8]) -> io::Result<usize> {
        self.socket.read(space)
    }
}

impl Write for OwnSocket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(rustix::net::send(&self.socket, bytes, NO_SIGNAL)?)
    }

    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        Ok(rustix::net::sendmsg(&self.socket, parts, &mut SendAncillaryBuffer::default(), NO_SIGNAL)?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for OwnSocket {
    fn drop(&mut self) {
        // The connection of a parent process goes on.
        if !self.process.is_forked() {
            // It fails if the other side has ended the connection.
            let _ = self.socket.shutdown(Shutdown::Both);
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
pub(super) mod tests {
    use std::os::unix::net::UnixStream;

    use rustix::process::{Signal, getpid, kill_process};

    use super::*;

    fn pair() -> (OwnSocket, UnixStream) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        (OwnSocket::new(ours.into()), theirs)
    }

    #[test]
    fn a_connection_ends_with_its_socket_though_there_is_a_copy() {
        let (ours, mut theirs) = pair();
        let _copy = ours.socket.try_clone().unwrap();
        drop(ours);
        theirs.set_nonblocking(true).unwrap();
        assert_eq!(theirs.read(&mut [0]).unwrap(), 0);
    }

    #[test]
    fn a_forked_process_that_drops_its_copy_leaves_the_connection_to_its_parent() {
        let (mut ours, mut theirs) = pair();
        match fork::fork().unwrap() {
            fork::Fork::Child => {
                drop(ours);
                // Without what runs at the end of a process: other threads may have had its locks.
                kill_process(getpid(), Signal::KILL).unwrap();
            }
            fork::Fork::Parent(pid) => {
                fork::waitpid(pid).unwrap();
                assert_eq!(ours.write(b"x").unwrap(), 1);
                assert_eq!(theirs.read(&mut [0]).unwrap(), 1);
            }
        }
    }

    /// Whether this raises SIGPIPE. A signal that is blocked stays pending, also where it is ignored, as in this process.
    #[cfg(target_os = "linux")]
    pub(in crate::server) fn raises_sigpipe(act: impl FnOnce()) -> bool {
        use nix::sys::signal::{SigSet, Signal::SIGPIPE};

        let mut sigpipe = SigSet::empty();
        sigpipe.add(SIGPIPE);
        sigpipe.thread_block().unwrap();
        act();
        let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
        let pending = status.lines().find_map(|line| line.strip_prefix("SigPnd:")).unwrap();
        let raised = u64::from_str_radix(pending.trim(), 16).unwrap() >> (SIGPIPE as u64 - 1) & 1 == 1;
        if raised {
            sigpipe.wait().unwrap();
        }
        raised
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_write_to_a_connection_that_has_ended_raises_no_signal() {
        let (mut ours, theirs) = pair();
        // A process that another test forks may have a copy of it.
        theirs.shutdown(Shutdown::Both).unwrap();
        assert!(!raises_sigpipe(|| {
            let writes = [ours.write(b"x"), ours.write_vectored(&[IoSlice::new(b"x"), IoSlice::new(b"y")])];
            assert_eq!(writes.map(|written| written.unwrap_err().kind()), [io::ErrorKind::BrokenPipe; 2]);
        }));
        let raises = raises_sigpipe(|| drop((&ours.socket).write(b"x").unwrap_err()));
        assert!(raises, "this test does not notice signals");
    }
}
