//! What the scripts do, once more in plain Rust: one lock on the server, and the effect of each request on it.
//!
//! A request is one turn. Each turn determines the time on the lock clock, removes a lapsed lease, does what its verb
//! says, and promotes the queue where it may. Unlike the scripts it plans nothing, packs nothing and collects no
//! garbage: it is the meaning without the mechanics. `lua/README.md` has the keys, the words and the reasons.
//!
//! All times are whole µs. `time` is the server's own clock, `now` the lock clock.

// Every test binary that includes this uses a part of it.
#![allow(dead_code, unreachable_pub)]
// A test reports its failure by a panic.
#![allow(clippy::expect_used, clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// A lock on the server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lock {
    /// Tickets and ids of the waiters, in the order in which they are served.
    pub queue: BTreeSet<(u64, String)>,
    /// Until when each client counts as alive.
    pub sessions: BTreeMap<String, u64>,
    /// The holder, and the end of its lease.
    pub lease: Option<(String, u64)>,
    pub entries: BTreeMap<String, Entry>,
    pub state: State,
    /// The grants whose leases have ended, if they are recorded.
    pub history: Option<History>,
}

/// The history of grants.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History {
    /// How many there are.
    pub count: u64,
    /// The latest of them, the last one first. Tests look at no more.
    pub latest: Vec<Vec<String>>,
}

impl History {
    pub const LATEST: usize = 8;

    fn add(&mut self, row: Vec<String>) {
        self.count += 1;
        self.latest.insert(0, row);
        self.latest.truncate(Self::LATEST);
    }
}

/// An entry: what is known of a waiter or holder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    pub lease: u64,
    pub liveness: u64,
    pub channel: String,
    /// The secret, which messages to it repeat.
    pub secret: String,
    pub label: String,
    pub owner: String,
    /// A holder's.
    pub token: u64,
    /// A holder's: where it stood in the queue, or the token of one that never did.
    pub ticket: u64,
    /// An operator wants it to end.
    pub broken: bool,
    /// Granted before data was lost, and not confirmed since.
    pub cut: bool,
    /// Shorter than what its waiter asked for, and not confirmed yet.
    pub claim: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// The last ticket, token or epoch given.
    pub stamp: u64,
    /// The last token granted.
    pub token: u64,
    pub epoch: u64,
    /// The lock clock at the last turn.
    pub seen: u64,
    pub skew: i64,
    /// The longest heartbeat among those who wait, and until when its session stands.
    pub pace: u64,
    pub pace_until: u64,
    /// When the recovery was opened; 0 if an operator ended it, so that nobody prolongs it.
    pub recover_from: u64,
    pub recover_until: u64,
    /// The longest heartbeat that anybody who spoke in the recovery knows of; 0 outside of one.
    pub recover_pace: u64,
    /// How often the lock was granted: one that was granted once is soon forgotten.
    pub grants: u64,
    /// The longest lease that anybody here may be granted, or hold.
    pub longest: u64,
    /// How many wait, as they were counted. If the queue has another length, data was lost.
    pub waiting: u64,
    /// Until when somebody counts as alive who waits, or did since somebody waits.
    pub live_until: u64,
    /// Until when the keys live, on the server's clock.
    pub ttl_until: u64,
    /// Whether leases that end are recorded.
    pub recorded: bool,
}

/// A waiter's options.
#[derive(Clone, Copy, Default, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
pub struct Terms {
    pub lease: u64,
    pub liveness: u64,
    pub buffer: u64,
    pub heartbeat: u64,
}

impl fmt::Debug for Terms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { lease, liveness, buffer, .. } = self;
        write!(f, "lease {lease} liveness {liveness} + {buffer}")
    }
}

/// What a client brings to get its place or lease back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// Under which its ticket or token was last confirmed; 0 if it has neither.
    pub epoch: u64,
    /// The highest stamp that it saw.
    pub floor: u64,
    /// How long a lease may last that was granted just before the loss; for a holder what is left of its own.
    pub left: u64,
    /// The last grant that it heard of.
    pub last_token: u64,
    /// The longest heartbeat interval among those who wait.
    pub pace: u64,
}

