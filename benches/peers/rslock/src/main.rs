//! Cycles of rslock: the number of cycles comes as a line, the median time of one in microseconds goes back.

use std::time::{Duration, Instant};

use rslock::LockManager;

fn main() {
    let port = std::env::args().nth(1).expect("a port");
    // The runtime on which this lock is the fastest.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let manager = LockManager::new(vec![format!("redis://127.0.0.1:{port}/")]);
    for line in std::io::stdin().lines() {
        let line = line.expect("a line");
        let cycles: usize = line.strip_prefix("cycles ").and_then(|count| count.parse().ok()).expect("cycles N");
        let mut times = Vec::new();
        runtime.block_on(async {
            for _ in 0..cycles {
                let start = Instant::now();
                let lock = manager.lock("peer:rslock", Duration::from_secs(30)).await.expect("a lock");
                manager.unlock(&lock).await;
                times.push(start.elapsed());
            }
        });
        times.sort();
        println!("{}", times[cycles / 2].as_secs_f64() * 1e6);
    }
}
