//! The wait as its user sees it: how long it has lasted, how many are before it, and for whom it waits.

use std::pin::pin;
use std::time::Duration;

use fairlock::{Fault, Guard, Lock, Waiting};
use tokio::time::{Instant, sleep_until};

use super::progress::ProgressLine;
use super::request::{Request, describe, not_granted, trouble};
use crate::exit::Failure;
use crate::process::terminal::Terminal;
use crate::text::{printable, seconds};

/// A wait that ends sooner than this is not worth a word.
pub(crate) const SILENT: Duration = Duration::from_millis(200);
/// How many looks at an unchanged position a holder is taken to be the same for. Only a loss of data changes it then.
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
    // A wait that could never end must be found out before its timeout.
    let first = if request.ancestors.had(lock.name()) { began } else { began + SILENT };
    let mut next_draw = first;
    // Looking at the queue may take long, for instance while the server hangs. The line is drawn meanwhile.
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
            // When the clock shows another second.
            next_draw = began + Duration::from_secs(clock + 1);
        }
    }
}

/// What a look at the queue brought.
enum Seen {
    /// The lock was granted: the guard is on its way.
    Granted,
    /// The position that is known, with the holder that is known.
    Unchanged,
    Place {
        position: u64,
        holder: Option<(String, u64)>,
        recovering_for: Option<Duration>,
    },
    /// With what is in the way of one.
    NoAnswer(String),
}

/// Looks at the queue, from `when` on. The holder changes when the queue moves, so it is not asked for at the position at
/// which it is `known`.
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

/// What is known of the wait.
enum View {
    Unknown,
    Place { position: u64, holder: Option<String>, recovering_until: Option<Instant>, looks: u32 },
    NoAnswer(String),
}

impl View {
    /// Refuses to go on if the holder waits for us.
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

    /// The front of the queue moves soon; whoever stands far behind need not ask the server every second.
    fn pause(&self) -> Duration {
        let position = if let View::Place { position, .. } = self { *position } else { 0 };
        Duration::from_millis(500 * position.clamp(2, 30))
    }

    /// For a terminal: what changes stands before the names, which may be long.
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

    /// For a log: without what changes all the time.
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
