//! The wait as the user sees it: how long it has lasted, the position in the queue, and the holder.

use std::time::Duration;

use tokio::time::Instant;

use super::progress::{Part, Style};
use crate::text::{about, ordinal, seconds};

/// What is known about the wait.
#[derive(Debug, Clone)]
pub(crate) enum View {
    Unknown,
    Place { position: u64, waiting: u64, holder: Option<Before>, recovering_until: Option<Instant> },
    NoAnswer(String),
}

/// The holder that is waited for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Before {
    /// Escaped already.
    pub(crate) label: String,
    pub(crate) token: u64,
    pub(crate) since: Instant,
}

impl Before {
    pub(crate) fn held_for(&self) -> Duration {
        self.since.elapsed()
    }

    /// `held 12m by ops@db1:14380 deploy.sh`
    fn described(&self) -> String {
        match self.held_for() {
            short if short < Duration::from_secs(1) => format!("held by {}", self.label),
            long => format!("held {} by {}", about(long), self.label),
        }
    }
}

impl View {
    /// What a message would be about; a log hears of each topic once. With all details only if it is `verbose`.
    pub(crate) fn topic(&self, verbose: bool) -> Option<String> {
        match self {
            Self::Unknown => None,
            Self::NoAnswer(why) => Some(why.clone()),
            Self::Place { recovering_until: Some(_), holder: None, .. } => Some("recovering".to_owned()),
            Self::Place { position, holder, .. } if verbose => {
                Some(format!("{position} {}", holder.as_ref().map_or(0, |holder| holder.token)))
            }
            Self::Place { .. } => Some("waiting".to_owned()),
        }
    }

    /// For a terminal: the changing parts come before the names, which may be long.
    pub(crate) fn line(&self, waited: Duration, name: &str) -> Vec<Part> {
        let clock = waited.as_secs();
        let (hours, minutes, rest) = (clock / 3600, clock / 60 % 60, clock % 60);
        let clock = if hours > 0 { format!("{hours}:{minutes:02}:{rest:02}") } else { format!("{minutes}:{rest:02}") };
        let dot = || (Style::Faint, " · ".to_owned());
        let mut parts = vec![(Style::Plain, clock), dot()];
        match self {
            Self::Unknown => parts.push((Style::Plain, format!("waiting for {name}"))),
            Self::NoAnswer(why) => {
                parts.push((Style::Plain, format!("waiting for {name}")));
                parts.extend([dot(), (Style::Warning, why.clone())]);
            }
            Self::Place { position, waiting, holder, recovering_until } => {
                parts.push((Style::Bold, place(*position, *waiting)));
                parts.push((Style::Plain, format!(" for {name}")));
                match (holder, recovering_until) {
                    (Some(holder), _) => parts.extend([dot(), (Style::Faint, holder.described())]),
                    (None, Some(until)) => {
                        let left = seconds(until.saturating_duration_since(Instant::now()));
                        let why = format!("nothing is granted for {left}: the server lost data");
                        parts.extend([dot(), (Style::Warning, why)]);
                    }
                    (None, None) => {}
                }
            }
        }
        parts
    }

    /// For a log.
    pub(crate) fn sentence(&self, name: &str) -> String {
        match self {
            Self::Unknown => format!("waiting for {name}"),
            Self::NoAnswer(why) => format!("waiting for {name}: {why}"),
            Self::Place { position, waiting, holder, recovering_until } => {
                let place = place(*position, *waiting);
                match (holder, recovering_until) {
                    (Some(holder), _) => format!("waiting for {name}: {place}, {}", holder.described()),
                    (None, Some(_)) => {
                        format!("waiting for {name}: {place}; nothing is granted yet, because the server lost data")
                    }
                    (None, None) => format!("waiting for {name}: {place}"),
                }
            }
        }
    }
}

/// `2nd of 5`. Looks at position and length are separate, so the length may be older.
fn place(position: u64, waiting: u64) -> String {
    format!("{} of {}", ordinal(position), waiting.max(position))
}
