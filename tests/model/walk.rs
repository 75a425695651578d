//! A walk: what happens to one lock, to the scripts and to the model alike.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::clients::Client;
use super::driver::{Driver, Found, NO_MEMORY, Outcome, Saved};
use super::events::{CLIENTS, Case, Fate, HOUR, Moment, Op, Pass, SECOND};
use super::promises::{Turn, Witness, repeated};
use super::{Answer, Lock, Message, Request, Terms, about};

mod asks;
mod calm;

pub use self::asks::{What, what};

/// The server's clock at the start, and how far from there it is set.
const START: u64 = 1_700_000_000 * SECOND;
const LARGEST_OFFSET: i64 = 60 * HOUR as i64;

pub struct Walk<'a> {
    driver: &'a mut Driver,
    model: Lock,
    witness: Witness,
    clients: Vec<Client>,
    paused: VecDeque<Client>,
    born: usize,
    history: Vec<Request>,
    saved: Vec<(Saved, Lock)>,
    /// When the server's clock comes to the end of each key's time.
    ends: BTreeMap<&'static str, u64>,
    /// True time, which no event sets.
    now: u64,
    /// The offset of the server's clock from true time.
    offset: i64,
    batch: usize,
    full: bool,
    /// Whether the model is asked, or only the promises.
    by_model: bool,
    pub steps: usize,
    terms: Vec<Terms>,
    /// The events, for the message of a failure.
    log: Vec<(u64, Event)>,
}

#[derive(Debug)]
enum Event {
    Fault(Op),
    /// Keys expired.
    Expired,
    Asked(Box<Request>, Option<Answer>),
}

/// When each key expires, by the clock that the test sets, as the state of the lock says; in days if the state is lost.
fn ends(found: &Found, time: u64) -> BTreeMap<&'static str, u64> {
    let until = match found.lock.state.ttl_until {
        0 => time + 48 * HOUR,
        until => until,
    };
    found.ttls.keys().map(|key| (*key, until)).collect()
}

pub type Checked<T = ()> = Result<T, String>;

impl<'a> Walk<'a> {
    pub fn new(driver: &'a mut Driver, case: &Case, by_model: bool) -> Self {
        driver.flush_all();
        let mut walk = Self {
            driver,
            model: Lock::default(),
            witness: Witness::default(),
            clients: vec![],
            paused: VecDeque::new(),
            born: 0,
            history: vec![],
            saved: vec![],
            ends: BTreeMap::new(),
            now: START,
            offset: 0,
            batch: case.batch,
            full: false,
            by_model,
            steps: 0,
            terms: case.terms.iter().copied().map(Terms::from).collect(),
            log: vec![],
        };
        for who in 0..CLIENTS {
            let client = walk.born(who);
            walk.clients.push(client);
        }
        walk
    }

    fn born(&mut self, who: usize) -> Client {
        self.born += 1;
        Client::new(format!("c{}", self.born), self.terms[who], self.born.is_multiple_of(2))
    }

    fn time(&self) -> u64 {
        self.now.checked_add_signed(self.offset).expect("offsets are small")
    }

    pub fn run(&mut self, case: &Case) -> Checked {
        let outcome = case.ops.iter().try_for_each(|op| self.happen(op));
        let outcome = outcome.and_then(|()| if case.drain { self.drain() } else { Ok(()) });
        outcome.map_err(|message| format!("{}{message}", self.story()))
    }

    fn happen(&mut self, op: &Op) -> Checked {
        if !matches!(op, Op::Ask { .. } | Op::Late(_) | Op::Pass(_) | Op::Settle) {
            self.log.push((self.time(), Event::Fault(op.clone())));
        }
        match op {
            Op::Ask { who, what, fate } => {
                let request = self.request(*who, what);
                self.ask(*who, request, *fate)?;
            }
            Op::Late(back) => {
                if let Some(index) = self.history.len().checked_sub(1 + back) {
                    self.send(self.history[index].clone(), true)?;
                }
            }
            Op::Pass(pass) => self.pass(pass),
            Op::Step(by) => {
                let offset = (self.offset + by).clamp(-LARGEST_OFFSET, LARGEST_OFFSET);
                self.witness.stepped(u64::try_from(offset - self.offset).unwrap_or(0));
                self.offset = offset;
            }
            Op::Reconsider { who, like } => {
                // The heartbeat is the client's own: the pace of the clock rests on it.
                let Terms { heartbeat, .. } = self.clients[*who].terms;
                self.clients[*who].terms = Terms { heartbeat, ..self.terms[*like] };
            }
            Op::Full(full) => self.full = *full,
            Op::Die(who) => self.clients[*who] = self.born(*who),
            Op::Pause(who) => {
                let next = if self.paused.len() < 2 { self.born(*who) } else { self.paused.pop_front().unwrap() };
                self.paused.push_back(std::mem::replace(&mut self.clients[*who], next));
            }
            Op::Settle => (0..CLIENTS).try_for_each(|who| self.settle(who))?,
            Op::FlushScripts => self.driver.flush_scripts(),
            Op::Save => self.saved.push((self.driver.save(), self.model.clone())),
            Op::Delete(kind) => {
                self.driver.delete(*kind);
                // The model takes over the garbage as well, about which it says nothing.
                self.model = self.driver.found().lock;
                self.data_lost();
            }
            Op::FlushAll => {
                self.driver.flush_all();
                self.model = Lock::default();
                self.data_lost();
            }
            Op::Restore(back) => {
                if let Some(index) = self.saved.len().checked_sub(1 + back) {
                    let (saved, model) = self.saved[index].clone();
                    self.driver.restore(&saved);
                    self.model = model;
                    self.data_lost();
                }
            }
        }
        Ok(())
    }

