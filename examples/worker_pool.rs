//! A pool of workers that share long jobs: each job is done once, by one worker at a time.
//!
//! When you would want it: the same program runs on several machines, a job takes minutes or hours, and two workers must
//! never do the same one. A worker that dies costs its job no more than the rest of a lease; then another worker takes
//! the job over.
//!
//! `cargo run --example worker_pool`, as often as you like at the same time.

use std::time::Duration;

use fairlock::{Client, Held, LockOptions, error::TryAcquireError};
use redis::AsyncCommands as _;

const JOBS: [&str; 4] = ["index:books", "index:maps", "index:music", "index:films"];
/// Where the workers note what is done: a table of your database, say.
const DONE: &str = "worker_pool:done";

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::var("REDIS_URL").unwrap_or("redis://127.0.0.1/".into());
    let did = work_through(&url, &format!("worker {}", std::process::id())).await?;
    println!("this worker did {did:?}");
    Ok(())
}

/// Works until all jobs are done, by whomever, and returns those that this worker did.
pub(crate) async fn work_through(url: &str, worker: &str) -> Result<Vec<&'static str>, Box<dyn std::error::Error>> {
    let client = Client::builder().url(url).label(worker).connect().await?;
    // An answer that takes half a second is an error otherwise.
    let patient = redis::AsyncConnectionConfig::new().set_response_timeout(Some(Duration::from_secs(10)));
    let mut notes = redis::Client::open(url)?.get_multiplexed_async_connection_with_config(&patient).await?;
    let mut did = Vec::new();
    while notes.scard::<_, usize>(DONE).await? < JOBS.len() {
        for job in JOBS {
            // The lease is what a dead worker costs. It is no limit for the job: it is renewed while the job runs.
            let lock = client.lock_with(job, LockOptions::new().lease(Duration::from_secs(10)))?;
            let guard = match lock.try_acquire().await {
                Ok(guard) => guard,
                Err(TryAcquireError::Busy { .. }) => continue,
                Err(error) => return Err(error.into()),
            };
            // Only under the lock is it certain that nobody else is about to note it.
            if !notes.sismember(DONE, job).await? {
                tokio::select! {
                    () = long_job(guard.held()) => {
                        let _: usize = notes.sadd(DONE, job).await?;
                        did.push(job);
                    }
                    // Another worker may have it now, so this one stops at once.
                    lost = guard.lost() => eprintln!("{lost}"),
                }
            }
            // An error says that the lease ended before. The job is done all the same.
            let _ = guard.release().await;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    Ok(did)
}

async fn long_job(held: Held) {
    println!("{} begins, with token {}", held.name(), held.token());
    tokio::time::sleep(Duration::from_millis(300)).await;
}
