//! I4, the server's half, and the lock clock that it rests on.

use super::{DAY_US, Lease, Request, Seat, Turn, Witness, named};

impl Witness {
    /// The heartbeat of each client that was heard of counts for the pace from now on, until no session is left. (The
    /// server forgets it sooner.)
    pub(super) fn beats(&mut self, turn: &Turn) {
        let (Request::Acquire { terms, .. } | Request::Heartbeat { terms, .. }) = turn.request else { return };
        self.heartbeats.insert(turn.request.client().to_owned(), terms.heartbeat);
        if self.before.lock.state.live_until <= self.before.lock.state.seen {
            self.pace = 0;
        }
        self.pace = self.pace.max(terms.heartbeat);
    }

    /// The lock clock never runs backwards, never faster than the server's, and while a session stands by two
    /// heartbeats of the slowest of late at most.
    pub(super) fn the_clock(&self, turn: &Turn) -> Result<(), String> {
        let (before, after) = (&self.before.lock, &turn.outcome.found.lock);
        let Some(told_time) = self.told_time.filter(|_| before.state.seen > 0) else { return Ok(()) };
        ensure!(after.state.seen >= before.state.seen, "the lock clock ran backwards");
        let step = after.state.seen - before.state.seen;
        ensure!(step <= turn.time.saturating_sub(told_time), "the lock clock ran ahead by {step}");
        // Where the state was lost the pace is unknown until a client is heard of.
        let known = before.state.pace > 0 || self.returned.is_none();
        // An hour after the end of all that was left, nobody was there to ask.
        let over = before.state.last_end.max(before.state.live_until).max(before.state.recover_until()) + 3_600_000_000;
        let in_time = turn.time.saturating_add_signed(before.state.skew) <= over;
        let waited_for = known && before.state.live_until > before.state.seen && in_time;
        // What was lost may have been the session of the slowest.
        let longest = self.heartbeats.values().max().copied().unwrap_or_default();
        let pace = if self.returned.is_some() { longest } else { self.pace };
        ensure!(!waited_for || step <= 2 * pace, "the lock clock took a step of {step} while somebody waits");
        let least = if waited_for { 2 * self.heartbeats.values().min().copied().unwrap_or_default() } else { u64::MAX };
        let follows = step >= least.min(turn.time.saturating_sub(told_time)) || before.state.seen > turn.time;
        ensure!(follows || turn.time < told_time, "the lock clock took a step of {step} only");
        // A stamp that was believed leaves no room for a higher one: each turn gives three at most, and one for each
        // waiter that it grants the lock.
        let most = before.state.stamp.max(turn.time + DAY_US) + 3 + turn.outcome.messages.len() as u64;
        ensure!((before.state.stamp..=most).contains(&after.state.stamp), "the stamp became {}", after.state.stamp);
        Ok(())
    }

    /// I4, the server's half: a lease ends on the lock clock as its holder was told, and by true time not before.
    pub(super) fn told(&mut self, turn: &Turn) -> Result<(), String> {
        let (answer, after) = (&turn.outcome.answer, &turn.outcome.found.lock);
        let rollback = self.shows_a_rollback(turn);
        for (holder, until) in self.told.iter().filter(|(holder, _)| !after.holds(holder)) {
            let token = self.before.lock.lease_of(holder).map_or(0, |lease| lease.token);
            let ended = match turn.request {
                // The request proves that this grant was made in a state that is older.
                _ if rollback => true,
                Request::Leave { .. } => named(turn.request, holder),
                Request::Break { force, token: theirs } => *force && *theirs == token,
                Request::Renew { seat, .. } => seat.token > token && self.in_recovery(turn),
                Request::Release { seat, .. } => {
                    named(turn.request, holder) || seat.token > token && self.in_recovery(turn)
                }
                _ => false,
            };
            ensure!(ended || *until <= turn.true_time, "{holder} was told {} µs more", until - turn.true_time);
        }
        self.told.retain(|holder, _| after.holds(holder) && !rollback);

        let first = after.leases.iter().map(|lease| lease.end - after.state.seen).min().unwrap_or(0);
        ensure!(answer.number("held") == Some(after.leases.len() as u64), "{} hold the lock", after.leases.len());
        ensure!(answer.number("first_left_us") <= Some(first), "the first lease ends in {first} µs");
        for own in answer.leases() {
            let Some(lease) = after.lease_of(&own.id) else { return Err(format!("{} has no lease", own.id)) };
            let Lease { ticket, token, slot, most, .. } = *lease;
            let left = lease.end - after.state.seen;
            let seat = Seat { epoch: after.state.epoch, ticket, token, slot, most };
            ensure!((own.seat, own.claim, own.left) == (seat, lease.claim, left), "{own:?} and not {lease:?}");
            let until = self.told.entry(own.id.clone()).or_default();
            // Nobody counts on more of a claim than the lease that it asked for: the confirmation ends what is beyond.
            let counted_on = if lease.claim { left.min(after.entries[&own.id].lease) } else { left };
            *until = (*until).max(turn.true_time + counted_on);
        }
        if let "granted" | "renewed" | "broken" = answer.word.as_str() {
            let id = turn.request.id().unwrap_or_default();
            ensure!(answer.lease_of(id).is_some() || answer.word == "broken", "{id} was not told of its lease");
        }
        Ok(())
    }
}
