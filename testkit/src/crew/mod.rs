//! A crew: several processes with several waiters each, which use one lock at random while faults strike, and whose
//! history is judged at the end.
//!
//! ```ignore
//! // In the `main.rs` of the test binary:
//! #[test]
//! fn child() {
//!     testkit::crew::child();
//! }
//!
//! let mut crew = Crew::at(&server).seed(7).start();
//! crew.suffer(vec![
//!     fault::process_killed(2),
//!     Fault::new("connections killed", 10, |_| Struck::hits(kill_connections(&server))),
//! ]);
//! let report = crew.finish();            // panics, naming the seed and the history, if a judge complains
//! keys_left(&server);
//! ```
//!
//! A fault is a closure that strikes once and returns the evidence that it did ([`Struck`]): how often it hit, and what
//! the judges must excuse for it. A fault that does not hit as often as it should fails the test.

pub mod clock;
mod driven;
pub mod fault;
mod member;
mod notes;
mod onlooker;
mod report;
mod setup;
mod turn;
mod wake;

use std::{
    collections::BTreeMap,
    sync::PoisonError,
    time::{Duration, Instant},
};

use fairlock::Client;
use fastrand::Rng;

use self::{
    clock::ClockMarks,
    driven::Dead,
    member::{Orders, member},
    notes::Notes,
    onlooker::Onlooker,
    turn::Brief,
};
pub use self::{
    fault::{Fault, Struck},
    report::Report,
    setup::Setup,
};
use super::{
    child::Child,
    history::{Admitted, Event, History, Recorder, Terms, Wait, now_ns},
    place::say,
    server::RedisServer,
    waiting::eventually,
};

/// The body of the test `child` in the `main.rs` of a binary with crews: their processes run it.
pub fn child() {
    super::child::main(|_, args| member(args));
}

/// How long a process may take to end by itself, and a fault to hit as often as it should.
const PATIENCE: Duration = Duration::from_secs(300);

/// How long nobody is told that a member may hang: long enough for a pause, and for what a lost connection costs.
fn hangs_after(patience: Duration) -> Duration {
    (patience / 15).min(Duration::from_secs(20))
}

/// The seeds of this run. The ordinary ones are always the same; `FAIRLOCK_CASES=100` takes that many random ones
/// instead, `FAIRLOCK_SEED=7` this one.
pub fn seeds(ordinary: &[u64]) -> Vec<u64> {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    match (number("FAIRLOCK_SEED"), number("FAIRLOCK_CASES")) {
        (Some(seed), _) => vec![seed],
        (None, Some(cases)) => (0..cases).map(|_| fastrand::u64(..)).collect(),
        (None, None) => ordinary.to_vec(),
    }
}

struct Member {
    name: String,
    child: Child,
    /// It is paused until then.
    stopped_until: Option<Instant>,
    kind: Kind,
    dead: Dead,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Usual,
    Driver,
    Crowd,
}

pub struct Crew {
    orders: Orders,
    terms: Terms,
    patience: Duration,
    record: Recorder,
    clock: ClockMarks,
    onlooker: Option<Onlooker>,
    rng: Rng,
    members: Vec<Member>,
    struck: BTreeMap<&'static str, u64>,
    /// The commands of every other process, in turn.
    drivers: Vec<String>,
    /// The waiters of a crowd.
    crowd: usize,
}

impl Crew {
    /// 4 processes with 8 waiters each, at this server, however its clients get there.
    pub fn at(server: &RedisServer) -> Setup {
        Crew::of(&server.url()).clock(clock::of_url(&server.admin_url()))
    }

    /// The same at any URL.
    pub fn of(url: &str) -> Setup {
        Setup::at(url)
    }