/// No queue is as long.
pub const UNBOUNDED: u64 = 1 << 53;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// `room`: how many waiters there must not be yet for a newcomer to wait; 0 for a try.
    Acquire {
        id: String,
        room: u64,
        claim: bool,
        terms: Terms,
        ticket: u64,
        memory: Memory,
    },
    Heartbeat {
        client: String,
        terms: Terms,
        ids: Vec<String>,
    },
    Renew {
        id: String,
        token: u64,
        terms: Terms,
        memory: Memory,
    },
    Release {
        id: String,
        token: u64,
        terms: Terms,
        memory: Memory,
    },
    Leave {
        ids: Vec<String>,
    },
    Inspect {
        after: u64,
        count: usize,
    },
    Break {
        token: u64,
        force: bool,
    },
    History {
        switch: Option<bool>,
        count: usize,
    },
}

impl Request {
    /// Who asks; nobody, where an operator does.
    pub fn client(&self) -> &str {
        match self {
            Request::Acquire { id, .. } | Request::Renew { id, .. } | Request::Release { id, .. } => client_of(id),
            Request::Heartbeat { client, .. } => client,
            Request::Leave { ids } => client_of(&ids[0]),
            Request::Inspect { .. } | Request::Break { .. } | Request::History { .. } => "",
        }
    }

    /// Whether it leaves holder, queue and clock as they are.
    pub fn looks_only(&self) -> bool {
        matches!(self, Request::Inspect { .. } | Request::History { .. })
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    pub word: String,
    pub fields: BTreeMap<String, String>,
    /// What is told in rows, by name.
    pub lists: BTreeMap<String, Vec<Vec<String>>>,
}

impl Answer {
    pub fn number(&self, field: &str) -> Option<u64> {
        self.fields.get(field).map(|value| value.parse().expect("a number"))
    }
}

/// A channel, and what is published there.
pub type Message = (String, String);

/// Stamps further ahead of the server's clock are absurd.
const ABSURD: u64 = DAY;

pub const DAY: u64 = 86_400_000_000;
const HOUR: u64 = 3_600_000_000;
/// By how much keys may live longer than they must.
pub const SLACK: u64 = HOUR / 12;

pub fn client_of(id: &str) -> &str {
    id.split('.').next().expect("split yields at least one piece")
}

/// What callers of this id tell about themselves; they can be told apart by it.
pub fn about(id: &str) -> Entry {
    let (channel, label) = (format!("to:{}", client_of(id)), format!("job {id}"));
    Entry { channel, secret: format!("secret-of-{id}"), label, owner: id.to_uppercase(), ..Entry::default() }
}

impl Lock {
    /// What this request is answered, and what is published, at `time` on the server's clock. `batch` is how many heads
    /// one turn looks at; `queue` how messages name the lock.
    pub fn turn(&mut self, time: u64, request: &Request, batch: usize, queue: &str) -> (Answer, Vec<Message>) {
        let mut turn = Turn {
            lock: self.clone(),
            time,
            now: 0,
            lapsed: None,
            ended_as: "lost",
            again: false,
            batch,
            messages: vec![],
        };
        turn.begin();
        if self.is_partial() && !request.looks_only() {
            turn.drop_the_rest();
        }
        let answer = match request {
            Request::Acquire { id, room, claim, terms, ticket, memory } => {
                turn.acquire(id, *room, *claim, terms, *ticket, memory)
            }
            Request::Heartbeat { client, terms, ids } => turn.heartbeat(client, terms, ids),
            Request::Renew { id, token, terms, memory } => turn.renew(id, *token, terms, memory),
            Request::Release { id, token, terms, memory } => turn.release(id, *token, terms, memory),
            Request::Leave { ids } => turn.leave(ids),
            Request::Inspect { after, count } => turn.inspect(*after, *count),
            Request::Break { token, force } => turn.break_lease(*token, *force),
            Request::History { switch, count } => turn.history(*switch, *count),
        };
        let Some(answer) = answer else {
            // Nothing has changed.
            let mut unchanged = Turn { lock: self.clone(), messages: vec![], lapsed: None, again: false, ..turn };
            unchanged.begin();
            if self.is_partial() {
                unchanged.drop_the_rest();
            }
            return (unchanged.answer("disbelieved", request.client(), &[]), vec![]);
        };
        let messages = turn.messages.drain(..).map(|(to, text)| (to, format!("{text} {queue}"))).collect();
        match request {
            Request::Inspect { .. } => {}
            Request::History { switch: None, .. } => {}
            // It changes nothing else.
            Request::History { .. } => {
                self.history = turn.lock.history;
                self.state.recorded = self.state.epoch > 0 && self.history.is_some();
            }
            _ => *self = turn.end(self),
        }
        (answer, messages)
    }

