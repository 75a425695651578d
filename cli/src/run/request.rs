//! The locks that `run` and `hold` ask for, and the messages when they do not get them.

use std::time::Duration;

use fairlock::error::{AcquireError, Fault, TryAcquireError};
use fairlock::{Client, ClientBuilder, Lock, LockOptions};
use nix::sys::signal::Signal;
use tokio::time::timeout;

use super::args::Wait;
use super::nested::Ancestors;
use crate::connect::Server;
use crate::exit::{self, Failure};
use crate::refusal;
use crate::sharing::{Count, held};
use crate::text::{no_grants, printable};

/// How long the server may take to show at the end of a wait that it is still there.
const ANSWER: Duration = Duration::from_secs(2);

pub(crate) struct LockRequest<'a> {
    pub(crate) wait: &'a Wait,
    pub(crate) server: Server,
    pub(crate) client: ClientBuilder,
    /// Their names and options, in the order in which they are taken.
    pub(crate) locks: Vec<(&'a str, LockOptions)>,
    pub(crate) label: String,
    /// What is left of `--timeout`: less than all when the locks have to be waited for once more.
    pub(crate) timeout: Option<Duration>,
    pub(crate) no_wait: bool,
    /// What to do if the server does not answer.
    pub(crate) tip: Option<&'static str>,
    pub(crate) ancestors: Ancestors,
}

/// The names of these locks, for people.
pub(crate) fn names(locks: &[(&str, LockOptions)]) -> String {
    let names: Vec<&str> = locks.iter().map(|(name, _)| *name).collect();
    printable(&names.join(", "))
}

/// Why the server does not answer, as far as the client knows.
pub(crate) async fn trouble(lock: &Lock) -> Option<String> {
    lock.trouble().await.ok().flatten().map(|trouble| refusal::told(&trouble))
}

/// The same of a lease, for a sentence.
pub(crate) async fn why_silent(client: &Client, name: &str) -> String {
    let known = match client.lock(name) {
        Ok(lock) => trouble(&lock).await,
        Err(_) => None,
    };
    known.unwrap_or_else(|| "Redis does not answer".to_owned())
}

/// Why a wait without known trouble was not granted the lock, for the end of a sentence. An error if it was not served:
/// otherwise others have the lock.
async fn served(lock: &Lock, was_queued: bool) -> Result<String, String> {
    match timeout(ANSWER, lock.inspect()).await {
        // It refused, or was too slow. Whoever has the lock is not the reason.
        Ok(Ok(_)) if !was_queued => Err(": the time was over before it had a place in the queue".to_owned()),
        Ok(Ok(state)) => {
            let holders = state.holders.iter().map(|holder| holder.slots);
            let held = held(&state.holders, Count::of(holders), Some(lock.slots()));
            let why = held.or(state.recovering_for.map(no_grants));
            Ok(why.map_or(String::new(), |why| format!(": {why}")))
        }
        Ok(Err(fault)) => Err(not_served(&refusal::told(&fault.to_string()))),
        Err(_) => Err(not_served(&trouble(lock).await.unwrap_or_else(|| "no answer".to_owned()))),
    }
}

fn not_served(why: &str) -> String {
    format!("; the server does not serve: {}", printable(why))
}

impl LockRequest<'_> {
    /// The failure of a wait that a signal ended.
    pub(crate) fn interrupted_by(&self, signal: Signal) -> Failure {
        Failure::signalled(signal, format!("{signal} while waiting for {}", names(&self.locks)))
    }

    /// Refuses a lock that a job around this one holds, also if others may hold it, too: a job that asked for the last
    /// slot while its parent has another would wait for itself.
    pub(crate) async fn refuse_own(&self, lock: &Lock) -> Result<(), Failure> {
        if !self.ancestors.had(lock.name()) {
            return Ok(());
        }
        match timeout(ANSWER, lock.inspect()).await {
            Ok(Ok(state)) => self.ancestors.check(lock.name(), state.holders.iter().map(|holder| holder.token)),
            // Its waiters ask again.
            _ => Ok(()),
        }
    }

    /// The failure to get a lock that others have.
    fn conflict(&self, code: u8, message: String) -> Failure {
        let failure = Failure::new(self.wait.conflict_exit_code.unwrap_or(code), message);
        if self.wait.quiet { failure.without_message() } else { failure }
    }

    pub(crate) fn not_now(&self, name: &str, error: &TryAcquireError) -> Failure {
        let (holders, all, slots, waiting, recovering_for) = match error {
            TryAcquireError::Busy { holders, held, slots, waiting, recovering_for, .. } => {
                (holders, *held, *slots, waiting, recovering_for)
            }
            TryAcquireError::Fault(Fault::Unavailable { .. }) => {
                return Failure::own(refusal::told(&error.to_string()));
            }
            _ => return Failure::own(error.to_string()),
        };
        let count = Count::of(holders.iter().map(|holder| holder.slots)).at_least(all);
        let why = match (held(holders, count, Some(slots)), recovering_for) {
            (Some(held), _) => format!("is {held}"),
            (None, Some(longest)) => format!("is {}", no_grants(*longest)),
            (None, None) => "is free, but its waiters are first".to_owned(),
        };
        let queue = if *waiting > 0 { format!("; {waiting} waiting") } else { String::new() };
        self.conflict(exit::BUSY, format!("{} {why}{queue}", printable(name)))
    }

    /// Only a lock that others have, as far as the server still answers, is a conflict. A server that does not serve is
    /// a failure, whether it did before or not: the callers of `--quiet` and `--conflict-exit-code` must hear of it.
    pub(crate) async fn not_granted(&self, lock: &Lock, error: &AcquireError) -> Failure {
        let AcquireError::Timeout { waited, position, cause, .. } = error else {
            return Failure::own(error.to_string());
        };
        let cause = cause.as_ref().map(ToString::to_string);
        // A full server answers, and gives nobody a place. The answer to the end of the wait may hide that by now.
        let refused = cause.as_deref().and_then(refusal::meaning).filter(|_| position.is_none()).map(str::to_owned);
        let served = match (cause, refused.or(trouble(lock).await)) {
            // A server whose replicas do not follow answers all the same.
            (Some(cause), _) if self.wait.replicas > 0 => Err(not_served(&refusal::told(&cause))),
            (_, Some(trouble)) => Err(not_served(&trouble)),
            (_, None) => served(lock, position.is_some()).await,
        };
        let place = position.map(|position| format!(", at position {position}")).unwrap_or_default();
        let waited = humantime::format_duration(self.timeout.unwrap_or(*waited));
        let message = format!("{} was not granted within {waited}{place}", printable(lock.name()));
        match served {
            Ok(why) => self.conflict(exit::TIMED_OUT, message + &why),
            Err(why) => Failure {
                tip: self.tip.filter(|_| position.is_none()).map(str::to_owned),
                ..Failure::own(message + &why)
            },
        }
    }
}
