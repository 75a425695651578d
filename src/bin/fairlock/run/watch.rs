//! The wait as the user sees it: how long it has lasted, the position in the queue, and the holder.

use std::pin::pin;
use std::time::Duration;

use fairlock::{Fault, Guard, Lock, Waiting};
use tokio::time::{Instant, sleep_until};

use super::progress::ProgressLine;
use super::request::{Request, describe, not_granted, trouble};
use crate::exit::Failure;
use crate::process::terminal::Terminal;
use crate::text::{printable, seconds};

/// A shorter wait is not reported.
pub(crate) const SILENT: Duration = Duration::from_millis(200);
/// After this many looks at an unchanged position the holder is asked for again: a loss of data may have changed it.
const LOOKS: u32 = 10;

/// Waits for the grant, and shows the wait.
pub(crate) async fn watch(
    request: &Request<'_>,
    mut waiting: Waiting,
    lock: &Lock,
    began: Instant,
    terminal: Option<&Terminal>,
) -> Result<Guard, Failure> {
    let mut line = ProgressLine::new();
    let mut view = View::Unknown;
    // A wait that could never end must be refused before its timeout.
    let first = if request.ancestors.had(lock.name()) { began } else { began + SILENT };
    let mut next_draw = first;
    // A look at the queue may take long, for instance while the server hangs. The line is drawn meanwhile.
    let mut look = pin!(look_at(first, waiting.position(), lock, 0));
    loop {
        tokio::select! {
            biased;
            granted = &mut waiting => return granted.map_err(|error| not_granted(request, &error)),
            seen = &mut look => {
                view = view.after(request, seen)?;
                look.set(look_at(Instant::now() + view.pause(), waiting.position(), lock, view.known()));
            }
            () = sleep_until(next_draw) => {}
        }
        if Instant::now() >= first {
            let (clock, name) = (began.elapsed().as_secs(), printable(lock.name()));
            line.show(terminal, &view.live(clock, &name), &view.news(&name));
            // When the clock shows the next second.
            next_draw = began + Duration::from_secs(clock + 1);
        }
    }
}

/// The result of a look at the queue.
enum Seen {
    /// The lock was granted: the guard is on its way.
    Granted,
    /// Position and holder are the known ones.
    Unchanged,
    Place {
        position: u64,
        holder: Option<(String, u64)>,
        recovering_for: Option<Duration>,
    },
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
            Ok(state) => Seen::Place {
                position,
                holder: state.holder.map(|holder| (describe(&holder), holder.token)),
                recovering_for: state.recovering_for,
            },
            Err(_) => no_answer(lock).await,
        },
        Err(_) => no_answer(lock).await,
    }
}

async fn no_answer(lock: &Lock) -> Seen {
    let why = trouble(lock).await.unwrap_or_else(|| "Redis does not answer".to_owned());
    Seen::NoAnswer(printable(&why))
}

/// What is known about the wait.
enum View {
    Unknown,
    Place { position: u64, holder: Option<String>, recovering_until: Option<Instant>, looks: u32 },
    NoAnswer(String),
}

impl View {
    /// The view after this look. Fails if the holder is an ancestor of this job.
    fn after(mut self, request: &Request<'_>, seen: Seen) -> Result<Self, Failure> {
        if let View::Place { looks, .. } = &mut self {
            *looks += 1;
        }
        Ok(match seen {
            Seen::Granted | Seen::Unchanged => self,
            Seen::NoAnswer(why) => View::NoAnswer(why),
            Seen::Place { position, holder, recovering_for } => {
                if let Some((_, token)) = &holder {
                    request.ancestors.check(request.name, *token)?;
                }
                let recovering_until = recovering_for.map(|left| Instant::now() + left);
                View::Place { position, holder: holder.map(|(label, _)| label), recovering_until, looks: 0 }
            }
        })
    }

    /// The position at which the holder need not be asked for.
    fn known(&self) -> u64 {
        match self {
            View::Place { position, holder: Some(_), looks, .. } if *looks < LOOKS => *position,
            _ => 0,
        }
    }

    /// The interval between looks. The front of the queue moves soon; a waiter far behind need not ask every second.
    fn pause(&self) -> Duration {
        let position = if let View::Place { position, .. } = self { *position } else { 0 };
        Duration::from_millis(500 * position.clamp(2, 30))
    }

    /// For a terminal: the changing parts come before the names, which may be long.
    fn live(&self, clock: u64, name: &str) -> String {
        let (hours, minutes, seconds) = (clock / 3600, clock / 60 % 60, clock % 60);
        let clock = match hours {
            0 => format!("waited {minutes}:{seconds:02}"),
            _ => format!("waited {hours}:{minutes:02}:{seconds:02}"),
        };
        match self {
            View::Unknown => format!("{clock} for {name}"),
            View::NoAnswer(why) => format!("{clock} for {name}: {why}"),
            View::Place { position, holder: Some(holder), .. } => {
                format!("{clock}, position {position} for {name}, held by {holder}")
            }
            View::Place { position, recovering_until: Some(until), .. } => {
                let left = self::seconds(until.saturating_duration_since(Instant::now()));
                format!("{clock}, position {position}, nothing is granted for {left}: the server lost data; for {name}")
            }
            View::Place { position, .. } => format!("{clock}, position {position} for {name}"),
        }
    }

    /// For a log: without the parts that change all the time.
    fn news(&self, name: &str) -> String {
        match self {
            View::Unknown => String::new(),
            View::NoAnswer(why) => format!("waiting for {name}: {why}"),
            View::Place { position, holder: Some(holder), .. } => {
                format!("waiting for {name}: position {position}, held by {holder}")
            }
            View::Place { position, recovering_until: Some(_), .. } => {
                format!("waiting for {name}: position {position}; nothing is granted yet, because the server lost data")
            }
            View::Place { position, .. } => format!("waiting for {name}: position {position}"),
        }
    }
}
