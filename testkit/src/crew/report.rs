//! The result of a run.

use std::{collections::BTreeMap, fmt, time::Duration};

use crate::history::{History, Stall, Terms, Wait};

/// The figures of a run without a violation.
pub struct Report {
    pub history: History,
    pub acquires: usize,
    pub grants: usize,
    /// The most that held the lock together.
    pub at_once: usize,
    /// Leases that were lost during a hold.
    pub lost: usize,
    pub lost_for_nothing: usize,
    pub died_holding: usize,
    pub died_waiting: usize,
    /// The longest time that a waiter waited for a lock that nobody held.
    pub worst_stall: Duration,
    /// The most that a stall took of the slack: the machine's doing, not the lock's.
    pub slack_taken: Duration,
    /// The longest time after its timeout that an acquire returned.
    pub latest: Duration,
    lease: Duration,
    pub struck: BTreeMap<&'static str, u64>,
    /// How many acquires of each kind there were, and how many of them were granted.
    pub whims: BTreeMap<String, (usize, usize)>,
}

impl Report {
    pub(super) fn new(history: History, terms: &Terms, struck: BTreeMap<&'static str, u64>) -> Report {
        let count = |which: &dyn Fn(&Wait) -> bool| history.waits().iter().filter(|wait| which(wait)).count();
        let died = |wait: &Wait| wait.died_ns.is_some() && wait.released_ns.or(wait.lost_ns).or(wait.left_ns).is_none();
        let mut whims: BTreeMap<String, (usize, usize)> = BTreeMap::new();
        for wait in history.waits() {
            for whim in wait.waiter.split('-').skip(1) {
                let (acquires, grants) = whims.entry(whim.to_owned()).or_default();
                *acquires += 1;
                *grants += usize::from(wait.token.is_some());
            }
        }
        let stalls: Vec<Stall> = history.stalls(terms);
        let beyond = |stall: &Stall| stall.waited.saturating_sub(stall.allowed.saturating_sub(terms.slack));
        Report {
            slack_taken: stalls.iter().map(beyond).max().unwrap_or_default(),
            latest: history.latest(),
            acquires: history.waits().len(),
            at_once: history.most_at_once(),
            grants: count(&|wait| wait.token.is_some()),
            lost: count(&|wait| wait.lost_ns.is_some()),
            lost_for_nothing: history.lost_for_nothing(terms),
            died_holding: count(&|wait| died(wait) && wait.token.is_some()),
            died_waiting: count(&|wait| died(wait) && wait.token.is_none()),
            worst_stall: stalls.iter().map(|stall| stall.waited).max().unwrap_or_default(),
            lease: terms.lease,
            struck,
            whims,
            history,
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Report { acquires, grants, at_once, lost, lost_for_nothing, .. } = self;
        let Report { died_holding, died_waiting, worst_stall, struck, .. } = self;
        let stall = worst_stall.as_secs_f64() / self.lease.as_secs_f64();
        write!(
            f,
            "{acquires} acquires, {grants} grants, {at_once} at once, {lost} leases lost, {lost_for_nothing} for nothing, \
             {died_holding} died holding, {died_waiting} waiting, worst stall {stall:.2} leases, slack taken {:?}, latest return {:?} after its timeout, struck: \
             {struck:?}",
            self.slack_taken, self.latest
        )
    }
}
