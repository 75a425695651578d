//! The request of a run, and the messages about its outcome.

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use fairlock::{AcquireError, ClientBuilder, Holder, Lock, LockOptions, TryAcquireError};
use nix::sys::signal::Signal;
use nix::unistd::{User, geteuid};

use super::nested::Ancestors;
use crate::exit::{self, Failure};
use crate::text::{held_by, no_grants, printable};

pub(crate) struct Request<'a> {
    pub(crate) client: &'a ClientBuilder,
    /// In the order in which they are taken.
    pub(crate) names: &'a [&'a str],
    pub(crate) label: String,
    pub(crate) options: LockOptions,
    pub(crate) timeout: Option<Duration>,
    pub(crate) no_wait: bool,
    /// Instead of 122 and 124.
    pub(crate) conflict_code: Option<u8>,
    pub(crate) quiet: bool,
    /// What to do if the server does not answer.
    pub(crate) tip: Option<&'static str>,
    pub(crate) ancestors: &'a Ancestors,
}

/// The label that others see: who runs the process and where, and which command it is for.
pub(crate) fn default_label(command: &[OsString]) -> String {
    let machine = rustix::system::uname();
    let host = machine.nodename().to_string_lossy();
    let user = User::from_uid(geteuid()).ok().flatten().map(|user| user.name + "@").unwrap_or_default();
    let name: String = subject(command).chars().take(40).collect();
    format!("{user}{host}:{} {name}", std::process::id()).trim_end().to_owned()
}

/// Programs that run another program and keywords of shells, which say nothing of what is run.
const WRAPPERS: [&str; 26] = [
    "ash", "bash", "chronic", "dash", "doas", "env", "exec", "ionice", "ksh", "nice", "nohup", "perl", "php",
    "pipefail", "python", "python3", "ruby", "set", "setsid", "sh", "stdbuf", "sudo", "taskset", "time", "timeout",
    "zsh",
];

/// What a command is about: the first word behind wrappers, their options, variables and numbers, such as `backup.sh`
/// in `timeout 1h sh -c 'cd /srv && ./backup.sh -v'`. If there is none, the command's own name.
fn subject(command: &[OsString]) -> String {
    let base = |word: &str| Path::new(word).file_name().map_or_else(String::new, |name| name.to_string_lossy().into());
    let own = command.first().map(|word| base(&word.to_string_lossy())).unwrap_or_default();
    if !WRAPPERS.contains(&own.as_str()) {
        return own;
    }
    let text = command[1..].iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ");
    let mut words = text.split_whitespace().map(|word| word.trim_matches(|c| "'\";&|(){}".contains(c)));
    while let Some(word) = words.next() {
        let name = base(word);
        if word == "cd" {
            words.next();
        } else if word.starts_with(|c: char| c.is_alphabetic() || "/._~".contains(c))
            && !word.contains('=')
            && !WRAPPERS.contains(&name.as_str())
        {
            return name;
        }
    }
    own
}

/// The failure of a wait that a signal ended.
pub(crate) fn interrupted_by(signal: Signal, names: &[&str]) -> Failure {
    Failure::signalled(signal, format!("{signal} while waiting for {}", printable(&names.join(", "))))
}

/// Why the server does not answer, as far as the client knows.
pub(crate) async fn trouble(lock: &Lock) -> Option<String> {
    lock.trouble().await.ok().flatten().map(|trouble| trouble.to_string())
}

pub(crate) fn describe(holder: &Holder) -> String {
    printable(if holder.label.is_empty() { &holder.id } else { &holder.label })
}

impl Request<'_> {
    /// The failure to get a lock that others have.
    fn conflict(&self, code: u8, message: String) -> Failure {
        let failure = Failure::new(self.conflict_code.unwrap_or(code), message);
        if self.quiet { failure.without_message() } else { failure }
    }

    pub(crate) fn not_now(&self, name: &str, error: &TryAcquireError) -> Failure {
        let TryAcquireError::Busy { holder, waiting, recovering_for, .. } = error else {
            return Failure::own(error.to_string());
        };
        let why = match (holder, recovering_for) {
            (Some(holder), _) => {
                if let Err(nested) = self.ancestors.check(name, holder.token) {
                    return nested;
                }
                format!("is {}", held_by(&describe(holder), holder.held_for))
            }
            (None, Some(longest)) => format!("is {}", no_grants(*longest)),
            (None, None) => "is free, but its waiters are first".to_owned(),
        };
        let queue = if *waiting > 0 { format!("; {waiting} waiting") } else { String::new() };
        self.conflict(exit::BUSY, format!("{} {why}{queue}", printable(name)))
    }

    pub(crate) fn not_granted(&self, name: &str, error: &AcquireError) -> Failure {
        let AcquireError::Timeout { waited, position, cause, .. } = error else {
            return Failure::own(error.to_string());
        };
        let place = position.map(|position| format!(", at position {position}")).unwrap_or_default();
        let cause = cause.as_ref().map(|cause| format!("; last error: {}", printable(&cause.to_string())));
        let waited = humantime::format_duration(self.timeout.unwrap_or(*waited));
        let message =
            format!("{} was not granted within {waited}{place}{}", printable(name), cause.unwrap_or_default());
        self.conflict(exit::TIMED_OUT, message)
    }
}

#[cfg(test)]
mod tests {
    use super::subject;

    #[test]
    fn a_label_names_the_script_and_not_its_shell() {
        for (command, name) in [
            (&["./deploy.sh", "-v"][..], "deploy.sh"),
            (&["/usr/bin/rsync", "-a", "a", "b"], "rsync"),
            (&["sh", "-c", "/srv/backup.sh --all"], "backup.sh"),
            (&["bash", "-euo", "pipefail", "x.sh"], "x.sh"),
            (&["sh", "-c", "cd /srv && ./backup.sh -v"], "backup.sh"),
            (&["env", "A=1", "timeout", "1h", "python3", "-u", "report.py"], "report.py"),
            (&["sudo", "-n", "nice", "-n", "5", "sh", "-c", "(cat; true)"], "cat"),
            (&["sh", "-c", "exit 3"], "exit"),
            (&["bash"], "bash"),
            (&["sh", "-s"], "sh"),
            (&["日本語", "x"], "日本語"),
            (&[""], ""),
        ] {
            let words: Vec<_> = command.iter().map(Into::into).collect();
            assert_eq!(subject(&words), name, "{command:?}");
        }
    }
}
