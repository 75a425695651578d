//! The promises, judged by the data before and after a request and by its answer: without the model, so that a mistake
//! which model and scripts share does not pass.

use std::collections::{BTreeMap, BTreeSet};

use testkit::promises::keeps_its_ticket;

use super::driver::{Found, NO_MEMORY, Outcome};
use super::{Lease, Lock, MOST, Request, Seat, client_of};

const DAY_US: u64 = 86_400_000_000;

macro_rules! ensure {
    ($holds:expr, $($message:tt)*) => { if !$holds { return Err(format!($($message)*)); } };
}

mod holding;
mod leftovers;
mod recovery;
mod time;

/// What was seen of one lock since it was made.
#[derive(Debug)]
pub struct Witness {
    before: Found,
    /// Its leases as they are stored.
    stored: Vec<Lease>,
    /// The server's clock at the turn that left `before`; none after data was lost.
    told_time: Option<u64>,
    /// The highest token ever granted.
    top_token: u64,
    /// The highest stamp that clients brought back since data was lost. None while nothing was lost.
    returned: Option<u64>,
    /// The ends of leases by true time, as their holders were told.
    told: BTreeMap<String, u64>,
    /// The heartbeat that each client named.
    heartbeats: BTreeMap<String, u64>,
    /// The longest of them since there was no session.
    pace: u64,
    /// Ids and tokens of leases that were given back, or that an operator ended.
    over: BTreeSet<(String, u64)>,
    /// How often the lock was granted since its data began. None if the data is from before a loss.
    grants: Option<u32>,
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
            stored: vec![],
            told_time: None,
            top_token: 0,
            returned: None,
            told: BTreeMap::new(),
            heartbeats: BTreeMap::new(),
            pace: 0,
            over: BTreeSet::new(),
            grants: Some(0),
            partial: false,
        }
    }
}

