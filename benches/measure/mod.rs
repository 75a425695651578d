//! What the benchmarks share: clients, the way of a lock from one to another, and medians.

// Each benchmark uses a part of it.
#![allow(dead_code, unreachable_pub)]

use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use fairlock::{Client, Guard, Lock, LockOptions};

/// Two clients, each with its own connection and thread; the lock goes from one to the other.
pub struct Pair {
    here: Lock,
    asks: Sender<()>,
    queued: Receiver<()>,
    granted: Receiver<(Instant, Guard)>,
}

impl Pair {
    pub fn new(url: &str, name: &str, options: LockOptions) -> Self {
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
    pub fn once(&mut self) -> Duration {
        let guard = self.here.acquire().blocking().unwrap();
        self.asks.send(()).unwrap();
        self.queued.recv().unwrap();
        let start = Instant::now();
        drop(guard);
        let (woken, guard) = self.granted.recv().unwrap();
        block_on(guard.release()).unwrap();
        woken - start
    }
}

pub fn connect(url: &str) -> Client {
    block_on(Client::connect(url)).unwrap()
}

pub fn block_on<F: Future>(future: F) -> F::Output {
    smol::future::block_on(future)
}

/// An uncontended acquire and its release.
pub fn cycle(lock: &Lock) {
    block_on(lock.acquire().blocking().unwrap().release()).unwrap();
}

pub fn timed(work: impl FnOnce()) -> Duration {
    let start = Instant::now();
    work();
    start.elapsed()
}

pub fn median(times: Vec<Duration>) -> Duration {
    quantile(times, 0.5)
}

pub fn quantile(mut times: Vec<Duration>, part: f64) -> Duration {
    times.sort();
    times[((times.len() - 1) as f64 * part).round() as usize]
}
