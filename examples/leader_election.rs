//! Leader election: of several nodes one leads, and the next in line takes over when it resigns, dies or is cut off.
//!
//! When you would want it: a scheduler, a controller or a consumer of which exactly one may be active, with standbys
//! that take over in the order in which they began to wait.
//!
//! `cargo run --example leader_election -- NAME` in several terminals; then end the leader with Ctrl-C, TERM or KILL.

use std::{pin::pin, time::Duration};

use fairlock::{Client, Guard, Held, Lock, LockOptions, error::AcquireError};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::var("REDIS_URL").unwrap_or("redis://127.0.0.1/".into());
    let node = std::env::args().nth(1).ok_or("usage: leader_election NAME")?;
    // What the others see of this node.
    let client = Client::builder().url(&url).label(&node).connect().await?;
    let node = &*node;
    let lead = |held: Held| async move {
        loop {
            println!("{node} leads, term {}", held.token());
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    };
    let mut term = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?;
    let stop = async {
        tokio::select! {
            _ = term.recv() => {}
            _ = tokio::signal::ctrl_c() => {}
        }
    };
    stand(&client, stop, lead, |news| println!("{node}: {news}")).await?;
    client.close().await;
    Ok(())
}

/// Leads whenever this node is elected, until `lead` returns or `stop` does: a leader resigns then, and a standby leaves
/// the line.
pub(crate) async fn stand<F>(
    client: &Client,
    stop: impl Future<Output = ()>,
    lead: impl Fn(Held) -> F,
    mut tell: impl FnMut(String),
) -> Result<(), AcquireError>
where
    F: Future<Output = ()>,
{
    // A dead leader is missed for as long as its lease lasts. A leader that is cut off hears of its end a `notice`
    // before the next one can begin.
    let options = LockOptions::new().lease(Duration::from_secs(5)).notice(Duration::from_secs(1));
    let office = client.lock_with("leader", options)?;
    let mut stop = pin!(stop);
    loop {
        let guard = tokio::select! {
            biased;
            () = &mut stop => return Ok(()),
            guard = elected(&office, &mut tell) => guard?,
        };
        tokio::select! {
            biased;
            // The next in line leads as soon as the guard is dropped, and this one must not lead any more then: the
            // other futures are dropped before it.
            () = &mut stop => return Ok(()),
            // The node stands again, at the end of the line.
            lost = guard.lost() => tell(format!("not the leader any more: {lost}")),
            // The token is the number of the term. Workers refuse orders of an earlier one.
            () = lead(guard.held()) => return Ok(()),
        }
    }
}

/// Waits for the turn of this node, and tells its place in line and who leads, whenever that changes.
async fn elected(office: &Lock, tell: &mut impl FnMut(String)) -> Result<Guard, AcquireError> {
    let mut waiting = office.enqueue().await?;
    let mut ticks = tokio::time::interval(Duration::from_millis(500));
    let mut told = String::new();
    loop {
        let position = waiting.position();
        let look = async {
            ticks.tick().await;
            (position.await, office.inspect().await)
        };
        tokio::select! {
            guard = &mut waiting => return guard,
            looked = look => {
                // Zero: the grant is on its way. While the server is away, nothing is told.
                let (Ok(place @ 1..), Ok(state)) = looked else { continue };
                let leader = state.holders.first().map_or("nobody", |holder| &*holder.label);
                let news = format!("standby {place}; {leader} leads");
                if news != told {
                    tell(news.clone());
                    told = news;
                }
            }
        }
    }
}
