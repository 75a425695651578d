//! Clients as the scripts see them: what each of them remembers, asks for, and learns from an answer. They know nothing
//! of connections: the test decides which answer gets lost and which client falls silent.

use super::{Answer, Memory, Request, Terms, client_of};

#[derive(Clone, Debug)]
pub struct Client {
    pub name: String,
    pub terms: Terms,
    pub waiters: Vec<Waiter>,
    pub holds: Vec<Hold>,
    /// The ids that are to be released, until the server has answered.
    pub farewells: Vec<Farewell>,
    /// The epoch has changed, or the server does not know a waiter: all waiters re-enter.
    pub uneasy: bool,
    /// Whether its newcomers, heartbeats and leaves name the client's epoch, and bring what it knows.
    speaks: bool,
    next: u64,
    epoch: u64,
    floor: u64,
    /// The longest lease that any client of the lock may have.
    longest: u64,
    last_token: u64,
    pace: u64,
}

#[derive(Clone, Debug)]
pub struct Waiter {
    pub id: String,
    room: u64,
    claim: bool,
    pub ticket: u64,
    epoch: u64,
}

/// The release of a lease, or of anything that this id was granted meanwhile.
#[derive(Clone, Debug)]
pub struct Farewell {
    pub id: String,
    token: u64,
    epoch: u64,
}

#[derive(Clone, Debug)]
pub struct Hold {
    pub id: String,
    pub token: u64,
    epoch: u64,
    /// Until when it believes in the lease, by true time.
    pub until: u64,
}

impl Client {
    pub fn new(name: String, terms: Terms, speaks: bool) -> Self {
        let (waiters, holds, farewells) = (vec![], vec![], vec![]);
        Self {
            name,
            terms,
            waiters,
            holds,
            farewells,
            uneasy: false,
            speaks,
            next: 0,
            epoch: 0,
            floor: 0,
            longest: 0,
            last_token: 0,
            pace: 0,
        }
    }

    // ---- what it asks for; `now` is true time ----

    /// `room`: see [`Request::Acquire`].
    pub fn acquire(&mut self, room: u64, claim: bool) -> Request {
        if self.waiters.is_empty() && self.holds.is_empty() && self.farewells.is_empty() {
            // A client that wants nothing of a lock forgets all about it.
            (self.epoch, self.floor, self.longest, self.last_token, self.pace) = (0, 0, 0, 0, 0);
        }
        self.next += 1;
        let id = format!("{}.{}", self.name, self.next);
        self.waiters.push(Waiter { id, room, claim, ticket: 0, epoch: 0 });
        self.enter(self.waiters.len() - 1)
    }

    /// The acquire of a waiter once more, with the ticket that it has.
    pub fn enter(&self, index: usize) -> Request {
        let Waiter { id, room, claim, ticket, epoch } = self.waiters[index].clone();
        let epoch = if ticket == 0 && self.speaks { self.epoch } else { epoch };
        let left = self.longest.max(self.terms.lease);
        let memory = Memory { left, last_token: self.last_token, ..self.memory(epoch) };
        Request::Acquire { id, room, claim, terms: self.terms, ticket, memory }
    }

    /// All waiters, in the order of their tickets.
    pub fn waiting(&self) -> Vec<String> {
        let mut waiting: Vec<&Waiter> = self.waiters.iter().collect();
        waiting.sort_by_key(|waiter| waiter.ticket);
        waiting.into_iter().map(|waiter| waiter.id.clone()).collect()
    }

    pub fn heartbeat(&self) -> Request {
        let unplaced = self.waiters.iter().filter(|waiter| waiter.ticket == 0).count();
        let ids = self.waiting().into_iter().skip(unplaced).take(16).collect();
        Request::Heartbeat { client: self.name.clone(), terms: self.terms, ids, memory: self.known() }
    }

    pub fn renew(&self, now: u64, index: usize) -> Request {
        let Hold { id, token, epoch, until } = self.holds[index].clone();
        let memory = Memory { left: until.saturating_sub(now), ..self.memory(epoch) };
        Request::Renew { id, token, terms: self.terms, memory }
    }

    pub fn release(&mut self, index: usize) -> Request {
        let Hold { id, token, epoch, .. } = self.holds.remove(index);
        let farewell = Farewell { id, token, epoch };
        self.farewells.push(farewell.clone());
        self.give_back(&farewell)
    }

