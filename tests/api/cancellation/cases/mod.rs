//! One case of cancellation: which request is under way, who else is in the queue, what goes wrong on the wire, and
//! when the future is dropped. And the conditions that must hold afterwards in every case.

#![allow(unreachable_pub)]

mod crowd;
mod drive;
mod late;
mod subject;

use std::fmt;

use fairlock::{Client, Guard, Waiting};

pub use self::crowd::{Crowd, run_all};
pub use self::drive::{Driver, complete, insist};
pub use self::late::a_late_acquire_costs_a_window;
pub use self::subject::{Subject, What};
use testkit::{Act, Proxy, RedisServer, SOON, Target, calm, eventually, proxy::Fault, state, state::State};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Queue {
    /// No other waiter wants the lock.
    Free,
    /// The same, and the lock is calm: it was granted twice. What is granted now is given back by an HDEL.
    Calm,
    /// The lock has a holder unless the future's own client holds it, and waiters before and behind.
    Contended,
}

/// Where on the wire something goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wire {
    Nowhere,
    /// Requests by this script, or with this command.
    Request(&'static str),
    Reply(&'static str),
    /// The message of a grant.
    Push,
    /// The release after the drop, by whichever script.
    FarewellRequest,
    FarewellReply,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// After so many polls, at once.
    Polls(u32),
    /// As soon as the fault has struck, polled until then as often as it asks for.
    Struck,
    /// Polled once, and then not even when the lock was granted.
    Granted,
}

#[derive(Clone, Copy, Debug)]
pub struct Case {
    pub what: What,
    pub queue: Queue,
    pub wire: Wire,
    pub act: Act,
    /// How often the fault strikes at most.
    pub times: u64,
    pub moment: Moment,
    /// After the first poll the waiters before it leave, so that its turn comes.
    pub turn: bool,
    /// The client goes with the future, instead of staying.
    pub last: bool,
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}, {:?}, {:?}", self.what, self.queue, self.moment)?;
        if self.wire != Wire::Nowhere {
            write!(f, ", {:?} {:?}", self.act, self.wire)?;
        }
        if self.times != u64::MAX {
            write!(f, " x{}", self.times)?;
        }
        f.write_str(if self.turn { ", in its turn" } else { "" })?;
        f.write_str(if self.last { ", last" } else { "" })
    }
}

#[derive(Debug, Default)]
pub struct Report {
    pub completed: bool,
    pub struck: u64,
    /// How many futures were dropped.
    pub runs: u64,
}

impl Case {
    pub fn new(what: What, queue: Queue) -> Case {
        let (wire, act) = (Wire::Nowhere, Act::Hold);
        Case { what, queue, wire, act, times: u64::MAX, moment: Moment::Polls(1), turn: false, last: false }
    }

    /// The name of its lock, which tells which case left something behind.
    fn name(&self) -> String {
        self.to_string().replace(['{', '}'], "")
    }

    fn faults(&self, proxy: &Proxy) -> Vec<Fault> {
        let farewells = |target: fn(String) -> Target| {
            ["leave", "release", "hdel"].map(|word| named(word, target, target)).to_vec()
        };
        let targets = match self.wire {
            Wire::Nowhere => vec![],
            Wire::Request(word) => vec![named(word, Target::request, Target::request)],
            Wire::Reply(word) => vec![named(word, Target::reply, Target::reply)],
            Wire::Push => vec![Target::push("grant")],
            Wire::FarewellRequest => farewells(Target::request),
            Wire::FarewellReply => farewells(Target::reply),
        };
        targets.into_iter().map(|target| proxy.fault_times(self.times, target, self.act)).collect()
    }

