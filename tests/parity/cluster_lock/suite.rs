//! The twenty-one scenarios of ClusterLock's suite, by their names there. Where fairlock does something else on
//! purpose, the test says so.

use std::sync::Arc;

use fairlock::{
    compat::{Ownership, Refreshed, is_locked_by_anyone, is_locked_by_me, refresh},
    error::{Fault, InvalidOption, LostReason, RenewError},
};
use testkit::{Proxy, server_and_client, watch::Counter};
use tokio::sync::Barrier;

use super::*;

/// The shortest interval of refreshes.
const SECOND: Duration = Duration::from_secs(1);

async fn refreshed(guard: &Guard) -> Refreshed {
    soon(refresh(guard)).await.unwrap()
}

/// Waits until a refresh writes again.
async fn interval_passes() {
    tokio::time::sleep(SECOND + Duration::from_millis(50)).await;
}

#[tokio::test]
async fn acquisition() {
    let server = RedisServer::start();
    let lock = lock(&server, "worker-1", LONG).await;
    let answer = ownership(&lock).await;
    assert!(answer.is_mine() && answer.owner() == "worker-1", "{answer:?}");
    let holder = lock.inspect().await.unwrap().holders.remove(0);
    assert_eq!(holder.owner, "worker-1");
    assert!(holder.remaining <= LONG && holder.remaining > LONG / 2);
    keys_left_after(answer, &server);
}

#[tokio::test]
async fn contention() {
    let (server, one, two) = workers(LONG).await;
    let guard = granted(&one).await;
    let answer = ownership(&two).await;
    assert!(!answer.is_mine() && answer.owner() == "worker-1", "{answer:?}");
    keys_left_after(guard, &server);
}

#[tokio::test]
async fn release_frees_at_once() {
    let (server, one, two) = workers(LONG).await;
    granted(&one).await.release().await.unwrap();
    assert!(!is_locked_by_anyone(&one).await.unwrap());
    keys_left_after(granted(&two).await, &server);
}

#[tokio::test]
async fn refresh_extends_the_ttl() {
    let lease = Duration::from_secs(8);
    let server = RedisServer::start();
    let lock = lock(&server, "worker-1", lease).await;
    let guard = granted(&lock).await;
    interval_passes().await;
    let before = (guard.remaining(), left(&lock).await);
    assert!(before.1 <= lease - SECOND, "{before:?}");
    assert_eq!(refreshed(&guard).await, Refreshed::Renewed);
    assert!(guard.remaining() > before.0 && left(&lock).await > before.1, "{before:?}");
    keys_left_after(guard, &server);
}

#[tokio::test]
async fn rate_limiting() {
    let server = RedisServer::start();
    let lock = lock(&server, "worker-1", LONG).await;
    let guard = granted(&lock).await;
    let before = guard.remaining();
    let mut counter = Counter::start(&server);
    for _ in 0..20 {
        assert_eq!(refreshed(&guard).await, Refreshed::Verified);
    }
    let made = counter.so_far();
    assert_eq!(made.get("evalsha"), Some(&20), "it asks each time: {made:?}");
    let writes = ["hset", "hdel", "zadd", "zrem", "pexpire"].map(|name| made.get(name).copied().unwrap_or(0));
    assert_eq!(writes, [0; 5], "and writes nothing: {made:?}");
    assert!(guard.remaining() < before);
    keys_left_after(guard, &server);
}

/// A lease that is over is noticed by the next refresh, though that would write nothing.
#[tokio::test]
async fn existence_checked_during_rate_limiting() {
    let (server, one, two) = workers(LONG).await;
    let guard = granted(&one).await;
    assert_eq!(refreshed(&guard).await, Refreshed::Verified);
    two.force_break_lease(guard.token()).await.unwrap();
    assert!(matches!(soon(refresh(&guard)).await, Err(RenewError::Lost(_))));
    keys_left_after(guard, &server);
}

#[tokio::test]
async fn ownership_lost() {
    let (server, one, two) = workers(LONG).await;
    let guard = granted(&one).await;
    two.force_break_lease(guard.token()).await.unwrap();
    let next = granted(&two).await;
    assert!(next.token() > guard.token());
    assert!(matches!(soon(refresh(&guard)).await, Err(RenewError::Lost(_))));
    // A release never ends the lease of another.
    guard.release().await.unwrap_err();
    assert_eq!(refreshed(&next).await, Refreshed::Verified);
    keys_left_after(next, &server);
}

/// Only a guard can be refreshed, and only a grant makes one. A worker that holds nothing asks who does.
#[tokio::test]
async fn refresh_without_acquire() {
    let (server, one, two) = workers(LONG).await;
    assert!(!is_locked_by_me(&two).await.unwrap());
    let guard = granted(&one).await;
    assert!(!is_locked_by_me(&two).await.unwrap());
    keys_left_after(guard, &server);
}

