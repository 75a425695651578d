//! The log of the system, for messages that nobody would read elsewhere.

use std::os::unix::net::UnixDatagram;
use std::path::Path;

/// Where it listens, as syslog(3) knows: journald and every syslogd.
const SOCKET: &str = if cfg!(target_os = "macos") { "/var/run/syslog" } else { "/dev/log" };
/// A warning of a daemon.
const PRIORITY: u8 = 3 * 8 + 4;

/// Writes lines as they would go to stderr, without waiting. They are lost where there is no such log.
pub(crate) fn write(text: &str) {
    write_to(SOCKET.as_ref(), text);
}

fn write_to(socket: &Path, text: &str) {
    let _ = UnixDatagram::unbound().map(|log| {
        let _ = log.set_nonblocking(true);
        for line in text.lines() {
            let line = line.strip_prefix("fairlock: ").unwrap_or(line);
            let _ = log.send_to(format!("<{PRIORITY}>fairlock[{}]: {line}", std::process::id()).as_bytes(), socket);
        }
    });
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixDatagram;

    use super::write_to;

    #[test]
    fn each_line_is_a_warning_of_fairlock() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("log");
        write_to(&socket, "fairlock: nobody listens\n");
        let log = UnixDatagram::bind(&socket).unwrap();
        write_to(&socket, "fairlock: one\nfairlock: two\n");
        for line in ["one", "two"] {
            let mut heard = [0; 100];
            let length = log.recv(&mut heard).unwrap();
            let heard = String::from_utf8_lossy(&heard[..length]).into_owned();
            assert_eq!(heard, format!("<28>fairlock[{}]: {line}", std::process::id()));
        }
    }
}