    /// Runs it, and checks what must hold after every drop.
    pub fn run(&self, server: &RedisServer, others: &Client) -> Report {
        let proxy = Proxy::start(server);
        let name = self.name();
        let lock = others.lock_with(&name, calm()).unwrap();
        let contended = self.queue == Queue::Contended;
        for _ in 0..if self.queue == Queue::Calm { 2 } else { 0 } {
            complete(complete(lock.acquire()).unwrap().release()).unwrap();
        }
        let mut ahead = (contended && !self.what.holds()).then(|| {
            let holder = complete(lock.acquire());
            (holder.unwrap(), insist(|| lock.enqueue()))
        });
        let token = ahead.as_ref().map_or(1, |(holder, _)| holder.token());
        let mut subject = Subject::prepare(self.what, &proxy.url(), &name, token);
        if let (Wire::FarewellRequest | Wire::FarewellReply, Some(client)) = (self.wire, &subject.client) {
            // A client that was never used connects first.
            insist(|| client.lock("used").unwrap().inspect());
        }
        let faults = self.faults(&proxy);
        let struck = || faults.iter().map(Fault::struck).sum::<u64>();
        let mut tokens = Vec::new();
        let mut raw = server.raw();

        let mut driver = Driver::new(subject.future.as_mut());
        if self.turn {
            let completed = driver.polls(1);
            let reaches_it = !matches!(self.wire, Wire::Request("acquire") | Wire::Reply("acquire"));
            if !completed && (self.moment == Moment::Granted || self.moment == Moment::Struck && reaches_it) {
                // Otherwise the lock would be granted by a reply, and never by a message; and given back by an HDEL.
                eventually("it stands behind another", SOON, || waiting(&mut raw, &name) == 2);
            }
            ahead.take().into_iter().for_each(|ahead| serve(ahead, &mut tokens));
        }
        let completed = match self.moment {
            Moment::Polls(polls) => driver.polls(polls),
            Moment::Struck => driver.when(|| struck() > 0),
            Moment::Granted => driver.unpolled(|| is_granted(&mut raw, &name)),
        };
        // `close` returns after a second, while its requests may still be on their way to the proxy.
        let is_late = completed && self.what == What::Close && self.wire != Wire::Nowhere;
        if self.moment == Moment::Struck || is_late {
            eventually("something strikes", SOON, || struck() > 0);
        }
        let gives_back = matches!(self.wire, Wire::FarewellRequest | Wire::FarewellReply);
        if gives_back && !completed && !self.what.holds() {
            // An acquire that is given up before it is written is not sent at all, and nothing is given back for it.
            let behind_others = ahead.is_some();
            eventually("its acquire reaches the server", SOON, || {
                if behind_others { waiting(&mut raw, &name) == 2 } else { is_granted(&mut raw, &name) }
            });
        }
        let enqueue = || insist(|| lock.enqueue());
        // To enqueue others takes time, which a future that is dropped at once must not have.
        let at_once = matches!(self.moment, Moment::Polls(_));
        let behind = (contended && !at_once).then(enqueue);
        subject.cancel(self.moment != Moment::Polls(0), self.last);
        let strikes = match self.wire {
            Wire::FarewellRequest | Wire::FarewellReply => true,
            // On a slow machine an answer may be there at the first poll: then there was no wait.
            Wire::Push => !completed,
            _ => false,
        };
        if strikes {
            eventually("what is given back is struck, or the grant", SOON, || struck() > 0);
        }
        let behind = behind.or_else(|| contended.then(enqueue));
        proxy.heal();

        // All waiters are served, in order.
        ahead.into_iter().for_each(|ahead| serve(ahead, &mut tokens));
        tokens.extend(behind.map(|behind| complete(behind).unwrap().token()));
        assert!(tokens.is_sorted_by(|earlier, later| earlier < later), "{tokens:?}");
        eventually("nothing is left behind", SOON, || left_behind(&mut raw, &name).is_empty());
        if let Some(client) = subject.client.as_ref().filter(|_| !subject.closed) {
            let lock = client.lock_with(&name, calm()).unwrap();
            // A connection may have been refused for good just before the proxy was healed: that ends an acquire, too.
            complete(insist(|| lock.acquire()).release()).unwrap();
        }
        drop(subject);
        proxy.wait("its client has ended its connections", |counts| counts.open == 0);
        assert_eq!(left_behind(&mut raw, &name), [""; 0], "after its client has ended");
        Report { completed, struck: struck(), runs: 1 }
    }
}

/// The holder releases, and then the waiter behind it does when it is served. A holder releases even if it has heard
/// that its lease is broken.
fn serve((holder, before): (Guard, Waiting), tokens: &mut Vec<u64>) {
    tokens.push(holder.token());
    let _ = complete(holder.release());
    let before = complete(before).unwrap();
    tokens.push(before.token());
    complete(before.release()).unwrap();
}

/// Scripts by their digest, anything else by its command.
fn named(word: &str, by_digest: fn(String) -> Target, by_command: fn(String) -> Target) -> Target {
    match digest(word) {
        digest if digest.is_empty() => by_command(word.into()).command(),
        digest => by_digest(digest),
    }
}

fn digest(script: &str) -> String {
    fairlock::__hooks::digest(script)
}

fn is_granted(raw: &mut redis::Connection, name: &str) -> bool {
    State::read(raw, name).is_some_and(|state| state.holder().is_some())
}

fn waiting(raw: &mut redis::Connection, name: &str) -> usize {
    redis::cmd("ZCARD").arg(format!("fairlock:{{{name}}}:waiters")).query(raw).unwrap()
}

/// What is left of a lock that nobody holds or wants, apart from its packed state: fields, and the number of waiters.
fn left_behind(raw: &mut redis::Connection, name: &str) -> Vec<String> {
    let mut fields: Vec<String> = redis::cmd("HKEYS").arg(state::key(name)).query(raw).unwrap();
    fields.retain(|field| !field.is_empty());
    fields.extend(Some(waiting(raw, name)).filter(|waiting| *waiting > 0).map(|waiting| format!("{waiting} waiters")));
    fields
}
