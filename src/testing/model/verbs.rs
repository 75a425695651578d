//! What each verb does.

use super::answer::Own;
use super::queue::Contender;
use super::turn::Turn;
use super::{Answer, Lease, Lock, MOST, Memory, NONE_IS_MISSING, Request, Seat, Terms, client_of};

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
            Request::Hdel { .. } => None, // It is no turn.
            Request::Leave { ids, memory } => self.leave(ids, memory),
            Request::Break { token, force } => self.break_lease(*token, *force),
            Request::Inspect { after, count, tell_from, tell_most } => {
                self.inspect(*after, *count, *tell_from, *tell_most)
            }
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
                lock.state.calm = false;
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
        if self.lock.state.epoch == 0 {
            self.lock.state.epoch = self.next_stamp();
        }
        let client = client_of(id);
        if self.lock.holds(id) {
            // It asks again about a lease that it has been granted.
            self.promote(None);
            return Some(self.answer("granted", client, &[]));
        }
        let entry = terms.entry(&self.about);
        let lease = if claim { terms.lease.min(terms.liveness) } else { terms.lease };
        let end = self.now + lease;
        let joins = room > 0;
        // An acquire that was executed late, after a loss, may have been given a later ticket than its own.
        let places = [self.lock.ticket(id), Some(seat.ticket).filter(|ticket| *ticket > 0)];
        let old_place = places.into_iter().flatten().min().filter(|_| joins);
        if joins && self.lock.sessions.contains_key(client) {
            // The client is alive, and so are its other waiters.
            self.refresh(client, terms);
        }
        let is_full = |turn: &Turn| old_place.is_none() && turn.lock.queue.len() as u64 >= room;
        if joins && is_full(self) {
            // The dead take up no room.
            self.head(u64::MAX);
        }
        let waits = joins && !is_full(self);
        let place = match old_place {
            Some(place) => place,
            None if waits => self.next_stamp(),
            None => u64::MAX,
        };
        if self.promote(Some(Contender { id: id.to_owned(), place, entry: entry.clone(), end })) {
            return Some(self.answer("granted", client, &[]));
        }
        if !waits {
            let mut answer = self.answer("busy", client, &[]);
            self.tell_holders(&mut answer, 0, 16);
            return Some(answer);
        }
        self.refresh(client, terms);
        self.asks_for(terms.lease);
        self.lock.remove_waiter(id);
        self.lock.queue.insert((place, id.to_owned()));
        self.lock.entries.insert(id.to_owned(), entry);
        let mut answer = self.answer("queued", client, &[("rank", self.rank(id)?)]);
        let epoch = self.lock.state.epoch;
        let seat = Seat { epoch, ticket: place, token: 0, slot: 0, most: terms.most.min(MOST) };
        answer.own.insert(0, Own { id: id.to_owned(), seat, ..Own::default() });
        Some(answer)
    }

    fn heartbeat(&mut self, client: &str, terms: &Terms, ids: &[String], memory: &Memory) -> Option<Answer> {
        self.restore(memory, &Seat::default(), terms.heartbeat, 0);
        let waits = |turn: &Turn, id: &String| turn.lock.ticket(id).is_some();
        let first = ids.iter().find(|id| waits(self, id));
        let all_known = ids.iter().all(|id| self.lock.holds(id) || waits(self, id));
        if first.is_some() {
            self.refresh(client, terms);
        }
        self.promote(None);
        if !all_known {
            return Some(self.answer("unknown", client, &[]));
        }
        Some(match first.and_then(|id| self.rank(id)) {
            Some(rank) => self.answer("alive", client, &[("rank", rank)]),
            None => self.answer("alive", client, &[]),
        })
    }

    fn renew(&mut self, id: &str, seat: &Seat, left: u64, terms: &Terms, memory: &Memory) -> Option<Answer> {
        let believed = self.restore(memory, seat, memory.pace, left);
        let most = seat.most.max(terms.most.min(MOST));
        // The server has forgotten a renewal, or its clock has jumped: the holder's own clock counts.
        let is_mine = |lease: &mut Lease| lease.id == id && lease.token == seat.token && left > 0 && !lease.broken;
        let prolonged: Vec<Lease> = self.lapsed.extract_if(.., is_mine).collect();
        prolonged.into_iter().for_each(|lease| self.put(lease));
        let until = self.now + terms.lease;
        let mine = self.lock.leases.iter_mut().find(|lease| lease.id == id && lease.token == seat.token);
        let mut word = match mine {
            Some(lease) if lease.broken => "broken",
            Some(lease) => {
                // Of a claim the renewal makes a lease that lasts for as long as its holder asked.
                lease.end = if lease.claim { until } else { lease.end.max(until) };
                (lease.most, lease.claim) = (lease.most.max(most), false);
                "renewed"
            }
            None => "lost",
        };
        if word == "lost" && believed && self.bring_back(id, seat, left, most) {
            self.lock.entries.insert(id.to_owned(), terms.entry(&self.about));
            word = "renewed";
        }
        if word == "renewed" {
            self.asks_for(terms.lease);
        }
        self.promote(None);
        Some(self.answer(word, client_of(id), &[]))
    }

    fn release(&mut self, id: &str, seat: &Seat, memory: &Memory) -> Option<Answer> {
        // A seat says that its lease lasted until now. After a loss it comes back, and is then released.
        if self.restore(memory, seat, memory.pace, 0) {
            self.bring_back(id, seat, 1, seat.most);
        }
        let word = self.give_up(id);
        self.promote(None);
        Some(self.answer(word, client_of(id), &[]))
    }

    fn leave(&mut self, ids: &[String], memory: &Memory) -> Option<Answer> {
        self.restore(memory, &Seat::default(), memory.pace, 0);
        for id in ids {
            self.give_up(id);
        }
        self.promote(None);
        Some(self.answer("left", client_of(&ids[0]), &[]))
    }

    fn give_up(&mut self, id: &str) -> &'static str {
        if let Some(Lease { slot, broken, .. }) = self.lock.lease_of(id).cloned() {
            self.end_lease(slot, if broken { "broken" } else { "released" });
            "released"
        } else if self.lapsed.iter().any(|lease| lease.id == id) {
            "expired"
        } else if self.rank(id).is_some() {
            self.lock.remove_waiter(id);
            "left"
        } else {
            "unknown"
        }
    }

    fn break_lease(&mut self, token: u64, force: bool) -> Option<Answer> {
        let (mut word, mut left) = ("unknown", 0);
        if let Some(lease) = self.lock.leases.iter_mut().find(|lease| lease.token == token) {
            lease.broken = true;
            let lease = lease.clone();
            (word, left) = ("told", lease.end - self.now);
            self.tell("break", &lease);
            if force {
                word = "ended";
                self.end_lease(lease.slot, "broken");
            }
        } else if token == 0 && force && self.recovering() {
            word = "ended";
            self.lock.state.sole = NONE_IS_MISSING;
        }
        self.promote(None);
        Some(self.answer(word, "", &[("left_us", left)]))
    }

    fn inspect(&mut self, after: u64, count: usize, tell_from: u64, tell_most: usize) -> Option<Answer> {
        let mut answer = self.answer("state", "", &[]);
        answer.fields.insert("waiting".into(), self.lock.state.waiting.to_string());
        answer.put("epoch", self.lock.state.epoch);
        answer.put("grants", self.lock.state.grants);
        answer.put("token", self.lock.state.token);
        self.tell_holders(&mut answer, tell_from, tell_most);
        // A queue of another length than was counted tells nothing.
        let queue = Some(&self.lock.queue).filter(|_| !self.lock.is_partial());
        let page = queue.into_iter().flatten().filter(|(ticket, _)| *ticket > after).take(count);
        let rows = page
            .map(|(ticket, id)| {
                let entry = self.lock.entries.get(id).cloned().unwrap_or_default();
                let alive = u8::from(self.alive(client_of(id))).to_string();
                let waited = self.time.saturating_sub(*ticket).to_string();
                let most = entry.most.to_string();
                vec![id.clone(), ticket.to_string(), entry.label, entry.owner, waited, alive, most]
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
