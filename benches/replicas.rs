//! What it costs that a grant counts only once replicas have it, on a master with two replicas and in one run.
//!
//! The floor is what nobody can do without: a write, and a WAIT for the replicas to have it, in one round trip of a bare
//! socket. Each round measures everything in turn. `make bench`, or `cargo bench --bench replicas -- ROUNDS`.

#![allow(clippy::unwrap_used)]

mod measure;

use std::collections::BTreeMap;
use std::time::Duration;

use fairlock::{Lock, LockOptions};
use measure::{Pair, connect, cycle, median, quantile, timed};
use testkit::{RedisServer, watch::Counter};

const REPLICAS: u32 = 2;
const TIMES: usize = 200;

/// Commands that clients send; what scripts call is none.
const SENT: [&str; 3] = ["eval", "evalsha", "wait"];

fn main() {
    let rounds = std::env::args().filter_map(|arg| arg.parse().ok()).next().unwrap_or(15);
    let master = RedisServer::builder().master().start();
    let _replicas: Vec<RedisServer> = (0..REPLICAS).map(|_| master.replica()).collect();
    let mut measured: Vec<Measured> = (0..=REPLICAS).map(|replicas| Measured::new(&master, replicas)).collect();
    for _ in 0..rounds {
        measured.iter_mut().for_each(|measured| measured.round(&master));
    }
    println!("medians and 99th percentiles of {rounds} rounds in turn, of {TIMES} each");
    let (none, some) = measured.split_first().unwrap();
    none.report(none);
    some.iter().for_each(|some| some.report(none));
}

/// All times with so many replicas.
struct Measured {
    replicas: u32,
    raw: redis::Connection,
    lock: Lock,
    pair: Pair,
    floor: Vec<Duration>,
    cycle: Vec<Duration>,
    hand_off: Vec<Duration>,
    sent: BTreeMap<String, u64>,
}

impl Measured {
    fn new(master: &RedisServer, replicas: u32) -> Self {
        let url = master.tcp_url();
        let raw = redis::Client::open(url.as_str()).unwrap().get_connection().unwrap();
        let options = LockOptions::new().replicas(replicas);
        let lock = connect(&url).lock_with(&format!("cycle {replicas}"), options.clone()).unwrap();
        let pair = Pair::new(&url, &format!("hand-off {replicas}"), options);
        let [floor, cycle, hand_off] = [const { Vec::new() }; 3];
        Self { replicas, raw, lock, pair, floor, cycle, hand_off, sent: BTreeMap::new() }
    }

    fn round(&mut self, master: &RedisServer) {
        for _ in 0..TIMES {
            let mut bare = redis::pipe();
            bare.cmd("SET").arg("floor").arg(1).cmd("WAIT").arg(self.replicas).arg(500);
            let mut have = 0;
            self.floor.push(timed(|| (_, have) = bare.query::<(String, u32)>(&mut self.raw).unwrap()));
            assert!(have >= self.replicas, "a replica is away");
        }
        let mut counter = Counter::start(master);
        self.cycle.extend((0..TIMES).map(|_| timed(|| cycle(&self.lock))));
        for (command, calls) in counter.so_far().into_iter().filter(|(command, _)| SENT.contains(&command.as_str())) {
            *self.sent.entry(command).or_default() += calls;
        }
        self.hand_off.extend((0..TIMES).map(|_| self.pair.once()));
    }

    fn report(&self, none: &Measured) {
        println!("replicas({})", self.replicas);
        let floor = median(self.floor.clone());
        println!("  write + WAIT on a bare socket: {}", both(&self.floor));
        let kinds = [
            ("cycle: acquire + release", &self.cycle, &none.cycle),
            ("hand-off: release to the next holder's wake-up", &self.hand_off, &none.hand_off),
        ];
        for (what, times, without) in kinds {
            let more = median(times.clone()).saturating_sub(median(without.clone()));
            let floors = more.as_secs_f64() / floor.as_secs_f64();
            println!("  {what}: {}, {more:.1?} or {floors:.2} floors more than without", both(times));
        }
        let cycles = self.cycle.len() as f64;
        let sent: Vec<String> =
            self.sent.iter().map(|(command, calls)| format!("{command} {:.2}", *calls as f64 / cycles)).collect();
        println!("  commands of a cycle: {}", sent.join(", "));
    }
}

fn both(times: &[Duration]) -> String {
    format!("{:.1?} / {:.1?}", median(times.to_vec()), quantile(times.to_vec(), 0.99))
}
