//! I5 and I6: no waiter waits for dead processes longer than promised, and no lost message is noticed later than by the
//! next heartbeat. So no waiter is forgotten.
//!
//! A stall is the time between the end of a hold and the next grant while a live waiter waits. Where several may hold
//! the lock, it begins when the holders that are left let one more in, and so nobody starves among them.

use std::{cmp::Reverse, time::Duration};

use super::{
    terms::{Terms, nanos},
    waits::{History, Hold, Wait},
};

#[derive(Clone, Debug)]
pub struct Stall {
    pub from_ns: u64,
    /// How long a live waiter waited for a lock that could have been granted to it.
    pub waited: Duration,
    /// The longest that this may take, given the faults.
    pub allowed: Duration,
    /// The waiter that was granted the lock in the end.
    pub next: Option<String>,
}

impl History {
    pub fn no_stall(&self, terms: &Terms) -> Result<(), String> {
        match self.stalls(terms).into_iter().find(|stall| stall.waited > stall.allowed) {
            Some(Stall { from_ns, waited, allowed, next }) => {
                let next = next.unwrap_or_else(|| "nobody".to_owned());
                Err(format!(
                    "from {from_ns} on the lock was free for one more and it was waited for {waited:?}, where \
                     {allowed:?} are admitted, until it was granted to {next}"
                ))
            }
            None => Ok(()),
        }
    }

    /// All stalls in their order; the last one is that after the last hold.
    pub fn stalls(&self, terms: &Terms) -> Vec<Stall> {
        let mut grants = self.holds();
        grants.sort_by_key(|hold| hold.token);
        let Some(first) = self.waits().first() else { return Vec::new() };
        let end = self.waits().iter().filter_map(Wait::waited_until).max().unwrap_or_default();

        // A history of hours has tens of thousands of waits and gaps, so waits that cannot matter to a gap are skipped.
        let befallen = |wait: &&Wait| wait.died_ns.or(wait.untaken_ns).is_some() || !wait.pauses.is_empty();
        let befallen: Vec<&Wait> = self.waits().iter().filter(befallen).collect();
        let mut waits = self.waits();
        let mut stalls = Vec::new();
        let mut holders = Holders { since: first.called_ns, spans: Vec::new() };
        for next in grants.iter().map(Some).chain([None]) {
            let to = next.map_or(end, |next| next.granted);
            let blocked = holders.keep_out(next.map_or(1, |next| next.wait.most));
            let (held_to, over) = blocked.unwrap_or_default();
            let from =
                holders.since.max(held_to).max(next.and_then(|next| self.last_in_the_way(next)).unwrap_or_default());
            if from < to {
                let gap = Gap { from, to, over, next };
                while let Some((first, rest)) = waits.split_first()
                    && first.waited_until().is_some_and(|until| until <= holders.since)
                {
                    waits = rest;
                }
                stalls.push(Stall {
                    from_ns: from,
                    waited: gap.waited(waits),
                    allowed: gap.allowed(&befallen, terms),
                    next: next.map(|next| next.wait.waiter.clone()),
                });
            }
            if let Some(next) = next {
                holders.add(next, terms);
            }
        }
        stalls
    }

    /// When the last waiter left that stood before this one and let in fewer than it does: who does not fit stops all
    /// behind it.
    fn last_in_the_way(&self, hold: &Hold<'_>) -> Option<u64> {
        let most = hold.wait.most;
        if most == 1 {
            return None;
        }
        let ticket = hold.wait.ticket?;
        let queued = self.clock.latest(ticket, hold.wait.called_ns, hold.from).unwrap_or(hold.from);
        let before = self.waits().iter().take_while(|wait| wait.called_ns < queued);
        let in_the_way = before.filter(|wait| wait.most < most && wait.ticket.is_none_or(|its| its < ticket));
        in_the_way.filter_map(|wait| wait.left_ns).filter(|&left| left < hold.granted).max()
    }
}

/// Those that hold the lock or may hold it still, at the grant that is looked at.
struct Holders {
    /// The latest grant before it.
    since: u64,
    spans: Vec<Span>,
}

