//! Who may hold the lock: leases that stand, end, come back or are granted.

use testkit::promises::{self, Holder};

use super::{Lease, Request, Turn, Witness, client_of, named};

impl Witness {
    /// Whether the request brings numbers that the server does not have: it was rolled back, and the leases that it has
    /// may be over.
    pub(super) fn shows_a_rollback(&self, turn: &Turn) -> bool {
        let state = &self.before.lock.state;
        let Some((memory, seat)) = turn.request.brings().filter(|(memory, _)| !memory.is_strangers()) else {
            return false;
        };
        let beyond = |epoch, stamp, token| {
            epoch > state.epoch || epoch == state.epoch && (stamp > state.stamp || token > state.token)
        };
        let shows = beyond(memory.epoch, memory.stamp, memory.token) || beyond(seat.epoch, seat.ticket, seat.token);
        shows && !self.partial && self.believed(turn).is_some()
    }

    /// Whether a recovery was open when the request did its work.
    pub(super) fn in_recovery(&self, turn: &Turn) -> bool {
        let (before, after) = (&self.before.lock.state, &turn.outcome.found.lock.state);
        before.epoch != after.epoch || after.seen < before.recover_until()
    }

    /// A claim counts as its waiter did: it outlasts a silence in which a heartbeat may have been missed. One such silence
    /// is not followed by others.
    pub(super) fn outlasts(&self, turn: &Turn, lease: &Lease) -> bool {
        let before = &self.before.lock;
        let heartbeat = before.entries.get(&lease.id).map_or(0, |entry| entry.heartbeat);
        let stands = lease.claim && !lease.broken && before.state.live_until > before.state.seen;
        let end = self.stored.iter().find(|stored| stored.token == lease.token).map_or(0, |stored| stored.end);
        stands && self.fell_silent(turn, end, heartbeat)
    }

    /// I1 and I10: no more hold than each of them wants. A live lease ends only by its holder, by force, or by the return
    /// of a later one after a loss; and it becomes shorter only when data was lost.
    pub(super) fn exclusion(&self, turn: &Turn) -> Result<(), String> {
        let (before, after) = (&self.before.lock, &turn.outcome.found.lock);
        let now = after.state.seen;
        promises::exclusion_of_all(&after.leases.iter().map(Holder::from).collect::<Vec<_>>())?;
        for Lease { id, end, .. } in &after.leases {
            ensure!(*end > now, "the lease of {id} stands beyond its end");
            let same = after.leases.iter().filter(|other| other.id == *id).count();
            ensure!(same == 1 && after.ticket(id).is_none(), "{id} has more than a lease");
        }
        let rollback = self.shows_a_rollback(turn);
        for lease in before.leases.iter().filter(|lease| lease.end > now || self.outlasts(turn, lease)) {
            let Lease { id, end, token, .. } = lease;
            let may_end = match turn.request {
                _ if rollback => true,
                Request::Release { id: theirs, seat, .. } | Request::Renew { id: theirs, seat, .. } => {
                    let gives_back = theirs == id && matches!(turn.request, Request::Release { .. });
                    gives_back || seat.token > *token && self.in_recovery(turn)
                }
                Request::Leave { ids, .. } => ids.contains(id),
                Request::Break { token: theirs, force } => *force && theirs == token,
                _ => false,
            };
            match after.lease_of(id).filter(|stands| stands.token == *token) {
                Some(_) if rollback => {}
                Some(stands) => {
                    let renewed = matches!(turn.request, Request::Renew { id: theirs, .. } if theirs == id)
                        || self.outlasts(turn, lease)
                            && stands.end == after.state.silent_until + before.entries[id].heartbeat;
                    ensure!(stands.end == *end || renewed, "the lease of {id} was moved");
                    ensure!(stands.end == *end || !lease.broken, "the broken lease of {id} was prolonged");
                    // A claim that is confirmed lasts from then on for as long as its holder asked.
                    let confirmed = match turn.request {
                        Request::Renew { id: theirs, terms, .. } if theirs == id && lease.claim => now + terms.lease,
                        _ => *end,
                    };
                    ensure!(stands.end >= *end.min(&confirmed), "the lease of {id} was made shorter");
                    ensure!(!lease.claim || stands.claim || stands.end == confirmed, "{id} has not what it confirmed");
                    ensure!(
                        stands.most == lease.most || renewed && stands.most > lease.most,
                        "{id} wants another most"
                    );
                    let kept = (stands.slot, stands.ticket) == (lease.slot, lease.ticket);
                    ensure!(kept && stands.broken >= lease.broken, "it became {stands:?}, and was {lease:?}");
                }
                None => ensure!(may_end, "the live lease of {id} was taken"),
            }
        }
        Ok(())
    }

