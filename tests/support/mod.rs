//! What the integration tests share: private Redis servers, helper processes, and judges of what happened.
//!
//! Nothing here sleeps for a fixed time and hopes: whatever takes time is asked for until it holds (`eventually`), and
//! whatever is started is ended by its own handle, also when the test panics or is killed.

// Every test binary compiles this module for itself and uses a part of it, and nothing of it is anybody's API.
#![allow(dead_code, unreachable_pub)]
// In a test a panic is the message.
#![allow(clippy::expect_used, clippy::unwrap_used)]

pub mod child;
#[cfg(feature = "cli")]
pub mod cli;
pub mod cluster;
pub mod crew;
pub mod faults;
pub mod history;
pub mod impostor;
pub mod log;
pub mod process;
pub mod proxy;
#[cfg(feature = "cli")]
pub mod pty;
pub mod resp;
pub mod run;
pub mod sentinel;
pub mod server;
pub mod urls;
#[cfg(target_os = "linux")]
pub mod vclock;
pub mod watch;

use std::{
    fmt::Display,
    io::Write as _,
    time::{Duration, Instant},
};

// Not every test binary needs every name.
#[allow(unused_imports)]
pub use self::{
    child::Child,
    cluster::Cluster,
    proxy::{Act, Proxy, Target},
    sentinel::Sentinels,
    server::RedisServer,
    watch::{Calls, Monitor, calls, keys_left, keys_left_within},
};

/// How long anything that should happen soon may take before a test fails. Generous, because the machines that run
/// tests are slow at the worst moment, and free, because only failing tests wait for it.
pub const SOON: Duration = Duration::from_secs(30);

/// Says this past the test harness, which shows what is printed by tests that fail only.
pub fn say(text: impl Display) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// Blocks until `holds` says yes. Panics, naming `what`, when it has not by then.
#[track_caller]
pub fn eventually(what: &str, timeout: Duration, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    let mut pause = FIRST_PAUSE;
    while !holds() {
        assert!(start.elapsed() < timeout, "not within {timeout:?}: {what}");
        std::thread::sleep(pause);
        pause = longer(pause);
    }
}

/// [`eventually`] for tests whose own tasks must go on while they wait.
pub async fn eventually_async(what: &str, timeout: Duration, mut holds: impl AsyncFnMut() -> bool) {
    let start = Instant::now();
    let mut pause = FIRST_PAUSE;
    while !holds().await {
        assert!(start.elapsed() < timeout, "not within {timeout:?}: {what}");
        tokio::time::sleep(pause).await;
        pause = longer(pause);
    }
}

/// Awaits what should happen soon, so that a test fails where it would hang.
pub async fn soon<F: IntoFuture>(what: F) -> F::Output {
    tokio::time::timeout(SOON, what.into_future()).await.expect("this hangs")
}

const FIRST_PAUSE: Duration = Duration::from_millis(1);

fn longer(pause: Duration) -> Duration {
    (pause * 3 / 2).min(Duration::from_millis(50))
}
