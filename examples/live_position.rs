//! A waiter that shows its position while it waits.
//!
//! When you would want it: a person looks on and should see that the queue moves, or a page tells its user "you are
//! third in line". Joining the queue and waiting for the turn are two steps here, and the position can be asked for in
//! between. It costs one round trip each time.
//!
//! `cargo run --example live_position`, in several terminals.

use std::time::Duration;

use fairlock::{Client, Guard, Lock};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::var("REDIS_URL").unwrap_or("redis://127.0.0.1/".into());
    let client = Client::connect(&url).await?;
    let lock = client.lock("live_position")?;
    let guard = wait(&lock, Duration::from_secs(1), |position| println!("{position}. in line")).await?;
    println!("it is our turn after {:?}; working for 5 s", guard.waited());
    tokio::time::sleep(Duration::from_secs(5)).await;
    guard.release().await?;
    Ok(())
}

/// Waits for the lock and shows each new position: 1 is the next to be served.
pub(crate) async fn wait(
    lock: &Lock,
    every: Duration,
    mut show: impl FnMut(u64),
) -> Result<Guard, Box<dyn std::error::Error>> {
    let mut waiting = lock.enqueue().await?;
    let mut ticks = tokio::time::interval(every);
    let mut shown = None;
    loop {
        let position = waiting.position();
        tokio::select! {
            guard = &mut waiting => return Ok(guard?),
            position = async { ticks.tick().await; position.await } => {
                // Zero: the grant is on its way.
                let position = position?;
                if position > 0 && shown.replace(position) != Some(position) {
                    show(position);
                }
            }
        }
    }
}
