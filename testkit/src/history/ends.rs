//! I8: every acquire ends, by its own timeout.

use std::{collections::BTreeSet, time::Duration};

use super::{
    terms::Terms,
    waits::{History, Wait},
};

impl History {
    /// No waiter still waits or holds: every acquire ended, and every hold that it led to.
    pub fn all_finished(&self) -> Result<(), String> {
        let finished = |wait: &&Wait| match wait.granted_ns {
            Some(_) => wait.released_ns.or(wait.lost_ns).or(wait.died_ns).is_some(),
            None => wait.left_ns.or(wait.untaken_ns).or(wait.died_ns).is_some(),
        };
        let unfinished: BTreeSet<&str> =
            self.waits().iter().filter(|wait| !finished(wait)).map(|wait| wait.waiter.as_str()).collect();
        if unfinished.is_empty() { Ok(()) } else { Err(format!("never finished: {unfinished:?}")) }
    }

    /// An acquire with a timeout returned by then and, if it gave up, no earlier (I8). No fault of the server excuses
    /// it; a pause of its own process does.
    pub fn by_their_timeouts(&self, terms: &Terms) -> Result<(), String> {
        let late = |wait: &&Wait| wait.late_ns().is_some_and(|late| Duration::from_nanos(late) > terms.lateness);
        if let Some(wait) = self.waits().iter().find(late) {
            let late = wait.late_ns().unwrap_or_default() as f64 / 1e6;
            return Err(format!("{} returned {late:.3} ms after its timeout", wait.waiter));
        }
        let early = |wait: &&Wait| {
            let due = wait.due_ns().filter(|_| wait.granted_ns.is_none());
            due.is_some_and(|due| wait.left_ns == Some(due) && wait.returned_ns.is_some_and(|returned| returned < due))
        };
        match self.waits().iter().find(early) {
            Some(wait) => {
                let early = wait.due_ns().unwrap_or_default() - wait.returned_ns.unwrap_or_default();
                Err(format!("{} gave up {:?} before its timeout", wait.waiter, Duration::from_nanos(early)))
            }
            None => Ok(()),
        }
    }

    /// The longest time after its timeout that an acquire returned.
    pub fn latest(&self) -> Duration {
        Duration::from_nanos(self.waits().iter().filter_map(Wait::late_ns).max().unwrap_or_default())
    }
}

impl Wait {
    fn due_ns(&self) -> Option<u64> {
        self.timeout_ns.map(|timeout| self.called_ns + timeout)
    }

    /// How long after its timeout it returned, unless its process was paused meanwhile.
    fn late_ns(&self) -> Option<u64> {
        let (due, returned) = (self.due_ns()?, self.granted_ns.or(self.returned_ns)?);
        let excused = self.pauses.iter().any(|(paused, _)| *paused <= returned);
        (!excused).then_some(returned.saturating_sub(due))
    }
}
