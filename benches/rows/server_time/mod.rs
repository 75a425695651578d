//! What the scripts cost the server, compared with those of commit 1186bd02 from the history, the last ones with layout 2,
//! on one server and in turn.
//!
//! Pipelined: the same verb for many locks in one go, by `INFO commandstats`. After idle gaps: one call at a time with a
//! pause before it, by SLOWLOG; caches are cold then, and this is what a lock that is used now and then costs.

mod locks;

use std::time::Duration;

use crate::kit::{
    limits::LIMITS,
    scripts::Scripts,
    stats::{median, midmean},
    table::Table,
    wire::{Reply, Wire},
};
use locks::{Lock, VERBS, Verb};
use testkit::RedisServer;

const BEFORE: &str = "1186bd02";
/// Locks in one pipeline.
const LOCKS: usize = 100;
/// Calls of each verb and side after an idle gap, in a round.
const GAPS: usize = 15;

/// The scripts of before, and the scripts of this build.
const SIDES: usize = 2;

pub fn measure(rounds: usize, table: &mut Table) {
    let server = RedisServer::builder().tcp().plain().config("slowlog-max-len 1000000").start();
    let mut wire = Wire::connect(server.port());
    let old = match Scripts::of_commit(BEFORE, "before", &mut wire) {
        Ok(scripts) => scripts,
        Err(reason) => {
            table.skipped(&format!("server time vs the scripts of {BEFORE}"), &reason);
            return;
        }
    };
    let sides = [old, Scripts::of_this_build("now", &mut wire)];
    // Somebody hears each message, as in real life.
    let mut ears = Wire::connect(server.port());
    let mut pair = |number| [0, 1].map(|side| Lock::new(&sides[side], number, &mut wire, &mut ears));
    let mut locks: Vec<[Lock; SIDES]> = (0..LOCKS).map(&mut pair).collect();

    let (mut pipelined, mut idle) = (Measured::default(), Measured::default());
    for round in 0..rounds {
        // Who comes first changes from round to round.
        let order: [usize; SIDES] = std::array::from_fn(|turn| (round + turn) % SIDES);
        in_pipelines(&mut locks, &order, &mut wire, &mut pipelined);
        after_idle_gaps(&mut locks, &order, &mut wire, &mut idle);
        // One of each hand-off.
        let messages = SIDES * (LOCKS + GAPS);
        (0..messages).for_each(|_| drop(ears.receive()));
    }
    println!("server time in µs, {rounds} rounds in turn: {BEFORE}, now, ratio");
    pipelined.report("pipelined", median, table);
    idle.report("after idle gaps", midmean, table);
}

fn in_pipelines(locks: &mut [[Lock; SIDES]], order: &[usize], wire: &mut Wire, measured: &mut Measured) {
    wire.command(&["CONFIG", "SET", "slowlog-log-slower-than", "-1"]);
    for verb in VERBS {
        for &side in order {
            let calls: Vec<Vec<u8>> = locks.iter_mut().map(|pair| pair[side].call(verb)).collect();
            wire.command(&["CONFIG", "RESETSTAT"]);
            let replies = wire.pipeline(&calls);
            measured.times(verb, side).push(mean_of_calls(wire));
            locks.iter_mut().zip(&replies).for_each(|(pair, reply)| pair[side].done(verb, reply));
        }
    }
}

fn mean_of_calls(wire: &mut Wire) -> f64 {
    let info = wire.command(&["INFO", "commandstats"]);
    // A script counts for more than what it calls.
    let line = |call| info.text().lines().find(|line| line.starts_with(call));
    let line = line("cmdstat_evalsha:").or_else(|| line("cmdstat_hdel:")).expect("some calls");
    line.split("usec_per_call=").nth(1).and_then(|rest| rest.split(',').next()).unwrap().parse().unwrap()
}

fn after_idle_gaps(locks: &mut [[Lock; SIDES]], order: &[usize], wire: &mut Wire, measured: &mut Measured) {
    wire.command(&["CONFIG", "SET", "slowlog-log-slower-than", "0"]);
    wire.command(&["SLOWLOG", "RESET"]);
    let mut called = Vec::new();
    // Each time with another lock, so that its data is not in the caches from the call before.
    for pair in locks.iter_mut().take(GAPS) {
        for verb in VERBS {
            for &side in order {
                let lock = &mut pair[side];
                let call = lock.call(verb);
                std::thread::sleep(Duration::from_micros(fastrand::u64(1_000..3_000)));
                let command = if lock.is_given_back(verb) { "HDEL" } else { "EVALSHA" };
                let reply = wire.call(&call);
                lock.done(verb, &reply);
                called.push((verb, side, command));
            }
        }
    }
    let log = wire.command(&["SLOWLOG", "GET", "1000000"]);
    // An entry is its number, time, duration, and words; the last comes first. What a script calls comes before it.
    let mut entries = log.list().iter().rev();
    for (verb, side, command) in called {
        let is_it = |entry: &&Reply| entry.list()[3].list()[0].text() == command;
        let entry = entries.find(is_it).expect("every call is in it");
        measured.times(verb, side).push(entry.list()[2].number() as f64);
    }
}

/// The times of each verb, of both sides.
#[derive(Default)]
struct Measured([[Vec<f64>; SIDES]; VERBS.len()]);

impl Measured {
    fn times(&mut self, verb: Verb, side: usize) -> &mut Vec<f64> {
        &mut self.0[verb as usize][side]
    }

    fn report(&self, how: &str, middle: impl Fn(&[f64]) -> f64, table: &mut Table) {
        println!("\n{how}");
        let mut cycles = [[0.0; SIDES]; 2];
        for verb in VERBS {
            let [old, new] = [0, 1].map(|side| middle(&self.0[verb as usize][side]));
            println!("  {:40} {old:6.1} {new:6.1} {:6.2}", verb.name(), new / old);
            let cycle = &mut cycles[usize::from(verb.of_contended_cycle())];
            *cycle = [cycle[0] + old, cycle[1] + new];
        }
        for (cycle, [old, new]) in ["an uncontended acquire and release", "a contended cycle"].into_iter().zip(cycles) {
            println!("  {cycle:40} {old:6.1} {new:6.1} {:6.2}", new / old);
            let row = format!("server time of {cycle}, {how}");
            if LIMITS.iter().any(|limit| limit.row == row) {
                table.row(&row, new / old, "");
            }
        }
    }
}