#[tokio::test]
async fn natural_expiry() {
    let server = RedisServer::start();
    let (one, two) = (lock(&server, "worker-1", SECOND).await, lock(&server, "worker-2", LONG).await);
    let guard = granted(&one).await;
    let lost = soon(guard.lost()).await;
    assert!(matches!(lost.reason, LostReason::NotRenewed { .. }), "{lost}");
    eventually_async("the lease is over", SOON, async || !is_locked_by_anyone(&two).await.unwrap()).await;
    assert!(matches!(soon(refresh(&guard)).await, Err(RenewError::Lost(_))));
    drop(granted(&two).await);
    keys_left_after(guard, &server);
}

#[tokio::test]
async fn refresh_prevents_expiry() {
    let lease = Duration::from_secs(5);
    let server = RedisServer::start();
    let (one, two) = (lock(&server, "worker-1", lease).await, lock(&server, "worker-2", LONG).await);
    let guard = granted(&one).await;
    let begun = Instant::now();
    let mut renewed = 0;
    while begun.elapsed() < 2 * lease {
        tokio::time::sleep(lease / 10).await;
        renewed += u32::from(refreshed(&guard).await == Refreshed::Renewed);
        assert_eq!(ownership(&two).await.owner(), "worker-1");
    }
    let intervals = begun.elapsed().as_secs();
    assert!(renewed >= 2 && u64::from(renewed) <= intervals, "{renewed} renewals in {intervals} intervals");
    keys_left_after(guard, &server);
}

#[tokio::test]
async fn five_threads_with_one_winner() {
    let server = RedisServer::start();
    let start = Arc::new(std::sync::Barrier::new(5));
    let threads: Vec<_> = (1..=5)
        .map(|worker| {
            let (start, url) = (start.clone(), server.url());
            std::thread::spawn(move || {
                let client = Client::connect(&url).blocking().unwrap();
                let lock = of(&client, &format!("worker-{worker}"), LONG);
                start.wait();
                Ownership::of(lock.try_acquire()).blocking().unwrap()
            })
        })
        .collect();
    let answers: Vec<_> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
    let winners: Vec<_> = answers.iter().filter(|answer| answer.is_mine()).collect();
    let [winner] = winners[..] else { panic!("{answers:?}") };
    assert!(answers.iter().all(|answer| answer.owner() == winner.owner()), "{answers:?}");
    keys_left_after(answers, &server);
}

#[tokio::test]
async fn sequential_reuse_after_expiry() {
    let server = RedisServer::start();
    let mut tokens = Vec::new();
    for worker in ["worker-1", "worker-2", "worker-3"] {
        let lock = lock(&server, worker, Duration::from_millis(300)).await;
        let guard = granted(&lock).await;
        tokens.push(guard.token());
        soon(guard.lost()).await;
        eventually_async("it is over", SOON, async || !is_locked_by_anyone(&lock).await.unwrap()).await;
        drop(guard);
    }
    assert!(tokens.is_sorted(), "{tokens:?}");
    keys_left(&server);
}

#[tokio::test]
async fn refresh_during_concurrent_attempts() {
    let server = RedisServer::start();
    let guard = granted(&lock(&server, "worker-1", LONG).await).await;
    let attempts = (2..=4).map(|worker| {
        let server = &server;
        async move {
            let lock = lock(server, &format!("worker-{worker}"), LONG).await;
            for _ in 0..20 {
                assert_eq!(ownership(&lock).await.owner(), "worker-1");
            }
        }
    });
    let refreshes = async {
        for _ in 0..20 {
            refreshed(&guard).await;
        }
    };
    tokio::join!(futures_util::future::join_all(attempts), refreshes);
    keys_left_after(guard, &server);
}

#[tokio::test]
async fn connection_failure_on_acquire_and_on_refresh() {
    let server = RedisServer::start();
    let proxy = Proxy::start(&server);
    let client = Client::connect(&proxy.url()).await.unwrap();
    let lock = of(&client, "worker-1", LONG);
    let guard = granted(&lock).await;
    proxy.refuse();
    proxy.cut();
    let bound = Duration::from_millis(200);
    let failed = soon(Ownership::of(of(&client, "worker-2", LONG).try_acquire().timeout(bound))).await;
    assert!(matches!(failed, Err(TryAcquireError::Fault(Fault::Unavailable { .. }))), "{failed:?}");
    // The lease goes on meanwhile: that a refresh failed does not mean that it is lost.
    let failed = soon(refresh(&guard)).await;
    assert!(matches!(failed, Err(RenewError::Fault(Fault::Unavailable { .. }))), "{failed:?}");
    guard.check().unwrap();
    proxy.heal();
    refreshed(&guard).await;
    keys_left_after(guard, &server);
}

/// The holder's lease is re-asserted, because nobody else was granted the lock since. ClusterLock loses it here.
#[tokio::test]
async fn key_deleted_underneath() {
    let (server, one, two) = workers(LONG).await;
    let guard = granted(&one).await;
    server.flush();
    assert_eq!(refreshed(&guard).await, Refreshed::Renewed);
    assert_eq!(ownership(&two).await.owner(), "worker-1");
    drop(guard);
}

