//! The semaphores of a throttle server: `peer-throttle PORT`.
//!
//! `share MOST FIRST CALLERS TURNS` is answered by the events of each caller's turns and a line `end`. An error takes
//! their place. Times are CLOCK_MONOTONIC.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use throttle_client::{Client, Error};
use tokio::runtime::Runtime;

const HOLD: Duration = Duration::from_millis(20);
/// The lease, and how long one request may wait. A turn takes less, so it needs no heartbeat.
const LEASE: Duration = Duration::from_secs(30);

fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// One caller is one peer, which keeps its id; the server's file names a semaphore by how many may hold it.
async fn caller(client: Client, most: usize, turns: usize) -> Result<String, Error> {
    let semaphore = format!("of{most}");
    let peer = client.new_peer(LEASE).await?;
    let mut events = String::new();
    for _ in 0..turns {
        let called = now_ns();
        while !client.acquire(peer, &semaphore, 1, Some(LEASE), Some(LEASE)).await? {}
        let got = now_ns();
        tokio::time::sleep(HOLD).await;
        let released = now_ns();
        client.release_lock(peer, &semaphore).await?;
        events += &format!("called {called}\ngot {got}\nreleased {released}\n");
    }
    client.release(peer).await?;
    Ok(events)
}

fn main() {
    let port = std::env::args().nth(1).expect("a port");
    let runtime = Runtime::new().expect("a runtime");
    let client = Client::new(format!("http://127.0.0.1:{port}/")).expect("a URL");
    for line in std::io::stdin().lines() {
        let line = line.expect("a line");
        let words = line.split(' ').skip(1).map(|word| word.parse().expect("a number"));
        let [most, _first, callers, turns]: [usize; 4] = words.collect::<Vec<_>>().try_into().expect("four numbers");
        let tasks: Vec<_> = (0..callers).map(|_| runtime.spawn(caller(client.clone(), most, turns))).collect();
        for task in tasks {
            let events = runtime.block_on(task).expect("no panic");
            println!("{}end", events.unwrap_or_else(|error| format!("failed: {error}\n").replace('\n', " ") + "\n"));
        }
    }
}
