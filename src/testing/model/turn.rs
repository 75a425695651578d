//! One turn: the clock and the end of lapsed leases come first, then the verb, then what is kept.

use std::collections::BTreeSet;

use super::{Answer, DAY, Entry, HOUR, Lease, Lock, Message, Request, SLACK, Seat, client_of};

/// One request, from the look at the clock to what is kept of the lock.
pub(super) struct Turn {
    pub(super) lock: Lock,
    pub(super) time: u64,
    pub(super) now: u64,
    /// The slots of leases that this turn need not read.
    pub(super) unread: BTreeSet<u16>,
    /// The leases that this turn found to be over.
    pub(super) lapsed: Vec<Lease>,
    /// The claims that outlast an outage in this turn, as they are stored.
    pub(super) spared: Vec<Lease>,
    /// The leases that it ends before their time.
    pub(super) ended: Vec<Ended>,
    /// The queue as it was found.
    pub(super) line: Vec<(u64, String)>,
    /// How many heads of it were looked at, and how many one turn looks at.
    pub(super) looked: usize,
    pub(super) batch: usize,
    /// The turn stopped at a limit: there may be more to grant.
    pub(super) again: bool,
    /// The words of messages, and the leases that they tell of, with what was left of them.
    pub(super) told: Vec<(&'static str, Lease, u64)>,
    /// The heartbeat interval of the asking client, as far as it is known.
    pub(super) own_pace: u64,
    /// What the asking waiter or holder tells about itself.
    pub(super) about: Entry,
    /// The ids that the request names: their leases are told.
    pub(super) names: Vec<String>,
    /// The id, and the place or lease, that it brings.
    pub(super) brings: (String, Seat),
}

/// A lease that has ended.
pub(super) struct Ended {
    pub(super) lease: Lease,
    /// On the server's clock.
    pub(super) at: u64,
    pub(super) how: &'static str,
}

impl Lock {
    /// What this request is answered, and what is published, at `time` on the server's clock. `about` is what the
    /// asking waiter or holder tells about itself; `batch` how many heads one turn looks at; `queue` how messages name
    /// the lock.
    pub fn turn(
        &mut self,
        time: u64,
        request: &Request,
        about: Entry,
        batch: usize,
        queue: &str,
    ) -> (Answer, Vec<Message>) {
        if let Some(answer) = self.is_given_back(request) {
            return (answer, vec![]);
        }
        let stays_calm = self.grants_calmly(time, request);
        let mut turn = Turn::begin(self, time, request, about.clone(), batch);
        let Some(mut answer) = turn.execute(request) else {
            // Nothing has changed.
            let unchanged = Turn::begin(self, time, request, about, batch);
            return (unchanged.answer("disbelieved", request.client(), &[]), vec![]);
        };
        let messages = turn.messages(self, queue);
        turn.keep(request, self);
        if stays_calm {
            self.state.calm = true;
            answer.put("by_hdel", 1);
        }
        (answer, messages)
    }
}

impl Turn {
    /// Before anything is done. `own_pace`: of the client that asks.
    pub(super) fn at_rest(lock: &Lock, own_pace: u64) -> Self {
        Turn {
            lock: lock.clone(),
            time: 0,
            now: lock.state.seen,
            unread: BTreeSet::new(),
            lapsed: vec![],
            spared: vec![],
            ended: vec![],
            line: vec![],
            looked: 0,
            batch: 0,
            again: false,
            told: vec![],
            own_pace,
            about: Entry::default(),
            names: vec![],
            brings: Default::default(),
        }
    }

    fn begin(lock: &Lock, time: u64, request: &Request, about: Entry, batch: usize) -> Self {
        let names: Vec<String> = request.names().map(str::to_owned).collect();
        let seat = request.brings().map_or_else(Seat::default, |(_, seat)| seat);
        let brings = (request.id().unwrap_or_default().to_owned(), seat);
        let mut turn = Turn { time, about, batch, names, brings, ..Turn::at_rest(lock, request.own_pace()) };
        turn.tell_time();
        turn.read_leases(request);
        if lock.is_partial() && !request.looks_only() {
            turn.drop_the_rest();
        }
        turn.line = turn.lock.queue.iter().cloned().collect();
        turn
    }