    fn data_lost(&mut self) {
        let found = self.driver.found();
        self.ends = ends(&found, self.time());
        self.witness.data_lost(found);
    }

    fn pass(&mut self, pass: &Pass) {
        let state = &self.model.state;
        let until = |at: u64| {
            let now = self.time().saturating_add_signed(state.skew);
            at.saturating_sub(now) as i64
        };
        let by = match *pass {
            Pass::Micros(by) | Pass::Outage(by) => by as i64,
            Pass::Heartbeats(count) => (self.terms[0].heartbeat * count) as i64,
            Pass::To(moment, later) => {
                let at = match moment {
                    Moment::Lease => self.model.leases.iter().map(|lease| lease.end).min(),
                    Moment::Session(which) => self.model.sessions.values().nth(which).copied(),
                    Moment::Recovery => Some(state.recover_until()),
                };
                at.map_or(0, |at| until(at) + later)
            }
        };
        self.now += u64::try_from(by).unwrap_or(0);
    }

    fn ask(&mut self, who: usize, request: Request, fate: Fate) -> Checked<Answer> {
        self.history.push(request.clone());
        let mut outcome = self.send(request.clone(), fate != Fate::AllLost)?;
        if fate == Fate::Twice {
            self.clients[who].repeats(&request);
            let second = self.send(request.clone(), true)?;
            repeated(&request, &outcome, &second)?;
            outcome = second;
        }
        if matches!(fate, Fate::Answered | Fate::Twice) && outcome.answer.word != NO_MEMORY {
            self.clients[who].learn(self.now, &request, &outcome.answer);
        }
        Ok(outcome.answer)
    }

    /// Deletes the keys that have expired by the clock that the test sets, as a server does by its own clock.
    fn expire(&mut self, time: u64) {
        let over: Vec<&str> = self.ends.iter().filter(|(_, end)| **end <= time).map(|(key, _)| *key).collect();
        if over.is_empty() {
            return;
        }
        for key in over {
            self.driver.expire(key);
            self.ends.remove(key);
        }
        let found = self.driver.found();
        self.model = found.lock.clone();
        self.log.push((time, Event::Expired));
        self.witness.expired(time, found);
    }

    /// What the model answers. A server whose memory is full admits no waiter, and keeps all that it has.
    fn turn(&mut self, time: u64, request: &Request) -> (Answer, Vec<Message>) {
        let mut after = self.model.clone();
        let (answer, messages) =
            after.turn(time, request, about(request.id().unwrap_or_default()), self.batch, self.driver.queue());
        if self.full && self.needs_memory(request, &answer) {
            return (Answer { word: NO_MEMORY.into(), ..Answer::default() }, vec![]);
        }
        self.model = after;
        (answer, messages)
    }

    /// One step: the request goes to the scripts and to the model, and everything is compared.
    fn send(&mut self, request: Request, pushes: bool) -> Checked<Outcome> {
        self.steps += 1;
        let time = self.time();
        self.expire(time);
        self.log.push((time, Event::Asked(Box::new(request.clone()), None)));
        let before = self.model.clone();
        let (answer, messages) = self.turn(time, &request);
        let outcome = if self.full {
            self.driver.run_without_memory(time, self.batch, &request)?
        } else {
            self.driver.run(time, self.batch, &request)?
        };
        self.log.pop();
        self.log.push((time, Event::Asked(Box::new(request.clone()), Some(outcome.answer.clone()))));
        if !request.looks_only() {
            self.ends = ends(&outcome.found, time);
        }

        if self.by_model {
            if outcome.answer != answer {
                return Err(format!("the answer was\n{:?}\nand not\n{answer:?}\nin {before:?}", outcome.answer));
            }
            if outcome.messages != messages {
                return Err(format!("published was\n{:?}\nand not\n{messages:?}\nin {before:?}", outcome.messages));
            }
            // The leases that end in one script come into the history in any order.
            if let (Some(found), Some(expected)) = (&outcome.found.lock.history, &mut self.model.history)
                && found.latest.iter().collect::<BTreeSet<_>>() == expected.latest.iter().collect()
            {
                expected.latest.clone_from(&found.latest);
            }
            let (found, expected) = (&outcome.found.lock, &self.model);
            if found != expected {
                return Err(format!("it became\n{found:?}\nand not\n{expected:?}\nfrom {before:?}"));
            }
        } else {
            self.model = outcome.found.lock.clone();
        }
        self.witness.judge(&Turn {
            time,
            true_time: self.now,
            request: &request,
            outcome: &outcome,
            batch: self.batch,
            full: self.full,
        })?;

        for (channel, message) in outcome.messages.iter().filter(|(_, message)| pushes && message.word == "grant") {
            let to = self.clients.iter_mut().filter(|client| channel == &format!("fairlock:client:{}", client.name));
            to.for_each(|client| client.pushed(self.now, message));
        }
        Ok(outcome)
    }

    fn story(&self) -> String {
        let mut story = String::new();
        for (time, event) in &self.log[self.log.len().saturating_sub(40)..] {
            let seconds = (*time as i64 - START as i64) as f64 / 1e6;
            story += &match event {
                Event::Fault(op) => format!("{seconds:>14.6} {op:?}\n"),
                Event::Expired => format!("{seconds:>14.6} keys expired\n"),
                Event::Asked(request, None) => format!("{seconds:>14.6} {request:?} -> ?\n"),
                Event::Asked(request, Some(answer)) => format!("{seconds:>14.6} {request:?} -> {}\n", answer.word),
            };
        }
        story
    }
}
