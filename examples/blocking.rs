//! Plain threads, without an async runtime.
//!
//! When you would want it: a command line tool, a script or a server of plain threads. The client's own thread renews the
//! lease, so the thread that holds the lock may compute or block for as long as it likes.
//!
//! `cargo run --example blocking`

use std::time::Duration;

use fairlock::Client;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::var("REDIS_URL").unwrap_or("redis://127.0.0.1/".into());
    println!("the threads held it in the order {:?}", take_turns(&url)?);
    Ok(())
}

/// Three threads wait for one lock. Returns them in the order in which they held it.
pub(crate) fn take_turns(url: &str) -> Result<Vec<usize>, Box<dyn std::error::Error>> {
    let client = Client::connect(url).blocking()?;
    let lock = client.lock("blocking")?;
    let first = lock.acquire().blocking()?;
    let (say, order) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        for thread in 0..3 {
            let waiting = lock.enqueue().timeout(Duration::from_secs(30)).blocking()?;
            let say = say.clone();
            scope.spawn(move || match waiting.blocking() {
                // Dropping the guard gives the lock to the next one.
                Ok(_guard) => drop(say.send(thread)),
                Err(error) => eprintln!("thread {thread}: {error}"),
            });
        }
        first.release().blocking()?;
        Ok::<_, Box<dyn std::error::Error>>(())
    })?;
    Ok(order.try_iter().collect())
}
