//! A nightly job that is started on three hosts and runs on one of them.
//!
//! When you would want it: cron starts the job on every host, so that it runs even if a host is down, but it must not
//! run twice in a night.
//!
//! A lock alone is not enough: clocks differ, and a host whose clock is late would find the lock free again and run the
//! job once more. So the date of the last run is kept too, and read under the lock.
//!
//! `cargo run --example nightly -- 2026-11-22`, as often as you like.

use std::time::Duration;

use fairlock::{Client, error::AcquireError};
use redis::AsyncCommands as _;

const LAST_RUN: &str = "nightly:last_run";

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Night {
    Ran,
    /// Another host did it.
    WasDone,
    /// Another host is still at it.
    StillRunning,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::var("REDIS_URL").unwrap_or("redis://127.0.0.1/".into());
    let date = std::env::args().nth(1).ok_or("usage: nightly DATE")?;
    println!("{:?}", run(&url, &date, Duration::from_secs(60)).await?);
    Ok(())
}

pub(crate) async fn run(url: &str, date: &str, patience: Duration) -> Result<Night, Box<dyn std::error::Error>> {
    let client = Client::connect(url).await?;
    let mut notes = redis::Client::open(url)?.get_multiplexed_async_connection().await?;
    // The hosts wait in turn. If the one that runs the job dies, the next one runs it.
    let guard = match client.lock("nightly")?.acquire().timeout(patience).await {
        Ok(guard) => guard,
        Err(AcquireError::Timeout { .. }) => return Ok(Night::StillRunning),
        Err(error) => return Err(error.into()),
    };
    let last: Option<String> = notes.get(LAST_RUN).await?;
    if last.as_deref() >= Some(date) {
        return Ok(Night::WasDone);
    }
    tokio::select! {
        () = the_job() => {}
        lost = guard.lost() => return Err(lost.into()),
    }
    let () = notes.set(LAST_RUN, date).await?;
    guard.release().await?;
    Ok(Night::Ran)
}

async fn the_job() {
    tokio::time::sleep(Duration::from_millis(200)).await;
}