    /// Lets the faults strike in random order, with random rests, until each has hit as often as it should.
    #[track_caller]
    pub fn suffer(&mut self, mut faults: Vec<Fault<'_>>) {
        let start = Instant::now();
        while !faults.is_empty() {
            assert!(start.elapsed() < self.patience, "{}it did not strike: {}", self.evidence(), faults[0].name);
            let chosen = self.rng.usize(..faults.len());
            let Struck { hits, admits } = (faults[chosen].strike)(self);
            let fault = &mut faults[chosen];
            self.record.remark(format_args!("{} struck {hits} times {admits:?}", fault.name));
            *self.struck.entry(fault.name).or_default() += hits;
            self.terms.admitted.extend(admits);
            fault.hits_left = fault.hits_left.saturating_sub(hits);
            if fault.hits_left == 0 {
                faults.remove(chosen);
            }
            let rest = self.rng.u64(20..300);
            self.rest(Duration::from_millis(rest));
        }
    }

    /// Lets the members work undisturbed until this many more acquires were granted.
    #[track_caller]
    pub fn work(&mut self, grants: usize) {
        let from = now_ns();
        let granted = |wait: &&Wait| wait.granted_ns.is_some_and(|at| at >= from);
        let what = format!("{}{grants} grants", self.evidence());
        eventually(&what, PATIENCE, || {
            self.wake();
            self.recent().waits().iter().filter(granted).count() >= grants
        });
    }

    /// Every member ends what it has begun. Then one more waiter comes and must find a lock that nobody holds. Then the
    /// judges read the history.
    #[track_caller]
    pub fn finish(mut self) -> Report {
        let stop = Orders::stop(&self.orders.history);
        std::fs::write(&stop, "").expect("telling everybody to stop");
        for member in &mut self.members {
            member.resume();
        }
        self.end_all();
        let _ = std::fs::remove_file(&stop);
        self.sweep();
        drop(self.onlooker.take());
        self.clock.stop();
        let history = self.history();
        self.record.remark(format_args!("judged by {:?}", self.terms));
        if let Err(complaint) = history.judge(&self.terms) {
            panic!("{}judged: {complaint}", self.evidence());
        }
        // A run without a violation needs no evidence.
        let _ = std::fs::remove_file(&self.orders.history);
        let report = Report::new(history, &self.terms, self.struck);
        say(format_args!("crew of seed {}: {report}", self.orders.seed));
        report
    }

