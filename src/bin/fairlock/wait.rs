//! The wait for the lock: connecting, queueing, telling how it goes, and leaving when interrupted.

use std::ffi::OsStr;
use std::future::IntoFuture as _;
use std::pin::pin;
use std::time::Duration;

use fairlock::{
    AcquireError, Client, ClientBuilder, ConnectError, Fault, Guard, Holder, Lock, LockOptions, TryAcquireError,
    Waiting,
};
use nix::sys::signal::Signal;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::{Instant, sleep_until, timeout};

use crate::exit::{self, Failure, say};
use crate::run::Event;
use crate::signals;
use crate::terminal::{ProgressLine, Terminal};
use crate::text::{printable, seconds};

/// A wait that ends sooner than this is not worth a word.
const SILENT: Duration = Duration::from_millis(200);

pub(crate) struct Request<'a> {
    pub(crate) client: &'a ClientBuilder,
    pub(crate) name: &'a str,
    pub(crate) label: String,
    pub(crate) options: LockOptions,
    pub(crate) timeout: Option<Duration>,
    pub(crate) no_wait: bool,
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
    Err(Failure::signalled(interrupted, message))
}

/// Resolves when a signal says to give up. Ctrl-Z stops fairlock, which may keep its place when it is continued.
pub(crate) async fn interruption(events: &mut UnboundedReceiver<Event>) -> Signal {
    loop {
        match events.recv().await {
            Some(Event::Signal(signal)) if signals::ends(signal) => return signal,
            Some(Event::Signal(Signal::SIGTSTP)) => signals::stop_here(false),
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
    watch(waiting, &lock, began, terminal).await.map_err(|error| not_granted(request, &error))
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

/// Waits for the grant, and shows the wait.
async fn watch(
    mut waiting: Waiting,
    lock: &Lock,
    began: Instant,
    terminal: Option<&Terminal>,
) -> Result<Guard, AcquireError> {
    let mut line = ProgressLine::new();
    let mut view = View { position: 0, news: String::new(), holder_known: false };
    let mut next_draw = began + SILENT;
    let mut next_look = next_draw;
    loop {
        tokio::select! {
            biased;
            granted = &mut waiting => return granted,
            () = sleep_until(next_draw) => {}
        }
        if Instant::now() >= next_look {
            let position = waiting.position();
            tokio::select! {
                biased;
                granted = &mut waiting => return granted,
                () = view.look(position, lock) => {}
            }
            // The front of the queue moves soon; whoever stands far behind need not ask the server every second.
            next_look = Instant::now() + Duration::from_millis(500 * view.position.clamp(2, 30));
        }
        if !view.news.is_empty() {
            line.show(terminal, &view.news, &format!("(waited {})", seconds(began.elapsed())));
        }
        next_draw = Instant::now() + Duration::from_secs(1);
    }
}

/// What is known of the wait.
struct View {
    position: u64,
    holder_known: bool,
    news: String,
}

impl View {
    async fn look(&mut self, position: impl Future<Output = Result<u64, Fault>>, lock: &Lock) {
        let name = printable(lock.name());
        match position.await {
            // Granted: the guard is on its way.
            Ok(0) => {}
            Ok(position) if position == self.position && self.holder_known => {}
            Ok(position) => {
                // The holder changes only when the queue moves, so it is not asked for in between.
                let holder = lock.inspect().await.ok().and_then(|state| state.holder);
                self.position = position;
                self.holder_known = holder.is_some();
                let by = holder.map(|holder| format!(", held by {}", describe(&holder))).unwrap_or_default();
                self.news = format!("waiting for {name}: position {position}{by}");
            }
            Err(_) => {
                self.position = 0;
                self.news = format!("waiting for {name}: Redis does not answer");
            }
        }
    }
}

fn describe(holder: &Holder) -> String {
    printable(if holder.label.is_empty() { &holder.id } else { &holder.label })
}

fn not_now(request: &Request<'_>, error: &TryAcquireError) -> Failure {
    let name = printable(request.name);
    match error {
        TryAcquireError::Busy { holder, waiting, .. } => {
            let holder = holder.as_ref().map_or_else(
                || "is taken".to_owned(),
                |holder| format!("has been held by {} for {}", describe(holder), seconds(holder.held_for)),
            );
            let queue = if *waiting > 0 { format!(", {waiting} waiting") } else { String::new() };
            Failure::new(exit::BUSY, format!("{name} {holder}{queue}"))
        }
        other => Failure::own(other.to_string()),
    }
}

fn not_granted(request: &Request<'_>, error: &AcquireError) -> Failure {
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
