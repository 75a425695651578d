//! What a waiter sees of its queue: how it is asked of the server, and how it reads in the progress line and in a log.

use std::cmp::Reverse;
use std::time::Duration;

use fairlock::state::{Holder, LockState};
use fairlock::{Lock, error::Fault};
use tokio::time::{Instant, sleep_until};

use super::request::trouble;
use crate::duration::{about, seconds};
use crate::progress::{Part, Style, clock};
use crate::sharing::Count;
use crate::text::{granted_to, held_by, is_unanswered, name_of, ordinal, printable};

/// After this many looks at an unchanged position the holder is asked for again: a loss of data may have changed it.
const LOOKS: u32 = 10;

/// The answer to the last look at the queue that showed something new.
pub(crate) enum QueueView {
    Unknown,
    Place {
        position: u64,
        waiting: u64,
        /// How many may hold the lock together as this job said.
        slots: u32,
        /// In the order of their slots.
        holders: Vec<HolderView>,
        recovering_until: Option<Instant>,
        /// When the lock may be granted, as far as recent holds tell.
        expected: Option<Instant>,
    },
    NoAnswer(String),
}

/// A holder that is waited for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HolderView {
    /// Escaped already.
    pub(crate) label: String,
    pub(crate) token: u64,
    pub(crate) slot: u32,
    pub(crate) slots: u32,
    pub(crate) since: Instant,
    /// False: it has not answered its grant yet.
    pub(crate) confirmed: bool,
}

impl HolderView {
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

/// Looks at the queue, once it is `when`. None if that shows nothing new. The holder changes only when the queue moves,
/// so it is not asked for at the position for which it is `known`.
pub(crate) async fn look(
    when: Instant,
    position: impl Future<Output = Result<u64, Fault>>,
    lock: &Lock,
    known: u64,
) -> Option<QueueView> {
    sleep_until(when).await;
    let position = match position.await {
        // The lock was granted: the guard is on its way.
        Ok(0) => return None,
        Ok(position) if position == known => return None,
        Ok(position) => position,
        Err(_) => return Some(no_answer(lock).await),
    };
    let Ok(state) = lock.inspect().await else { return Some(no_answer(lock).await) };
    let view = |holder: &Holder| HolderView {
        confirmed: holder.confirmed,
        label: name_of(&holder.label, &holder.id),
        token: holder.token,
        slot: holder.slot,
        slots: holder.slots,
        since: Instant::now().checked_sub(holder.held_for).unwrap_or_else(Instant::now),
    };
    Some(QueueView::Place {
        expected: expected(lock, position, &state).await.map(|wait| Instant::now() + wait),
        position,
        waiting: state.waiting,
        slots: lock.slots(),
        holders: state.holders.iter().map(view).collect(),
        recovering_until: state.recovering_for.map(|left| Instant::now() + left),
    })
}

async fn no_answer(lock: &Lock) -> QueueView {
    let why = trouble(lock).await.unwrap_or_else(|| "Redis does not answer".to_owned());
    QueueView::NoAnswer(printable(&why))
}

/// The wait that the lock's history lets expect, where one is recorded.
async fn expected(lock: &Lock, position: u64, state: &LockState) -> Option<Duration> {
    const RECENT: u32 = 20;
    let slots = state.holders.first()?.slots;
    let before = state.queue.iter().take(usize::try_from(position).ok()?).map(|waiter| waiter.slots);
    // Readers and writers, and clients that disagree, let each other in as nobody can foresee.
    if !state.holders.iter().map(|holder| holder.slots).chain(before).all(|number| number == slots) {
        return None;
    }
    let history = lock.history(RECENT).await.ok()?;
    let mut recent: Vec<Duration> = history.grants.iter().map(|grant| grant.held).collect();
    let mut held_for: Vec<Duration> = state.holders.iter().map(|holder| holder.held_for).collect();
    expected_wait(position, &mut held_for, &mut recent)
}

/// What is told of the one who has held the lock longest.
fn oldest(holders: &[HolderView]) -> Option<String> {
    holders.iter().min_by_key(|holder| holder.since).map(HolderView::described)
}

fn count(holders: &[HolderView]) -> Count {
    Count::of(holders.iter().map(|holder| holder.slots))
}

impl QueueView {
    /// The position at which the holder need not be asked for, after so many looks that showed nothing new.
    pub(crate) fn known(&self, looks: u32) -> u64 {
        match self {
            // One that has not answered may yet do so, or be passed over. Of several some may go while the first
            // waiter still waits for the others.
            Self::Place { position, holders, .. } if looks < LOOKS => {
                let is_known = holders.iter().all(|holder| holder.confirmed)
                    && (holders.len() == 1 || *position > 1 && !holders.is_empty());
                if is_known { *position } else { 0 }
            }
            _ => 0,
        }
    }