/// A claim that stood when a silence began in which its waiter may have missed a heartbeat lasts for one more. It is stored
/// with the end that it had before.
fn as_they_last(mut found: Found) -> Found {
    let Lock { leases, entries, state, .. } = &mut found.lock;
    let silence = state.silent_until - state.silent_from;
    for lease in leases.iter_mut().filter(|lease| lease.claim && !lease.broken && lease.end <= state.seen) {
        let heartbeat = entries.get(&lease.id).map_or(0, |entry| entry.heartbeat);
        if lease.end > state.silent_from && 2 * silence > 3 * heartbeat {
            lease.end = lease.end.max(state.silent_until + heartbeat);
        }
    }
    found
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
        self.stored.clone_from(&found.lock.leases);
        self.before = as_they_last(found);
        (self.told_time, self.grants) = (None, Some(0));
        self.told.clear();
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
        self.stored.clone_from(&found.lock.leases);
        self.before = as_they_last(found);
        self.told_time = None;
        self.told.clear();
        self.returned = Some(0);
        // A lease may be back from a time at which it was not over.
        self.over.clear();
    }

    /// The server's clock was set forwards: leases are shorter by as much.
    pub fn stepped(&mut self, forwards: u64) {
        self.told.values_mut().for_each(|until| *until = until.saturating_sub(forwards));
    }

    pub fn judge(&mut self, turn: &Turn) -> Result<(), String> {
        let stored = turn.outcome.found.lock.leases.clone();
        let outcome = Outcome { found: as_they_last(turn.outcome.found.clone()), ..turn.outcome.clone() };
        let turn = &Turn { outcome: &outcome, ..*turn };
        let request = turn.request;
        let (before, after) = (&self.before.lock, &outcome.found.lock);
        self.kept(turn)?;
        let by_hdel = matches!(request, Request::Hdel { .. });
        let looks = request.looks_only() || by_hdel && self.partial;
        if looks || ["disbelieved", NO_MEMORY].contains(&&*outcome.answer.word) {
            let same = before.without_history() == after.without_history();
            ensure!(self.partial || same, "it was to change nothing, and left {after:?}");
            return Ok(());
        }
        if self.is_given_back_calmly(turn)? {
            self.before = outcome.found.clone();
            self.stored = stored;
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
            self.word_of_release(turn)?;
            self.stays_over(turn)?;
        }
        self.garbage(turn)?;
        self.leftovers(turn)?;
        self.before = outcome.found.clone();
        self.stored = stored;
        self.partial = false;
        if keeps_time {
            self.told_time = Some(turn.time);
        }
        Ok(())
    }

    /// Whether the holder of a calm lock gave its lease back: nothing else may change then, and nothing at all by an HDEL
    /// of others. The lock clock stands.
    fn is_given_back_calmly(&mut self, turn: &Turn) -> Result<bool, String> {
        let (before, after) = (&self.before.lock, &turn.outcome.found.lock);
        let is_hdel = matches!(turn.request, Request::Hdel { .. });
        let asks = is_hdel || matches!(turn.request, Request::Release { .. }) && !self.shows_a_rollback(turn);
        let Some(id) = turn.request.id().filter(|_| asks) else { return Ok(false) };
        let released = turn.outcome.answer.word == "released";
        let Some(lease) = before.lease_of(id).filter(|_| before.state.calm && after.state.calm && released).cloned()
        else {
            let same = before.without_history() == after.without_history();
            ensure!(!is_hdel || same && !released, "an HDEL of another made {before:?}\ninto {after:?}");
            return Ok(is_hdel);
        };
        let mut expected = Lock { leases: vec![], entries: BTreeMap::new(), ..before.clone() };
        (expected.state.first_end, expected.state.last_end) = (0, 0);
        // The script may also have written the state.
        let wrote = !is_hdel && after.state.seen > before.state.seen;
        ensure!(
            wrote || expected.without_history() == after.without_history(),
            "{id} gave back its lease, which made {before:?}\ninto {after:?}"
        );
        if !wrote {
            self.over.insert((id.to_owned(), lease.token));
            self.told.remove(id);
        }
        Ok(!wrote)
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
        let known = self.before.lock.leases.iter().map(|lease| lease.token);
        let known = known.chain(self.before.lock.queue.iter().map(|(ticket, _)| *ticket)).max().unwrap_or_default();
        (highest <= known.max(self.before.lock.state.stamp).max(turn.time + DAY_US)).then_some(highest)
    }

    /// Whether this waiter counted before the turn: it could be granted the lock, and its session goes on, or ended in
    /// a silence in which it would have sent a heartbeat.
    fn alive(&self, turn: &Turn, id: &str) -> bool {
        let (lock, now) = (&self.before.lock, turn.outcome.found.lock.state.seen);
        let Some(end) = lock.sessions.get(client_of(id)).filter(|_| lock.entries.contains_key(id)) else {
            return false;
        };
        let heartbeat = self.heartbeats.get(client_of(id)).copied().unwrap_or(u64::MAX / 4);
        *end > now || self.fell_silent(turn, *end, heartbeat)
    }

    /// Whether this end came in a silence that was longer than one and a half of these heartbeats.
    fn fell_silent(&self, turn: &Turn, end: u64, heartbeat: u64) -> bool {
        let (state, now) = (&self.before.lock.state, turn.outcome.found.lock.state.seen);
        let silence = now - state.seen;
        // Of two silences of which one soon follows the other only the longer one counts.
        let latest = state.silent_until - state.silent_from;
        let since = now - state.silent_until;
        let counts = silence > latest || 3 * since > 2 * latest || since > 3_600_000_000;
        end > state.seen && 2 * silence > 3 * heartbeat && counts && self.told_time.is_some()
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
                    keeps_its_ticket(id, Some(*ticket).filter(|_| !returns), other)?;
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

    /// I5: a turn that may grant leaves no first waiter for whom there is room, however many are dead.
    fn progress(&self, turn: &Turn) -> Result<(), String> {
        let lock = &turn.outcome.found.lock;
        let first = lock.queue.first().and_then(|(_, id)| lock.entries.get(id));
        let limit = first.map_or(0, |first| first.most.min(MOST).min(lock.limit()));
        let stuck = lock.leases.len() < limit.into() && lock.state.seen >= lock.state.recover_until();
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
    if matches!(request, Request::Hdel { .. }) {
        ensure!(first.found.lock == second.found.lock, "an HDEL that was sent twice changed something");
        return Ok(());
    }
    let (mut one, mut two) = (first.found.lock.clone(), second.found.lock.clone());
    if let Request::Renew { id, .. } = request
        && let Some(lease) = one.leases.iter_mut().find(|lease| lease.id == *id)
    {
        lease.end = two.lease_of(id).map_or(0, |later| later.end);
        // The first may have begun a generation behind this lease, which then counts with what is left of it.
        one.state.longest_next = two.state.longest_next;
    }
    if matches!(request, Request::Release { .. }) {
        // A lease from after the loss counts as one that comes back only when it is released once more.
        one.state.sole = two.state.sole;
        // The first may have been the end of a calm lock's lease, of which the clock did not hear.
        (one.state.seen, one.state.ttl_until) = (two.state.seen, two.state.ttl_until);
    }
    (one.state.first_end, one.state.last_end) = (two.state.first_end, two.state.last_end);
    (one.state.skew, one.state.pace, one.state.pace_next) = (two.state.skew, two.state.pace, two.state.pace_next);
    one.state.pace_turn = two.state.pace_turn;
    // Of a calm lock less is kept, whenever it becomes so.
    for state in [&mut one.state, &mut two.state] {
        state.calm_down();
    }
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