    /// What the promises are about.
    pub fn without_history(&self) -> Lock {
        Lock { history: None, state: State { recorded: false, ..self.state.clone() }, ..self.clone() }
    }

    pub fn ticket(&self, id: &str) -> Option<u64> {
        self.queue.iter().find(|(_, other)| other == id).map(|(ticket, _)| *ticket)
    }

    pub fn stands(&self) -> bool {
        self.lease.is_some() || !self.queue.is_empty()
    }

    /// Whether a key is missing. Keys live and die together, so all data counts as lost then.
    pub fn is_partial(&self) -> bool {
        self.queue.len() as u64 != self.state.waiting
    }

    pub fn holds(&self, id: &str) -> bool {
        self.lease.as_ref().is_some_and(|(holder, _)| holder == id)
    }

    /// Whether its lease is not one from before data was lost.
    fn sure_holder(&self, id: &str) -> bool {
        self.holds(id) && self.held().is_none_or(|(_, _, held)| !held.cut)
    }

    /// Who holds the lock, until when, and what is known of it.
    fn held(&self) -> Option<(String, u64, Entry)> {
        let (id, end) = self.lease.clone()?;
        let entry = self.entries.get(&id).cloned()?;
        Some((id, end, entry))
    }

    fn mark_holder(&mut self, mark: impl FnOnce(&mut Entry)) {
        if let Some((id, _, mut entry)) = self.held() {
            mark(&mut entry);
            self.entries.insert(id, entry);
        }
    }

    fn remove_waiter(&mut self, id: &str) {
        self.queue.retain(|(_, other)| other != id);
        self.entries.remove(id);
    }

    fn end_lease(&mut self) {
        if let Some((id, _)) = self.lease.take() {
            self.entries.remove(&id);
        }
    }
}

/// What somebody who returns had been given.
enum Brought {
    Ticket(u64),
    Token(u64),
}

struct Turn {
    lock: Lock,
    time: u64,
    now: u64,
    /// Whose lease this turn found to be over.
    lapsed: Option<String>,
    /// How the lease ended that this turn ends before its time.
    ended_as: &'static str,
    /// The batch limit was reached before somebody alive was found.
    again: bool,
    batch: usize,
    messages: Vec<Message>,
}

impl Turn {
    // ---- the clock ----

    /// The lock clock follows the server's clock, never backwards, and while somebody waits by two heartbeats at most:
    /// a longer silence is an outage or a jump, and no evidence that anybody died.
    fn tell_time(&mut self) {
        let state = &mut self.lock.state;
        let mut now = self.time.checked_add_signed(state.skew).expect("clocks do not run below zero");
        if state.live_until <= state.seen {
            state.pace = 0;
        } else if state.pace > 0 {
            now = now.min(state.seen + 2 * state.pace);
        }
        self.now = now.max(state.seen);
        state.skew = self.now as i64 - self.time as i64;
        if self.now >= state.recover_until {
            state.recover_pace = 0;
        }
    }

    fn begin(&mut self) {
        self.tell_time();
        if let Some((id, end)) = self.lock.lease.clone()
            && end <= self.now
        {
            self.lock.end_lease();
            self.lapsed = Some(id);
        }
    }

    /// A key is missing: what is left is dropped, and a new epoch tells the clients, which bring back what they know.
    fn drop_the_rest(&mut self) {
        let Lock { queue, lease, state, .. } = &mut self.lock;
        let numbers_left = state.epoch > 0;
        if !numbers_left && let Some((ticket, _)) = queue.last() {
            state.stamp = *ticket;
        }
        state.stamp = self.time.max(state.stamp + 1);
        state.epoch = state.stamp;
        if numbers_left {
            state.recover_from = self.now;
            state.recover_pace = state.recover_pace.max(state.pace);
            let needed = self.now + state.longest.max(3 * state.recover_pace);
            state.recover_until = needed.max(state.live_until);
        }
        state.live_until = 0;
        self.lapsed = None;
        *lease = None;
        queue.clear();
        self.lock.sessions.clear();
        self.lock.entries.clear();
    }

