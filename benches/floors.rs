//! What the lock costs beside the least that it could cost, on one server and in one run.
//!
//! The machines are noisy, so absolute times say little: each round measures the floor and the lock in turn, and the
//! ratio of the medians is what to look at. `make bench`, or `cargo bench -- ROUNDS`.

#![allow(clippy::unwrap_used)]

mod measure;

use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use fairlock::LockOptions;
use measure::{Pair, connect, cycle, median};
use testkit::RedisServer;

const CYCLES: u32 = 1000;
const HAND_OFFS: usize = 300;

fn main() {
    let rounds = std::env::args().filter_map(|arg| arg.parse().ok()).next().unwrap_or(15);
    let server = RedisServer::builder().tcp().start();
    let url = server.tcp_url();

    let mut floor = redis::Client::open(url.as_str()).unwrap().get_connection().unwrap();
    let client = connect(&url);
    let lock = client.lock("cycle").unwrap();
    let (mut floors, mut locks) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        floors.push(each(CYCLES, || {
            let _: () =
                redis::cmd("SET").arg("floor").arg(1).arg("NX").arg("PX").arg(30_000).query(&mut floor).unwrap();
            let _: () = redis::cmd("DEL").arg("floor").query(&mut floor).unwrap();
        }));
        locks.push(each(CYCLES, || cycle(&lock)));
    }
    report("cycle: acquire + release, one thread", "SET NX PX + DEL on a bare socket", floors, locks);

    let (mut floors, mut locks) = (Vec::new(), Vec::new());
    let mut floor = PushFloor::new(&url);
    let mut pair = Pair::new(&url, "hand-off", LockOptions::new());
    for _ in 0..rounds {
        floors.push(median((0..HAND_OFFS).map(|_| floor.once()).collect()));
        locks.push(median((0..HAND_OFFS).map(|_| pair.once()).collect()));
    }
    report("hand-off: release to the next holder's wake-up", "PUBLISH to a subscriber's wake-up", floors, locks);
}

/// The least that a hand-off could cost: one message through the server.
struct PushFloor {
    publisher: redis::Connection,
    arrivals: Receiver<Instant>,
}

impl PushFloor {
    fn new(url: &str) -> Self {
        let (arrived, arrivals) = channel();
        let (ready, subscribed) = channel();
        let mut connection = redis::Client::open(url).unwrap().get_connection().unwrap();
        std::thread::spawn(move || {
            let mut subscriber = connection.as_pubsub();
            subscriber.subscribe("floor").unwrap();
            ready.send(()).unwrap();
            while subscriber.get_message().is_ok() && arrived.send(Instant::now()).is_ok() {}
        });
        subscribed.recv().unwrap();
        Self { publisher: redis::Client::open(url).unwrap().get_connection().unwrap(), arrivals }
    }

    fn once(&mut self) -> Duration {
        let start = Instant::now();
        let _: () = redis::cmd("PUBLISH").arg("floor").arg("x").query(&mut self.publisher).unwrap();
        self.arrivals.recv().unwrap() - start
    }
}

fn each(times: u32, mut work: impl FnMut()) -> Duration {
    let start = Instant::now();
    for _ in 0..times {
        work();
    }
    start.elapsed() / times
}

fn report(what: &str, beside: &str, floors: Vec<Duration>, locks: Vec<Duration>) {
    let (rounds, floor, lock) = (floors.len(), median(floors), median(locks));
    println!("{what}: {lock:.1?}\n  beside {beside}: {floor:.1?}");
    println!("  ratio {:.2}, medians of {rounds} rounds in turn", lock.as_secs_f64() / floor.as_secs_f64());
}
