//! One turn: the clock and the end of a lapsed lease come first, then the verb, then what is kept.

use super::{Answer, DAY, Entry, HOUR, Lock, Message, Request, SLACK, client_of};

/// One request, from the look at the clock to what is kept of the lock.
pub(super) struct Turn {
    pub(super) lock: Lock,
    pub(super) time: u64,
    pub(super) now: u64,
    /// The holder whose lease this turn found to be over.
    pub(super) lapsed: Option<(String, u64, Entry)>,
    /// How the lease ended that this turn ends before its time.
    pub(super) ended_as: &'static str,
    /// The batch limit was reached before a live waiter was found.
    pub(super) again: bool,
    pub(super) batch: usize,
    /// The words of messages, and the leases that they tell of, with what was left of them.
    pub(super) told: Vec<(&'static str, String, Entry, u64)>,
    /// The heartbeat interval of the asking client, as far as it is known.
    pub(super) own_pace: u64,
    /// What the asking waiter or holder tells about itself.
    pub(super) about: Entry,
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
        let mut turn = Turn {
            lock: self.clone(),
            time,
            now: 0,
            lapsed: None,
            ended_as: "lost",
            again: false,
            batch,
            told: vec![],
            own_pace: request.own_pace(),
            about,
        };
        turn.begin();
        if self.is_partial() && !request.looks_only() {
            turn.drop_the_rest();
        }
        let Some(answer) = turn.execute(request) else {
            // Nothing has changed.
            let mut unchanged = Turn { lock: self.clone(), told: vec![], lapsed: None, again: false, ..turn };
            unchanged.begin();
            if self.is_partial() {
                unchanged.drop_the_rest();
            }
            return (unchanged.disbelieve(request), vec![]);
        };
        let messages = turn.messages(queue);
        turn.keep(request, self);
        (answer, messages)
    }
}

impl Turn {
    /// The lock clock follows the server's clock, never backwards, and while there are waiters by two heartbeats at
    /// most: a longer silence is an outage or a jump, and no evidence that a client died.
    pub(super) fn tell_time(&mut self) {
        let state = &mut self.lock.state;
        let mut now = self.time.checked_add_signed(state.skew).expect("clocks do not run below zero");
        if state.live_until <= state.seen {
            state.pace = 0;
        } else if state.pace > 0 {
            let lease_end = self.lock.lease.as_ref().map_or(0, |(_, end)| *end);
            let over = lease_end.max(state.live_until).max(state.recover_until) + HOUR;
            if now <= over {
                now = now.min(state.seen + 2 * state.pace);
            }
            // A silence counts until a longer one, or until everybody had the time for a heartbeat.
            let silence = now.saturating_sub(state.seen);
            let latest = state.silent_until - state.silent_from;
            if silence > 0 && (silence > latest || 2 * now.saturating_sub(state.silent_until) > latest) {
                (state.silent_from, state.silent_until) = (state.seen, now);
            }
        }
        self.now = now.max(state.seen);
        state.skew = self.now as i64 - self.time as i64;
        if self.now >= state.recover_until {
            state.recover_pace = 0;
        }
    }

    pub(super) fn begin(&mut self) {
        self.tell_time();
        if let Some((id, end)) = self.lock.lease.clone()
            && end <= self.now
        {
            let entry = self.lock.entries.get(&id).cloned().unwrap_or_default();
            self.lock.end_lease();
            self.lapsed = Some((id, end, entry));
        }
    }

    pub(super) fn next_stamp(&mut self) -> u64 {
        self.lock.state.stamp = self.time.max(self.lock.state.stamp + 1);
        self.lock.state.stamp
    }

    /// The lock as this turn leaves it.
    pub(super) fn end(mut self, before: &Lock) -> Lock {
        self.record(before);
        // A session goes with its last waiter.
        let Lock { queue, sessions, beats, state, .. } = &mut self.lock;
        let waits = |client: &str| queue.iter().any(|(_, id)| client_of(id) == client);
        sessions.retain(|client, _| waits(client));
        beats.retain(|client, _| waits(client));
        state.waiting = queue.len() as u64;
        if queue.is_empty() {
            state.live_until = 0;
        }
        self.keep_for_long(before);
        if self.lock.stands() || self.lock.state.epoch > 0 {
            self.lock.state.seen = self.now;
        } else {
            // The lock was never acquired, so there is nothing to keep a clock for.
            self.lock.state = before.state.clone();
        }
        self.lock
    }

    /// A lease that this turn has ended goes into the history.
    pub(super) fn record(&mut self, before: &Lock) {
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

    /// Keys in use live a day beyond whatever is still to come; an idle lock as long, or an hour if it was granted
    /// once. A time that is long enough, and not much longer, is left as it is.
    pub(super) fn keep_for_long(&mut self, before: &Lock) {
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
}
