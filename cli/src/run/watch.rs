//! Looks at the queue while a waiter waits in it.

use std::pin::pin;
use std::time::Duration;

use fairlock::{Guard, Lock, Waiting, error::Fault, state::Holder};
use tokio::time::{Instant, sleep_until};

use super::news::News;
use super::request::{Request, trouble};
use super::view::{Before, View, expected_wait};
use crate::exit::Failure;
use crate::process::terminal::Terminal;
use crate::text::{name_of, printable};

/// A shorter wait is not reported.
pub(crate) const SILENT: Duration = Duration::from_millis(200);
/// After this many looks at an unchanged position the holder is asked for again: a loss of data may have changed it.
const LOOKS: u32 = 10;

/// Waits for the grant, and shows the wait.
pub(crate) async fn watch(
    request: &Request<'_>,
    mut waiting: Waiting,
    lock: &Lock,
    news: &mut News,
    terminal: Option<&Terminal>,
) -> Result<Guard, Failure> {
    let began = Instant::now();
    let (mut view, mut looks) = (View::Unknown, 0);
    // A wait that could never end must be refused before its timeout.
    let may_be_ours = request.ancestors.had(lock.name());
    let first = if may_be_ours { began } else { began + SILENT };
    let looks_on = may_be_ours || news.tells_places();
    let mut next_draw = first;
    // A look at the queue may take long, for instance while the server hangs. The line is drawn meanwhile.
    let mut look = pin!(look_at(first, waiting.position(), lock, 0));
    loop {
        tokio::select! {
            biased;
            granted = &mut waiting => return match granted {
                Ok(guard) => Ok(guard),
                Err(error) => Err(request.not_granted(lock, &error).await),
            },
            seen = &mut look, if looks_on => {
                looks += 1;
                match seen {
                    Seen::Granted | Seen::Unchanged => {}
                    Seen::NoAnswer(why) => view = View::NoAnswer(why),
                    Seen::New(new) => {
                        if let View::Place { holder: Some(holder), .. } = &new {
                            request.ancestors.check(lock.name(), holder.token)?;
                        }
                        (view, looks) = (new, 0);
                        news.seen(lock.name(), &view);
                    }
                }
                look.set(look_at(Instant::now() + pause(&view), waiting.position(), lock, known(&view, looks)));
            }
            () = sleep_until(next_draw) => {}
        }
        if Instant::now() >= first {
            news.show(terminal, lock.name(), &view);
            // When the clock shows the next second.
            let waited = news.waited();
            next_draw = Instant::now() + Duration::from_secs(waited.as_secs() + 1).saturating_sub(waited);
        }
    }
}

/// The result of a look at the queue.
enum Seen {
    /// The lock was granted: the guard is on its way.
    Granted,
    /// Position and holder are the known ones.
    Unchanged,
    New(View),
    /// There was no answer, for this reason.
    NoAnswer(String),
}

/// Looks at the queue, once it is `when`. The holder changes only when the queue moves, so it is not asked for at the
/// position for which it is `known`.
async fn look_at(when: Instant, position: impl Future<Output = Result<u64, Fault>>, lock: &Lock, known: u64) -> Seen {
    sleep_until(when).await;
    match position.await {
        Ok(0) => Seen::Granted,
        Ok(position) if position == known => Seen::Unchanged,
        Ok(position) => match lock.inspect().await {
            Ok(state) => Seen::New(View::Place {
                expected: expected(lock, position, state.holders.first()).await.map(|wait| Instant::now() + wait),
                position,
                waiting: state.waiting,
                holder: state.holders.first().map(|holder| Before {
                    confirmed: holder.confirmed,
                    label: name_of(&holder.label, &holder.id),
                    token: holder.token,
                    since: Instant::now().checked_sub(holder.held_for).unwrap_or_else(Instant::now),
                }),
                recovering_until: state.recovering_for.map(|left| Instant::now() + left),
            }),
            Err(_) => no_answer(lock).await,
        },
        Err(_) => no_answer(lock).await,
    }
}

/// The wait that the lock's history lets expect, where one is recorded.
async fn expected(lock: &Lock, position: u64, holder: Option<&Holder>) -> Option<Duration> {
    const RECENT: u32 = 20;
    let history = lock.history(RECENT).await.ok()?;
    let mut held: Vec<Duration> = history.grants.iter().map(|grant| grant.held).collect();
    expected_wait(position, holder?.held_for, &mut held)
}

async fn no_answer(lock: &Lock) -> Seen {
    let why = trouble(lock).await.unwrap_or_else(|| "Redis does not answer".to_owned());
    Seen::NoAnswer(printable(&why))
}

/// The position at which the holder need not be asked for.
fn known(view: &View, looks: u32) -> u64 {
    match view {
        // One that has not answered may yet do so, or be passed over.
        View::Place { position, holder: Some(Before { confirmed: true, .. }), .. } if looks < LOOKS => *position,
        _ => 0,
    }
}

/// The interval between looks. The front of the queue moves soon; a waiter far behind need not ask every second.
fn pause(view: &View) -> Duration {
    let position = if let View::Place { position, .. } = view { *position } else { 0 };
    Duration::from_millis(500 * position.clamp(2, 30))
}
