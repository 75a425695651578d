//! Acquires the locks of `run` and `hold`: connects, queues, reports the wait, and leaves the queue when interrupted.

use std::future::IntoFuture as _;
use std::pin::pin;
use std::time::Duration;

use fairlock::operator::{id_of, together};
use fairlock::{Client, Enqueue, Guard, Lock, Waiting, error::AcquireError};
use futures_util::FutureExt as _;
use tokio::time::{Instant, sleep, sleep_until, timeout, timeout_at};

use super::held_locks::HeldLocks;
use super::inbox::{Inbox, interruption};
use super::queue_view::{self, QueueView};
use super::reporter::Reporter;
use super::request::{LockRequest, trouble};
use crate::duration::seconds;
use crate::exit::Failure;
use crate::process::terminal::Terminal;
use crate::shim::queue::{Places, QueueShim};
use crate::{progress, refusal};

/// A shorter wait is not reported.
const SILENT: Duration = Duration::from_millis(200);
/// How long `--no-wait` waits for an answer of the server, and after that any failure for the answer that nothing of it
/// is left there: five seconds in all.
const ANSWER: Duration = Duration::from_secs(4);
const LEFT: Duration = Duration::from_secs(1);

/// Waits for the locks. A signal ends the wait; the waiter has left the queue when this returns. If this process is
/// killed, the queue shim that is returned gives the locks back.
pub(crate) async fn locks(
    request: &LockRequest<'_>,
    inbox: &mut Inbox,
    reporter: &mut Reporter,
    terminal: Option<&Terminal>,
) -> Result<(HeldLocks, Option<QueueShim>), Failure> {
    let mut client = None;
    let interrupted = tokio::select! {
        biased;
        signal = interruption(inbox) => Ok(signal),
        held = obtain(request, &mut client, reporter, terminal) => Err(held),
    };
    progress::erase();
    let failure = match interrupted {
        Ok(signal) => request.interrupted_by(signal),
        Err(Ok((guards, queue_shim))) => {
            let client = client.ok_or_else(|| Failure::own("no connection"))?;
            return Ok((HeldLocks { client, guards: together(guards) }, queue_shim));
        }
        Err(Err(failure)) => failure,
    };
    // Dropping the future above gave up the place in the queue, and the locks that were taken before. This waits until
    // the server has answered that.
    if let Some(client) = client {
        let _ = timeout(LEFT, client.close()).await;
    }
    Err(failure)
}

/// Takes one lock after the other, all within one timeout. The names are in the one order in which every run takes its
/// locks, so no two runs wait for each other.
async fn obtain(
    request: &LockRequest<'_>,
    connected: &mut Option<Client>,
    reporter: &mut Reporter,
    terminal: Option<&Terminal>,
) -> Result<(Vec<Guard>, Option<QueueShim>), Failure> {
    let began = Instant::now();
    let client = connect(request).await?;
    *connected = Some(client.clone());
    let mut guards = Vec::new();
    // If this process is killed, its places end, and with them the locks that it got while it waits for others.
    let mut places = Places::new(&request.server);
    for (name, options) in &request.locks {
        let lock = client.lock_with(name, options.clone());
        let lock = lock.map_err(|error| Failure::own(error.to_string()))?;
        request.refuse_own(&lock).await?;
        let guard = match request.no_wait {
            true => attempt(request, &lock, began).await?,
            false => wait(request, &lock, began, &mut places, reporter, terminal).await?,
        };
        guards.push(guard);
    }
    Ok((guards, places.into_shim()))
}

