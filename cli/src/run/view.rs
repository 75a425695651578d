//! The wait as the user sees it: how long it has lasted, the position in the queue, and the holder.

use std::time::Duration;

use tokio::time::Instant;

use super::progress::{Part, Style, clock};
use crate::duration::{about, seconds};
use crate::text::{granted_to, held_by, is_unanswered, ordinal};

/// What is known about the wait.
#[derive(Debug, Clone)]
pub(crate) enum View {
    Unknown,
    Place {
        position: u64,
        waiting: u64,
        holder: Option<Before>,
        recovering_until: Option<Instant>,
        /// When the lock may be granted, as far as recent holds tell.
        expected: Option<Instant>,
    },
    NoAnswer(String),
}

/// The holder that is waited for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Before {
    /// Escaped already.
    pub(crate) label: String,
    pub(crate) token: u64,
    pub(crate) since: Instant,
    /// False: it has not answered its grant yet.
    pub(crate) confirmed: bool,
}

impl Before {
    pub(crate) fn held_for(&self) -> Duration {
        self.since.elapsed()
    }

    /// The lock was granted to it a while ago, and it seems to be dead.
    fn is_unanswered(&self) -> bool {
        is_unanswered(self.confirmed, self.held_for())
    }

    /// `held 12m by ops@db1:14380 deploy.sh`
    fn described(&self) -> String {
        let (label, span) = (&self.label, self.held_for());
        if self.is_unanswered() { granted_to(label, span) } else { held_by(label, span) }
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
                let holder = holder.as_ref().map(|holder| (holder.token, holder.is_unanswered()));
                Some(format!("{position} {holder:?}"))
            }
            Self::Place { .. } => Some("waiting".to_owned()),
        }
    }

    /// For a terminal: the changing parts come before the names, which may be long.
    pub(crate) fn line(&self, waited: Duration, name: &str) -> Vec<Part> {
        let dot = || (Style::Faint, " · ".to_owned());
        let mut parts = vec![(Style::Plain, clock(waited)), dot()];
        match self {
            Self::Unknown => parts.push((Style::Plain, format!("waiting for {name}"))),
            Self::NoAnswer(why) => {
                parts.push((Style::Plain, format!("waiting for {name}")));
                parts.extend([dot(), (Style::Warning, why.clone())]);
            }
            Self::Place { position, waiting, holder, recovering_until, expected } => {
                parts.push((Style::Bold, place(*position, *waiting)));
                parts.push((Style::Plain, format!("{} for {name}", estimate(*expected))));
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
            Self::Place { position, waiting, holder, recovering_until, expected } => {
                let place = format!("{}{}", place(*position, *waiting), estimate(*expected));
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

/// How long is left until then, in words; nothing if it is not known, or over.
fn estimate(expected: Option<Instant>) -> String {
    let left = expected.map(|at| at.saturating_duration_since(Instant::now())).filter(|left| !left.is_zero());
    left.map(|left| format!(" (about {})", about(left))).unwrap_or_default()
}

/// How long a waiter may have to wait: for the present holder, and for those before it in the queue, if each holds the
/// lock for as long as most did lately. None if too few are known.
pub(crate) fn expected_wait(position: u64, held_for: Duration, recent: &mut [Duration]) -> Option<Duration> {
    const FEWEST: usize = 3;
    recent.sort_unstable();
    let median = *recent.get(recent.len() / 2).filter(|_| recent.len() >= FEWEST)?;
    let before = u32::try_from(position.saturating_sub(1)).ok()?;
    median.saturating_sub(held_for).checked_add(median.checked_mul(before)?)
}

/// `2nd of 5`. Looks at position and length are separate, so the length may be older.
fn place(position: u64, waiting: u64) -> String {
    format!("{} of {}", ordinal(position), waiting.max(position))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::expected_wait;

    #[test]
    fn recent_holds_tell_how_long_a_wait_may_last() {
        let seconds = Duration::from_secs;
        let wait = |position, held, recent: &[u64]| {
            let mut recent: Vec<Duration> = recent.iter().copied().map(seconds).collect();
            expected_wait(position, seconds(held), &mut recent).map(|wait| wait.as_secs())
        };
        // One long hold among short ones decides nothing.
        assert_eq!(wait(1, 2, &[10, 9000, 8, 11, 9]), Some(8));
        assert_eq!(wait(3, 2, &[10, 9000, 8, 11, 9]), Some(28));
        assert_eq!(wait(2, 60, &[10, 10, 10]), Some(10), "the holder is late");
        assert_eq!(wait(1, 2, &[10, 10]), None, "too few");
        assert_eq!(wait(u64::MAX, 2, &[10, 10, 10]), None);
    }
}
