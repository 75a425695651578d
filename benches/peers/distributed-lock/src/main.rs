//! The semaphore and the read-write lock of distributed-lock-redis: `peer-distributed-lock PORT`.
//!
//! `share MOST FIRST CALLERS TURNS` is answered by the events of each caller's turns and a line `end`. An error takes
//! their place. Times are CLOCK_MONOTONIC.

use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

use distributed_lock_core::prelude::*;
use distributed_lock_redis::RedisLockProvider;
use rustix::time::{ClockId, clock_gettime};
use tokio::runtime::Runtime;

const HOLD: Duration = Duration::from_millis(20);
const NAME: &str = "peer:shared";

/// What a caller says.
type Events = Result<String, String>;

fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

fn text(error: impl Display) -> String {
    error.to_string().replace('\n', " ")
}

async fn hold(called: u64, handle: impl LockHandle) -> Events {
    let got = now_ns();
    tokio::time::sleep(HOLD).await;
    let released = now_ns();
    handle.release().await.map_err(text)?;
    Ok(format!("called {called}\ngot {got}\nreleased {released}\n"))
}

/// A reader tries once and gives up. It tries again as soon as a writer would at first.
async fn read<L: DistributedReaderWriterLock>(both: &L) -> L::ReadHandle {
    loop {
        if let Ok(handle) = both.acquire_read(None).await {
            return handle;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn caller(provider: Arc<RedisLockProvider>, most: u32, number: usize, turns: usize) -> Events {
    let both = provider.create_reader_writer_lock(NAME);
    let semaphore = provider.create_semaphore(NAME, most.max(1));
    let mut events = String::new();
    for turn in 0..turns {
        let called = now_ns();
        let writes = (number + turn) % 10 == 0;
        events += &match (most, writes) {
            (0, true) => hold(called, both.acquire_write(None).await.map_err(text)?).await?,
            (0, false) => hold(called, read(&both).await).await?,
            _ => hold(called, semaphore.acquire(None).await.map_err(text)?).await?,
        };
    }
    Ok(events)
}

fn main() {
    let port = std::env::args().nth(1).expect("a port");
    let runtime = Runtime::new().expect("a runtime");
    let provider = runtime.block_on(RedisLockProvider::new(format!("redis://127.0.0.1:{port}")));
    let provider = Arc::new(provider.expect("a connection"));
    for line in std::io::stdin().lines() {
        let line = line.expect("a line");
        let words = line.split(' ').skip(1).map(|word| word.parse().expect("a number"));
        let [most, first, callers, turns]: [usize; 4] = words.collect::<Vec<_>>().try_into().expect("four numbers");
        let task = |number| runtime.spawn(caller(provider.clone(), most as u32, number, turns));
        let tasks: Vec<_> = (first..first + callers).map(task).collect();
        for task in tasks {
            let events = runtime.block_on(task).expect("no panic");
            println!("{}end", events.unwrap_or_else(|error| format!("failed: {error}\n")));
        }
    }
}
