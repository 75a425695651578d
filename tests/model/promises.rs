//! The promises, judged by the data before and after a request and by its answer: without the model, so that a mistake
//! which model and scripts share does not pass.

use std::collections::{BTreeMap, BTreeSet};

use super::driver::{Found, NO_MEMORY, Outcome};
use super::{Lock, Request, Seat, client_of};

const DAY_US: u64 = 86_400_000_000;

macro_rules! ensure {
    ($holds:expr, $($message:tt)*) => { if !$holds { return Err(format!($($message)*)); } };
}

mod leftovers;
mod recovery;
mod time;

/// What was seen of one lock since it was made.
#[derive(Debug)]
pub struct Witness {
    before: Found,
    /// The server's clock at the turn that left `before`; none after data was lost.
    told_time: Option<u64>,
    /// The highest token ever granted.
    top_token: u64,
    /// The highest stamp that clients brought back since data was lost. None while nothing was lost.
    returned: Option<u64>,
    /// A holder, and the end of its lease by true time as the holder was told.
    told: Option<(String, u64)>,
    /// The heartbeat that each client named.
    heartbeats: BTreeMap<String, u64>,
    /// The longest heartbeat among the live sessions when one of them was last prolonged.
    pace: u64,
    /// Ids and tokens of leases that were given back, or that an operator ended.
    over: BTreeSet<(String, u64)>,
    /// How often the lock was granted since its data began. None if the data is from before a loss.
    grants: Option<u32>,
    /// Until when each client that waited counts as alive, at least as long as the server thinks.
    heard_until: BTreeMap<String, u64>,
    /// A key was missing before this turn.
    partial: bool,
}

/// One turn as seen from outside.
pub struct Turn<'a> {
    /// The server's clock.
    pub time: u64,
    /// True time, which no test steps.
    pub true_time: u64,
    pub request: &'a Request,
    pub outcome: &'a Outcome,
    /// How many dead heads, and dead sessions, one script looks at.
    pub batch: usize,
    /// Whether the server's memory is full.
    pub full: bool,
}

impl Default for Witness {
    fn default() -> Self {
        Self {
            before: Found::default(),
            told_time: None,
            top_token: 0,
            returned: None,
            told: None,
            heartbeats: BTreeMap::new(),
            pace: 0,
            over: BTreeSet::new(),
            grants: Some(0),
            heard_until: BTreeMap::new(),
            partial: false,
        }
    }
}

impl Witness {
    /// Keys went because the server's clock came to the end of their time. What was in use counts as lost, and so does
    /// an idle lock that was granted once at most, or was left for a day: I3 makes an exception for a clock that jumps
    /// so far forwards and back. All others must be remembered.
    pub fn expired(&mut self, time: u64, found: Found) {
        let left_for_long = self.told_time.is_none_or(|told| time >= told + DAY_US);
        if self.before.lock.stands() || left_for_long || self.grants.is_some_and(|grants| grants < 2) {
            return self.data_lost(found);
        }
        self.before = found;
        (self.told_time, self.told, self.grants) = (None, None, Some(0));
        // A renewal from before may be executed only now, in a recovery that a waiter opens which slept as long.
        self.over.clear();
    }

    /// Data was lost, and this is what stands now.
    pub fn data_lost(&mut self, mut found: Found) {
        self.partial = found.lock.is_partial();
        if self.partial {
            // What is left is dropped. The numbers stay, and stamps go on behind the queue.
            let last_ticket = found.lock.queue.last().map_or(0, |(ticket, _)| *ticket);
            found.lock = Lock { state: found.lock.state, ..Lock::default() };
            // The new epoch is the next stamp: one that a client brings is not beyond it.
            found.lock.state.stamp = found.lock.state.stamp.max(last_ticket) + 1;
        }
        self.grants = (found.lock.state.epoch == 0).then_some(0);
        self.before = found;
        self.told_time = None;
        self.told = None;
        self.returned = Some(0);
        // A lease may be back from a time at which it was not over.
        self.over.clear();
    }

    /// The server's clock was set forwards: leases are shorter by as much.
    pub fn stepped(&mut self, forwards: u64) {
        if let Some((_, until)) = &mut self.told {
            *until = until.saturating_sub(forwards);
        }
    }

