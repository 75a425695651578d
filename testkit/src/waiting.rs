//! Waiting for what should happen soon.

use std::{
    pin::Pin,
    task::{Context, Poll, Waker},
    time::{Duration, Instant},
};

/// How long anything that should happen soon may take before a test fails. Generous, because machines that run tests
/// can be slow; that costs nothing, because only failing tests wait for it.
pub const SOON: Duration = Duration::from_secs(30);

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

/// Polls a future once, and drops the wake-up.
pub fn poll_once<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
}

const FIRST_PAUSE: Duration = Duration::from_millis(1);

fn longer(pause: Duration) -> Duration {
    (pause * 3 / 2).min(Duration::from_millis(50))
}
