//! The wait for the lock: connecting, queueing, telling how it goes, and leaving when interrupted.

use std::ffi::OsStr;
use std::future::IntoFuture as _;
use std::pin::pin;
use std::time::Duration;

use fairlock::{AcquireError, Client, ClientBuilder, ConnectError, Guard, Holder, LockOptions, TryAcquireError};
use nix::sys::signal::Signal;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::{Instant, sleep_until, timeout};

use crate::exit::{self, Failure, say};
use crate::nested::Ancestors;
use crate::run::Event;
use crate::terminal::Terminal;
use crate::text::{printable, seconds};
use crate::watch::watch;
use crate::{progress, signals};

pub(crate) struct Request<'a> {
    pub(crate) client: &'a ClientBuilder,
    pub(crate) name: &'a str,
    pub(crate) label: String,
    pub(crate) options: LockOptions,
    pub(crate) timeout: Option<Duration>,
    pub(crate) no_wait: bool,
    pub(crate) ancestors: &'a Ancestors,
}

/// What others see of us: where to look, and what for.
pub(crate) fn default_label(command: &OsStr) -> String {
    let machine = rustix::system::uname();
    let host = machine.nodename().to_string_lossy();
    let name = std::path::Path::new(command).file_name().unwrap_or(command).to_string_lossy();
    format!("{host}:{} {}", std::process::id(), name.chars().take(40).collect::<String>())
}

/// Waits for the lock. A signal ends the wait, and the queue is left before this returns.
pub(crate) async fn for_lock(
    request: &Request<'_>,
    events: &mut UnboundedReceiver<Event>,
    terminal: Option<&Terminal>,
) -> Result<(Client, Guard), Failure> {
    let mut client = None;
    let interrupted = tokio::select! {
        biased;
        signal = interruption(events) => signal,
        guard = obtain(request, &mut client, terminal) => {
            let guard = guard?;
            let client = client.ok_or_else(|| Failure::own("no connection"))?;
            return Ok((client, guard));
        }
    };
    // The place in the queue was given up with the future above; this waits until the server knows.
    if let Some(client) = client {
        let _ = timeout(Duration::from_secs(1), client.close()).await;
    }
    let message = format!("{interrupted} while waiting for {}", printable(request.name));
    Err(Failure::new(exit::by_signal(interrupted as i32), message))
}

/// Resolves when a signal says to give up. Ctrl-Z stops fairlock, which may keep its place when it is continued.
pub(crate) async fn interruption(events: &mut UnboundedReceiver<Event>) -> Signal {
    loop {
        match events.recv().await {
            Some(Event::Signal(signal)) if signals::ends(signal) => return signal,
            Some(Event::Signal(Signal::SIGTSTP)) => {
                progress::erase();
                signals::stop_here(false);
            }
            Some(_) => {}
            None => std::future::pending().await,
        }
    }
}

async fn obtain(
    request: &Request<'_>,
    slot: &mut Option<Client>,
    terminal: Option<&Terminal>,
) -> Result<Guard, Failure> {
    let began = Instant::now();
    let client = connect(request).await?;
    *slot = Some(client.clone());
    let lock =
        client.lock_with(request.name, request.options.clone()).map_err(|error| Failure::own(error.to_string()))?;
    if request.no_wait {
        return lock.try_acquire().label(&request.label).await.map_err(|error| not_now(request, &error));
    }
    let mut enqueue = lock.enqueue().label(&request.label);
    if let Some(all) = request.timeout {
        // What connecting took is part of the wait.
        enqueue = enqueue.timeout(all.saturating_sub(began.elapsed()).max(Duration::from_millis(1)));
    }
    let mut enqueue = pin!(enqueue.into_future());
    let waiting = tokio::select! {
        waiting = &mut enqueue => waiting,
        () = sleep_until(began + Duration::from_secs(2)) => {
            say("waiting for an answer from Redis");
            enqueue.await
        }
    };
    let waiting = waiting.map_err(|error| not_granted(request, &error))?;
    watch(request, waiting, &lock, began, terminal).await
}

/// A server that cannot be reached now may be back before the timeout; what it refuses, it will refuse again.
async fn connect(request: &Request<'_>) -> Result<Client, Failure> {
    let first = match request.timeout {
        // The first attempt must not outlast the timeout.
        Some(all) => timeout(all, request.client.clone().connect()).await.ok(),
        None => Some(request.client.clone().connect().await),
    };
    let cause = match first {
        Some(Ok(client)) => return Ok(client),
        Some(Err(error)) if request.no_wait || !is_unreachable(&error) => {
            return Err(Failure::own(error.to_string()));
        }
        Some(Err(error)) => error.to_string(),
        None => "Redis has not answered in time".to_owned(),
    };
    say(format_args!("{cause}; trying again"));
    request.client.clone().connect_lazy().map_err(|error| Failure::own(error.to_string()))
}

fn is_unreachable(error: &ConnectError) -> bool {
    matches!(error, ConnectError::Unreachable { .. })
}

pub(crate) fn describe(holder: &Holder) -> String {
    printable(if holder.label.is_empty() { &holder.id } else { &holder.label })
}

/// What is said of a lock while the server waits for the clients that were there before it lost data.
pub(crate) fn no_grants(longest: Duration) -> String {
    let longest = seconds(longest.max(Duration::from_secs(1)));
    format!("recovering: the server lost data, and grants nothing for up to {longest}, until its clients are back")
}

fn not_now(request: &Request<'_>, error: &TryAcquireError) -> Failure {
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
                (None, None) => "is held by nobody, and others are first".to_owned(),
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
            let cause = cause.as_ref().map(|cause| format!("; last error: {}", printable(cause))).unwrap_or_default();
            let waited = humantime::format_duration(request.timeout.unwrap_or(*waited));
            let message = format!("{name} was not granted within {waited}{place}{cause}");
            Failure::new(exit::TIMED_OUT, message)
        }
        other => Failure::own(other.to_string()),
    }
}
