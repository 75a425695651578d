//! How fairlock ends: its exit codes, its failures, and the one function that writes messages.

use std::fmt::Display;
use std::process::ExitCode;

use nix::sys::signal::Signal;

use crate::process::signals;
use crate::stderr;
use crate::text::printable;

/// Another process holds the lock, and `--no-wait` was given.
pub(crate) const BUSY: u8 = 122;
/// The lease was lost, and the command was ended because of it.
pub(crate) const LOST: u8 = 123;
/// Others had the lock until `--timeout` was over.
pub(crate) const TIMED_OUT: u8 = 124;
/// fairlock itself failed, or was called wrongly; or the server does not serve, which no option turns into a success.
pub(crate) const OWN_FAILURE: u8 = 125;
/// The command was found and cannot be executed.
pub(crate) const NOT_EXECUTABLE: u8 = 126;
/// The command was not found.
pub(crate) const NOT_FOUND: u8 = 127;

/// The exit code for a process that a signal ended, as shells report it.
pub(crate) fn by_signal(signal: i32) -> u8 {
    u8::try_from(signal).map_or(OWN_FAILURE, |signal| 128u8.saturating_add(signal))
}

/// Why fairlock ends without its command's exit code.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) code: u8,
    /// Empty with `--quiet`, if the exit code says enough.
    pub(crate) message: String,
    /// What to do instead.
    pub(crate) tip: Option<String>,
    /// The signal that ended the wait, if one did.
    pub(crate) signal: Option<Signal>,
}

impl Failure {
    pub(crate) fn new(code: u8, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), tip: None, signal: None }
    }

    pub(crate) fn without_message(self) -> Self {
        Self { message: String::new(), ..self }
    }

    pub(crate) fn with_tip(self, tip: impl Into<String>) -> Self {
        Self { tip: Some(tip.into()), ..self }
    }

    /// Writes the message, if there is one.
    pub(crate) fn say(&self) {
        if !self.message.is_empty() {
            say(&self.message);
        }
        if let Some(tip) = &self.tip {
            say(format_args!("tip: {tip}"));
        }
    }

    /// A signal ended the wait.
    pub(crate) fn signalled(signal: Signal, message: impl Into<String>) -> Self {
        Self { code: by_signal(signal as i32), message: message.into(), tip: None, signal: Some(signal) }
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

/// Ends the process with the result of its task.
pub(crate) fn with(result: Result<u8, Failure>) -> ExitCode {
    match result {
        Ok(code) => ExitCode::from(code),
        Err(failure) => {
            failure.say();
            if let Some(signal) = failure.signal.filter(|signal| signals::is_typed(*signal)) {
                signals::die_by(signal);
            }
            ExitCode::from(failure.code)
        }
    }
}

/// Writes one line to stderr, without waiting for a reader. Control characters are escaped, because parts of the line
/// may come from a server.
pub(crate) fn say(message: impl Display) {
    stderr::write(&format!("fairlock: {}\n", printable(&message.to_string())));
}
