//! Faults, and the faults of the crew's own processes.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use super::{Admitted, Crew, PATIENCE, turn::Turn};
use crate::history::{Trouble, Wait, now_ns};

/// A fault of the crew or its server.
pub struct Fault<'a> {
    pub(super) name: &'static str,
    pub(super) hits_left: u64,
    pub strike: Box<dyn FnMut(&mut Crew) -> Struck + 'a>,
}

impl<'a> Fault<'a> {
    /// `strike` is called until its hits add up to this many.
    pub fn new(name: &'static str, hits: u64, strike: impl FnMut(&mut Crew) -> Struck + 'a) -> Fault<'a> {
        Fault { name, hits_left: hits, strike: Box::new(strike) }
    }
}

/// The evidence that a fault struck.
#[derive(Debug, Default)]
pub struct Struck {
    /// How much it hit; zero if it missed.
    pub hits: u64,
    /// What the judges must excuse for it.
    pub admits: Vec<Admitted>,
}

impl Struck {
    pub fn hits(hits: u64) -> Struck {
        Struck { hits, admits: Vec::new() }
    }

    /// As many hits as `strike` reports, with faults of these kinds for as long as it takes.
    pub fn during(troubles: &[Trouble], strike: impl FnOnce() -> u64) -> Struck {
        let from_ns = now_ns();
        let hits = strike();
        let to_ns = now_ns();
        let admits = troubles.iter().map(|&trouble| Admitted { trouble, lost_since_ns: from_ns, from_ns, to_ns });
        Struck { hits, admits: admits.collect() }
    }

    /// What was lost reaches back to this moment, which is earlier than the strike.
    pub fn lost_since(mut self, since_ns: u64) -> Struck {
        self.admits.iter_mut().for_each(|admitted| admitted.lost_since_ns = since_ns);
        self
    }
}

/// The same fault, but each strike waits until one process has so many of the leases.
pub fn in_crowd(many: usize, fault: Fault<'_>) -> Fault<'_> {
    let mut strike = fault.strike;
    let waits_for_crowd = move |crew: &mut Crew| {
        let start = Instant::now();
        while most_of_one(crew) < many {
            if start.elapsed() > crew.patience {
                return Struck::hits(0);
            }
            crew.rest(Duration::from_millis(50));
        }
        strike(crew)
    };
    Fault { strike: Box::new(waits_for_crowd), ..fault }
}

/// How many leases the process has that has most of them.
fn most_of_one(crew: &Crew) -> usize {
    let mut held: BTreeMap<String, usize> = BTreeMap::new();
    for wait in crew.recent().waits().iter().filter(|wait| holds(wait) && wait.died_ns.is_none()) {
        *held.entry(wait.process.clone()).or_default() += 1;
    }
    held.into_values().max().unwrap_or_default()
}

/// Kills processes that hold the lock. A hit is one that died holding it.
pub fn holders_killed(hits: u64) -> Fault<'static> {
    Fault::new("holders killed", hits, |crew| {
        let Some(name) = holder(crew, "") else { return Struck::hits(0) };
        crew.kill(&name);
        let died_holding = |wait: &&Wait| wait.process == name && holds_at_its_end(wait);
        Struck::hits(crew.recent().waits().iter().filter(died_holding).count().min(1) as u64)
    })
}

/// Kills two processes at once. A hit is a waiter that died in the queue.
pub fn waiters_killed(hits: u64) -> Fault<'static> {
    Fault::new("waiters killed", hits, |crew| {
        let names = some(crew, 2);
        names.iter().for_each(|name| crew.kill(name));
        let died_waiting = |wait: &&Wait| {
            names.contains(&wait.process) && waits(wait) && wait.died_ns.is_some() && wait.ticket.is_some()
        };
        Struck::hits(crew.recent().waits().iter().filter(died_waiting).count() as u64)
    })
}

/// Stops a process that holds the lock for so long that it loses the lock and its places in the queue.
pub fn holders_paused(hits: u64) -> Fault<'static> {
    holders_paused_of("holders paused for long", "", hits)
}

