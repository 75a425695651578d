//! Clients as the scripts see them: what each of them remembers, asks for, and learns from an answer. They know nothing
//! of connections: the test decides which answer gets lost and which client falls silent.

use super::{Answer, Memory, Own, Request, Seat, Terms, client_of};

#[derive(Clone, Debug)]
pub struct Client {
    pub name: String,
    pub terms: Terms,
    pub waiters: Vec<Waiter>,
    pub holds: Vec<Hold>,
    /// What is to be given back, until the server has answered.
    pub farewells: Vec<Farewell>,
    /// The epoch has changed, or the server does not know a waiter: all waiters re-enter.
    pub uneasy: bool,
    /// Whether it keeps its memory when it has nothing at the lock any more. Such a client also knows HDEL.
    keeps: bool,
    next: u64,
    /// What the server has told it of the lock, in the answer to a request that was sent at `heard`.
    memory: Memory,
    heard: u64,
    /// How long it keeps its memory when it has nothing at the lock any more.
    keep: u64,
}

#[derive(Clone, Debug)]
pub struct Waiter {
    pub id: String,
    room: u64,
    claim: bool,
    pub seat: Seat,
    /// The seat is from before a sleep.
    slept: bool,
}

/// The release of a lease, or of anything that this id was granted meanwhile.
#[derive(Clone, Debug)]
pub struct Farewell {
    pub id: String,
    seat: Seat,
    /// It begins with an HDEL, and how often that was sent.
    short: bool,
    hdels: u32,
    /// It was sent before.
    repeated: bool,
}

#[derive(Clone, Debug)]
pub struct Hold {
    pub id: String,
    pub seat: Seat,
    /// Until when it believes in the lease, by true time.
    pub until: u64,
    /// It has asked for more beside it, and does not know whether it was heard.
    grows: bool,
    /// It may be given back by an HDEL.
    short: bool,
}

/// How long the server remembers a lock in use of which it hears nothing.
const REMEMBERED: u64 = super::DAY;

impl Client {
    pub fn new(name: String, terms: Terms, keeps: bool) -> Self {
        Self {
            name,
            terms,
            waiters: vec![],
            holds: vec![],
            farewells: vec![],
            uneasy: false,
            keeps,
            next: 0,
            memory: Memory::default(),
            heard: 0,
            keep: 0,
        }
    }

    // ---- what it asks for; `now` is true time ----

    /// `room`: see [`Request::Acquire`].
    pub fn acquire(&mut self, now: u64, room: u64, claim: bool) -> Request {
        if self.waiters.is_empty() && self.holds.is_empty() && self.farewells.is_empty() {
            // A client that has nothing at a lock forgets it after a while.
            if !self.keeps || now >= self.heard + self.keep {
                self.memory = Memory::default();
            }
        }
        self.next += 1;
        let id = format!("{}.{}", self.name, self.next);
        self.waiters.push(Waiter { id, room, claim, seat: Seat::default(), slept: false });
        self.enter(now, self.waiters.len() - 1)
    }

    /// The acquire of a waiter once more, with the seat that it has.
    pub fn enter(&mut self, now: u64, index: usize) -> Request {
        let memory = self.memory(now);
        let Waiter { id, room, claim, seat, slept } = self.waiters[index].clone();
        let memory = if slept && seat.ticket > 0 { Memory::default() } else { memory };
        Request::Acquire { id, room, claim, terms: self.terms, memory, seat }
    }

    /// All waiters, in the order of their tickets.
    pub fn waiting(&self) -> Vec<String> {
        let mut waiting: Vec<&Waiter> = self.waiters.iter().collect();
        waiting.sort_by_key(|waiter| waiter.seat.ticket);
        waiting.into_iter().map(|waiter| waiter.id.clone()).collect()
    }

    pub fn heartbeat(&mut self, now: u64) -> Request {
        let unplaced = self.waiters.iter().filter(|waiter| waiter.seat.ticket == 0).count();
        let ids = self.waiting().into_iter().skip(unplaced).take(16).collect();
        Request::Heartbeat { client: self.name.clone(), terms: self.terms, ids, memory: self.memory(now) }
    }

    pub fn renew(&mut self, now: u64, index: usize) -> Request {
        self.holds[index].grows |= self.terms.most > self.holds[index].seat.most;
        let Hold { id, seat, until, .. } = self.holds[index].clone();
        Request::Renew { id, seat, left: until.saturating_sub(now), terms: self.terms, memory: self.memory(now) }
    }

    pub fn release(&mut self, now: u64, index: usize) -> Request {
        let Hold { id, seat, until, grows, short } = self.holds.remove(index);
        let seat = if until > now && !grows { seat } else { Seat::default() };
        self.farewells.push(Farewell { id, seat, short, hdels: 0, repeated: false });
        self.give_back(now, self.farewells.len() - 1)
    }

    /// What is repeated, or comes after the lease may be over, names no lease.
    pub fn give_back(&mut self, now: u64, index: usize) -> Request {
        let memory = self.memory(now);
        let Farewell { id, seat, short, hdels, repeated } = &mut self.farewells[index];
        if *short {
            *hdels += 1;
            return Request::Hdel { id: id.clone() };
        }
        let seat = if std::mem::replace(repeated, true) { Seat::default() } else { *seat };
        Request::Release { id: id.clone(), seat, memory }
    }