    /// The interval between looks. The front of the queue moves soon; a waiter far behind need not ask every second.
    pub(crate) fn pause(&self) -> Duration {
        let position = if let Self::Place { position, .. } = self { *position } else { 0 };
        Duration::from_millis(500 * position.clamp(2, 30))
    }

    /// What a message would be about; a log hears of each topic once. With all details only if it is `verbose`.
    pub(crate) fn topic(&self, verbose: bool) -> Option<String> {
        match self {
            Self::Unknown => None,
            Self::NoAnswer(why) => Some(why.clone()),
            Self::Place { recovering_until: Some(_), holders, .. } if holders.is_empty() => {
                Some("recovering".to_owned())
            }
            Self::Place { position, holders, .. } if verbose => {
                let holders: Vec<_> = holders.iter().map(|holder| (holder.token, holder.is_unanswered())).collect();
                Some(format!("{position} {holders:?}"))
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
            Self::Place { position, waiting, slots, holders, recovering_until, expected } => {
                parts.push((Style::Bold, place(*position, *waiting)));
                parts.push((Style::Plain, format!("{} for {name}", estimate(*expected))));
                // How many hold it comes before one of them, which a narrow terminal cuts.
                parts.extend(
                    count(holders).told(Some(*slots)).into_iter().flat_map(|told| [dot(), (Style::Plain, told)]),
                );
                match (oldest(holders), recovering_until) {
                    (Some(held), _) => parts.extend([dot(), (Style::Faint, held)]),
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
            Self::Place { position, waiting, slots, holders, recovering_until, expected } => {
                let place = format!("{}{}", place(*position, *waiting), estimate(*expected));
                match (oldest(holders), recovering_until) {
                    (Some(held), _) => {
                        let others = count(holders).others(Some(*slots));
                        format!("waiting for {name}: {place}, {held}{others}")
                    }
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

/// How long a waiter may have to wait: for the present holders, and for those before it in the queue, if each holds the
/// lock for as long as most did lately. The slots become free in turn, the oldest hold first. None if too few are known.
fn expected_wait(position: u64, held_for: &mut [Duration], recent: &mut [Duration]) -> Option<Duration> {
    const FEWEST: usize = 3;
    recent.sort_unstable();
    let median = *recent.get(recent.len() / 2).filter(|_| recent.len() >= FEWEST)?;
    held_for.sort_unstable_by_key(|held_for| Reverse(*held_for));
    let (before, slots) = (position.saturating_sub(1), held_for.len() as u64);
    let turn = usize::try_from(before.checked_rem(slots)?).ok()?;
    let rounds = u32::try_from(before / slots).ok()?;
    median.saturating_sub(held_for[turn]).checked_add(median.checked_mul(rounds)?)
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
        fn wait<const HELD: usize>(position: u64, held: [u64; HELD], recent: &[u64]) -> Option<u64> {
            let seconds = Duration::from_secs;
            let mut recent: Vec<Duration> = recent.iter().copied().map(seconds).collect();
            let mut held = held.map(seconds);
            expected_wait(position, &mut held, &mut recent).map(|wait| wait.as_secs())
        }
        // One long hold among short ones decides nothing.
        assert_eq!(wait(1, [2], &[10, 9000, 8, 11, 9]), Some(8));
        assert_eq!(wait(3, [2], &[10, 9000, 8, 11, 9]), Some(28));
        assert_eq!(wait(2, [60], &[10, 10, 10]), Some(10), "the holder is late");
        assert_eq!(wait(1, [2], &[10, 10]), None, "too few");
        assert_eq!(wait(u64::MAX, [2], &[10, 10, 10]), None);
        assert_eq!(wait(1, [], &[10, 10, 10]), None, "nobody holds it");
        // Of three slots the one that is held longest is free first.
        let turns = [1, 2, 3, 4, 7].map(|position| wait(position, [2, 9, 5], &[10, 10, 10]));
        assert_eq!(turns, [Some(1), Some(5), Some(8), Some(11), Some(21)]);
    }
}