async fn attempt(request: &LockRequest<'_>, lock: &Lock, began: Instant) -> Result<Guard, Failure> {
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
    request: &LockRequest<'_>,
    lock: &Lock,
    began: Instant,
    places: &mut Places<'_>,
    reporter: &mut Reporter,
    terminal: Option<&Terminal>,
) -> Result<Guard, Failure> {
    let mut enqueue = lock.enqueue().label(&request.label);
    if let Some(all) = request.timeout {
        // The timeout includes the time for connecting, and for the locks before.
        enqueue = enqueue.timeout(all.saturating_sub(began.elapsed()).max(Duration::from_millis(1)));
    }
    let mut waiting = match queue(enqueue, lock, request.tip, reporter).await {
        Ok(waiting) => waiting,
        Err(error) => return Err(reporter.not_twice(request.not_granted(lock, &error).await)),
    };
    places.add(lock.name(), id_of(&waiting));
    match (&mut waiting).now_or_never() {
        Some(Ok(guard)) => return Ok(guard),
        Some(Err(error)) => return Err(request.not_granted(lock, &error).await),
        None => places.guard(),
    }
    reporter.queued(lock.name(), waiting.ticket());
    until_granted(request, waiting, lock, reporter, terminal).await
}

/// Looks at the queue while the waiter waits in it, and shows the wait.
async fn until_granted(
    request: &LockRequest<'_>,
    mut waiting: Waiting,
    lock: &Lock,
    reporter: &mut Reporter,
    terminal: Option<&Terminal>,
) -> Result<Guard, Failure> {
    let began = Instant::now();
    let (mut view, mut looks) = (QueueView::Unknown, 0);
    // A wait that could never end must be refused before its timeout.
    let may_be_ours = request.ancestors.had(lock.name());
    let first = if may_be_ours { began } else { began + SILENT };
    let looks_on = may_be_ours || reporter.tells_places();
    let mut next_draw = first;
    // A look at the queue may take long, for instance while the server hangs. The line is drawn meanwhile.
    let mut look = pin!(queue_view::look(first, waiting.position(), lock, 0));
    loop {
        tokio::select! {
            biased;
            granted = &mut waiting => return match granted {
                Ok(guard) => Ok(guard),
                Err(error) => Err(request.not_granted(lock, &error).await),
            },
            new = &mut look, if looks_on => {
                looks += 1;
                if let Some(new) = new {
                    if let QueueView::Place { holders, .. } = &new {
                        request.ancestors.check(lock.name(), holders.iter().map(|holder| holder.token))?;
                    }
                    (view, looks) = (new, 0);
                    reporter.seen(lock.name(), &view);
                }
                let next = Instant::now() + view.pause();
                look.set(queue_view::look(next, waiting.position(), lock, view.known(looks)));
            }
            () = sleep_until(next_draw) => {}
        }
        if Instant::now() >= first {
            reporter.show(terminal, lock.name(), &view);
            // When the clock shows the next second.
            let waited = reporter.waited();
            next_draw = Instant::now() + Duration::from_secs(waited.as_secs() + 1).saturating_sub(waited);
        }
    }
}

/// With `--no-wait` any error of connecting is the answer. Otherwise the acquire itself retries after temporary errors,
/// and fails at once for others.
async fn connect(request: &LockRequest<'_>) -> Result<Client, Failure> {
    let client = request.client.clone();
    let client = if request.no_wait { client.connect().await } else { client.connect_lazy() };
    client.map_err(|error| Failure { tip: request.tip.map(str::to_owned), ..Failure::own(error.to_string()) })
}

/// Waits for a place in the queue, and reports what prevents it.
async fn queue(
    enqueue: Enqueue,
    lock: &Lock,
    tip: Option<&'static str>,
    reporter: &mut Reporter,
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
        let why = trouble(lock).await.or_else(silent);
        tokio::select! {
            biased;
            // A refusal for good may be the trouble: it is told once, as the end of the wait.
            waiting = &mut enqueue => return waiting,
            () = std::future::ready(()) => {}
        }
        if let Some(why) = why {
            reporter.trouble(&why, tip);
        }
        pause = Duration::from_millis(500);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_that_does_not_wait_ends_within_the_time_of_the_page() {
        let page = std::fs::read_to_string(testkit::root().join("docs/errors.md")).unwrap();
        let within = seconds(ANSWER + LEFT).replace('s', " s");
        for says in ["`fairlock run --no-wait`) fail within", "at once if the server cannot be used, within"] {
            assert!(page.contains(&format!("{says} {within}")), "{says} {within}");
        }
    }
}
