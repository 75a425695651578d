//! A nightly job that is started on three hosts and runs on one of them, in a program of plain threads.
//!
//! When you would want it: cron starts the job on every host, so that it runs even if a host is down, but it must not
//! run twice in a night.
//!
//! A lock alone is not enough: clocks differ, and a host whose clock is late would find the lock free again and run the
//! job once more. So the date of the last run is kept too, and read under the lock.
//!
//! `cargo run --example nightly -- 2026-11-22`, as often as you like.

use std::time::Duration;

use fairlock::{
    CancellationToken, Client, Held,
    error::{AcquireError, RunError},
};
use redis::Commands as _;

const LAST_RUN: &str = "nightly:last_run";
type Failure = Box<dyn std::error::Error + Send + Sync>;

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Night {
    Ran,
    /// Another host did it.
    WasDone,
    /// Another host is still at it.
    StillRunning,
    /// It was told to stop while it waited.
    Stopped,
}

fn main() -> Result<(), Failure> {
    let url = std::env::var("REDIS_URL").unwrap_or("redis://127.0.0.1/".into());
    let date = std::env::args().nth(1).ok_or("usage: nightly DATE")?;
    let stop = CancellationToken::new();
    // Enter ends the wait. A service would cancel it from the thread that takes signals.
    let enter = stop.clone();
    std::thread::spawn(move || {
        if std::io::stdin().read_line(&mut String::new()).is_ok_and(|read| read > 0) {
            enter.cancel();
        }
    });
    println!("{:?}", run(&url, &date, Duration::from_secs(60), &stop)?);
    Ok(())
}

pub(crate) fn run(url: &str, date: &str, patience: Duration, stop: &CancellationToken) -> Result<Night, Failure> {
    let lock = Client::connect(url).blocking()?.lock("nightly")?;
    // The hosts wait in turn. If the one that runs the job dies, the next one runs it.
    match lock.acquire().timeout(patience).cancelled_by(stop).run_blocking(|held| do_once(url, date, &held)) {
        // What the job says, as it held the lock to its end.
        Ok(night) => night,
        Err(RunError::Acquire(AcquireError::Timeout { .. })) => Ok(Night::StillRunning),
        Err(RunError::Acquire(AcquireError::Cancelled)) => Ok(Night::Stopped),
        Err(error) => Err(error.into()),
    }
}

fn do_once(url: &str, date: &str, held: &Held) -> Result<Night, Failure> {
    let mut notes = redis::Client::open(url)?.get_connection()?;
    let last: Option<String> = notes.get(LAST_RUN)?;
    if last.as_deref() >= Some(date) {
        return Ok(Night::WasDone);
    }
    for _part in 0..4 {
        // Nothing can end this thread from outside, so it asks.
        held.check()?;
        std::thread::sleep(Duration::from_millis(50));
    }
    held.check()?;
    let () = notes.set(LAST_RUN, date)?;
    Ok(Night::Ran)
}
