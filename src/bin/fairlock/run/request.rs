//! The request of a run, and the messages about its outcome.

use std::ffi::OsStr;
use std::time::Duration;

use fairlock::{AcquireError, ClientBuilder, Holder, Lock, LockOptions, TryAcquireError};
use nix::sys::signal::Signal;

use super::nested::Ancestors;
use crate::exit::{self, Failure};
use crate::text::{no_grants, printable, seconds};

pub(crate) struct Request<'a> {
    pub(crate) client: &'a ClientBuilder,
    pub(crate) name: &'a str,
    pub(crate) label: String,
    pub(crate) options: LockOptions,
    pub(crate) timeout: Option<Duration>,
    pub(crate) no_wait: bool,
    pub(crate) ancestors: &'a Ancestors,
}

/// The label that others see: where the process runs, and which command it is for.
pub(crate) fn default_label(command: &OsStr) -> String {
    let machine = rustix::system::uname();
    let host = machine.nodename().to_string_lossy();
    let name = std::path::Path::new(command).file_name().unwrap_or(command).to_string_lossy();
    format!("{host}:{} {}", std::process::id(), name.chars().take(40).collect::<String>())
}

/// The failure of a wait that a signal ended.
pub(crate) fn interrupted_by(signal: Signal, name: &str) -> Failure {
    Failure::signalled(signal, format!("{signal} while waiting for {}", printable(name)))
}

/// Why the server does not answer, as far as the client knows.
pub(crate) async fn trouble(lock: &Lock) -> Option<String> {
    lock.trouble().await.ok().flatten().map(|trouble| trouble.to_string())
}

pub(crate) fn describe(holder: &Holder) -> String {
    printable(if holder.label.is_empty() { &holder.id } else { &holder.label })
}

pub(crate) fn not_now(request: &Request<'_>, error: &TryAcquireError) -> Failure {
    let name = printable(request.name);
    match error {
        TryAcquireError::Busy { holder, waiting, recovering_for, .. } => {
            let why = match (holder, recovering_for) {
                (Some(holder), _) => {
                    if let Err(nested) = request.ancestors.check(request.name, holder.token) {
                        return nested;
                    }
                    format!("has been held by {} for {}", describe(holder), seconds(holder.held_for))
                }
                (None, Some(longest)) => format!("is {}", no_grants(*longest)),
                (None, None) => "is free, but its waiters are first".to_owned(),
            };
            let queue = if *waiting > 0 { format!("; {waiting} waiting") } else { String::new() };
            Failure::new(exit::BUSY, format!("{name} {why}{queue}"))
        }
        other => Failure::own(other.to_string()),
    }
}

pub(crate) fn not_granted(request: &Request<'_>, error: &AcquireError) -> Failure {
    let name = printable(request.name);
    match error {
        AcquireError::Timeout { waited, position, cause, .. } => {
            let place = position.map(|position| format!(", at position {position}")).unwrap_or_default();
            let cause = cause
                .as_ref()
                .map(|cause| format!("; last error: {}", printable(&cause.to_string())))
                .unwrap_or_default();
            let waited = humantime::format_duration(request.timeout.unwrap_or(*waited));
            let message = format!("{name} was not granted within {waited}{place}{cause}");
            Failure::new(exit::TIMED_OUT, message)
        }
        other => Failure::own(other.to_string()),
    }
}
