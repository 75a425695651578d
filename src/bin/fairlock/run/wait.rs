//! The wait for the lock: connecting, queueing, reporting, and leaving the queue when interrupted.

use std::future::IntoFuture as _;
use std::pin::pin;
use std::time::Duration;

use fairlock::{AcquireError, Client, Enqueue, Guard, Lock, Waiting};
use nix::sys::signal::Signal;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::events::Event;
use super::progress;
use super::request::{Request, interrupted_by, not_granted, not_now, trouble};
use super::watch::{SILENT, watch};
use crate::exit::{Failure, say};
use crate::process::signals;
use crate::process::terminal::Terminal;
use crate::text::seconds;

/// How long `--no-wait` waits for an answer of the server.
const ANSWER: Duration = Duration::from_secs(5);

/// Waits for the lock. A signal ends the wait; the waiter has left the queue when this returns.
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
    // Dropping the future above gave up the place in the queue. This waits until the server has answered the `leave`.
    if let Some(client) = client {
        let _ = timeout(Duration::from_secs(1), client.close()).await;
    }
    Err(interrupted_by(interrupted, request.name))
}

/// Resolves at a signal that ends the wait. Ctrl-Z stops fairlock, which keeps its place if it is continued in time.
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
        let attempt = lock.try_acquire().label(&request.label).into_future();
        return match timeout_at(began + ANSWER, attempt).await {
            Ok(result) => result.map_err(|error| not_now(request, &error)),
            Err(_) => {
                let cause = trouble(&lock).await.unwrap_or_else(|| "no answer".to_owned());
                Err(Failure::own(format!("no answer from the server within {}: {cause}", seconds(ANSWER))))
            }
        };
    }
    let mut enqueue = lock.enqueue().label(&request.label);
    if let Some(all) = request.timeout {
        // The timeout includes the time for connecting.
        enqueue = enqueue.timeout(all.saturating_sub(began.elapsed()).max(Duration::from_millis(1)));
    }
    let waiting = queue(enqueue, &lock).await.map_err(|error| not_granted(request, &error))?;
    watch(request, waiting, &lock, began, terminal).await
}

/// With `--no-wait` any error of connecting is the answer. Otherwise the acquire itself waits out errors that may pass,
/// and fails at once for others.
async fn connect(request: &Request<'_>) -> Result<Client, Failure> {
    let client = request.client.clone();
    let client = if request.no_wait { client.connect().await } else { client.connect_lazy() };
    client.map_err(|error| Failure::own(error.to_string()))
}

/// Waits for a place in the queue. Reports what prevents it: once, and again when the cause changes.
async fn queue(enqueue: Enqueue, lock: &Lock) -> Result<Waiting, AcquireError> {
    let mut enqueue = pin!(enqueue.into_future());
    let mut said = None;
    let patience = Instant::now() + Duration::from_secs(2);
    let mut pause = SILENT;
    loop {
        tokio::select! {
            biased;
            waiting = &mut enqueue => return waiting,
            () = sleep(pause) => {}
        }
        let silent = || (Instant::now() >= patience).then(|| "Redis does not answer".to_owned());
        let news = trouble(lock).await.or_else(silent).filter(|news| said.as_ref() != Some(news));
        if let Some(news) = news {
            say(format_args!("{news}; trying again"));
            said = Some(news);
        }
        pause = Duration::from_millis(500);
    }
}
