//! Renewal does not depend on the caller (I12): not on its processor time, its runtime, or its subscriber of events.

#![allow(clippy::expect_used, clippy::unwrap_used)]

mod support;

use std::{
    sync::atomic::{AtomicBool, AtomicU32, Ordering},
    thread,
    time::{Duration, Instant},
};

use fairlock::{Client, LockOptions};
use support::{Child, RedisServer, SOON, child, keys_left};
use tracing::span;

/// Long enough that a keeper is given its turn on a machine whose every core is burnt by several tests.
const LEASE: Duration = Duration::from_secs(6);
/// Where nobody burns anything.
const SHORT: Duration = Duration::from_secs(3);

/// The helper processes of this file: what they do to themselves must not disturb the test that looks on.
#[test]
fn child() {
    child::main(|role, args| match (role, args) {
        ("burn", [url]) => burn(url),
        ("block in events", [url]) => block_in_events(url),
        other => panic!("no role {other:?}"),
    });
}

fn options(lease: Duration) -> LockOptions {
    LockOptions::new().lease(lease)
}

/// Keeps every core busy, and with it the only thread of its runtime.
#[tokio::main(flavor = "current_thread")]
async fn burn(url: &str) {
    let client = Client::connect(url).await.unwrap();
    let guard = client.lock_with("lock", options(LEASE)).unwrap().acquire().await.unwrap();
    child::say(format!("granted {}", guard.token()));
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        let start = Instant::now();
        while start.elapsed() < 3 * LEASE {}
        over.store(true, Ordering::Relaxed);
    });
    guard.check().unwrap();
    child::say("still holding");
    std::future::pending::<()>().await;
}

/// A subscriber whose code takes three leases for the first event of the library that it is given.
struct Slow {
    events: AtomicU32,
}

impl tracing::Subscriber for Slow {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        metadata.target().starts_with("fairlock")
    }
    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }
    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn event(&self, _: &tracing::Event<'_>) {
        if self.events.fetch_add(1, Ordering::Relaxed) == 0 {
            child::say("blocked in an event");
        }
        thread::sleep(3 * SHORT);
    }
    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
}

#[tokio::main(flavor = "current_thread")]
async fn block_in_events(url: &str) {
    // For all threads: if the keeper said anything, it would be the keeper that is blocked.
    tracing::subscriber::set_global_default(Slow { events: AtomicU32::new(0) }).unwrap();
    let client = Client::connect(url).await.unwrap();
    let guard = client.lock_with("lock", options(SHORT)).unwrap().acquire().await.unwrap();
    guard.check().unwrap();
    child::say(format!("still holding {}", guard.token()));
    std::future::pending::<()>().await;
}

/// Looks on from another client, with somebody waiting who would be granted a lease that was lost for a moment.
async fn keeps_its_lease(role: &str, begins: &str, lease: Duration) {
    let server = RedisServer::start();
    let client = Client::connect(&server.url()).await.unwrap();
    let lock = client.lock_with("lock", options(lease)).unwrap();
    let mut holder = Child::spawn(role, &[&server.url()]);
    holder.wait_line(begins, SOON);
    let before = lock.inspect().await.unwrap().holder.unwrap();
    let waiting = lock.enqueue().await.unwrap();

    // Something to say for the keeper, which must not do so itself: it has a lease to renew.
    let _: u64 = redis::cmd("CLIENT").arg(&["KILL", "TYPE", "pubsub"]).query(&mut server.raw()).unwrap();

    let blocked = Instant::now();
    let line = holder.wait_line("still holding", SOON + 3 * lease);
    assert!(blocked.elapsed() > 2 * lease, "it was not blocked at all");
    let after = lock.inspect().await.unwrap();
    assert_eq!(after.holder.unwrap().token, before.token, "{line}");
    assert_eq!(after.queue.iter().map(|waiter| waiter.ticket).collect::<Vec<_>>(), [waiting.ticket()]);

    holder.kill();
    waiting.await.unwrap().release().await.unwrap();
    keys_left(&server);
}

#[tokio::test]
async fn a_caller_that_burns_all_cores_keeps_its_lease() {
    keeps_its_lease("burn", "granted", LEASE).await;
}

#[tokio::test]
async fn a_subscriber_that_blocks_on_the_callers_events_loses_no_lease() {
    keeps_its_lease("block in events", "blocked in an event", SHORT).await;
}
