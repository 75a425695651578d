//! What systemd is told of a unit with `Type=notify`: how the wait goes, and that the lock is granted.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::{Duration, Instant};

/// How often the wait is told, and how much longer than that systemd then waits for the start of the unit.
const EVERY: Duration = Duration::from_secs(5);
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct Systemd {
    socket: UnixDatagram,
    manager: SocketAddr,
    last: Option<Instant>,
}

impl Systemd {
    /// None unless systemd started this process and wants to know.
    pub(crate) fn of_this_process() -> Option<Self> {
        let manager = address(&std::env::var_os("NOTIFY_SOCKET")?)?;
        let socket = UnixDatagram::unbound().ok()?;
        socket.set_nonblocking(true).ok()?;
        Some(Self { socket, manager, last: None })
    }

    /// The unit does not count as started before the grant, and its TimeoutStartSec= must not end the wait.
    pub(crate) fn waiting(&mut self, how: &str) {
        if self.last.is_none_or(|last| last.elapsed() >= EVERY) {
            self.last = Some(Instant::now());
            self.tell(&format!("STATUS={how}\nEXTEND_TIMEOUT_USEC={}", PATIENCE.as_micros()));
        }
    }

    pub(crate) fn granted(&self, what: &str) {
        self.tell(&format!("READY=1\nSTATUS={what}"));
    }

    pub(crate) fn status(&self, what: &str) {
        self.tell(&format!("STATUS={what}"));
    }

    pub(crate) fn stopping(&self) {
        self.tell("STOPPING=1");
    }

    fn tell(&self, state: &str) {
        // Nothing depends on whether systemd hears it.
        let _ = self.socket.send_to_addr(state.as_bytes(), &self.manager);
    }
}

/// A path, or with `@` in front a name in Linux's abstract namespace.
fn address(name: &OsString) -> Option<SocketAddr> {
    match name.as_bytes() {
        #[cfg(target_os = "linux")]
        [b'@', rest @ ..] => {
            use std::os::linux::net::SocketAddrExt as _;
            SocketAddr::from_abstract_name(rest).ok()
        }
        [b'/', ..] => SocketAddr::from_pathname(name).ok(),
        _ => None,
    }
}
