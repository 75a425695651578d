//! rslock. `cycles N` is answered by the median time of a cycle in microseconds; `contend N` by the events of N turns and a
//! line `end`. Times are CLOCK_MONOTONIC.

use std::time::{Duration, Instant};

use rslock::{Lock, LockManager};
use rustix::time::{ClockId, clock_gettime};
use tokio::runtime::Runtime;

const HOLD_NS: u64 = 1_000_000;
const LEASE: Duration = Duration::from_secs(30);

fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Tries until it has the lock, as the README does: `lock` gives up after three tries.
async fn acquire(manager: &LockManager, name: &str) -> Lock {
    loop {
        if let Ok(lock) = manager.lock(name, LEASE).await {
            return lock;
        }
    }
}

fn cycles(runtime: &Runtime, manager: &LockManager, count: usize) {
    let mut times = Vec::new();
    runtime.block_on(async {
        for _ in 0..count {
            let start = Instant::now();
            let lock = acquire(manager, "peer:free").await;
            manager.unlock(&lock).await;
            times.push(start.elapsed());
        }
    });
    times.sort();
    println!("{}", times[count / 2].as_secs_f64() * 1e6);
}

fn contend(runtime: &Runtime, manager: &LockManager, count: usize) {
    let mut events = Vec::new();
    runtime.block_on(async {
        for _ in 0..count {
            events.push(format!("called {}", now_ns()));
            let lock = acquire(manager, "peer:contended").await;
            let got = now_ns();
            // Spins, because a sleep takes as long as the kernel and the runtime like.
            while now_ns() < got + HOLD_NS {}
            events.push(format!("got {got}\nreleased {}", now_ns()));
            manager.unlock(&lock).await;
        }
    });
    println!("{}\nend", events.join("\n"));
}

fn main() {
    let port = std::env::args().nth(1).expect("a port");
    // The runtime on which this lock is the fastest.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let manager = LockManager::new(vec![format!("redis://127.0.0.1:{port}/")]);
    for line in std::io::stdin().lines() {
        let line = line.expect("a line");
        let (verb, count) = line.split_once(' ').expect("a verb and a count");
        let act = if verb == "cycles" { cycles } else { contend };
        act(&runtime, &manager, count.parse().expect("a number"));
    }
}