/// The same for waiters whose names contain this.
pub fn holders_paused_of(name: &'static str, kind: &'static str, hits: u64) -> Fault<'static> {
    Fault::new(name, hits, move |crew| {
        let terms = crew.terms();
        let span = terms.lease.max(terms.liveness + terms.buffer) + terms.liveness;
        let Some(name) = holder(crew, kind) else { return Struck::hits(0) };
        crew.pause(&name, span);
        // The crew is paused: the current holder keeps the lock until it is told otherwise.
        let stands_holding = |wait: &Wait| wait.process == name && holds(wait);
        Struck::hits(u64::from(crew.recent().waits().iter().any(stands_holding)))
    })
}

/// Stops any process for less time than a missed heartbeat takes. It always hits.
pub fn processes_paused_briefly(hits: u64) -> Fault<'static> {
    Fault::new("processes paused briefly", hits, |crew| {
        let span = crew.terms().liveness.mul_f64(0.3 * crew.rng().f64());
        let names = some(crew, 1);
        names.iter().for_each(|name| crew.pause(name, span.max(Duration::from_millis(1))));
        Struck::hits(names.len() as u64)
    })
}

/// Random members.
fn some(crew: &mut Crew, count: usize) -> Vec<String> {
    let mut names = crew.awake();
    crew.rng().shuffle(&mut names);
    names.truncate(count);
    names
}

/// The member that holds the lock by a waiter of this kind, if it was seen.
fn holder(crew: &Crew, kind: &str) -> Option<String> {
    let names = crew.awake();
    let history = crew.recent();
    let of_kind = |wait: &&Wait| wait.waiter.contains(kind) && names.contains(&wait.process) && holds(wait);
    let holder = history.waits().iter().rev().find(of_kind)?;
    Some(holder.process.clone())
}

fn holds(wait: &Wait) -> bool {
    wait.granted_ns.is_some() && wait.released_ns.is_none() && wait.lost_ns.is_none()
}

fn holds_at_its_end(wait: &Wait) -> bool {
    holds(wait) && wait.died_ns.is_some()
}

/// How many waiters want or hold the lock now, so that a fault of the server can hit them.
pub fn concerned(crew: &Crew) -> u64 {
    let there = |wait: &&Wait| (holds(wait) || waits(wait)) && wait.died_ns.is_none();
    crew.recent().waits().iter().filter(there).count() as u64
}

/// Waits until a waiter was granted the lock just now for longer than a lease: if nothing renews its lease, it is lost.
/// False if there is no such waiter.
pub fn long_hold(crew: &mut Crew) -> bool {
    let start = Instant::now();
    let just_now = |crew: &Crew| now_ns() - (crew.terms().lease / 5).as_nanos() as u64;
    let long = |crew: &Crew| {
        let since = just_now(crew);
        let just_granted = |wait: &Wait| Turn::is_long(&wait.waiter) && wait.granted_ns.is_some_and(|at| at >= since);
        crew.recent().waits().iter().any(|wait| just_granted(wait) && holds(wait))
    };
    while !long(crew) {
        if start.elapsed() > PATIENCE {
            return false;
        }
        crew.rest(Duration::from_millis(20));
    }
    true
}

/// Waits for the worst moment to lose data: a process was granted the lock recently for longer than a lease, and of two
/// other processes at least some waiters have tickets. Returns the name of the holder's process.
#[track_caller]
pub fn crowded_hold(crew: &mut Crew) -> String {
    const CROWD: usize = 4;
    let start = Instant::now();
    loop {
        let since = now_ns() - (crew.terms().lease / 2).as_nanos() as u64;
        let history = crew.recent();
        let not_long_ago =
            |wait: &&Wait| Turn::is_long(&wait.waiter) && wait.granted_ns.is_some_and(|at| at >= since) && holds(wait);
        if let Some(holder) = history.waits().iter().find(not_long_ago) {
            let behind = |wait: &&Wait| {
                wait.process != holder.process && wait.ticket.is_some() && waits(wait) && wait.died_ns.is_none()
            };
            let crowd: Vec<&str> = history.waits().iter().filter(behind).map(|wait| wait.process.as_str()).collect();
            let awake = crew.awake();
            let of_two = crowd.iter().any(|name| *name != crowd[0]);
            if crowd.len() >= CROWD && of_two && awake.contains(&holder.process) {
                return holder.process.clone();
            }
        }
        assert!(start.elapsed() < PATIENCE, "nobody holds the lock for long while many wait: set `Setup::long_of`");
        crew.rest(Duration::from_millis(20));
    }
}

fn waits(wait: &Wait) -> bool {
    wait.granted_ns.is_none() && wait.left_ns.is_none() && wait.returned_ns.is_none()
}
