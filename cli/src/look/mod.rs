//! Looking at locks, and acting on what is seen: `status`, `wait`, `break`.

pub(crate) mod breaking;
mod document;
mod screen;
mod show;
pub(crate) mod status;
pub(crate) mod wait;

use std::fmt::Display;
use std::future::IntoFuture as _;
use std::pin::pin;
use std::time::Duration;

use fairlock::{Client, ClientBuilder, Lock, LockOptions, error::Fault, state::LockState};
use tokio::runtime::Builder;
use tokio::time::{sleep, timeout};

use crate::exit::Failure;
use crate::{connect, runtime};

/// The exit codes of these subcommands: the lock is held, or what was asked for is done.
pub(crate) const HELD: u8 = 0;
/// The lock is free, or there was nothing to do.
pub(crate) const FREE: u8 = 1;

/// How often a lock is looked at while its change is awaited.
const LOOK: Duration = Duration::from_millis(200);

fn own(error: impl Display) -> Failure {
    Failure::own(error.to_string())
}

/// Runs this with a client that is connected.
fn with_client<T>(
    server: &connect::Args,
    names: &[String],
    work: impl AsyncFnOnce(Client) -> Result<T, Failure>,
) -> Result<T, Failure> {
    check_names(names)?;
    connected(server, connect::client(server)?, work)
}

fn check_names(names: &[String]) -> Result<(), Failure> {
    names.iter().try_for_each(|name| LockOptions::new().check(name)).map_err(own)
}

fn connected<T>(
    server: &connect::Args,
    client: ClientBuilder,
    work: impl AsyncFnOnce(Client) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let runtime = runtime::start(Builder::enable_time)?;
    runtime.block_on(async { work(client.connect().await.map_err(|error| server.failed(error))?).await })
}

/// Looks at a lock. While the server is silent it asks again and again, and calls `silent` each second.
async fn look(lock: &Lock, mut silent: impl FnMut()) -> Result<LockState, Failure> {
    loop {
        match each_second(lock.inspect().into_future(), &mut silent).await {
            Err(Fault::Unavailable { .. }) => {}
            state => return state.map_err(own),
        }
        sleep(LOOK).await;
    }
}

/// The answer. Until it is there, `silent` is called each second.
async fn each_second<T>(asking: impl Future<Output = T>, mut silent: impl FnMut()) -> T {
    let mut asking = pin!(asking);
    loop {
        match timeout(Duration::from_secs(1), &mut asking).await {
            Err(_) => silent(),
            Ok(answer) => return answer,
        }
    }
}

fn lock(client: &Client, name: &str) -> Result<Lock, Failure> {
    client.lock(name).map_err(own)
}
