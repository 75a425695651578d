//! What is promised of losses of data, and of leases that were lost or given back.

use super::{Lease, Request, Turn, Witness, named};

impl Witness {
    /// I7: the first request of a client that has seen what the server does not know opens a recovery, under a newer
    /// epoch, for long enough. Leases from before the loss end, unless their holders bring them back.
    pub(super) fn recovery(&self, turn: &Turn) -> Result<(), String> {
        let (before, after) = (&self.before.lock, &turn.outcome.found.lock);
        let Some((memory, _)) = turn.request.brings().filter(|_| self.shows_a_rollback(turn)) else { return Ok(()) };
        let asks = match turn.request {
            Request::Renew { left, .. } => *left,
            Request::Acquire { terms, .. } => terms.lease,
            _ => 0,
        };
        // The only lease may be back already.
        let accounted = after.state.misses_no_lease();
        ensure!(!accounted || turn.request.token() > 0, "no lease is back, and the recovery waits for none");
        let lasts = if accounted { 0 } else { asks.max(memory.longest) };
        let least = after.state.seen + (3 * memory.pace.max(turn.request.own_pace())).max(lasts);
        ensure!(after.state.epoch > before.state.epoch.max(memory.epoch), "the loss went unnoticed");
        ensure!(after.state.recover_until() >= least, "the recovery ends before {least}");
        for lease in &after.leases {
            let comes_back = turn.request.id() == Some(&lease.id) && turn.request.token() == lease.token;
            ensure!(comes_back, "the lease of {} from before the loss stays", lease.id);
        }
        Ok(())
    }

    /// A holder is told that its lease is lost neither while the server has it, nor after a loss without a later grant.
    pub(super) fn kept(&self, turn: &Turn) -> Result<(), String> {
        let (before, after) = (&self.before.lock, &turn.outcome.found.lock);
        let Request::Renew { id, seat, left, terms, .. } = turn.request else { return Ok(()) };
        if turn.outcome.answer.word != "lost" {
            return Ok(());
        }
        let has = after.lease_of(id).is_some_and(|lease| lease.token == seat.token && !lease.broken);
        // A server whose clock is behind may give a token that it has forgotten once more.
        let granted = after.state.grants > before.state.grants;
        ensure!(!has || granted, "{id} has its lease and was told that it is lost");
        let found = before.leases.iter().filter(|_| !self.shows_a_rollback(turn));
        let own = found.clone().any(|lease| lease.id == *id && lease.token == seat.token && !lease.broken);
        ensure!(!own || *left == 0, "{id} was found to have its lease, and was told that it is lost");
        let newest = found.clone().all(|lease| lease.token < seat.token || lease.end <= after.state.seen);
        let older = seat.token > 0 && seat.epoch < after.state.epoch && self.in_recovery(turn);
        let shows = older && *left > 0 && self.believed(turn).is_some();
        // Nobody may hold beside it, so it was over when the later one was granted.
        let passed = seat.most.max(terms.most) == 1 && seat.token < after.state.token;
        ensure!(!shows || !newest || passed, "{id} was not restored, and nobody had been granted the lock since");
        Ok(())
    }

    /// I10: what a release is told is what it did, and afterwards its id has nothing.
    pub(super) fn word_of_release(&self, turn: &Turn) -> Result<(), String> {
        let (before, after) = (&self.before.lock, &turn.outcome.found.lock);
        let ids = match turn.request {
            Request::Release { id, .. } => std::slice::from_ref(id),
            Request::Leave { ids, .. } => ids,
            _ => return Ok(()),
        };
        for id in ids {
            ensure!(!after.holds(id) && after.ticket(id).is_none(), "{id} was given up and has something");
        }
        let Request::Release { id, seat, .. } = turn.request else { return Ok(()) };
        // What stood was dropped before the release.
        if self.partial || self.shows_a_rollback(turn) {
            return Ok(());
        }
        let lease = before.lease_of(id);
        // A claim that ends soon after a long silence lasts for another heartbeat, too.
        let spared = |lease: &Lease| {
            let heartbeat = before.entries.get(id).map_or(0, |entry| entry.heartbeat);
            let end = self.stored.iter().find(|stored| stored.token == lease.token).map_or(0, |stored| stored.end);
            // Of a calm lock no silence is kept.
            let state = if after.state.calm { &before.state } else { &after.state };
            let long = 2 * (state.silent_until - state.silent_from) > 3 * heartbeat;
            long && end > state.silent_from && after.state.seen < state.silent_until + heartbeat
        };
        let outlasts = |lease: &Lease| self.outlasts(turn, lease) || lease.claim && !lease.broken && spared(lease);
        let held = lease.is_some_and(|lease| lease.end > after.state.seen || outlasts(lease));
        let returns = seat.token > 0 && seat.epoch < after.state.epoch && self.in_recovery(turn);
        let (waited, returned) = (before.ticket(id).is_some(), returns && self.believed(turn).is_some());
        let right = match turn.outcome.answer.word.as_str() {
            "released" => held || returned,
            "expired" => lease.is_some() && !held,
            "left" => waited,
            _ => lease.is_none() && !waited,
        };
        ensure!(right, "{id} was told {:?}: held {held}, waited {waited}, {lease:?}", turn.outcome.answer.word);
        Ok(())
    }

    /// I10: a lease that was given back, or that an operator ended, does not come back while nothing is lost.
    pub(super) fn stays_over(&mut self, turn: &Turn) -> Result<(), String> {
        let (before, answer) = (&self.before.lock, &turn.outcome.answer);
        if let Request::Renew { id, seat, .. } = turn.request {
            let is_over = self.over.contains(&(id.clone(), seat.token));
            let lost = seat.epoch < turn.outcome.found.lock.state.epoch && self.in_recovery(turn);
            ensure!(answer.word != "renewed" || !is_over || lost, "the lease of {id} was over and came back");
            if answer.word == "renewed" {
                self.over.remove(&(id.clone(), seat.token));
            }
        }
        if let Request::Release { id, seat, .. } = turn.request
            && answer.word == "released"
        {
            self.over.insert((id.clone(), seat.token));
        }
        for lease in &before.leases {
            let ended = match turn.request {
                Request::Release { .. } | Request::Leave { .. } => named(turn.request, &lease.id),
                Request::Break { token, .. } => *token == lease.token && answer.word != "unknown",
                _ => false,
            };
            if ended {
                self.over.insert((lease.id.clone(), lease.token));
            }
        }
        Ok(())
    }
}
