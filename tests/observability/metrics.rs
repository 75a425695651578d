//! The numbers that a recorder gets.

use std::time::{Duration, Instant};

use fairlock::{Client, LockOptions};
use testkit::{Proxy, SOON, alone, eventually, keys_left, keys_left_after, server_and_client};

use crate::recorder::Recorded;

alone! {
    waits_and_holds_are_counted_and_timed: count_waits_and_holds;
    acquires_that_fail_are_counted_by_their_reason: count_failures;
    losses_reconnects_and_late_renewals_are_counted: count_troubles;
    locks_are_told_apart_only_if_the_caller_says_so: label_locks;
}

#[tokio::main]
async fn count_waits_and_holds() {
    let recorded = Recorded::start();
    let (server, client) = server_and_client().await;
    let lock = client.lock("jobs").unwrap();

    let called = Instant::now();
    let first = lock.acquire().await.unwrap();
    let at_once = called.elapsed().as_secs_f64();
    let waiting = [lock.enqueue().await.unwrap(), lock.enqueue().await.unwrap()];
    assert_eq!((recorded.level("fairlock_held"), recorded.level("fairlock_waiting")), (1.0, 2.0));
    assert_eq!(recorded.values_of("fairlock_queue_length", 2), [1.0, 2.0]);
    let queued = Instant::now();
    eventually("time passes", SOON, || queued.elapsed() > Duration::from_millis(100));
    first.release().await.unwrap();
    for waiting in waiting {
        // A lease that is given back by a drop counts as much as one that is released.
        drop(waiting.await.unwrap());
    }
    assert_eq!(recorded.count("fairlock_grants_total"), 3);
    let (waits, holds) = (recorded.values("fairlock_wait_seconds"), recorded.values("fairlock_hold_seconds"));
    // In the order of the grants.
    let [wait, others @ ..] = &*waits else { panic!("nobody waited") };
    assert!(*wait <= at_once && others.len() == 2, "{waits:?}, the first within {at_once}");
    assert!(others.iter().all(|wait| *wait >= 0.1), "{waits:?}");
    assert_eq!((holds.len(), holds[0] >= 0.1), (3, true), "{holds:?}");
    assert_eq!((recorded.level("fairlock_held"), recorded.level("fairlock_waiting")), (0.0, 0.0));
    keys_left_after((lock, client), &server);
}

#[tokio::main]
async fn count_failures() {
    let recorded = Recorded::start();
    let (server, client) = server_and_client().await;
    let lock = client.lock("jobs").unwrap();
    let guard = lock.acquire().await.unwrap();
    for _ in 0..2 {
        lock.acquire().timeout(Duration::from_millis(10)).await.unwrap_err();
    }
    lock.try_acquire().await.unwrap_err();
    drop(lock.enqueue().await.unwrap());
    client.close().await;
    lock.acquire().await.unwrap_err();
    for (why, expected) in [("timeout", 2), ("busy", 1), ("abandoned", 1), ("fault", 1)] {
        assert_eq!(recorded.count(&format!("fairlock_not_granted_total{{why={why}}}")), expected, "{why}");
    }
    assert_eq!(recorded.level("fairlock_waiting"), 0.0);
    // A hold that the close has ended is timed, and no loss.
    assert_eq!(recorded.values_of("fairlock_hold_seconds", 1).len(), 1);
    assert!(recorded.keys().iter().all(|key| !key.contains("losses")), "{:?}", recorded.keys());
    keys_left_after((guard, lock, client), &server);
}

#[tokio::main]
async fn count_troubles() {
    let (server, proxy) = Proxy::of_a_server();
    let recorded = Recorded::start();
    let client = Client::connect(&proxy.url()).await.unwrap();
    let (lease, interval) = (Duration::from_secs(12), Duration::from_secs(4));
    let lock = client.lock_with("jobs", LockOptions::new().lease(lease).renew_every(interval)).unwrap();

    let begun = Instant::now();
    let guard = lock.acquire().await.unwrap();
    guard.held().renewed().await.unwrap();
    let first = begun.elapsed();
    server.stop();
    let late = Duration::from_secs(1);
    eventually("a renewal is late", SOON, || begun.elapsed() > first + interval + late);
    server.cont();
    guard.held().renewed().await.unwrap();
    let second = begun.elapsed();
    let lags = recorded.values_of("fairlock_renewal_lag_seconds", 2);
    // Each renewal is due an interval after the grant or the renewal before it; the rest of the time is its lag, or that
    // of this test.
    let tick = Duration::from_millis(20);
    let at_most = [first - interval + tick, second - 2 * interval + tick].map(|longest| longest.as_secs_f64());
    assert!(lags[0] <= at_most[0] && lags[1] <= at_most[1], "{lags:?} where {at_most:?} is possible");
    assert!(lags[1] >= late.as_secs_f64(), "{lags:?}");

    proxy.cut();
    recorded.counts("fairlock_reconnects_total", 1);
    lock.break_lease(guard.token()).await.unwrap();
    recorded.counts("fairlock_losses_total{why=broken}", 1);
    assert_eq!(recorded.values("fairlock_hold_seconds").len(), 1);
    drop(guard);

    let guard = lock.acquire().await.unwrap();
    proxy.refuse();
    proxy.cut();
    recorded.counts("fairlock_losses_total{why=not_renewed}", 1);
    proxy.heal();
    drop(guard);
    // The drop of a lease that was lost ends no second hold.
    assert_eq!(recorded.values("fairlock_hold_seconds").len(), 2);
    assert_eq!(recorded.level("fairlock_held"), 0.0);
    // Before the client ends: it waits no longer than a quarter of a second for a connection to give the lease back.
    keys_left(&server);
    drop((lock, client));
}

#[tokio::main]
async fn label_locks() {
    let recorded = Recorded::start();
    let (server, client) = server_and_client().await;
    let named = LockOptions::new().metrics_label("nightly");
    let labelled = LockOptions::new().metrics_label("users");
    for (name, options) in [
        ("plain 1", LockOptions::new()),
        ("plain 2", LockOptions::new()),
        ("nightly", named.clone()),
        ("user 1", labelled.clone()),
        ("user 2", labelled.clone()),
    ] {
        let lock = client.lock_with(name, options).unwrap();
        let guard = lock.acquire().await.unwrap();
        lock.try_acquire().await.unwrap_err();
        guard.release().await.unwrap();
    }
    for (labels, expected) in [("", 2), ("{lock=nightly}", 1), ("{lock=users}", 2)] {
        assert_eq!(recorded.count(&format!("fairlock_grants_total{labels}")), expected, "{labels}");
        assert_eq!(recorded.values(&format!("fairlock_hold_seconds{labels}")).len() as u64, expected, "{labels}");
        assert_eq!(recorded.level(&format!("fairlock_held{labels}")), 0.0);
    }
    assert_eq!(recorded.count("fairlock_not_granted_total{lock=users,why=busy}"), 2);
    assert!(recorded.keys().iter().all(|key| !key.contains("plain") && !key.contains("user ")));
    LockOptions::new().metrics_label("x".repeat(5000)).check("jobs").unwrap_err();
    keys_left_after(client, &server);
}