    /// Waits until all members have ended. It says soon for whom it waits, and of what: a driver may hang.
    #[track_caller]
    fn end_all(&mut self) {
        let (start, mut said) = (Instant::now(), false);
        while let Some(member) = self.members.last_mut() {
            if let Some(status) = member.child.exited() {
                let name = member.name.clone();
                assert!(status.success(), "{}{name} failed: {status}", self.evidence());
                self.members.pop();
                continue;
            }
            if start.elapsed() >= self.patience {
                panic!("{}{}", self.evidence(), self.unfinished());
            }
            if start.elapsed() >= hangs_after(self.patience) && !std::mem::replace(&mut said, true) {
                let unfinished = self.unfinished();
                say(&unfinished);
                self.record.remark(unfinished);
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn unfinished(&mut self) -> String {
        let history = self.history();
        let open = |name: &str| {
            let its = history.waits().iter().filter(|wait| wait.process == name && wait.end().is_none());
            its.map(|wait| wait.waiter.as_str()).collect::<Vec<_>>().join(", ")
        };
        let running = self.members.iter_mut().filter_map(|member| match member.child.exited() {
            Some(_) => None,
            None => Some(format!("{} has not ended, acquires without an end: [{}]", member.name, open(&member.name))),
        });
        running.collect::<Vec<_>>().join("; ")
    }

    /// A waiter that wants the lock when all others are gone. It waits behind the last ones that died, and is judged
    /// like the others.
    fn sweep(&self) {
        let notes = Notes::open(&self.orders.history, "sweep");
        let client = Client::connect_lazy(&self.orders.url).expect("a client");
        let lock = client.lock_with(&self.orders.lock, self.orders.options(Brief::default())).expect("a lock");
        let call = notes.call("sweep.1".to_owned(), Some(PATIENCE), 1);
        match lock.acquire().timeout(PATIENCE).blocking() {
            Ok(guard) => drop(call.granted(guard)),
            Err(error) => call.failed(&error),
        }
    }

    /// The history until now.
    #[track_caller]
    pub fn history(&self) -> History {
        History::read(&self.orders.history).unwrap_or_else(|error| panic!("{}{error}", self.evidence()))
    }

    /// The history of the last minutes, or all of it if it is shorter.
    #[track_caller]
    pub fn recent(&self) -> History {
        const BYTES: u64 = 1 << 20;
        History::read_latest(&self.orders.history, BYTES).unwrap_or_else(|error| panic!("{}{error}", self.evidence()))
    }

    /// The name of the lock that the members use.
    pub fn lock(&self) -> &str {
        &self.orders.lock
    }

    pub fn terms(&self) -> &Terms {
        &self.terms
    }

    pub fn rng(&mut self) -> &mut Rng {
        &mut self.rng
    }

    /// The process ids of the members.
    pub fn pids(&self) -> Vec<u32> {
        self.members.iter().map(|member| member.child.pid()).collect()
    }

    /// The names of the members in the history, except those that are paused now.
    pub fn awake(&self) -> Vec<String> {
        self.members.iter().filter(|member| member.stopped_until.is_none()).map(|member| member.name.clone()).collect()
    }

    /// SIGKILL, and another member of its kind in its place.
    pub fn kill(&mut self, name: &str) {
        let Some(at) = self.members.iter().position(|member| member.name == name) else { return };
        let mut member = self.members.swap_remove(at);
        let mut dead = member.dead.lock().unwrap_or_else(PoisonError::into_inner);
        *dead = true;
        // The recorder of the dead process, for its last line.
        Recorder::open(&self.orders.history, name).expect("the history").note_process(Event::Died);
        member.child.kill();
        drop(dead);
        self.hire(member.kind);
    }

    /// SIGSTOP, and SIGCONT after this time while the others go on.
    pub fn pause(&mut self, name: &str, span: Duration) {
        let long = span >= self.orders.long_pause();
        let Some(member) = self.members.iter_mut().find(|member| member.name == name) else { return };
        if long {
            Recorder::open(&self.orders.history, name).expect("the history").note_process(Event::Paused);
        }
        member.child.stop();
        member.stopped_until = Some(Instant::now() + span);
    }

    /// Lets time pass, and continues paused members when they are due.
    pub fn rest(&mut self, span: Duration) {
        let until = Instant::now() + span;
        while Instant::now() < until {
            self.wake();
            std::thread::sleep(Duration::from_millis(10).min(until.saturating_duration_since(Instant::now())));
        }
    }

    fn wake(&mut self) {
        for member in &mut self.members {
            if member.stopped_until.is_some_and(|until| until <= Instant::now()) {
                member.resume();
            }
        }
    }

    fn hire(&mut self, kind: Kind) {
        let dead = Dead::default();
        let child = if kind == Kind::Driver {
            let which = self.orders.number / 2 % self.drivers.len();
            driven::hire(&self.drivers[which], which, self.orders.clone(), dead.clone(), hangs_after(self.patience))
        } else {
            let is_crowd = kind == Kind::Crowd;
            let waiters = if is_crowd { self.crowd } else { self.orders.waiters };
            let args = Orders { waiters, is_crowd, ..self.orders.clone() }.to_args();
            let args: Vec<&str> = args.iter().map(String::as_str).collect();
            Child::spawn_of("", &[], "crew member", &args)
        };
        self.members.push(Member { name: self.orders.name(), child, stopped_until: None, kind, dead });
        self.orders.number += 1;
    }

    /// How to see the failure again: the seed, and the history.
    fn evidence(&self) -> String {
        format!("[seed {}, history {}] ", self.orders.seed, self.orders.history.display())
    }
}

impl Member {
    fn resume(&mut self) {
        if self.stopped_until.take().is_some() {
            self.child.cont();
        }
    }
}
