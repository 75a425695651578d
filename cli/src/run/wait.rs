//! The wait for the lock: connecting, queueing, reporting, and leaving the queue when interrupted.

use std::future::IntoFuture as _;
use std::pin::pin;
use std::time::Duration;

use fairlock::operator::{id_of, together};
use fairlock::{Client, Enqueue, Guard, Lock, Waiting, error::AcquireError};
use futures_util::FutureExt as _;
use nix::sys::signal::Signal;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::events::Event;
use super::granted::Granted;
use super::news::News;
use super::progress;
use super::request::{Request, interrupted_by, trouble};
use super::watch::{SILENT, watch};
use crate::duration::seconds;
use crate::exit::Failure;
use crate::process::signals;
use crate::process::terminal::Terminal;
use crate::refusal;
use crate::shim::queue::{Places, QueueShim};

/// How long `--no-wait` waits for an answer of the server.
const ANSWER: Duration = Duration::from_secs(5);

/// Waits for the locks. A signal ends the wait; the waiter has left the queue when this returns. If this process is
/// killed, the queue shim that is returned gives the locks back.
pub(crate) async fn for_locks(
    request: &Request<'_>,
    events: &mut UnboundedReceiver<Event>,
    news: &mut News,
    terminal: Option<&Terminal>,
) -> Result<(Granted, Option<QueueShim>), Failure> {
    let mut client = None;
    let interrupted = tokio::select! {
        biased;
        signal = interruption(events) => Ok(signal),
        held = obtain(request, &mut client, news, terminal) => Err(held),
    };
    progress::erase();
    let failure = match interrupted {
        Ok(signal) => interrupted_by(signal, request.names),
        Err(Ok((guards, queue_shim))) => {
            let client = client.ok_or_else(|| Failure::own("no connection"))?;
            return Ok((Granted { client, guards: together(guards) }, queue_shim));
        }
        Err(Err(failure)) => failure,
    };
    // Dropping the future above gave up the place in the queue, and the locks that were taken before. This waits until
    // the server has answered that.
    if let Some(client) = client {
        let _ = timeout(Duration::from_secs(1), client.close()).await;
    }
    Err(failure)
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

/// Takes one lock after the other, all within one timeout. The names are in the one order in which every run takes its
/// locks, so no two runs wait for each other.
async fn obtain(
    request: &Request<'_>,
    slot: &mut Option<Client>,
    news: &mut News,
    terminal: Option<&Terminal>,
) -> Result<(Vec<Guard>, Option<QueueShim>), Failure> {
    let began = Instant::now();
    let client = connect(request).await?;
    *slot = Some(client.clone());
    let mut guards = Vec::new();
    // If this process is killed, its places end, and with them the locks that it got while it waits for others.
    let mut places = Places::new(request.server);
    for name in request.names {
        let lock = client.lock_with(name, request.options.clone());
        let lock = lock.map_err(|error| Failure::own(error.to_string()))?;
        let guard = match request.no_wait {
            true => attempt(request, &lock, began).await?,
            false => wait(request, &lock, began, &mut places, news, terminal).await?,
        };
        guards.push(guard);
    }
    Ok((guards, places.into_shim()))
}

async fn attempt(request: &Request<'_>, lock: &Lock, began: Instant) -> Result<Guard, Failure> {
    let attempt = pin!(lock.try_acquire().label(&request.label).into_future());
    match timeout_at(began + ANSWER, attempt).await {
        Ok(result) => result.map_err(|error| request.not_now(lock.name(), &error)),
        Err(_) => {
            // It may have answered each time that it is short of something. The attempt goes on while this is asked: at its
            // end the client leaves the queue, and the answer to that hides what was refused before.
            let said = lock.trouble().await.ok().flatten();
            Err(Failure::own(match said.as_deref().map(|said| (said, refusal::meaning(said))) {
                Some((_, Some(meaning))) => meaning.to_owned(),
                Some((said, None)) => format!("no answer from the server within {}: {said}", seconds(ANSWER)),
                None => format!("no answer from the server within {}", seconds(ANSWER)),
            }))
        }
    }
}

async fn wait(
    request: &Request<'_>,
    lock: &Lock,
    began: Instant,
    places: &mut Places<'_>,
    news: &mut News,
    terminal: Option<&Terminal>,
) -> Result<Guard, Failure> {
    let mut enqueue = lock.enqueue().label(&request.label);
    if let Some(all) = request.timeout {
        // The timeout includes the time for connecting, and for the locks before.
        enqueue = enqueue.timeout(all.saturating_sub(began.elapsed()).max(Duration::from_millis(1)));
    }
    let mut waiting = match queue(enqueue, lock, request.tip, news).await {
        Ok(waiting) => waiting,
        Err(error) => return Err(news.not_twice(request.not_granted(lock, &error).await)),
    };
    places.add(lock.name(), id_of(&waiting));
    match (&mut waiting).now_or_never() {
        Some(Ok(guard)) => return Ok(guard),
        Some(Err(error)) => return Err(request.not_granted(lock, &error).await),
        None => places.guard(),
    }
    news.queued(lock.name(), waiting.ticket());
    watch(request, waiting, lock, news, terminal).await
}

/// With `--no-wait` any error of connecting is the answer. Otherwise the acquire itself retries after temporary errors,
/// and fails at once for others.
async fn connect(request: &Request<'_>) -> Result<Client, Failure> {
    let client = request.client.clone();
    let client = if request.no_wait { client.connect().await } else { client.connect_lazy() };
    client.map_err(|error| Failure { tip: request.tip.map(str::to_owned), ..Failure::own(error.to_string()) })
}

/// Waits for a place in the queue. Reports what prevents it: when the cause changes, and now and then.
async fn queue(
    enqueue: Enqueue,
    lock: &Lock,
    tip: Option<&'static str>,
    news: &mut News,
) -> Result<Waiting, AcquireError> {
    let mut enqueue = pin!(enqueue.into_future());
    let patience = Instant::now() + Duration::from_secs(2);
    let mut pause = SILENT;
    loop {
        tokio::select! {
            biased;
            waiting = &mut enqueue => return waiting,
            () = sleep(pause) => {}
        }
        let silent = || (Instant::now() >= patience).then(|| "Redis does not answer".to_owned());
        if let Some(trouble) = trouble(lock).await.or_else(silent).filter(|trouble| news.is_due(trouble)) {
            news.mention(format_args!("{trouble}; trying again"));
            if let Some(tip) = tip {
                news.advise(tip);
            }
        }
        pause = Duration::from_millis(500);
    }
}
