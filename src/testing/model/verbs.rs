//! What each verb does.

use super::turn::Turn;
use super::{Answer, Entry, Lock, Memory, Request, Seat, Terms, client_of};

impl Turn {
    /// Does what the verb of this request does. None: the request is disbelieved.
    pub(super) fn execute(&mut self, request: &Request) -> Option<Answer> {
        match request {
            Request::Acquire { id, room, claim, terms, memory, seat } => {
                self.acquire(id, *room, *claim, terms, memory, seat)
            }
            Request::Heartbeat { client, terms, ids, memory } => self.heartbeat(client, terms, ids, memory),
            Request::Renew { id, seat, left, terms, memory } => self.renew(id, seat, *left, terms, memory),
            Request::Release { id, seat, memory } => self.release(id, seat, memory),
            Request::Leave { ids, memory } => self.leave(ids, memory),
            Request::Break { token, force } => self.break_lease(*token, *force),
            Request::Inspect { after, count } => self.inspect(*after, *count),
            Request::History { switch, count } => self.history(*switch, *count),
        }
    }

    /// What is left of the lock by this turn.
    pub(super) fn keep(self, request: &Request, lock: &mut Lock) {
        match request {
            // It changes nothing else.
            Request::History { switch: Some(_), .. } => {
                lock.history = self.lock.history;
                lock.state.recorded = lock.state.epoch > 0 && lock.history.is_some();
            }
            _ if request.looks_only() => {}
            _ => *lock = self.end(lock),
        }
    }

    fn acquire(
        &mut self,
        id: &str,
        room: u64,
        claim: bool,
        terms: &Terms,
        memory: &Memory,
        seat: &Seat,
    ) -> Option<Answer> {
        if !self.restore(memory, seat, terms.heartbeat, terms.lease) {
            return None;
        }
        let client = client_of(id);
        let entry = Entry { lease: terms.lease, liveness: terms.liveness, ..self.about.clone() };
        let lease = if claim { terms.lease.min(terms.liveness) } else { terms.lease };

        // A cut lease is from before the loss, and later grants may be forgotten: the waiter returns to its place. It
        // does so, too, if nothing is left of the grant but the id.
        let doubtful = self.lock.held().is_none_or(|(_, _, held)| held.cut);
        if self.lock.holds(id) && doubtful {
            self.lock.end_lease();
        }
        if self.lock.state.epoch == 0 {
            self.lock.state.epoch = self.next_stamp();
        }

        // An acquire that was executed late, after a loss, may have been given a later ticket than its own.
        let old_place =
            [self.lock.ticket(id), Some(seat.ticket)].into_iter().flatten().filter(|place| *place > 0).min();
        let is_full = |turn: &Turn| old_place.is_none() && turn.lock.queue.len() as u64 >= room;
        if room > 0 && !self.lock.holds(id) && is_full(self) {
            if self.lock.sessions.contains_key(client) {
                self.refresh(client, terms);
            }
            self.purge();
        }
        let wait = room > 0 && !is_full(self);
        let mut place = 0;
        if self.lock.holds(id) {
            // It asks again about a lease that it has been granted.
        } else if !wait {
            if self.promote(u64::MAX) && self.lock.queue.is_empty() {
                self.grant(id, entry, u64::MAX, self.now + lease, claim && terms.liveness < terms.lease);
            }
        } else {
            place = old_place.unwrap_or_else(|| self.next_stamp());
            if !self.lock.queue.is_empty() {
                // The client is alive, and so are its other waiters.
                self.refresh(client, terms);
            }
            if self.promote(place) {
                self.grant(id, entry, place, self.now + lease, claim && terms.liveness < terms.lease);
            } else {
                self.refresh(client, terms);
                self.asks_for(entry.lease);
                self.lock.remove_waiter(id);
                self.lock.queue.insert((place, id.to_owned()));
                self.lock.entries.insert(id.to_owned(), entry);
            }
        }

        Some(match self.lock.held() {
            Some((holder, ..)) if holder == id => self.answer("granted", client, &[]),
            _ if wait => {
                let mut answer = self.answer("queued", client, &[("rank", self.rank(id)?)]);
                answer.put("place_id", id);
                answer.put("seat", self.seat(place, 0));
                answer
            }
            _ => {
                let mut answer = self.answer("busy", client, &[]);
                self.tell_held(&mut answer);
                answer
            }
        })
    }

