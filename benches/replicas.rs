//! What it costs that a grant counts only once replicas have it, on a master with two replicas and in one run.
//!
//! The floor is what nobody can do without: a write, and a WAIT for the replicas to have it, in one round trip of a bare
//! socket. Each round measures everything in turn. `make bench`, or `cargo bench --bench replicas -- ROUNDS`.

#![allow(unreachable_pub, clippy::expect_used, clippy::unwrap_used)]

mod kit;

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Instant;

use fairlock::{Guard, Lock, LockOptions};
use kit::client::{acquire, connect, release};
use kit::stats::{each, median, quantile, us};
use testkit::{RedisServer, watch::Counter};

const REPLICAS: u32 = 2;
const TIMES: usize = 200;

/// Commands that clients send; what scripts call is none.
const SENT: [&str; 3] = ["eval", "evalsha", "wait"];

fn main() {
    let rounds = std::env::args().filter_map(|arg| arg.parse().ok()).next().unwrap_or(15);
    let _urgent = kit::place::Urgent::become_so();
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
    floor: Vec<f64>,
    cycle: Vec<f64>,
    hand_off: Vec<f64>,
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
            self.floor.push(each(1, || (_, have) = bare.query::<(String, u32)>(&mut self.raw).unwrap()));
            assert!(have >= self.replicas, "a replica is away");
        }
        let mut counter = Counter::start(master);
        self.cycle.extend((0..TIMES).map(|_| each(1, || release(acquire(&self.lock)))));
        for (command, calls) in counter.so_far().into_iter().filter(|(command, _)| SENT.contains(&command.as_str())) {
            *self.sent.entry(command).or_default() += calls;
        }
        self.hand_off.extend((0..TIMES).map(|_| self.pair.once()));
    }

    fn report(&self, none: &Measured) {
        println!("replicas({})", self.replicas);
        let floor = median(&self.floor);
        println!("  write + WAIT on a bare socket: {}", both(&self.floor));
        let kinds = [
            ("cycle: acquire + release", &self.cycle, &none.cycle),
            ("hand-off: release to the next holder's wake-up", &self.hand_off, &none.hand_off),
        ];
        for (what, times, without) in kinds {
            let more = median(times) - median(without);
            println!("  {what}: {}, {more:.1} µs or {:.2} floors more than without", both(times), more / floor);
        }
        let cycles = self.cycle.len() as f64;
        let sent: Vec<String> =
            self.sent.iter().map(|(command, calls)| format!("{command} {:.2}", *calls as f64 / cycles)).collect();
        println!("  commands of a cycle: {}", sent.join(", "));
    }
}

fn both(times: &[f64]) -> String {
    format!("{:.1} / {:.1} µs", median(times), quantile(times, 0.99))
}

/// Two clients, each with its own connection and thread; the lock goes from one to the other.
struct Pair {
    here: Lock,
    asks: Sender<()>,
    queued: Receiver<()>,
    granted: Receiver<(Instant, Guard)>,
}

impl Pair {
    fn new(url: &str, name: &str, options: LockOptions) -> Self {
        let (asks, asked) = channel();
        let (now_queued, queued) = channel();
        let (got, granted) = channel();
        let there = connect(url).lock_with(name, options.clone()).unwrap();
        std::thread::spawn(move || {
            while asked.recv().is_ok() {
                let waiting = there.enqueue().blocking().unwrap();
                now_queued.send(()).unwrap();
                let guard = waiting.blocking().unwrap();
                got.send((Instant::now(), guard)).unwrap();
            }
        });
        Self { here: connect(url).lock_with(name, options).unwrap(), asks, queued, granted }
    }

    /// From the release to the wake-up of the next holder.
    fn once(&mut self) -> f64 {
        let guard = acquire(&self.here);
        self.asks.send(()).unwrap();
        self.queued.recv().unwrap();
        let start = Instant::now();
        drop(guard);
        let (woken, guard) = self.granted.recv().unwrap();
        release(guard);
        us(woken - start)
    }
}