    fn next_stamp(&mut self) -> u64 {
        self.lock.state.stamp = self.time.max(self.lock.state.stamp + 1);
        self.lock.state.stamp
    }

    fn recovering(&self) -> bool {
        self.now < self.lock.state.recover_until
    }

    /// The lock as this turn leaves it.
    fn end(mut self, before: &Lock) -> Lock {
        self.record(before);
        if !self.lock.stands() && !self.recovering() {
            self.lock.state.longest = 0;
        }
        // A session goes with its last waiter.
        let Lock { queue, sessions, state, .. } = &mut self.lock;
        sessions.retain(|client, _| queue.iter().any(|(_, id)| client_of(id) == client));
        state.waiting = queue.len() as u64;
        if queue.is_empty() {
            state.live_until = 0;
        }
        self.keep_for_long(before);
        if self.lock.stands() || self.lock.state.epoch > 0 {
            self.lock.state.seen = self.now;
        } else {
            // Nobody ever acquired it: there is nothing to keep a clock for.
            self.lock.state = before.state.clone();
        }
        self.lock
    }

    /// A lease that this turn has ended goes into the history.
    fn record(&mut self, before: &Lock) {
        if before.state.epoch == 0 {
            // The history may outlive the state.
            self.lock.state.recorded = self.lock.history.is_some();
        }
        let Some((id, end, held)) = before.held().filter(|_| !before.is_partial()) else { return };
        let stands = self.lock.held().is_some_and(|(holder, _, now)| holder == id && now.token == held.token);
        let Some(history) = self.lock.history.as_mut().filter(|_| before.state.recorded && !stands) else { return };
        let (ended, how) = match &self.lapsed {
            Some(_) => (self.time - (self.now - end), "expired"),
            None => (self.time, self.ended_as),
        };
        let (waited, held_for) = (held.token - held.ticket, ended.saturating_sub(held.token));
        let [token, waited, held_for] = [held.token, waited, held_for].map(|number| number.to_string());
        history.add(vec![id, token, held.label, held.owner, waited, held_for, how.to_owned()]);
    }

    /// Keys in use live a day beyond whatever is still to come; an idle lock as long, or an hour if it was granted once.
    /// A time that is long enough, and not much longer, is left as it is.
    fn keep_for_long(&mut self, before: &Lock) {
        let Lock { lease, state, .. } = &self.lock;
        let mut rest = state.recover_until.saturating_sub(self.now).max(state.stamp.saturating_sub(self.time));
        if let Some(end) = lease.as_ref().map(|(_, end)| *end).max(Some(state.live_until)) {
            rest = rest.max(end.saturating_sub(self.now));
        }
        let long = self.lock.stands() || state.grants > 1;
        let needed_until = self.time + if long { DAY } else { HOUR } + rest;
        let is_new = before.state.epoch == 0 || before.is_partial();
        if is_new || !(needed_until..=needed_until + 2 * SLACK).contains(&state.ttl_until) {
            self.lock.state.ttl_until = needed_until + SLACK;
        }
    }

    // ---- who is next ----

    fn alive(&self, client: &str) -> bool {
        self.lock.sessions.get(client).is_some_and(|end| *end > self.now)
    }

    fn refresh(&mut self, client: &str, terms: &Terms) {
        let end = self.lock.sessions.entry(client.to_owned()).or_default();
        *end = (*end).max(self.now + terms.liveness + terms.buffer);
        let State { pace, pace_until, live_until, .. } = &mut self.lock.state;
        *live_until = (*live_until).max(*end);
        if terms.heartbeat > *pace || self.now >= *pace_until {
            (*pace, *pace_until) = (terms.heartbeat, *end);
        } else if terms.heartbeat == *pace {
            *pace_until = (*pace_until).max(*end);
        }
    }