/// Another worker was faster than the holder: the lease is lost.
#[tokio::test]
async fn key_deleted_underneath_and_taken() {
    let (server, one, two) = workers(LONG).await;
    let guard = granted(&one).await;
    server.flush();
    let next = granted(&two).await;
    assert!(matches!(soon(refresh(&guard)).await, Err(RenewError::Lost(_))));
    next.check().unwrap();
    drop(next);
}

/// `max(lease / 10, 1 s)`. The figures are compared in `src/compat/lease.rs`; this shows the first of them.
#[tokio::test]
async fn interval_calculation() {
    let (_server, client) = server_and_client().await;
    let leases = [5, 10, 30, 100, 200, 1000].map(Duration::from_secs);
    let guards = leases.iter().enumerate().map(|(index, lease)| {
        let options = LockOptions::new().lease(*lease).manual_renewal();
        client.lock_with(&format!("lock-{index}"), options).unwrap().acquire()
    });
    let called = Instant::now();
    let guards: Vec<_> = futures_util::future::try_join_all(guards).await.unwrap();
    // Between which two moments each lease was last written.
    let mut written = [(called, Instant::now()); 6];
    let tick = Duration::from_millis(20);
    for round in 0..3 {
        for ((guard, lease), written) in guards.iter().zip(leases).zip(&mut written) {
            let (interval, before) = (SECOND.max(lease / 10), Instant::now());
            let answer = refreshed(guard).await;
            let age = (before - written.1)..(written.0.elapsed() + tick);
            match answer {
                Refreshed::Renewed => assert!(age.end >= interval, "{lease:?} in round {round}: renewed after {age:?}"),
                _ => assert!(age.start <= interval, "{lease:?} in round {round}: {answer:?} after {age:?}"),
            }
            if answer == Refreshed::Renewed {
                *written = (before, Instant::now());
            }
        }
        // From the second round on the first two are due, and on most machines no others.
        interval_passes().await;
    }
}

#[tokio::test]
async fn coordination_of_three_workers() {
    let server = RedisServer::start();
    let (tried, clients) = (Arc::new(Barrier::new(3)), [1, 2, 3]);
    let workers = clients.map(|worker| {
        let (server, tried) = (&server, tried.clone());
        async move {
            let answer = ownership(&lock(server, &format!("worker-{worker}"), LONG).await).await;
            tried.wait().await;
            let Ownership::Granted(guard) = answer else { return false };
            guard.release().await.unwrap();
            true
        }
    });
    let executed = soon(futures_util::future::join_all(workers)).await;
    assert_eq!(executed.iter().filter(|executed| **executed).count(), 1, "one executes, two are refused");
    keys_left(&server);
}

#[tokio::test]
async fn long_execution_with_refresh() {
    let lease = Duration::from_secs(5);
    let server = RedisServer::start();
    let (one, two) = (lock(&server, "worker-1", lease).await, lock(&server, "worker-2", LONG).await);
    let guard = granted(&one).await;
    let begun = Instant::now();
    for step in 1.. {
        tokio::time::sleep(Duration::from_millis(200)).await;
        refreshed(&guard).await;
        if step % 5 == 0 {
            assert!(!ownership(&two).await.is_mine());
        }
        if begun.elapsed() > 2 * lease {
            break;
        }
    }
    guard.release().await.unwrap();
    keys_left_after(granted(&two).await, &server);
}

/// A worker that cannot ask goes on without the lock's work, and takes part again once the server is back.
#[tokio::test]
async fn graceful_degradation_and_recovery() {
    let server = RedisServer::builder().appendonly().start();
    let lock = lock(&server, "worker-1", LONG).await;
    let bound = Duration::from_millis(100);
    server.kill();
    for _ in 0..3 {
        let failed = soon(Ownership::of(lock.try_acquire().timeout(bound))).await;
        assert!(matches!(failed, Err(TryAcquireError::Fault(_))), "{failed:?}");
    }
    server.restart();
    keys_left_after(granted(&lock).await, &server);
}

#[tokio::test]
async fn invalid_parameters() {
    let client = Client::connect_lazy("redis://127.0.0.1:1/").unwrap();
    let with = |name: &str, lease: Duration| client.lock_with(name, LockOptions::new().lease(lease)).map(drop);
    assert!(matches!(with("", LONG), Err(InvalidOption::EmptyName)));
    assert!(matches!(with(&"x".repeat(513), LONG), Err(InvalidOption::NameTooLong { .. })));
    assert!(matches!(with("lock", Duration::ZERO), Err(InvalidOption::Duration { .. })));
    assert!(matches!(with("lock", Duration::MAX), Err(InvalidOption::Duration { .. })));
    let long = client.lock("lock").unwrap().try_acquire().owner("x".repeat(4097)).await;
    assert!(matches!(long, Err(TryAcquireError::Invalid(InvalidOption::TooLong { .. }))), "{long:?}");
}

#[tokio::test]
async fn construction_without_io() {
    // No server listens at this port, and none is asked.
    let client = Client::connect_lazy("redis://127.0.0.1:1/").unwrap();
    let lock = of(&client, "worker-1", LONG);
    assert_eq!((lock.name(), lock.owner(), lock.lease_length()), ("lock", "worker-1", LONG));
}
