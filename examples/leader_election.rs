//! Leader election: of several nodes one leads, and the next in line takes over when it resigns, dies or is cut off.
//!
//! When you would want it: a scheduler, a controller or a consumer of which exactly one may be active, with standbys
//! that take over in the order in which they began to wait.
//!
//! `cargo run --example leader_election -- NAME` in several terminals; then end the leader.

use std::time::Duration;

use fairlock::{
    Client, Held, LockOptions,
    error::{AcquireError, RunError},
};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::var("REDIS_URL").unwrap_or("redis://127.0.0.1/".into());
    let node = std::env::args().nth(1).ok_or("usage: leader_election NAME")?;
    let client = Client::builder().url(&url).label(&node).connect().await?;
    let node = &*node;
    let lead = |held: Held| async move {
        loop {
            println!("{node} leads, term {}", held.token());
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    };
    stand(&client, lead).await?;
    Ok(())
}

/// Leads whenever this node is elected, until `lead` returns.
pub(crate) async fn stand<F>(client: &Client, lead: impl Fn(Held) -> F) -> Result<(), AcquireError>
where
    F: Future<Output = ()>,
{
    // A dead leader is missed for as long as its lease lasts. A leader that is cut off hears of its end a `notice`
    // before the next one can begin.
    let options = LockOptions::new().lease(Duration::from_secs(5)).notice(Duration::from_secs(1));
    let office = client.lock_with("leader", options)?;
    loop {
        // The token is the number of the term. Workers refuse orders of an earlier one.
        match office.acquire().run(&lead).await {
            Ok(()) => return Ok(()),
            // `lead` was dropped at its current await. The node stands again, at the end of the queue.
            Err(RunError::Lost(lost)) => println!("not the leader any more: {lost}"),
            Err(RunError::Acquire(error)) => return Err(error),
            Err(other) => println!("{other}"),
        }
    }
}
