//! How fairlock ends: its exit codes, its failures, and the one function that writes messages.

use std::fmt::Display;

use nix::sys::signal::Signal;

use crate::stderr;
use crate::text::printable;

/// The lock is held by somebody else, and `--no-wait` was given.
pub(crate) const BUSY: u8 = 122;
/// The lease was lost, and the command was ended because of it.
pub(crate) const LOST: u8 = 123;
/// The lock was not granted within `--timeout`.
pub(crate) const TIMED_OUT: u8 = 124;
/// fairlock itself failed, or was called wrongly.
pub(crate) const OWN_FAILURE: u8 = 125;
/// The command was found and cannot be executed.
pub(crate) const NOT_EXECUTABLE: u8 = 126;
/// The command was not found.
pub(crate) const NOT_FOUND: u8 = 127;

/// For the ends of helps.
pub(crate) const EXIT_CODES: &str = "\
Exit codes of `run`:
  The command's own exit code, or 128+N when signal N ended it. Otherwise:
  122    the lock is held, and --no-wait was given
  123    the lease was lost, so the command was ended or not started
  124    the lock was not granted within --timeout
  125    fairlock itself failed, or was called wrongly (the other subcommands too)
  126    the command was found but cannot be executed
  127    the command was not found
  128+N  signal N ended the wait in the queue";

/// The exit code for a process that a signal ended, as shells report it.
pub(crate) fn by_signal(signal: i32) -> u8 {
    u8::try_from(signal).map_or(OWN_FAILURE, |signal| 128u8.saturating_add(signal))
}

/// Why fairlock ends without its command's exit code.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) code: u8,
    pub(crate) message: String,
    /// The signal that ended the wait, if one did.
    pub(crate) signal: Option<Signal>,
}

impl Failure {
    pub(crate) fn new(code: u8, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), signal: None }
    }

    /// A signal ended the wait.
    pub(crate) fn signalled(signal: Signal, message: impl Into<String>) -> Self {
        Self { code: by_signal(signal as i32), message: message.into(), signal: Some(signal) }
    }

    /// A failure of fairlock itself.
    pub(crate) fn own(message: impl Into<String>) -> Self {
        Self::new(OWN_FAILURE, message)
    }

    /// A failure of fairlock itself, with what was being done when it happened.
    pub(crate) fn because(doing: &str, error: impl Display) -> Self {
        Self::own(format!("{doing}: {error}"))
    }
}

/// Writes one line to stderr, without waiting for a reader. Control characters are escaped, because parts of the line
/// may come from a server.
pub(crate) fn say(message: impl Display) {
    stderr::write(&format!("fairlock: {}\n", printable(&message.to_string())));
}

/// Writes what is wrong with the arguments. The message quotes them, so it is escaped as well.
pub(crate) fn say_wrong_call(error: &clap::Error) {
    let plain = error.render().to_string();
    let lines: String = plain.lines().map(|line| printable(line) + "\n").collect();
    stderr::write(&lines);
}