    pub fn judge(&mut self, turn: &Turn) -> Result<(), String> {
        let Turn { request, outcome, .. } = turn;
        let (before, after) = (&self.before.lock, &outcome.found.lock);
        self.kept(turn)?;
        if ["disbelieved", NO_MEMORY].contains(&&*outcome.answer.word) || request.looks_only() {
            let same = before.without_history() == after.without_history();
            ensure!(self.partial || same, "it was to change nothing, and left {after:?}");
            return Ok(());
        }
        self.notice(turn);
        let keeps_time = after.stands() || after.state.epoch > 0;
        if keeps_time {
            self.the_clock(turn)?;
            self.beats(turn);
            self.exclusion(turn)?;
            self.grants(turn)?;
            self.places(turn)?;
            self.bound(turn)?;
            self.progress(turn)?;
            self.recovery(turn)?;
            self.told(turn)?;
            self.stays_over(turn)?;
        }
        self.garbage(turn)?;
        self.leftovers(turn)?;
        self.before = outcome.found.clone();
        self.partial = false;
        if keeps_time {
            self.told_time = Some(turn.time);
        }
        Ok(())
    }

    /// A newcomer joins no queue that is full for it. A waiter that has a place keeps it.
    fn bound(&self, turn: &Turn) -> Result<(), String> {
        let Request::Acquire { id, room, seat, .. } = turn.request else { return Ok(()) };
        let after = &turn.outcome.found.lock;
        let joined = after.ticket(id).is_some();
        let newcomer = self.before.lock.ticket(id).is_none() && seat.ticket == 0;
        ensure!(!joined || !newcomer || after.queue.len() as u64 <= *room, "{id} joined a queue that was full");
        let left = !newcomer && *room > 0 && turn.outcome.answer.word == "busy";
        ensure!(!left, "{id} had a place and was told that the queue is full");
        Ok(())
    }

    fn notice(&mut self, turn: &Turn) {
        let brought = self.believed(turn).unwrap_or_default();
        self.returned.iter_mut().for_each(|top| *top = brought.max(*top));
    }

    /// The highest stamp that the request brings, unless the script disbelieves it.
    fn believed(&self, turn: &Turn) -> Option<u64> {
        let (memory, seat) = turn.request.brings()?;
        let highest = memory.highest().max(seat.highest());
        let known = self.before.lock.entries.values().map(|entry| entry.token);
        let known = known.chain(self.before.lock.queue.iter().map(|(ticket, _)| *ticket)).max().unwrap_or_default();
        (highest <= known.max(self.before.lock.state.stamp).max(turn.time + DAY_US)).then_some(highest)
    }

    /// I1 and I10: a live lease ends only by its holder, by force, or by the return of a newer one after a loss; and it
    /// becomes shorter only when data was lost.
    fn exclusion(&self, turn: &Turn) -> Result<(), String> {
        let (before, after) = (&self.before.lock, &turn.outcome.found.lock);
        ensure!(after.lease.as_ref().is_none_or(|(_, end)| *end > after.state.seen), "a lease stands beyond its end");
        let Some((holder, end)) = before.lease.as_ref().filter(|(_, end)| *end > after.state.seen) else {
            return Ok(());
        };
        let held = before.entries.get(holder);
        let token = held.map_or(before.state.token, |held| held.token);
        let reopened = before.state.epoch != after.state.epoch;
        // A client has told of a later grant. (To break a lease takes one token.)
        let broken = u64::from(held.is_some_and(|held| held.broken));
        let is_older = turn.request.brings().is_some_and(|(memory, _)| memory.token > token + broken)
            && after.state.seen < after.state.recover_until;
        let cut = reopened || is_older || held.is_none_or(|held| held.cut);
        let may_end = match turn.request {
            // A recovery that ends because nobody is left to wait for ends the cut lease, too.
            Request::Release { id, .. } => id == holder || cut,
            Request::Leave { ids, .. } => ids.contains(holder),
            Request::Break { token: theirs, force } => *force && (*theirs == token || *theirs == 0 && cut),
            Request::Renew { seat, .. } => seat.token > token && after.state.seen < after.state.recover_until,
            Request::Acquire { id, .. } => id == holder && cut,
            _ => false,
        };
        match &after.lease {
            Some((other, new_end)) if other == holder => {
                let renewed = matches!(turn.request, Request::Renew { id, .. } if id == holder);
                let may_move = renewed || may_end || cut;
                ensure!(new_end == end || may_move, "the lease of {holder} was moved");
                let broken = held.is_some_and(|held| held.broken) && !reopened;
                ensure!(new_end <= end || !broken, "the broken lease of {holder} was prolonged");
                ensure!(new_end >= end || cut, "the lease of {holder} was made shorter");
            }
            _ => ensure!(may_end, "the live lease of {holder} was taken"),
        }
        Ok(())
    }