    /// Whoever comes with this token, or a lower one, is not restored any more.
    fn pass_over(&mut self, token: u64) {
        let state = &mut self.lock.state;
        state.token = state.token.max(token + 1);
        state.stamp = state.stamp.max(state.token);
    }

    /// `place` is where it stood in the queue, or would stand.
    fn grant(&mut self, id: &str, entry: Entry, place: u64, end: u64) -> u64 {
        let token = self.next_stamp();
        let ticket = place.min(token);
        self.lock.remove_waiter(id);
        self.lock.state.token = token;
        self.lock.state.grants += 1;
        self.lock.state.longest = self.lock.state.longest.max(entry.lease);
        let claim = end < self.now + entry.lease;
        self.lock.entries.insert(id.to_owned(), Entry { token, ticket, broken: false, cut: false, claim, ..entry });
        self.lock.lease = Some((id.to_owned(), end));
        token
    }

    /// Grants a free lock to the first live waiter before `limit` (a ticket), and purges the dead before it. True if
    /// nobody there is left to be served first.
    fn promote(&mut self, limit: u64) -> bool {
        if self.lock.lease.is_some() || self.recovering() {
            return false;
        }
        for _ in 0..self.batch {
            let Some((ticket, id)) = self.lock.queue.first().cloned() else { return true };
            if ticket >= limit {
                return true;
            }
            let entry = self.lock.entries.get(&id).cloned();
            let session = self.lock.sessions.get(client_of(&id)).copied().unwrap_or_default();
            self.lock.remove_waiter(&id);
            if let Some(entry) = entry
                && session > self.now
            {
                let end = (self.now + entry.lease).min(self.now + entry.liveness).min(session);
                let (channel, secret) = (entry.channel.clone(), entry.secret.clone());
                let token = self.grant(&id, entry, ticket, end);
                self.messages.push((channel, format!("grant {id} {token} {ticket} {} {secret}", end - self.now)));
                return false;
            }
        }
        self.again = !self.lock.queue.is_empty();
        !self.again
    }

    // ---- data that was lost ----

    /// False if what the client brings is too absurd to be believed.
    fn restore(&mut self, brought: Brought, memory: &Memory, liveness: u64) -> bool {
        let Memory { epoch, floor, mut left, last_token, pace } = *memory;
        let (brought, last) = match brought {
            Brought::Ticket(ticket) => (ticket, self.lock.state.stamp),
            Brought::Token(token) => (token, self.lock.state.token),
        };
        let highest = epoch.max(brought).max(floor).max(last_token);
        // What the server gave itself is not absurd, even if its clock was set back since.
        if highest > (self.time + ABSURD).max(self.lock.state.stamp) {
            return false;
        }
        let state = &mut self.lock.state;
        let rolled_back = match epoch {
            0 => highest > state.stamp,
            _ if epoch == state.epoch => highest > state.stamp || brought > last,
            _ => epoch > state.epoch,
        };
        let made_anew = (1..state.epoch).contains(&epoch) && state.recover_until == 0;
        state.stamp = state.stamp.max(highest);
        if last_token < state.token {
            // That lease is over: the lock was granted again since.
            left = 0;
        }
        let returns = (1..state.epoch).contains(&epoch) && self.now < state.recover_until;
        let opens = rolled_back || made_anew;
        if opens {
            state.recover_from = self.now;
            state.recover_pace = state.recover_pace.max(state.pace).max(liveness.div_ceil(3));
        }
        if opens || returns {
            // Who returns later may know of slower waiters, or of longer leases.
            state.recover_pace = state.recover_pace.max(pace);
            state.longest = state.longest.max(left);
            let needed = left.max(3 * state.recover_pace);
            state.recover_until = state.recover_until.max(state.recover_from + needed);
        }
        let until = state.recover_until;
        if opens {
            self.lock.state.epoch = self.next_stamp();
        }
        if rolled_back && let Some((_, end)) = &mut self.lock.lease {
            *end = until.min(*end);
            self.lock.mark_holder(|held| held.cut = true);
        }
        true
    }

    // ---- the verbs ----

