//! Hundreds of holders of one lock, of one client and of twenty, against the model: granted at once and by hand-off, some
//! of their messages lost, and losses of data between them. Walks (`walks.rs`) have a handful, so that all that may be
//! over is soon read there; here most leases are left unread.

use std::collections::BTreeMap;
use std::fmt::Debug;

use super::model::driver::{Driver, Saved};
use super::model::walk::Checked;
use super::model::{Answer, Lock, Memory, Message, Request, Seat, Terms, UNBOUNDED, about};

const SECOND: u64 = 1_000_000;
const TIME: u64 = 1_700_000_000 * SECOND;
/// Most holders come back after a loss without a look at all that is stored.
const SELDOM: usize = 50;

struct Crowd {
    driver: Driver,
    model: Lock,
    time: u64,
    chance: u64,
    most: u16,
    clients: usize,
    last_id: u64,
    asked: usize,
    /// One in so many holders sends a renewal where all could.
    comes_back: usize,
    /// What each client was told of the lock.
    memories: BTreeMap<String, Memory>,
    /// The places and leases in which their clients believe.
    seats: BTreeMap<String, Seat>,
    /// What the model has published since the last comparison.
    messages: Vec<Message>,
    counts: BTreeMap<&'static str, usize>,
}

fn expect<T: PartialEq + Debug>(what: &str, found: T, wanted: T) -> Checked {
    if found == wanted { Ok(()) } else { Err(format!("{what}: {found:?} and not {wanted:?}")) }
}

fn client(id: &str) -> &str {
    id.split('.').next().unwrap()
}

impl Crowd {
    fn of(clients: usize, most: u16) -> Self {
        Self {
            driver: Driver::start(),
            model: Lock::default(),
            time: TIME,
            chance: 0x9E37_79B9_7F4A_7C15,
            most,
            clients,
            last_id: 0,
            asked: 0,
            comes_back: 1,
            memories: BTreeMap::new(),
            seats: BTreeMap::new(),
            messages: vec![],
            counts: BTreeMap::new(),
        }
    }

    fn pick(&mut self, below: usize) -> usize {
        self.chance ^= self.chance << 13;
        self.chance ^= self.chance >> 7;
        self.chance ^= self.chance << 17;
        (self.chance % below as u64) as usize
    }

    fn terms(&self) -> Terms {
        let (lease, liveness) = (60 * SECOND, 12 * SECOND);
        Terms { lease, liveness, buffer: SECOND, heartbeat: liveness / 3, most: self.most }
    }

    /// Sends a request to both, and compares what they say and keep, or only sees that it is not refused.
    fn ask(&mut self, request: &Request, compares: bool) -> Checked<Answer> {
        self.time += 1000;
        self.asked += 1;
        let of = about(request.id().unwrap_or_default());
        let (answer, messages) = self.model.turn(self.time, request, of, 100, self.driver.queue());
        self.messages.extend(messages.iter().cloned());
        if compares {
            let outcome = self.driver.run(self.time, 100, request)?;
            expect("the answer", &outcome.answer, &answer)?;
            expect("the messages", &outcome.messages, &std::mem::take(&mut self.messages))?;
            expect("the lock", &outcome.found.lock, &self.model)?;
        } else {
            expect("the refusal", self.driver.refusal(self.time, request), None)?;
        }
        for (_, message) in messages {
            *self.counts.entry("handed over").or_default() += 1;
            // Some are lost: a heartbeat makes up for them, or the claim ends.
            if self.pick(4) > 0 {
                self.learn(&message);
            }
        }
        self.learn(&answer);
        *self.counts.entry("again").or_default() += answer.number("again").map_or(0, |_| 1);
        if answer.memory().epoch > 0 {
            self.memories.insert(request.client().to_owned(), answer.memory());
        }
        Ok(answer)
    }

    fn learn(&mut self, told: &Answer) {
        for own in &told.own {
            self.seats.insert(own.id.clone(), own.seat);
        }
    }

    fn memory(&self, id: &str) -> Memory {
        self.memories.get(client(id)).copied().unwrap_or_default()
    }

    fn acquire(&mut self, id: String, terms: Terms, compares: bool) -> Checked<Answer> {
        let (memory, seat) = (self.memory(&id), self.seats.get(&id).copied().unwrap_or_default());
        self.ask(&Request::Acquire { id, room: UNBOUNDED, claim: false, terms, memory, seat }, compares)
    }

    fn joins(&mut self, compares: bool) -> Checked<Answer> {
        self.last_id += 1;
        let id = format!("c{}.{}", self.pick(self.clients), self.last_id);
        self.acquire(id, self.terms(), compares)
    }

    /// One that is held, or else one that waits.
    fn believed(&mut self, held: bool) -> Option<String> {
        let such: Vec<_> = self.seats.iter().filter(|(_, seat)| (seat.token > 0) == held).map(|(id, _)| id).collect();
        let such: Vec<String> = such.into_iter().cloned().collect();
        if such.is_empty() { None } else { Some(such[self.pick(such.len())].clone()) }
    }

    fn renew(&mut self, id: String, compares: bool) -> Checked {
        let (memory, seat, terms) = (self.memory(&id), self.seats[&id], self.terms());
        let renewal = Request::Renew { id: id.clone(), seat, left: terms.lease / 2, terms, memory };
        let word = self.ask(&renewal, compares)?.word;
        *self.counts.entry(if word == "renewed" { "renewed" } else { "lost" }).or_default() += 1;
        if word != "renewed" {
            self.seats.remove(&id);
        }
        Ok(())
    }

