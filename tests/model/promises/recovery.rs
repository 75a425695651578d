//! What is promised of losses of data, and of leases that were lost or given back.

use super::{Lock, Request, Turn, Witness, named};

impl Witness {
    /// I7: the first request of a client that has seen what the server does not know opens a recovery, under a newer
    /// epoch, for long enough. Leases from before the loss end with the recovery; leases granted after it do not.
    pub(super) fn recovery(&self, turn: &Turn) -> Result<(), String> {
        let (before, after) = (&self.before.lock, &turn.outcome.found.lock);
        let Some((memory, seat)) = turn.request.brings().filter(|(memory, _)| !memory.is_strangers()) else {
            return Ok(());
        };
        if self.believed(turn).is_none() {
            return Ok(());
        }
        let beyond = |epoch, stamp, token| {
            epoch > before.state.epoch
                || epoch == before.state.epoch && (stamp > before.state.stamp || token > before.state.token)
        };
        let shows_a_loss =
            beyond(memory.epoch, memory.stamp, memory.token) || beyond(seat.epoch, seat.ticket, seat.token);
        let comes_back = |lock: &Lock| turn.request.id().is_some_and(|id| lock.holds(id));
        // A lease that is not the last one is over.
        let held = before.lease.as_ref().and_then(|(holder, _)| before.entries.get(holder));
        if shows_a_loss && !self.partial {
            let known = before.state.token.max(held.map_or(0, |held| held.token));
            // The release of the last lease ends the wait for it. To break it has taken one token.
            let gives_back =
                matches!(turn.request, Request::Release { seat, .. } if seat.token + 1 >= known.max(memory.token));
            let asks = match turn.request {
                Request::Renew { left, .. } => *left,
                Request::Acquire { terms, .. } => terms.lease,
                _ => 0,
            };
            let left =
                if memory.token.max(seat.token) + 1 < known || gives_back { 0 } else { asks.max(memory.longest) };
            let least = after.state.seen + (3 * memory.pace.max(turn.request.own_pace())).max(left);
            ensure!(after.state.epoch > memory.epoch, "the loss went unnoticed");
            ensure!(after.state.recover_until >= least, "the recovery ends before {least}");
            let (stands, end) = after.lease.as_ref().map_or((false, 0), |(holder, end)| (before.holds(holder), *end));
            let in_time = end <= after.state.recover_until;
            ensure!(!stands || in_time || comes_back(after), "a lease from before the loss stays");
        } else if memory.epoch < before.state.epoch
            && let Some((holder, end)) = &before.lease
            && let Some((now_holder, now_end)) = &after.lease
            && held.is_none_or(|held| !held.cut && memory.token <= held.token + u64::from(held.broken))
        {
            let cut = now_holder == holder && now_end < end;
            ensure!(!cut || comes_back(after), "a lease from after the loss was cut");
        }
        Ok(())
    }

    /// A holder is told that its lease is lost neither while the server has it, nor after a loss without a later grant.
    pub(super) fn kept(&self, turn: &Turn) -> Result<(), String> {
        let (before, after) = (&self.before.lock, &turn.outcome.found.lock);
        let Request::Renew { id, seat, left, memory, .. } = turn.request else { return Ok(()) };
        let token = seat.token;
        if turn.outcome.answer.word != "lost" {
            return Ok(());
        }
        let held = after.entries.get(id).filter(|held| after.holds(id) && held.token == token);
        ensure!(!held.is_some_and(|held| !held.broken && !held.cut), "{id} has its lease and was told that it is lost");
        let last = before.lease.as_ref().and_then(|(holder, _)| Some(before.entries.get(holder)?.token));
        // It returns under the epoch that it knows, or in a recovery that was opened by a client that may know of this
        // lease.
        let older = seat.epoch < before.state.epoch && after.state.seen < before.state.recover_until;
        let known = before.state.token - u64::from(older && before.state.token == token);
        let newest = token > known && token >= memory.token && last.is_none_or(|last| token > last);
        let in_time = !memory.is_strangers() && (seat.epoch == before.state.epoch || older);
        let shows = in_time && *left > 0 && self.believed(turn).is_some();
        ensure!(!shows || !newest, "{id} was not restored, and nobody had been granted the lock since");
        Ok(())
    }

    /// I10: a lease that was given back, or that an operator ended, does not come back.
    pub(super) fn stays_over(&mut self, turn: &Turn) -> Result<(), String> {
        let (before, answer) = (&self.before.lock, &turn.outcome.answer);
        if let Request::Renew { id, seat, .. } = turn.request {
            let is_over = self.over.contains(&(id.clone(), seat.token));
            ensure!(answer.word != "renewed" || !is_over, "the lease of {id} was over and came back");
        }
        if let Request::Release { id, seat, .. } = turn.request
            && answer.word == "released"
        {
            self.over.insert((id.clone(), seat.token));
        }
        let Some((holder, _)) = &before.lease else { return Ok(()) };
        let ended = match turn.request {
            Request::Release { .. } | Request::Leave { .. } => named(turn.request, holder),
            // Token 0 ends a recovery, and no lease.
            Request::Break { token, .. } => *token > 0 && answer.word != "unknown",
            _ => false,
        };
        if ended {
            let token = before.entries.get(holder).map_or(before.state.token, |held| held.token);
            self.over.insert((holder.clone(), token));
        }
        Ok(())
    }
}