    fn acquire(
        &mut self,
        id: &str,
        room: u64,
        claim: bool,
        terms: &Terms,
        ticket: u64,
        memory: &Memory,
    ) -> Option<Answer> {
        if !self.restore(Brought::Ticket(ticket), memory, terms.liveness) {
            return None;
        }
        if self.recovering() {
            // A lease that it knows to be older than the last grant is not restored.
            self.lock.state.token = self.lock.state.token.max(memory.last_token);
        }
        let client = client_of(id);
        let entry = Entry { lease: terms.lease, liveness: terms.liveness, ..about(id) };
        let lease = if claim { terms.lease.min(terms.liveness) } else { terms.lease };

        // A grant from before the loss, of which nobody knows what came after: the waiter returns to its place. So it
        // does if nothing is left of what was granted but the name.
        let doubtful = self.lock.held().is_none_or(|(_, _, held)| held.cut);
        if self.lock.holds(id) && doubtful {
            self.lock.end_lease();
        }
        if self.lock.state.epoch == 0 {
            self.lock.state.epoch = self.next_stamp();
        }

        let has_place = self.lock.ticket(id).is_some() || ticket > 0;
        let wait = room > 0 && (has_place || (self.lock.queue.len() as u64) < room);
        let mut place = 0;
        if self.lock.holds(id) {
            // It asks again about a lease that it has been granted.
        } else if !wait {
            if self.promote(u64::MAX) && self.lock.queue.is_empty() {
                self.grant(id, entry, u64::MAX, self.now + lease);
            }
        } else {
            place = match self.lock.ticket(id) {
                Some(place) => place,
                None if ticket > 0 => ticket,
                None => self.next_stamp(),
            };
            if !self.lock.queue.is_empty() {
                // Its client is alive, and so are the others of it that wait.
                self.refresh(client, terms);
            }
            if self.promote(place) {
                self.grant(id, entry, place, self.now + lease);
            } else {
                self.refresh(client, terms);
                self.lock.state.longest = self.lock.state.longest.max(entry.lease);
                self.lock.queue.insert((place, id.to_owned()));
                self.lock.entries.insert(id.to_owned(), entry);
            }
        }

        Some(match self.lock.held() {
            Some((holder, end, held)) if holder == id => {
                let (left, token) = (end - self.now, held.token);
                self.answer("granted", client, &[("left_us", left), ("granted_token", token)])
            }
            _ if wait => self.answer("queued", client, &[("ticket", place), ("rank", self.rank(id)?)]),
            _ => {
                let mut answer = self.answer("busy", client, &[]);
                self.tell_held(&mut answer);
                answer
            }
        })
    }

    fn heartbeat(&mut self, client: &str, terms: &Terms, ids: &[String]) -> Option<Answer> {
        let stands = |turn: &Turn, id: &String| turn.lock.ticket(id).is_some();
        let known = |turn: &Turn, id: &String| turn.lock.entries.contains_key(id) && stands(turn, id);
        let first = ids.iter().find(|id| stands(self, id));
        let all_known = ids.iter().all(|id| self.lock.sure_holder(id) || known(self, id));
        if first.is_some() {
            self.refresh(client, terms);
        }
        self.promote(u64::MAX);
        if !all_known {
            return Some(self.answer("unknown", client, &[]));
        }
        Some(match first.and_then(|id| self.rank(id)) {
            Some(rank) => self.answer("alive", client, &[("rank", rank)]),
            None => self.answer("alive", client, &[]),
        })
    }

    fn renew(&mut self, id: &str, token: u64, terms: &Terms, memory: &Memory) -> Option<Answer> {
        // A holder knows of no later grant than its own.
        let memory = &Memory { last_token: token, ..*memory };
        let believed = self.restore(Brought::Token(token), memory, terms.liveness);
        let mine = self.lock.held().filter(|(holder, _, held)| holder == id && held.token == token);
        let word = match mine {
            Some((_, _, held)) if held.broken => "broken",
            Some((_, end, held)) if !held.cut => {
                self.lock.lease = Some((id.to_owned(), end.max(self.now + terms.lease)));
                self.lock.mark_holder(|held| held.claim = false);
                self.lock.state.longest = self.lock.state.longest.max(terms.lease);
                "renewed"
            }
            _ if believed && self.recovering() && memory.left > 0 && self.newest(id, token) => {
                self.lock.end_lease();
                self.lock.remove_waiter(id);
                self.lock.state.token = token;
                self.lock.state.longest = self.lock.state.longest.max(terms.lease);
                let entry = Entry { lease: terms.lease, liveness: terms.liveness, token, ticket: token, ..about(id) };
                self.lock.entries.insert(id.to_owned(), entry);
                self.lock.lease = Some((id.to_owned(), self.now + memory.left));
                "renewed"
            }
            _ => "lost",
        };
        if word == "lost" {
            self.promote(u64::MAX);
            return Some(self.answer(word, client_of(id), &[]));
        }
        let left = self.lock.lease.as_ref().map(|(_, end)| end - self.now)?;
        Some(self.answer(word, client_of(id), &[("left_us", left)]))
    }