    /// I2, I3 and I5: a waiter was granted the lock.
    fn grants(&mut self, turn: &Turn) -> Result<(), String> {
        let (before, after) = (&self.before.lock, &turn.outcome.found.lock);
        let now = after.state.seen;
        let Some((id, end)) = &after.lease else { return Ok(()) };
        // A grant leaves an entry. Without one the last token stands for the lease's own, and may rise.
        let Some(token) = after.entries.get(id).map(|held| held.token) else { return Ok(()) };
        if token == before.entries.get(id).map_or(before.state.token, |held| held.token) && before.holds(id) {
            return Ok(());
        }
        if let Request::Renew { id: returner, seat, .. } = turn.request
            && returner == id
            && turn.outcome.answer.word == "renewed"
        {
            ensure!(seat.token == token, "a lease came back with another token");
            ensure!(token >= before.state.token, "a lease came back that an older one had overtaken");
            ensure!(now < after.state.recover_until, "a lease that had ended was revived");
            return Ok(());
        }

        // After a loss of all data and a clock that was set back, tokens rise over those that clients have brought
        // since.
        let clock_lost = turn.time <= self.top_token;
        let floor = self.returned.filter(|_| clock_lost).unwrap_or(self.top_token);
        ensure!(token > floor, "token {token} after {floor}");
        ensure!(token > before.state.token, "token {token} after {}", before.state.token);
        self.top_token = self.top_token.max(token);
        self.grants.iter_mut().for_each(|grants| *grants += 1);
        ensure!(now >= after.state.recover_until, "a grant during recovery");

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
        for (ticket, other) in before.queue.iter().filter(|(ticket, other)| *ticket < place && other != id) {
            let passed_over = self.alive(turn, other) && !named(turn.request, other);
            ensure!(!passed_over, "{other} (ticket {ticket}) stood in the queue when {id} was granted the lock");
        }
        if caller != Some(id) {
            let entry = &after.entries[id];
            let session = after.sessions.get(client_of(id)).or(before.sessions.get(client_of(id)));
            // After a silence it has the time for one more heartbeat.
            let again = after.state.silent_until + self.heartbeats.get(client_of(id)).copied().unwrap_or_default();
            let limit = (now + entry.lease.max(entry.liveness)).min(session.map_or(now, |end| again.max(*end)));
            // The last waiter of a client takes the session with it, even one that this very request has refreshed.
            let asks = matches!(turn.request, Request::Heartbeat { .. } | Request::Acquire { .. });
            let refreshed = asks && turn.request.client() == client_of(id);
            ensure!(*end <= limit || refreshed, "the claim of {id} goes beyond {limit}");
            ensure!(
                turn.outcome.messages.iter().any(|(_, message)| {
                    message.word == "grant" && message.fields["id"] == *id && message.seat("seat").token == token
                }),
                "{id} was granted the lock and not told"
            );
        }
        Ok(())
    }

    /// Whether this waiter counted before the turn: it could be granted the lock, and its session goes on, or ended in
    /// a silence in which it would have sent two heartbeats.
    fn alive(&self, turn: &Turn, id: &str) -> bool {
        let (lock, now) = (&self.before.lock, turn.outcome.found.lock.state.seen);
        let Some(end) = lock.sessions.get(client_of(id)).filter(|_| lock.entries.contains_key(id)) else {
            return false;
        };
        let heartbeat = self.heartbeats.get(client_of(id)).copied().unwrap_or(u64::MAX / 4);
        let (silence, state) = (now - lock.state.seen, &lock.state);
        // Of two silences of which one soon follows the other only the longer one counts.
        let latest = state.silent_until - state.silent_from;
        let counts = silence > latest || 2 * (now - state.silent_until) > latest;
        *end > now || *end > state.seen && silence > 2 * heartbeat && counts && self.told_time.is_some()
    }

