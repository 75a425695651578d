//! Descriptors that this process inherited. No value in Rust owns them, so they are known by their numbers.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;

use nix::sys::socket::{ControlMessage, MsgFlags, sendmsg};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags};

/// Closes all inherited descriptors but stdin, stdout, stderr and this one. To be called while no other is open.
pub(crate) fn close_inherited(except: Option<RawFd>) {
    open().into_iter().filter(|descriptor| *descriptor > 2 && Some(*descriptor) != except).for_each(close);
}

/// All that are open.
pub(crate) fn open() -> Vec<RawFd> {
    // The descriptor of the listing is among them, so the listing is read to its end first.
    std::fs::read_dir("/dev/fd").map_or_else(
        |_| (0..256).collect(),
        |entries| entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect(),
    )
}

/// Closes an inherited descriptor.
pub(crate) fn close(descriptor: RawFd) {
    let _ = nix::unistd::close(descriptor);
}

/// A copy of an inherited descriptor, which belongs to the caller.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(crate) fn copy(descriptor: RawFd) -> std::io::Result<OwnedFd> {
    let (socket, far_end) = UnixStream::pair()?;
    send(&socket, descriptor)?;
    receive(&far_end)
}

/// Sends a descriptor to the process at the other end, together with one byte that carries it.
pub(crate) fn send(socket: &UnixStream, descriptor: RawFd) -> std::io::Result<()> {
    let descriptors = [descriptor];
    let message = [ControlMessage::ScmRights(&descriptors)];
    sendmsg::<()>(socket.as_raw_fd(), &[IoSlice::new(b"F")], &message, MsgFlags::empty(), None)?;
    Ok(())
}

/// Receives what [`send`] has sent.
pub(crate) fn receive(socket: &UnixStream) -> std::io::Result<OwnedFd> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    rustix::net::recvmsg(socket, &mut [IoSliceMut::new(&mut byte)], &mut ancillary, RecvFlags::empty())?;
    let received = ancillary.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
        _ => None,
    });
    let descriptor = received.ok_or(std::io::ErrorKind::UnexpectedEof)?;
    rustix::io::fcntl_setfd(descriptor.as_fd(), rustix::io::FdFlags::CLOEXEC)?;
    Ok(descriptor)
}
