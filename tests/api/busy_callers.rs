//! Renewal does not depend on the caller (I12): not on its processor time, its runtime, or its wakers. That no code of its
//! `tracing` subscriber runs on a keeper is asserted wherever events are collected (`tests/observability`).

use std::{
    future::IntoFuture as _,
    pin::Pin,
    sync::{
        Arc, Condvar, Mutex,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    task::{Context, Wake, Waker},
    thread,
    time::{Duration, Instant},
};

use fairlock::{Client, LockOptions, error::LostReason};
use testkit::{Child, SOON, child, keys_left, keys_left_after, server_and_client, soon};

/// Long enough that a keeper is given its turn on a machine whose every core is burnt by several tests.
const LEASE: Duration = Duration::from_secs(6);

/// The helper processes of this file. What they do to themselves must not disturb the test that observes them.
#[test]
fn child() {
    child::main(|role, args| match (role, args) {
        ("burn", [url]) => burn(url),
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

/// Observed from another client with a waiter, which would be granted a lease that was lost for a moment.
#[tokio::test]
async fn a_caller_that_burns_all_cores_keeps_its_lease() {
    let (server, client) = server_and_client().await;
    let lock = client.lock_with("lock", options(LEASE)).unwrap();
    let mut holder = Child::spawn("burn", &[&server.url()]);
    holder.wait_line("granted", SOON);
    let before = lock.inspect().await.unwrap().holders.remove(0);
    let waiting = lock.enqueue().await.unwrap();
    holder.wait_line("still holding", SOON + 3 * LEASE);
    let after = lock.inspect().await.unwrap();
    assert_eq!(after.holders[0].token, before.token);
    assert_eq!(after.queue.iter().map(|waiter| waiter.ticket).collect::<Vec<_>>(), [waiting.ticket()]);

    holder.kill();
    waiting.await.unwrap().release().await.unwrap();
    keys_left(&server);
}

/// A waker that blocks its caller until this is opened.
#[derive(Default)]
struct Gate {
    /// How many callers are blocked, and whether it is open.
    state: Mutex<(u32, bool)>,
    changed: Condvar,
}

impl Wake for Gate {
    fn wake(self: Arc<Self>) {
        let mut state = self.state.lock().unwrap();
        state.0 += 1;
        self.changed.notify_all();
        // A test that has failed never opens it. It must fail first.
        drop(self.changed.wait_timeout_while(state, 2 * SOON, |(_, open)| !*open).unwrap());
    }
}

impl Gate {
    fn await_inside(&self, number: u32) {
        let state = self.state.lock().unwrap();
        let waited = self.changed.wait_timeout_while(state, SOON, |(inside, _)| *inside < number);
        assert!(!waited.unwrap().1.timed_out(), "there are not {number} inside of the waker");
    }

    fn open(&self) {
        self.state.lock().unwrap().1 = true;
        self.changed.notify_all();
    }
}

/// A waker that panics.
#[derive(Default)]
struct Panics(AtomicU32);

impl Wake for Panics {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
        std::panic::resume_unwind(Box::new("a waker panics"));
    }
}

/// Begins to wait with this waker, and is not polled again.
fn wait_with<F: Future + Unpin>(waker: &Waker, future: &mut F) {
    assert!(Pin::new(future).poll(&mut Context::from_waker(waker)).is_pending());
}

/// A caller hears its answers while wakers of other callers of its client block, each for longer than a lease.
#[tokio::test]
async fn wakers_that_block_delay_no_lease_and_no_wake_up() {
    const BLOCKED: usize = 4;
    let (server, client) = server_and_client().await;
    let held = client.lock_with("held", options(LEASE)).unwrap().acquire().await.unwrap();
    let gate = Arc::new(Gate::default());
    let waker = Waker::from(gate.clone());
    let other = Client::connect(&server.url()).await.unwrap();
    let mut waits = Vec::new();
    for number in 0..BLOCKED {
        let name = format!("wanted {number}");
        let wanted = other.lock(&name).unwrap().acquire().await.unwrap();
        let mut waiting = client.lock(&name).unwrap().enqueue().await.unwrap();
        wait_with(&waker, &mut waiting);
        waits.push(waiting);
        wanted.release().await.unwrap();
    }
    // A call that the server cannot have answered, and a caller that awaits the loss of a lease.
    let broken = client.lock_with("broken", options(LEASE)).unwrap();
    let guard = broken.acquire().await.unwrap();
    server.stop();
    let mut renewal = Box::pin(guard.renew());
    wait_with(&waker, &mut renewal);
    server.cont();
    let mut lost = Box::pin(guard.held().ended());
    wait_with(&waker, &mut lost);
    broken.break_lease(guard.token()).await.unwrap();
    gate.await_inside(BLOCKED as u32 + 2);

    assert_eq!(soon(guard.lost()).await.reason, LostReason::Broken);
    soon(client.lock("free").unwrap().acquire()).await.unwrap().release().await.unwrap();
    let lost = tokio::time::timeout(3 * LEASE / 2, held.ended()).await;
    assert!(lost.is_err(), "{lost:?} while wakers of others blocked");
    held.check().unwrap();

    gate.open();
    for waiting in waits {
        soon(waiting).await.unwrap().release().await.unwrap();
    }
    drop(renewal);
    keys_left_after((held, guard), &server);
}

#[tokio::test]
async fn a_waker_that_panics_harms_nobody_else() {
    let (server, client) = server_and_client().await;
    let held = client.lock("held").unwrap().acquire().await.unwrap();
    let other = Client::connect(&server.url()).await.unwrap().lock("wanted").unwrap();
    let wanted = other.acquire().await.unwrap();

    let panics = Arc::new(Panics::default());
    let waker = Waker::from(panics.clone());
    let mut acquire = client.lock("wanted").unwrap().acquire().into_future();
    wait_with(&waker, &mut acquire);
    let mut lost = Box::pin(wanted.held().ended());
    wait_with(&waker, &mut lost);
    // The keeper takes no part in this: one task drops the guard, and another awaits its end.
    drop(wanted);
    testkit::eventually("both have panicked", SOON, || panics.0.load(Ordering::Relaxed) == 2);

    assert_eq!(soon(lost).await, None, "it was given back");
    soon(acquire).await.unwrap().release().await.unwrap();
    soon(held.renew()).await.unwrap();
    soon(held.release()).await.unwrap();
    keys_left(&server);
}

/// A keeper that ends tells its callers, although the waker of another caller blocks.
#[tokio::test]
async fn a_waker_that_blocks_keeps_no_news_of_a_dead_keeper_from_others() {
    let (_server, client) = server_and_client().await;
    let acquire = async |name: &str| client.lock_with(name, options(2 * SOON)).unwrap().acquire().await.unwrap();
    let guards = [acquire("a").await, acquire("b").await];
    let gate = Arc::new(Gate::default());
    let waker = Waker::from(gate.clone());
    let mut blocked = guards.iter().map(|guard| Box::pin(guard.lost())).collect::<Vec<_>>();
    blocked.iter_mut().for_each(|lost| wait_with(&waker, lost));
    let called = Arc::new(Gate::default());
    called.open();
    let mut told = Box::pin(guards[1].lost());
    wait_with(&Waker::from(called.clone()), &mut told);

    client.panic_keeper();
    gate.await_inside(2);
    called.await_inside(1);
    assert_eq!(soon(told).await.reason, LostReason::KeeperPanicked);
    gate.open();
}