/// A hold, or the part of it before or after a downgrade.
struct Span {
    slot: u32,
    /// How many may hold together meanwhile.
    most: u32,
    /// Until when it certainly held.
    to: u64,
    /// The latest time at which the server may have noticed its end.
    over: u64,
}

impl Holders {
    /// When the last one that kept out a waiter that lets so many hold together held to, and was over.
    fn keep_out(&mut self, most: u32) -> Option<(u64, u64)> {
        self.spans.sort_by_key(|span| Reverse(span.over));
        let mut least = most;
        (2..).zip(&self.spans).find_map(|(count, span)| {
            least = least.min(span.most);
            (count > least).then_some((span.to, span.over))
        })
    }

    fn add(&mut self, hold: &Hold<'_>, terms: &Terms) {
        let Wait { slot, most, .. } = *hold.wait;
        // Who cannot hold together with this one was gone.
        for span in &mut self.spans {
            if span.slot == slot || span.most == 1 || most == 1 {
                span.over = span.to.max(span.over.min(hold.granted));
            }
        }
        self.since = self.since.max(hold.granted);
        self.spans.retain(|span| span.over > self.since);
        let lease = if hold.wait.released_ns.is_none() { terms.lease_ns() } else { 0 };
        let (to, over) = (hold.to, hold.to.saturating_add(lease));
        match hold.wait.downgraded_ns.zip(hold.wait.downgrades) {
            Some((done, (_, lets_in))) => {
                self.spans.push(Span { slot, most, to: done, over: done });
                self.spans.push(Span { slot, most: lets_in, to, over });
            }
            None => self.spans.push(Span { slot, most, to, over }),
        }
    }
}

/// The time from one hold to the next.
struct Gap<'a> {
    from: u64,
    to: u64,
    /// When the holder that was in the way was gone, at the latest.
    over: u64,
    next: Option<&'a Hold<'a>>,
}

impl Gap<'_> {
    /// How much of the gap at least one of these live waiters waited.
    fn waited(&self, waits: &[Wait]) -> Duration {
        let (mut waited, mut counted_to) = (0, self.from);
        // Others than these may have to wait for more holders to go.
        let fits = |wait: &&Wait| self.next.is_none_or(|next| wait.most >= next.wait.most);
        // By the time of their calls, so that what overlaps is counted once.
        for wait in waits.iter().take_while(|wait| wait.called_ns < self.to).filter(fits) {
            let from = wait.called_ns.max(counted_to);
            let to = wait.waited_until().unwrap_or(u64::MAX).min(self.to);
            if from < to {
                waited += to - from;
                counted_to = to;
            }
        }
        Duration::from_nanos(waited)
    }

    /// `befallen`: the waits whose processes died, were paused, or did not take a grant.
    fn allowed(&self, befallen: &[&Wait], terms: &Terms) -> Duration {
        let mut until = self.over.max(self.from + terms.heartbeat());
        for wait in befallen.iter().filter(|wait| wait.stands_before(self)) {
            let deaths = wait.died_ns.into_iter().chain(wait.pauses.iter().map(|(paused, _)| *paused));
            for death in deaths.filter(|&death| death <= self.to && wait.waits_at(death)) {
                until = until.max(death + terms.window());
            }
            // A grant that its caller did not take lasts a lease.
            if wait.untaken_ns.is_some_and(|untaken| untaken >= self.from) {
                until += terms.lease_ns();
            }
        }
        for loss in terms.losses().filter(|loss| loss.from_ns <= self.to) {
            until = until.max(loss.to_ns + terms.recovery() + terms.heartbeat());
        }
        // While the server is silent, the time of leases and sessions stands still, except for two heartbeats.
        let reach = self.from.saturating_sub(terms.window().max(terms.lease_ns()));
        for silence in terms.silences().filter(|silence| silence.from_ns <= self.to && silence.to_ns >= reach) {
            until += silence.to_ns - silence.from_ns + 2 * terms.heartbeat();
        }
        Duration::from_nanos(until - self.from + nanos(terms.slack))
    }
}

impl Wait {
    /// Whether the waiters of a gap had to wait for this one too.
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