    /// I7 and I8: a waiter loses its place only by its own doing or its own silence, and never gets another.
    fn places(&self, turn: &Turn) -> Result<(), String> {
        let (before, after) = (&self.before.lock, &turn.outcome.found.lock);
        let now = after.state.seen;
        for (ticket, id) in &before.queue {
            match after.ticket(id) {
                Some(other) => {
                    let mut asks = None;
                    if let Request::Acquire { id: caller, seat, .. } = turn.request
                        && caller == id
                    {
                        asks = Some(seat.ticket);
                    }
                    let may_change = asks.is_some();
                    // A waiter returns to its own place, if a late acquire was given another.
                    let returns = other < *ticket && asks == Some(other);
                    ensure!(other == *ticket || returns, "the ticket of {id} became {other}");
                    ensure!(
                        may_change || before.entries.get(id).is_none_or(|entry| after.entries.get(id) == Some(entry)),
                        "the entry of {id} became {:?}",
                        after.entries.get(id)
                    );
                }
                None => {
                    ensure!(after.holds(id) || named(turn.request, id) || !self.alive(turn, id), "{id} lost its place")
                }
            }
        }
        for (ticket, id) in after.queue.iter().filter(|(_, id)| before.ticket(id).is_none()) {
            let Request::Acquire { id: caller, seat: Seat { ticket: asked, .. }, .. } = turn.request else {
                return Err(format!("{id} came into the queue by nobody's acquire"));
            };
            ensure!(caller == id, "{id} came into the queue by the acquire of {caller}");
            ensure!(self.believed(turn).is_some(), "{id} brought ticket {ticket} and was believed");
            ensure!(ticket == asked || (*asked == 0 && *ticket > before.state.stamp), "{id} was given ticket {ticket}");
        }
        let caller = match turn.request {
            Request::Acquire { .. } | Request::Heartbeat { .. } => turn.request.client(),
            _ => "",
        };
        for (client, end) in before.sessions.iter().filter(|(client, end)| **end > now && *client != caller) {
            let ends = after.sessions.get(client);
            ensure!(ends == Some(end) || !waits(after, client), "the session of {client} now ends at {ends:?}");
        }
        let (was, is) = (before.sessions.get(caller), after.sessions.get(caller));
        ensure!(was <= is || was <= Some(&now) || !waits(after, caller), "the session of {caller} became shorter");
        let stays = turn.outcome.answer.fields.contains_key("rank");
        if let Request::Acquire { terms, .. } | Request::Heartbeat { terms, .. } = turn.request
            && stays
        {
            let least = now + terms.liveness + terms.buffer;
            ensure!(is >= Some(&least), "{caller} waits and its session ends at {is:?}");
        }
        Ok(())
    }

    /// I5: a turn that may grant leaves no free lock with a queue, however many waiters are dead.
    fn progress(&self, turn: &Turn) -> Result<(), String> {
        let Lock { lease, queue, state, .. } = &turn.outcome.found.lock;
        let stuck = lease.is_none() && !queue.is_empty() && state.seen >= state.recover_until;
        ensure!(!stuck || turn.outcome.answer.number("again") == Some(1), "the lock is free and nobody gets it");
        Ok(())
    }
}

/// I10: what the second of two equal requests may change is the clock, and the end of a lease that it renews.
pub fn repeated(request: &Request, first: &Outcome, second: &Outcome) -> Result<(), String> {
    // The end of a recovery leaves three heartbeats of the clients that are heard of. A repetition may find fewer
    // clients.
    let ends_recovery = matches!(request, Request::Break { token: 0, force: true });
    // A script that told a newcomer of a full queue has granted the lock to its head, or purged: there is room by now.
    let room = if let Request::Acquire { room, .. } = request { *room } else { 0 };
    let (queue, later) = (&first.found.lock.queue, &second.found.lock.queue);
    let purges = queue.iter().any(|place| !later.contains(place));
    let makes_room = first.answer.word == "busy" && ((queue.len() as u64) < room || room > 0 && purges);
    if first.answer.number("again") == Some(1) || ends_recovery || makes_room {
        return Ok(());
    }
    let (mut one, mut two) = (first.found.lock.clone(), second.found.lock.clone());
    if let (Request::Renew { .. }, Some((_, end)), Some((_, later))) = (request, &mut one.lease, &mut two.lease) {
        *end = *later.max(end);
    }
    (one.state.skew, one.state.pace) = (two.state.skew, two.state.pace);
    ensure!(one == two, "sent twice, it made {one:?}\ninto {two:?}");
    Ok(())
}

fn waits(lock: &Lock, client: &str) -> bool {
    lock.queue.iter().any(|(_, id)| client_of(id) == client)
}

/// Whether the request is about this id, by its owner.
fn named(request: &Request, id: &str) -> bool {
    match request {
        Request::Release { id: named, .. } | Request::Renew { id: named, .. } => named == id,
        Request::Leave { ids, .. } => ids.iter().any(|named| named == id),
        _ => false,
    }
}
