//! A lease with a fixed end, extended only when the work meets a conflict and has to be done once more.
//!
//! When you would want it: the work takes a known time, and work that hangs must not keep the lock. Automatic renewal
//! would keep it: the client's thread renews even while the job is stuck. So nothing is renewed here, and each conflict,
//! which is a sign that the work goes on, buys the time for one more attempt.
//!
//! `cargo run --example extend_on_conflict`

use std::time::Duration;

use fairlock::{Client, LockOptions};

/// Long enough for one attempt.
const ONE_ATTEMPT: Duration = Duration::from_secs(5);

/// Somebody else has written meanwhile.
#[derive(Debug)]
pub(crate) struct Conflict;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::var("REDIS_URL").unwrap_or("redis://127.0.0.1/".into());
    let client = Client::connect(&url).await?;
    let mut conflicts = 2;
    let attempts = update(&client, async |token| {
        println!("attempt with token {token}");
        tokio::time::sleep(ONE_ATTEMPT * 3 / 4).await;
        if conflicts == 0 {
            return Ok(());
        }
        conflicts -= 1;
        Err(Conflict)
    });
    println!("written at attempt {}", attempts.await?);
    Ok(())
}

/// Repeats the write until it meets no conflict, under one lease. Returns the number of attempts.
pub(crate) async fn update(
    client: &Client,
    mut write: impl AsyncFnMut(u64) -> Result<(), Conflict>,
) -> Result<u32, Box<dyn std::error::Error>> {
    let options = LockOptions::new().lease(ONE_ATTEMPT).manual_renewal();
    let guard = client.lock_with("extend_on_conflict", options)?.acquire().await?;
    for attempt in 1.. {
        let written = tokio::select! {
            written = write(guard.token()) => written,
            // An attempt that takes longer is stuck, and is dropped here.
            lost = guard.lost() => return Err(lost.into()),
        };
        if written.is_ok() {
            guard.release().await?;
            return Ok(attempt);
        }
        // Beyond its present end. It fails if the lease was lost.
        guard.extend(ONE_ATTEMPT).await?;
    }
    unreachable!("it goes on until there is no conflict")
}
