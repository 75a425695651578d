//! I4, the server's half, and the lock clock that it rests on.

use super::{DAY_US, Request, Turn, Witness, named};

impl Witness {
    /// The heartbeat of each client that was heard of counts for the pace from now on.
    pub(super) fn beats(&mut self, turn: &Turn) {
        let (Request::Acquire { terms, .. } | Request::Heartbeat { terms, .. }) = turn.request else { return };
        let (client, after) = (turn.request.client(), &turn.outcome.found.lock);
        self.heartbeats.insert(client.to_owned(), terms.heartbeat);
        let until = self.heard_until.entry(client.to_owned()).or_default();
        *until = (*until).max(after.state.seen + terms.liveness + terms.buffer);
        let stands = |client: &&String| self.heard_until.get(*client).is_some_and(|end| *end > after.state.seen);
        let standing = self.heartbeats.keys().filter(stands).map(|client| self.heartbeats[client]);
        let pace = standing.max().unwrap_or_default();
        // A waiter that is granted the lock takes its session along, so it is not seen whether that was prolonged
        // before.
        let prolonged = self.before.lock.sessions.get(client) < after.sessions.get(client);
        self.pace = if prolonged { pace } else { pace.max(self.pace) };
    }

    /// The lock clock never runs backwards, never faster than the server's, and while a session stands by two
    /// heartbeats of the slowest at most.
    pub(super) fn the_clock(&self, turn: &Turn) -> Result<(), String> {
        let (before, after) = (&self.before.lock, &turn.outcome.found.lock);
        let Some(told_time) = self.told_time.filter(|_| before.state.seen > 0) else { return Ok(()) };
        ensure!(after.state.seen >= before.state.seen, "the lock clock ran backwards");
        let step = after.state.seen - before.state.seen;
        ensure!(step <= turn.time.saturating_sub(told_time), "the lock clock ran ahead by {step}");
        // Where the state was lost the pace is unknown until a client is heard of.
        let known = before.state.pace > 0 || self.returned.is_none();
        // An hour after the end of all that was left, nobody was there to ask.
        let lease_end = before.lease.as_ref().map_or(0, |(_, end)| *end);
        let over = lease_end.max(before.state.live_until).max(before.state.recover_until) + 3_600_000_000;
        let in_time = turn.time.saturating_add_signed(before.state.skew) <= over;
        let waited_for = known && before.state.live_until > before.state.seen && in_time;
        // What was lost may have been the session of the slowest.
        let longest = self.heartbeats.values().max().copied().unwrap_or_default();
        let pace = if self.returned.is_some() { longest } else { self.pace };
        ensure!(!waited_for || step <= 2 * pace, "the lock clock took a step of {step} while somebody waits");
        let least = if waited_for { 2 * self.heartbeats.values().min().copied().unwrap_or_default() } else { u64::MAX };
        let follows = step >= least.min(turn.time.saturating_sub(told_time)) || before.state.seen > turn.time;
        ensure!(follows || turn.time < told_time, "the lock clock took a step of {step} only");
        // A stamp that was believed leaves no room for a higher one: each turn gives three at most.
        let most = before.state.stamp.max(turn.time + DAY_US) + 3;
        ensure!((before.state.stamp..=most).contains(&after.state.stamp), "the stamp became {}", after.state.stamp);
        Ok(())
    }

    /// I4, the server's half: a lease ends on the lock clock as its holder was told, and by true time not before.
    pub(super) fn told(&mut self, turn: &Turn) -> Result<(), String> {
        let (answer, after) = (&turn.outcome.answer, &turn.outcome.found.lock);
        let reopened = self.before.lock.state.epoch != after.state.epoch;
        if let Some((holder, until)) = &self.told {
            let ended = match turn.request {
                Request::Release { .. } | Request::Leave { .. } => named(turn.request, holder),
                Request::Break { force, .. } => *force,
                Request::Renew { id, .. } => id != holder && answer.word == "renewed",
                // The request proves that this grant was made in a state that is older than the waiter's.
                Request::Acquire { id, .. } => id == holder && reopened,
                _ => false,
            };
            let taken = after.lease.as_ref().is_none_or(|(other, _)| other != holder);
            let taken_in_time = !taken || ended || *until <= turn.true_time;
            ensure!(taken_in_time, "{holder} was told {} µs more", until - turn.true_time);
            // A lease that is cut is older than a grant of which a client knows; `exclusion` judges whether it may be.
            let cut = after.entries.get(holder).is_some_and(|held| held.cut);
            if taken || reopened || cut {
                self.told = None;
            }
        }
        if let "granted" | "renewed" | "broken" = answer.word.as_str()
            && let Some((id, end)) = &after.lease
        {
            let left = end - after.state.seen;
            ensure!(answer.number("lease_left_us") == Some(left), "{id} was not told that {left} µs are left");
            ensure!(
                answer.fields.get("own_id") == Some(id) || answer.word == "broken",
                "{id} was not told of its lease"
            );
            if !matches!(self.told.as_ref(), Some((_, until)) if *until > turn.true_time + left) {
                self.told = Some((id.clone(), turn.true_time + left));
            }
        }
        Ok(())
    }
}