    fn heartbeat(&mut self, client: &str, terms: &Terms, ids: &[String], memory: &Memory) -> Option<Answer> {
        self.restore(memory, &Seat::default(), terms.heartbeat, 0);
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

    fn renew(&mut self, id: &str, seat: &Seat, left: u64, terms: &Terms, memory: &Memory) -> Option<Answer> {
        let token = seat.token;
        let believed = self.restore(memory, seat, memory.pace, left);
        // The server ended this lease just now, by its own clock, and nobody has been granted the lock since.
        if let Some((_, end, held)) =
            self.lapsed.clone().filter(|(lapsed, _, held)| lapsed == id && held.token == token)
            && left > 0
            && !held.broken
            && !held.cut
            && !self.recovering()
        {
            self.lock.entries.insert(id.to_owned(), held);
            self.lock.lease = Some((id.to_owned(), end));
        }
        let mine = self.lock.held().filter(|(holder, _, held)| holder == id && held.token == token);
        let word = match mine {
            Some((_, _, held)) if held.broken => "broken",
            Some((_, end, held)) if !held.cut => {
                self.lock.lease = Some((id.to_owned(), end.max(self.now + terms.lease)));
                self.lock.mark_holder(|held| held.claim = false);
                self.asks_for(terms.lease);
                "renewed"
            }
            _ if believed && self.recovering() && left > 0 && self.newest(id, token) => {
                self.lock.end_lease();
                self.lock.remove_waiter(id);
                self.lock.state.token = token;
                self.asks_for(terms.lease);
                let (lease, liveness, ticket) = (terms.lease, terms.liveness, seat.ticket);
                self.lock.entries.insert(id.to_owned(), Entry { lease, liveness, token, ticket, ..self.about.clone() });
                self.lock.lease = Some((id.to_owned(), self.now + left));
                "renewed"
            }
            _ => "lost",
        };
        if word == "lost" {
            self.promote(u64::MAX);
        }
        Some(self.answer(word, client_of(id), &[]))
    }

    /// Whether no other lease has been granted since this one.
    fn newest(&self, id: &str, token: u64) -> bool {
        let others = self.lock.held().is_some_and(|(holder, _, held)| holder != id && held.token >= token);
        self.lock.state.token <= token && !others
    }

    fn release(&mut self, id: &str, seat: &Seat, memory: &Memory) -> Option<Answer> {
        let token = seat.token;
        let believed = self.restore(memory, seat, memory.pace, 0);
        let newest = token > 0 && (token >= self.lock.state.token || self.lock.holds(id));
        let mut word = self.give_up(id);
        if believed && newest && self.recovering() {
            // The recovery waited for this lease. What remains of it gives the waiters time to return.
            self.pass_over(self.lock.state.token.max(token + 1) + 1);
            self.end_wait_for_leases();
            // A state that is older than the lease may have its place in the queue.
            if ["unknown", "left"].contains(&word) {
                word = "released";
            }
        }
        self.promote(u64::MAX);
        Some(self.answer(word, client_of(id), &[]))
    }

    fn leave(&mut self, ids: &[String], memory: &Memory) -> Option<Answer> {
        self.restore(memory, &Seat::default(), memory.pace, 0);
        for id in ids {
            self.give_up(id);
        }
        self.promote(u64::MAX);
        Some(self.answer("left", client_of(&ids[0]), &[]))
    }

    fn give_up(&mut self, id: &str) -> &'static str {
        let held = self.lock.held().filter(|(holder, ..)| holder == id);
        let lapsed = self.lapsed.clone().filter(|(lapsed, ..)| lapsed == id);
        if let Some((_, _, lease)) = held.as_ref().or(lapsed.as_ref()).filter(|_| self.recovering()) {
            // Nobody re-asserts it from now on.
            self.pass_over(lease.token);
        }
        if let Some((_, _, held)) = held {
            self.ended_as = if held.broken { "broken" } else { "released" };
            self.lock.end_lease();
            "released"
        } else if lapsed.is_some() {
            "expired"
        } else if let Some(rank) = self.rank(id) {
            // A waiter that leaves from among the first counts as one that was looked at.
            self.batch -= usize::from(rank < self.batch as u64);
            self.lock.remove_waiter(id);
            "left"
        } else {
            "unknown"
        }
    }

    fn break_lease(&mut self, token: u64, force: bool) -> Option<Answer> {
        let Some((_, end, _)) = self.lock.held().filter(|(_, _, held)| held.token == token) else {
            let ends_recovery = token == 0 && force && self.recovering();
            if ends_recovery {
                self.operator_ends_recovery();
            }
            self.promote(u64::MAX);
            return Some(self.answer(if ends_recovery { "ended" } else { "unknown" }, "", &[("left_us", 0)]));
        };
        let left = end - self.now;
        self.tell("break");
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
        answer.put("epoch", self.lock.state.epoch);
        answer.put("grants", self.lock.state.grants);
        answer.put("token", self.lock.state.token);
        self.tell_held(&mut answer);
        if let Some((_, _, held)) = self.lock.held() {
            let broken = u8::from(held.broken);
            answer.fields.insert("held_broken".into(), broken.to_string());
        }
        // A queue of another length than was counted tells nothing.
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
}