    fn release(&mut self, id: String, compares: bool) -> Checked {
        let (memory, seat) = (self.memory(&id), self.seats.remove(&id).unwrap_or_default());
        self.ask(&Request::Release { id, seat, memory }, compares).map(|_| ())
    }

    fn heartbeat(&mut self, compares: bool) -> Checked {
        let client = format!("c{}", self.pick(self.clients));
        let of_client = |(id, _): &(&String, &Seat)| self::client(id) == client;
        let mut ids: Vec<_> =
            self.seats.iter().filter(of_client).map(|(id, seat)| (seat.token > 0, id.clone())).collect();
        ids.sort();
        let ids: Vec<String> = ids.into_iter().map(|(_, id)| id).take(16).collect();
        if ids.is_empty() {
            return Ok(());
        }
        let (terms, memory) = (self.terms(), self.memories.get(&client).copied().unwrap_or_default());
        let word = self.ask(&Request::Heartbeat { client, terms, ids: ids.clone(), memory }, compares)?.word;
        for id in ids {
            if word == "unknown" && self.seats[&id].token == 0 {
                self.acquire(id, self.terms(), compares)?;
            }
        }
        Ok(())
    }

    /// Some holders that believe in their leases come back, or show that they are there.
    fn some_renew(&mut self) -> Checked {
        let held: Vec<String> =
            self.seats.iter().filter(|(_, seat)| seat.token > 0).map(|(id, _)| id.clone()).collect();
        for id in held {
            if self.pick(self.comes_back) == 0 {
                let compares = self.pick(SELDOM / self.comes_back) == 0;
                self.renew(id, compares)?;
            }
        }
        Ok(())
    }

    /// As many hold as may, some granted at once and some by hand-off after a writer.
    fn fill(&mut self) -> Checked {
        let many = usize::from(self.most);
        for nth in 0..many / 3 {
            self.joins(nth % SELDOM == 0)?;
        }
        self.some_renew()?;
        let writer = "writer.1".to_owned();
        let terms = Terms { most: 1, ..self.terms() };
        expect("the writer", self.acquire(writer.clone(), terms, true)?.word.as_str(), "queued")?;
        for nth in 0..many * 2 / 3 {
            self.joins(nth % SELDOM == 0)?;
        }
        // It gives up, and those behind it are granted the lock, sixteen in a script.
        let memory = self.memory(&writer);
        self.seats.remove(&writer);
        let leave = Request::Leave { ids: vec![writer], memory };
        while self.ask(&leave, self.model.leases.len().is_multiple_of(3))?.number("again").is_some() {}
        self.some_renew()
    }

    fn step(&mut self) -> Checked {
        match self.pick(100) {
            0..25 => self.joins(true).map(|_| ()),
            25..50 => self.believed(true).map_or(Ok(()), |id| self.renew(id, true)),
            50..70 => self.believed(true).map_or(Ok(()), |id| self.release(id, true)),
            70..90 => self.heartbeat(true),
            90..97 => self.believed(false).map_or(Ok(()), |id| {
                let memory = self.memory(&id);
                self.seats.remove(&id);
                self.ask(&Request::Leave { ids: vec![id], memory }, true).map(|_| ())
            }),
            _ => {
                // Claims of which nobody has heard end, and so do sessions.
                self.time += 15 * SECOND;
                Ok(())
            }
        }
    }

    /// The server loses all, or what has happened since it was saved. Some of the holders come back at once.
    fn lose(&mut self, saved: Option<(Saved, Lock)>) -> Checked {
        match &saved {
            Some((saved, _)) => self.driver.restore(saved),
            None => self.driver.flush_all(),
        }
        self.model = saved.map(|(_, model)| model).unwrap_or_default();
        self.some_renew()
    }

    fn walk(&mut self, steps: usize) -> Checked {
        self.fill()?;
        expect("all that may hold it do", self.model.leases.len() > usize::from(self.most) * 9 / 10, true)?;
        let mut saved = None;
        for step in 0..steps {
            match 4 * step / steps {
                _ if 4 * step % steps > 3 => {}
                1 => saved = Some((self.driver.save(), self.model.clone())),
                2 => self.lose(saved.take())?,
                3 => self.lose(None)?,
                _ => {}
            }
            self.step()?;
        }
        while let Some(id) = self.believed(true).filter(|_| self.pick(20) > 0) {
            self.release(id, true)?;
        }
        Ok(())
    }
}

fn walk(clients: usize, most: u16, comes_back: usize, steps: usize) {
    let mut crowd = Crowd { comes_back, ..Crowd::of(clients, most) };
    crowd.walk(steps).unwrap_or_else(|wrong| panic!("request {}: {wrong}", crowd.asked));
    let count = |what| crowd.counts.get(what).copied().unwrap_or_default();
    let many = usize::from(most) / 2;
    assert!(count("handed over") > many && count("again") > many / 16, "{:?}", crowd.counts);
    assert!(count("renewed") > many / comes_back && (count("lost") > 0 || comes_back > 2), "{:?}", crowd.counts);
}

#[test]
fn three_hundred_holders_of_one_client_agree_with_the_model() {
    walk(1, 300, 2, 200);
}

#[test]
fn a_thousand_holders_of_twenty_clients_agree_with_the_model() {
    walk(20, 1000, 10, 50);
}