    /// The lock clock follows the server's clock, never backwards, and while there are waiters by two heartbeats at
    /// most: a longer silence is an outage or a jump, and no evidence that a client died.
    pub(super) fn tell_time(&mut self) {
        let state = &mut self.lock.state;
        let mut now = self.time.checked_add_signed(state.skew).expect("clocks do not run below zero");
        if state.live_until <= state.seen {
            (state.pace, state.pace_next, state.pace_turn) = (0, 0, 0);
        } else if state.pace > 0 {
            let over = state.last_end.max(state.live_until).max(state.recover_until()) + HOUR;
            if now <= over {
                now = now.min(state.seen + 2 * state.pace);
            }
            // A silence counts until a longer one, or until everybody had the time for a heartbeat.
            let since = now.saturating_sub(state.silent_until);
            let silence = now.saturating_sub(state.seen);
            let latest = state.silent_until - state.silent_from;
            if silence > 0 && (silence > latest || 3 * since > 2 * latest || since > HOUR) {
                (state.silent_from, state.silent_until) = (state.seen, now);
            }
        }
        self.now = now.max(state.seen);
        state.skew = self.now as i64 - self.time as i64;
        if self.now >= state.recover_until() {
            state.close_recovery();
        }
    }

    pub(super) fn next_stamp(&mut self) -> u64 {
        self.lock.state.stamp = self.time.max(self.lock.state.stamp + 1);
        self.lock.state.stamp
    }

    /// The lock as this turn leaves it.
    pub(super) fn end(mut self, before: &Lock) -> Lock {
        self.record(before);
        (self.lock.state.first_end, self.lock.state.last_end) = (self.first_end().unwrap_or(0), self.last_end());
        self.store_claims();
        // A session goes with its last waiter, an entry with the place or the lease.
        let Lock { queue, leases, sessions, beats, entries, state, .. } = &mut self.lock;
        let waiters = queue.iter().map(|(_, id)| id);
        let clients: BTreeSet<&str> = waiters.clone().map(|id| client_of(id)).collect();
        let known: BTreeSet<&String> = waiters.chain(leases.iter().map(|lease| &lease.id)).collect();
        sessions.retain(|client, _| clients.contains(client.as_str()));
        beats.retain(|client, _| clients.contains(client.as_str()));
        entries.retain(|id, _| known.contains(id));
        state.waiting = queue.len() as u64;
        if queue.is_empty() && !leases.iter().any(|lease| lease.claim) {
            state.live_until = 0;
        }
        self.keep_for_long(before);
        let state = &mut self.lock.state;
        state.calm = false;
        let is_idle = self.lock.queue.is_empty() && self.lock.leases.is_empty() && state.live_until == 0;
        if is_idle
            && state.grants > 1
            && state.stamp == state.token
            && !state.recorded
            && self.now >= state.recover_until()
        {
            state.calm_down();
        }
        if self.lock.stands() || self.lock.state.epoch > 0 {
            self.lock.state.seen = self.now;
        } else {
            // The lock was never acquired, so there is nothing to keep a clock for.
            self.lock.state = before.state.clone();
        }
        self.lock
    }

    /// The leases that have ended go into the history.
    fn record(&mut self, before: &Lock) {
        if before.state.epoch == 0 {
            // The history may outlive the state.
            self.lock.state.recorded = self.lock.history.is_some();
        }
        self.end_lapsed("expired");
        self.ended.sort_by_key(|ended| ended.lease.slot);
        let Some(history) = self.lock.history.as_mut().filter(|_| self.lock.state.recorded) else { return };
        for Ended { lease: Lease { slot, id, token, ticket, .. }, at, how } in self.ended.drain(..) {
            // A lease that came back only to be released told nothing of itself.
            let Some(Entry { label, owner, .. }) = before.entries.get(&id).cloned() else { continue };
            let [waited, held_for] = [token - ticket, at.saturating_sub(token)].map(|span| span.to_string());
            let [token, slot] = [token.to_string(), slot.to_string()];
            history.add(vec![id, token, label, owner, waited, held_for, how.to_owned(), slot]);
        }
    }

    /// Keys in use live a day beyond whatever is still to come; an idle lock as long, or an hour if it was granted
    /// once. A time that is long enough, and not much longer, is left as it is.
    pub(super) fn keep_for_long(&mut self, before: &Lock) {
        let state = &self.lock.state;
        let last = state.recover_until().max(state.last_end).max(state.live_until);
        let rest = last.saturating_sub(self.now).max(state.stamp.saturating_sub(self.time));
        let long = self.lock.stands() || state.grants > 1;
        let needed_until = self.time + if long { DAY } else { HOUR } + rest;
        let is_new = before.state.epoch == 0 || before.is_partial();
        if is_new || !(needed_until..=needed_until + 2 * SLACK).contains(&state.ttl_until) {
            self.lock.state.ttl_until = needed_until + SLACK;
        }
    }
}
