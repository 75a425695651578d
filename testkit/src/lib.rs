//! What the tests and the benchmarks share: private Redis servers, helper processes, and judges of what happened.
//!
//! Nothing here sleeps for a fixed time: a condition that takes time is checked until it holds (`eventually`). A handle
//! ends everything that it started, also when the test panics or is killed.

// A test reports its failure by a panic.
#![allow(clippy::expect_used, clippy::unwrap_used)]

pub mod certificates;
pub mod child;
pub mod cluster;
pub mod crew;
pub mod faults;
pub mod forgery;
pub mod history;
pub mod impostor;
pub mod log;
pub mod mark;
pub mod process;
pub mod proxy;
pub mod resp;
pub mod run;
pub mod sentinel;
pub mod server;
pub mod sigpipe;
pub mod state;
pub mod texts;
pub mod urls;
#[cfg(target_os = "linux")]
pub mod vclock;
pub mod watch;

use std::{
    env,
    fmt::Display,
    fs,
    io::Write as _,
    path::{Path, PathBuf},
    pin::Pin,
    task::{Context, Poll, Waker},
    time::{Duration, Instant},
};

use fairlock::{Client, LockOptions};

pub use self::{
    child::Child,
    cluster::Cluster,
    proxy::{Act, Proxy, Target},
    sentinel::Sentinels,
    server::RedisServer,
    watch::{Calls, Monitor, calls, keys_left, keys_left_after, keys_left_within},
};

/// How long anything that should happen soon may take before a test fails. Generous, because machines that run tests
/// can be slow; that costs nothing, because only failing tests wait for it.
pub const SOON: Duration = Duration::from_secs(30);

/// Prints this past the test harness, which shows the output of failing tests only.
pub fn say(text: impl Display) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// The folder of the tested package.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the test kit is in a folder of the package")
}

/// A folder for files that a failed run leaves for its reader: `target/tmp`, next to the test binaries.
pub fn tmp() -> PathBuf {
    let binary = env::current_exe().expect("the path of the running test binary");
    // target/debug/deps/BINARY
    let tmp = binary.ancestors().nth(3).expect("a test binary is in the target folder").join("tmp");
    fs::create_dir_all(&tmp).expect("a folder for temporary files");
    tmp
}

/// Blocks until `holds` returns true. Panics with `what` if that takes too long.
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

/// [`eventually`] for tests whose own tasks must go on meanwhile.
pub async fn eventually_async(what: &str, timeout: Duration, mut holds: impl AsyncFnMut() -> bool) {
    let start = Instant::now();
    let mut pause = FIRST_PAUSE;
    while !holds().await {
        assert!(start.elapsed() < timeout, "not within {timeout:?}: {what}");
        tokio::time::sleep(pause).await;
        pause = longer(pause);
    }
}

/// Awaits a future that should be ready soon, so that a test fails instead of hanging.
pub async fn soon<F: IntoFuture>(what: F) -> F::Output {
    tokio::time::timeout(SOON, what.into_future()).await.expect("this hangs")
}

/// A client of this server.
pub async fn connect(server: &RedisServer) -> Client {
    soon(Client::connect(&server.url())).await.expect("a client of a private server")
}

/// A server of the test's own, and a client of it.
pub async fn server_and_client() -> (RedisServer, Client) {
    let server = RedisServer::start();
    let client = connect(&server).await;
    (server, client)
}

/// Heartbeats, renewals and the ends of leases are far away while a test runs: a waiter that hears of its grant heard
/// of it by a message, and what is gone was given back.
pub fn quiet() -> LockOptions {
    LockOptions::new().lease(100 * SOON).liveness(100 * SOON)
}

/// Polls a future once, and drops the wake-up.
pub fn poll_once<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
}

const FIRST_PAUSE: Duration = Duration::from_millis(1);

fn longer(pause: Duration) -> Duration {
    (pause * 3 / 2).min(Duration::from_millis(50))
}
