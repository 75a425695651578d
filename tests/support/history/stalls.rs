//! I5 and I6: nobody waits for the dead longer than agreed, no lost message is noticed later than by the next heartbeat, and
//! so nobody is forgotten.
//!
//! A stall is the time between the end of a hold and the next grant, as far as somebody who lives waits meanwhile.

use std::time::Duration;

use super::{
    terms::{Terms, nanos},
    waits::{History, Hold, Wait},
};

#[derive(Clone, Debug)]
pub struct Stall {
    pub from_ns: u64,
    /// How long somebody who lives waited for a lock that nobody held.
    pub waited: Duration,
    /// How long that may take at most, after what happened.
    pub allowed: Duration,
    /// Who was granted in the end.
    pub next: Option<String>,
}

impl History {
    pub fn no_stall(&self, terms: &Terms) -> Result<(), String> {
        match self.stalls(terms).into_iter().find(|stall| stall.waited > stall.allowed) {
            Some(Stall { from_ns, waited, allowed, next }) => {
                let next = next.unwrap_or_else(|| "nobody".to_owned());
                Err(format!(
                    "from {from_ns} on nobody held the lock and it was waited for {waited:?}, where {allowed:?} are \
                     admitted, until it was granted to {next}"
                ))
            }
            None => Ok(()),
        }
    }

    /// All of them in their order, the last being that after the last hold.
    pub fn stalls(&self, terms: &Terms) -> Vec<Stall> {
        let mut grants = self.holds();
        grants.sort_by_key(|hold| hold.token);
        let Some(first) = self.waits().first() else { return Vec::new() };
        let end = self.waits().iter().filter_map(Wait::waited_until).max().unwrap_or_default();

        let mut stalls = Vec::new();
        let (mut from, mut before): (u64, Option<&Hold<'_>>) = (first.called_ns, None);
        for next in grants.iter().map(Some).chain([None]) {
            let to = next.map_or(end, |next| next.granted);
            if from < to {
                let gap = Gap { from, to, before, next };
                stalls.push(Stall {
                    from_ns: from,
                    waited: self.waited(&gap),
                    allowed: self.allowed(&gap, terms),
                    next: next.map(|next| next.wait.waiter.clone()),
                });
            }
            if let Some(next) = next
                && next.to >= from
            {
                (from, before) = (next.to, Some(next));
            }
        }
        stalls
    }

    /// How much of a gap somebody who lives waited.
    fn waited(&self, gap: &Gap<'_>) -> Duration {
        let (mut waited, mut counted_to) = (0, gap.from);
        // By the time of their calls, so that what overlaps is counted once.
        for wait in self.waits() {
            let from = wait.called_ns.max(counted_to);
            let to = wait.waited_until().unwrap_or(u64::MAX).min(gap.to);
            if from < to {
                waited += to - from;
                counted_to = to;
            }
        }
        Duration::from_nanos(waited)
    }

    fn allowed(&self, gap: &Gap<'_>, terms: &Terms) -> Duration {
        let mut until = gap.from + terms.heartbeat();
        if gap.before.is_some_and(|before| before.wait.released_ns.is_none()) {
            until = until.max(gap.from + terms.lease_ns());
        }
        for wait in self.waits().iter().filter(|wait| wait.stands_before(gap)) {
            let deaths = wait.died_ns.into_iter().chain(wait.pauses.iter().map(|(paused, _)| *paused));
            for death in deaths.filter(|&death| death <= gap.to && wait.waits_at(death)) {
                until = until.max(death + terms.window());
            }
            // A grant that nobody took lasts a lease.
            if wait.untaken_ns.is_some_and(|untaken| untaken >= gap.from) {
                until += terms.lease_ns();
            }
        }
        for loss in terms.losses().filter(|loss| loss.from_ns <= gap.to) {
            until = until.max(loss.to_ns + terms.recovery() + terms.heartbeat());
        }
        // While the server is silent the time of leases and sessions stands still, but for two heartbeats.
        let reach = gap.from.saturating_sub(terms.window().max(terms.lease_ns()));
        for silence in terms.silences().filter(|silence| silence.from_ns <= gap.to && silence.to_ns >= reach) {
            until += silence.to_ns - silence.from_ns + 2 * terms.heartbeat();
        }
        Duration::from_nanos(until - gap.from + nanos(terms.slack))
    }
}

/// The time from one hold to the next.
struct Gap<'a> {
    from: u64,
    to: u64,
    before: Option<&'a Hold<'a>>,
    next: Option<&'a Hold<'a>>,
}

impl Wait {
    /// Whether those who wait in a gap had to wait for this one too.
    fn stands_before(&self, gap: &Gap<'_>) -> bool {
        let ticket = gap.next.and_then(|next| next.wait.ticket);
        let lower = self.ticket.zip(ticket).is_none_or(|(its, ticket)| its < ticket);
        self.called_ns <= gap.to && lower
    }

    fn waits_at(&self, at: u64) -> bool {
        let ends = [self.granted_ns, self.left_ns, self.returned_ns];
        self.called_ns <= at && ends.into_iter().flatten().all(|end| at < end)
    }
}