    /// Whether no other lease has been granted since this one.
    fn newest(&self, id: &str, token: u64) -> bool {
        let others = self.lock.held().is_some_and(|(holder, _, held)| holder != id && held.token >= token);
        self.lock.state.token <= token && !others
    }

    fn release(&mut self, id: &str, token: u64, terms: &Terms, memory: &Memory) -> Option<Answer> {
        let believed = self.restore(Brought::Token(token), memory, terms.liveness);
        if believed && self.recovering() {
            self.lock.state.token = self.lock.state.token.max(memory.last_token);
        }
        let newest = token > 0 && token >= self.lock.state.token;
        let mut word = self.give_up(id);
        if believed && newest && self.recovering() {
            // The recovery waited for this lease. What remains is for those who wait to return.
            self.pass_over(token);
            self.end_wait_for_leases();
            if word == "unknown" {
                word = "released";
            }
        }
        self.promote(u64::MAX);
        Some(self.answer(word, client_of(id), &[]))
    }

    /// From now on the recovery waits only for waiters that are returning.
    fn end_wait_for_leases(&mut self) {
        let state = &mut self.lock.state;
        if state.recover_from > 0 {
            state.recover_until = self.now.max(state.recover_from + 3 * state.recover_pace);
        }
        let until = state.recover_until;
        if until <= self.now {
            state.recover_pace = 0;
        }
        let cut = self.lock.held().is_some_and(|(_, _, held)| held.cut);
        if let Some((_, end)) = self.lock.lease.as_mut().filter(|_| cut) {
            *end = until.min(*end);
            if *end <= self.now {
                self.lock.end_lease();
            }
        }
    }

    fn operator_ends_recovery(&mut self) {
        self.end_wait_for_leases();
        // Nobody who returns prolongs it.
        self.lock.state.recover_from = 0;
    }

    fn leave(&mut self, ids: &[String]) -> Option<Answer> {
        for id in ids {
            self.give_up(id);
        }
        self.promote(u64::MAX);
        Some(self.answer("left", client_of(&ids[0]), &[]))
    }

    fn give_up(&mut self, id: &str) -> &'static str {
        if let Some((_, _, held)) = self.lock.held().filter(|(holder, ..)| holder == id) {
            if self.recovering() {
                self.pass_over(held.token);
            }
            self.ended_as = if held.broken { "broken" } else { "released" };
            self.lock.end_lease();
            "released"
        } else if self.lapsed.as_deref() == Some(id) {
            "expired"
        } else if let Some(rank) = self.rank(id) {
            // Whoever leaves from among the first has been looked at.
            self.batch -= usize::from(rank < self.batch as u64);
            self.lock.remove_waiter(id);
            "left"
        } else {
            "unknown"
        }
    }

    fn break_lease(&mut self, token: u64, force: bool) -> Option<Answer> {
        let Some((id, end, held)) = self.lock.held().filter(|(_, _, held)| held.token == token) else {
            let ends_recovery = token == 0 && force && self.recovering();
            if ends_recovery {
                self.operator_ends_recovery();
            }
            self.promote(u64::MAX);
            return Some(self.answer(if ends_recovery { "ended" } else { "unknown" }, "", &[("left_us", 0)]));
        };
        let left = end - self.now;
        self.messages.push((held.channel, format!("break {id} {token} {} {left} {}", held.ticket, held.secret)));
        if force {
            self.ended_as = "broken";
            self.lock.end_lease();
        } else {
            self.lock.mark_holder(|held| held.broken = true);
        }
        self.pass_over(token);
        if force && self.recovering() {
            self.operator_ends_recovery();
        }
        self.promote(u64::MAX);
        Some(self.answer(if force { "ended" } else { "told" }, "", &[("left_us", left)]))
    }