    /// A waiter that has heard nothing for so long may find a lock that was made anew, although nothing was lost. It is a
    /// stranger until it is answered, and the seat of before goes with no memory of a later reply.
    fn memory(&mut self, now: u64) -> Memory {
        if self.holds.is_empty() && now >= self.heard + self.terms.liveness + REMEMBERED {
            self.memory = Memory::default();
            self.waiters.iter_mut().for_each(|waiter| waiter.slept = true);
        }
        self.memory
    }

    /// This request was sent once more.
    pub fn repeats(&mut self, request: &Request) {
        let Request::Hdel { id } = request else { return };
        self.farewells.iter_mut().filter(|farewell| farewell.id == *id).for_each(|farewell| farewell.hdels += 1);
    }

    fn no_longer_wants(&mut self, id: &str) {
        self.farewells.push(Farewell {
            id: id.to_owned(),
            seat: Seat::default(),
            short: false,
            hdels: 0,
            repeated: false,
        });
    }

    fn gives_back(&self, id: &str) -> bool {
        self.farewells.iter().any(|farewell| farewell.id == id)
    }

    pub fn leave(&mut self, now: u64, from: usize, count: usize, twice: bool) -> Request {
        let to = self.waiters.len().min(from + count);
        let mut ids: Vec<String> = self.waiters.drain(from..to).map(|waiter| waiter.id).collect();
        ids.iter().for_each(|id| self.no_longer_wants(id));
        if twice {
            ids.push(ids[0].clone());
        }
        Request::Leave { ids, memory: self.memory(now) }
    }

    // ---- what it learns ----

    /// An answer, or a message, which answers no request.
    pub fn take(&mut self, sent: u64, brought: Option<Memory>, told: Memory) {
        let newer = told.epoch == self.memory.epoch && told.stamp >= self.memory.stamp;
        if newer || self.memory.is_strangers() || brought == Some(self.memory) {
            self.uneasy |= !self.memory.is_strangers() && told.epoch != self.memory.epoch;
            (self.memory, self.heard) = (told, self.heard.max(sent));
        }
    }

    pub fn learn(&mut self, sent: u64, request: &Request, answer: &Answer) {
        let number = |field| answer.number(field).unwrap_or_default();
        if let Request::Hdel { id } = request {
            // If it did nothing, the script follows: with the seat, unless an earlier HDEL may have done it.
            let did = answer.word == "released";
            self.farewells.retain(|farewell| farewell.id != *id || !did);
            for farewell in self.farewells.iter_mut().filter(|farewell| farewell.id == *id) {
                (farewell.short, farewell.repeated) = (false, farewell.repeated || farewell.hdels > 1);
            }
            return;
        }
        let Some((brought, _)) = request.brings() else { return };
        self.take(sent, Some(brought), answer.memory());
        self.keep = number("keep_us");
        match request {
            Request::Acquire { id, .. } => self.learn_of_acquire(id, answer),
            Request::Heartbeat { .. } => self.uneasy |= answer.word == "unknown",
            Request::Renew { id, terms, .. } => {
                let Some(index) = self.holds.iter().position(|hold| hold.id == *id) else { return };
                if answer.word == "renewed" {
                    let Some(Own { seat, left, .. }) = answer.lease_of(id).cloned() else { return };
                    (self.holds[index].until, self.holds[index].seat) = (sent + left.min(terms.lease), seat);
                    self.holds[index].grows = self.terms.most > seat.most;
                } else {
                    // It is over.
                    self.holds[index].until = 0;
                    self.release(sent, index);
                }
            }
            Request::Release { .. } | Request::Leave { .. } if number("again") == 1 => {}
            Request::Release { id, .. } => self.farewells.retain(|other| other.id != *id),
            Request::Leave { ids, .. } => self.farewells.retain(|other| !ids.contains(&other.id)),
            _ => assert!(request.client().is_empty(), "only operators have nothing to learn: {request:?}"),
        }
        for Own { id, seat, left, .. } in answer.leases() {
            // A claim may last longer than the lease. Its holder does not count on that.
            self.granted(id, *seat, sent + left.min(&self.terms.lease), self.keeps && number("by_hdel") == 1);
        }
    }

    fn learn_of_acquire(&mut self, id: &str, answer: &Answer) {
        let Some(index) = self.waiters.iter().position(|waiter| waiter.id == id) else {
            if answer.word == "queued" && !self.gives_back(id) {
                self.no_longer_wants(id);
            }
            return;
        };
        match answer.word.as_str() {
            // The answer names the lease.
            "granted" => {}
            "queued" => (self.waiters[index].seat, self.waiters[index].slept) = (answer.seat(), false),
            "busy" => drop(self.waiters.remove(index)),
            _ => {
                self.waiters[index].seat = Seat::default();
                self.memory = answer.memory();
            }
        }
    }

    /// A message that the client was granted the lock.
    pub fn pushed(&mut self, now: u64, message: &Answer) {
        self.take(0, None, message.memory());
        for Own { id, seat, left, .. } in &message.own {
            self.granted(id, *seat, now + left.min(&self.terms.lease), false);
        }
    }

    /// A grant, by reply or by push. If no waiter here wants it, it is released.
    fn granted(&mut self, id: &str, seat: Seat, until: u64, short: bool) {
        let known = self.holds.iter().any(|hold| hold.id == id) || self.gives_back(id);
        if client_of(id) != self.name || known {
            return;
        }
        match self.waiters.iter().position(|waiter| waiter.id == id) {
            None => self.no_longer_wants(id),
            Some(index) => {
                self.waiters.remove(index);
                self.holds.push(Hold { id: id.to_owned(), seat, until, grows: false, short });
            }
        }
    }
}