    pub fn give_back(&self, farewell: &Farewell) -> Request {
        let Farewell { id, token, epoch } = farewell.clone();
        let left = self.longest.max(self.terms.lease);
        let memory = Memory { left, last_token: self.last_token, ..self.memory(epoch) };
        Request::Release { id, token, terms: self.terms, memory }
    }

    /// What every request brings of the client's knowledge.
    fn memory(&self, epoch: u64) -> Memory {
        Memory { epoch, floor: self.floor, left: 0, last_token: 0, pace: self.pace }
    }

    /// What it brings with requests that are about no ticket and no token.
    fn known(&self) -> Memory {
        if !self.speaks {
            return Memory::default();
        }
        let left = self.longest.max(self.terms.lease);
        Memory { left, last_token: self.last_token, ..self.memory(self.epoch) }
    }

    fn no_longer_wants(&mut self, id: &str) {
        self.farewells.push(Farewell { id: id.to_owned(), token: 0, epoch: 0 });
    }

    fn gives_back(&self, id: &str) -> bool {
        self.farewells.iter().any(|farewell| farewell.id == id)
    }

    pub fn leave(&mut self, from: usize, count: usize, twice: bool) -> Request {
        let to = self.waiters.len().min(from + count);
        let mut ids: Vec<String> = self.waiters.drain(from..to).map(|waiter| waiter.id).collect();
        ids.iter().for_each(|id| self.no_longer_wants(id));
        if twice {
            ids.push(ids[0].clone());
        }
        Request::Leave { ids, terms: self.terms, memory: self.known() }
    }

    // ---- what it learns ----

    pub fn learn(&mut self, sent: u64, request: &Request, answer: &Answer) {
        let number = |field| answer.number(field).unwrap_or_default();
        self.floor = self.floor.max(number("stamp"));
        self.longest = self.longest.max(number("longest_us"));
        self.last_token = self.last_token.max(number("token"));
        self.pace = self.pace.max(number("pace_us"));
        let epoch = number("epoch");
        self.uneasy |= std::mem::replace(&mut self.epoch, epoch) != epoch;
        match request {
            Request::Acquire { id, .. } => self.learn_of_acquire(sent, id, answer, epoch),
            Request::Heartbeat { .. } => self.uneasy |= answer.word == "unknown",
            Request::Renew { id, .. } => {
                let Some(index) = self.holds.iter().position(|hold| hold.id == *id) else { return };
                if answer.word == "renewed" {
                    self.holds[index].until = sent + number("left_us");
                    self.holds[index].epoch = epoch;
                } else {
                    self.release(index);
                }
            }
            Request::Release { .. } | Request::Leave { .. } if number("again") == 1 => {}
            Request::Release { id, .. } => self.farewells.retain(|other| other.id != *id),
            Request::Leave { ids, .. } => self.farewells.retain(|other| !ids.contains(&other.id)),
            Request::Inspect { .. } | Request::Break { .. } | Request::History { .. } => {}
        }
        if let Some(holder) = answer.fields.get("holder") {
            self.granted(holder, number("holder_token"), sent + number("lease_left_us"));
        }
    }

    fn learn_of_acquire(&mut self, sent: u64, id: &str, answer: &Answer, epoch: u64) {
        let number = |field| answer.number(field).unwrap_or_default();
        let Some(index) = self.waiters.iter().position(|waiter| waiter.id == id) else {
            if answer.word == "queued" && !self.gives_back(id) {
                self.no_longer_wants(id);
            }
            return;
        };
        let waiter = &mut self.waiters[index];
        match answer.word.as_str() {
            "granted" => {
                waiter.epoch = epoch;
                self.granted(id, number("granted_token"), sent + number("left_us"));
            }
            "queued" => (waiter.ticket, waiter.epoch) = (number("ticket"), epoch),
            "busy" => drop(self.waiters.remove(index)),
            _ => {
                (waiter.ticket, waiter.epoch) = (0, 0);
                (self.floor, self.last_token) = (0, 0);
            }
        }
    }

    /// A grant, by reply or by push. If no waiter here wants it, it is released.
    pub fn granted(&mut self, id: &str, token: u64, until: u64) {
        let known = self.holds.iter().any(|hold| hold.id == id) || self.gives_back(id);
        if client_of(id) != self.name || known {
            return;
        }
        match self.waiters.iter().position(|waiter| waiter.id == id) {
            None => self.no_longer_wants(id),
            Some(index) => {
                let epoch = self.waiters.remove(index).epoch.max(self.epoch);
                self.holds.push(Hold { id: id.to_owned(), token, epoch, until });
            }
        }
    }
}