    fn inspect(&mut self, after: u64, count: usize) -> Option<Answer> {
        let mut answer = self.answer("state", "", &[]);
        answer.fields.insert("waiting".into(), self.lock.state.waiting.to_string());
        answer.fields.insert("grants".into(), self.lock.state.grants.to_string());
        self.tell_held(&mut answer);
        if let Some((_, _, held)) = self.lock.held() {
            let broken = u8::from(held.broken);
            answer.fields.insert("held_broken".into(), broken.to_string());
        }
        // Of a queue that is not the one that was counted, nothing is known.
        let queue = Some(&self.lock.queue).filter(|_| !self.lock.is_partial());
        let page = queue.into_iter().flatten().filter(|(ticket, _)| *ticket > after).take(count);
        let rows = page
            .map(|(ticket, id)| {
                let entry = self.lock.entries.get(id).cloned().unwrap_or_default();
                let alive = u8::from(self.alive(client_of(id))).to_string();
                let waited = self.time.saturating_sub(*ticket).to_string();
                vec![id.clone(), ticket.to_string(), entry.label, entry.owner, waited, alive]
            })
            .collect();
        answer.lists.insert("page".into(), rows);
        Some(answer)
    }

    fn history(&mut self, switch: Option<bool>, count: usize) -> Option<Answer> {
        match switch {
            Some(true) => drop(self.lock.history.get_or_insert_default()),
            Some(false) => self.lock.history = None,
            None => {}
        }
        let mut answer = self.answer("history", "", &[("recorded", u64::from(self.lock.history.is_some()))]);
        answer.fields.insert("waiting".into(), self.lock.state.waiting.to_string());
        let latest = self.lock.history.iter().flat_map(|history| &history.latest);
        answer.lists.insert("past".into(), latest.take(count).cloned().collect());
        Some(answer)
    }

    // ---- what is answered ----

    fn rank(&self, id: &str) -> Option<u64> {
        self.lock.queue.iter().position(|(_, other)| other == id).map(|rank| rank as u64)
    }

    fn answer(&self, word: &str, client: &str, more: &[(&str, u64)]) -> Answer {
        let Lock { state, lease, queue, .. } = &self.lock;
        let lease_end = lease.as_ref().map_or(0, |(_, end)| *end);
        let mut numbers = vec![
            ("epoch", state.epoch),
            ("stamp", state.stamp),
            ("token", state.token),
            ("waiting", queue.len() as u64),
            ("pace_us", state.pace.max(state.recover_pace)),
            ("longest_us", state.longest),
            ("lease_left_us", lease_end.saturating_sub(self.now)),
            ("recover_left_us", state.recover_until.saturating_sub(self.now)),
        ];
        numbers.extend(more);
        let mut fields: BTreeMap<String, String> =
            numbers.iter().map(|(name, number)| ((*name).to_owned(), number.to_string())).collect();
        if let Some((id, _, held)) = self.lock.held()
            && client_of(&id) == client
            && !held.cut
        {
            fields.insert("holder".into(), id);
            fields.insert("holder_token".into(), held.token.to_string());
            fields.insert("holder_ticket".into(), held.ticket.to_string());
            if held.claim {
                fields.insert("holder_claim".into(), "1".into());
            }
        }
        if self.again {
            fields.insert("again".into(), "1".into());
        }
        Answer { word: word.to_owned(), fields, lists: BTreeMap::new() }
    }

    fn tell_held(&self, answer: &mut Answer) {
        let Some((id, _, held)) = self.lock.held() else { return };
        let held_for = self.time.saturating_sub(held.token).to_string();
        for (name, value) in [
            ("held_id", id.clone()),
            ("held_token", held.token.to_string()),
            ("held_label", held.label.clone()),
            ("held_owner", held.owner.clone()),
            ("held_us", held_for),
        ] {
            answer.fields.insert(name.into(), value);
        }
    }
}
