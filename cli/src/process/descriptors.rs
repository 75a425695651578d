//! Descriptors that this process inherited. No value in Rust owns them, so they are known by their numbers.

use std::io::IoSlice;
use std::os::fd::{AsRawFd as _, RawFd};
use std::os::unix::net::UnixStream;

use nix::sys::socket::{ControlMessage, MsgFlags, sendmsg};

/// Closes all inherited descriptors but stdin, stdout, stderr and this one. To be called while no other is open.
pub(crate) fn close_inherited(except: Option<RawFd>) {
    // The descriptor of the listing is among them, so the listing is read to its end first.
    let open: Vec<RawFd> = std::fs::read_dir("/dev/fd").map_or_else(
        |_| (3..256).collect(),
        |entries| entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect(),
    );
    open.into_iter().filter(|descriptor| *descriptor > 2 && Some(*descriptor) != except).for_each(close);
}

/// Closes an inherited descriptor.
pub(crate) fn close(descriptor: RawFd) {
    let _ = nix::unistd::close(descriptor);
}

/// Sends a descriptor to the process at the other end.
pub(crate) fn send(socket: &UnixStream, descriptor: RawFd) -> std::io::Result<()> {
    let descriptors = [descriptor];
    let message = [ControlMessage::ScmRights(&descriptors)];
    sendmsg::<()>(socket.as_raw_fd(), &[IoSlice::new(b"F")], &message, MsgFlags::empty(), None)?;
    Ok(())
}