    /// I2, I3 and I5: waiters were granted the lock.
    pub(super) fn grants(&mut self, turn: &Turn) -> Result<(), String> {
        let (before, after) = (self.before.lock.clone(), &turn.outcome.found.lock);
        let stood = |lease: &&Lease| before.lease_of(&lease.id).is_some_and(|before| before.token == lease.token);
        let mut came: Vec<&Lease> = after.leases.iter().filter(|lease| !stood(lease)).collect();
        came.sort_by_key(|lease| lease.token);
        for lease in came {
            // A renewal that is told "lost" may find its waiter at the head of the queue.
            if let Request::Renew { id, seat, .. } = turn.request
                && lease.id == *id
                && turn.outcome.answer.word == "renewed"
            {
                ensure!((seat.token, seat.slot) == (lease.token, lease.slot), "another lease came back than {seat:?}");
                ensure!(self.in_recovery(turn), "a lease that had ended was revived");
                ensure!(seat.epoch < after.state.epoch, "a lease came back after no loss");
            } else {
                self.grant(turn, lease)?;
            }
        }
        Ok(())
    }

    fn grant(&mut self, turn: &Turn, lease: &Lease) -> Result<(), String> {
        let (before, after) = (&self.before.lock, &turn.outcome.found.lock);
        let now = after.state.seen;
        let Lease { id, end, token, slot, most, .. } = lease;
        // After a loss of all data and a clock that was set back, tokens rise over those that clients have brought
        // since.
        let clock_lost = turn.time <= self.top_token;
        let floor = self.returned.filter(|_| clock_lost).unwrap_or(self.top_token);
        let floor = floor.max(before.state.token);
        promises::token_rises((floor, floor), (*token, format_args!("{token} of {id}")))?;
        self.top_token = self.top_token.max(*token);
        self.returned = self.returned.map(|returned| returned.max(if clock_lost { *token } else { 0 }));
        self.grants.iter_mut().for_each(|grants| *grants += 1);
        ensure!(now >= after.state.recover_until(), "a grant during recovery");
        ensure!(slot < most, "{id} was granted slot {slot} of {most}");

        let (caller, asked) = match turn.request {
            Request::Acquire { id, seat, .. } => (Some(id), seat.ticket),
            _ => (None, 0),
        };
        if let Request::Acquire { id: caller, claim: true, terms, .. } = turn.request
            && caller == id
        {
            ensure!(*end <= now + terms.lease.min(terms.liveness), "{id} was granted more than a claim");
        }
        let asked = Some(asked).filter(|asked| *asked > 0 && caller == Some(id));
        let place = before.ticket(id).into_iter().chain(asked).min().unwrap_or(u64::MAX);
        let counts = |other: &&String| {
            *other != id && self.alive(turn, other) && !named(turn.request, other) && !after.holds(other)
        };
        promises::order(id, place, before.queue.iter().map(|(ticket, other)| (*ticket, other)), counts)?;
        if caller != Some(id) {
            let entry = &after.entries[id];
            let session = after.sessions.get(client_of(id)).or(before.sessions.get(client_of(id)));
            let heartbeat = self.heartbeats.get(client_of(id)).copied().unwrap_or_default();
            // After a silence it has the time for one more heartbeat.
            let again = after.state.silent_until + heartbeat;
            let longest = entry.lease.max(entry.liveness).max(3 * heartbeat);
            let limit = (now + longest).min(session.map_or(now, |end| again.max(*end)));
            // The last waiter of a client takes the session with it, even one that this very request has refreshed.
            let asks = matches!(turn.request, Request::Heartbeat { .. } | Request::Acquire { .. });
            let refreshed = asks && turn.request.client() == client_of(id);
            ensure!(*end <= limit || refreshed, "the claim of {id} goes beyond {limit}");
            ensure!(
                turn.outcome.messages.iter().any(|(_, message)| {
                    message.word == "grant" && message.own[0].id == *id && message.seat().token == *token
                }),
                "{id} was granted the lock and not told"
            );
        }
        Ok(())
    }
}
