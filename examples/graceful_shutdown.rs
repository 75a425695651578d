//! A service that shuts down without leaving anything behind: no place in the queue, no lease, and no half of a job.
//!
//! When you would want it: a service that is deployed often. A process that just ends costs those behind it the rest of
//! its lease; one that shuts down costs them nothing.
//!
//! `cargo run --example graceful_shutdown`, then Ctrl-C.

use std::time::Duration;

use fairlock::{Client, Lock};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::var("REDIS_URL").unwrap_or("redis://127.0.0.1/".into());
    let client = Client::connect(&url).await?;
    let lock = client.lock("graceful_shutdown")?;
    let done = serve(&lock, async { drop(tokio::signal::ctrl_c().await) }, || println!("a job is done")).await?;
    println!("{done} jobs done, and none half");
    // Returns when the server has heard of everything, or after a second. Dropping the client would do the same, but
    // blocks its thread for up to a quarter of a second.
    client.close().await;
    Ok(())
}

/// Does one job after the other, each under the lock, until it is told to stop.
pub(crate) async fn serve(
    lock: &Lock,
    stop: impl Future<Output = ()>,
    mut job_done: impl FnMut(),
) -> Result<u32, Box<dyn std::error::Error>> {
    let mut stop = std::pin::pin!(stop);
    let mut done = 0;
    loop {
        let guard = tokio::select! {
            biased;
            // The acquire is dropped here, so the waiter leaves the queue.
            () = &mut stop => return Ok(done),
            guard = lock.acquire() => guard?,
        };
        // No select here: a job that has begun is finished. Give the service manager as long as a job takes.
        tokio::time::sleep(Duration::from_millis(200)).await;
        guard.check()?;
        done += 1;
        job_done();
        guard.release().await?;
    }
}
