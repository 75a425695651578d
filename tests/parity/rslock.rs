//! rslock: Redlock over several masters, with a lifetime for each lock, retries with a random delay, and guards.

use std::time::{Duration, Instant};

use fairlock::{
    Client, Lock, LockOptions,
    compat::{is_locked_by_anyone, verify},
    error::{AcquireError, RenewError, RunError},
};
use testkit::{RedisServer, SOON, connect, eventually_async, keys_left, quiet, soon};

const TTL: Duration = Duration::from_secs(100);

async fn lock(server: &RedisServer, ttl: Duration) -> Lock {
    connect(server).await.lock_with("resource", LockOptions::new().lease(ttl).manual_renewal()).unwrap()
}

/// `lock` tries a few times, and then returns `LockError::Unavailable`. A waiter of fairlock has a place meanwhile.
#[tokio::test]
async fn a_lock_is_tried_for_a_while_and_then_unavailable() {
    let server = RedisServer::start();
    let (one, two) = (lock(&server, TTL).await, lock(&server, TTL).await);
    let guard = soon(one.acquire()).await.unwrap();
    let (retries, delay, called) = (3, Duration::from_millis(50), Instant::now());
    assert!(matches!(soon(two.acquire().timeout(retries * delay)).await, Err(AcquireError::Timeout { .. })));
    assert!(called.elapsed() >= retries * delay);
    guard.release().await.unwrap();
    soon(two.acquire().timeout(SOON)).await.unwrap().release().await.unwrap();
    keys_left(&server);
}

/// `validity_time` is what is left of the lifetime, less the drift of clocks.
#[tokio::test]
async fn the_validity_is_a_little_less_than_the_lifetime() {
    let server = RedisServer::start();
    let guard = soon(lock(&server, TTL).await.acquire()).await.unwrap();
    assert!(guard.remaining() < TTL - TTL / 200 && guard.remaining() > TTL / 2, "{:?}", guard.remaining());
    drop(guard);
    keys_left(&server);
}

/// In rslock a guard that is dropped leaves its key until the lifetime is over.
#[tokio::test]
async fn a_dropped_guard_releases_and_blocks_no_runtime() {
    let server = RedisServer::start();
    let lock = lock(&server, TTL).await;
    let proxy = testkit::Proxy::start(&server);
    let client = Client::connect(&proxy.url()).await.unwrap();
    let guard = soon(client.lock_with("resource", quiet()).unwrap().acquire()).await.unwrap();
    // The proxy holds the release back. The drop does not wait for it.
    let held = proxy.fault(testkit::Target::request("evalsha"), testkit::Act::Hold);
    drop(guard);
    held.await_struck();
    assert!(is_locked_by_anyone(&lock).await.unwrap());
    held.lift();
    eventually_async("it is released", SOON, async || !is_locked_by_anyone(&lock).await.unwrap()).await;
    keys_left(&server);
}

/// `acquire_no_guard`: what is locked outlives the scope, and is unlocked elsewhere.
#[tokio::test]
async fn a_guard_is_kept_and_released_elsewhere() {
    let server = RedisServer::start();
    let lock = lock(&server, TTL).await;
    let mut kept = std::collections::HashMap::new();
    {
        let guard = soon(lock.acquire()).await.unwrap();
        kept.insert(guard.name().to_owned(), guard);
    }
    assert!(is_locked_by_anyone(&lock).await.unwrap());
    let guard = kept.remove("resource").unwrap();
    soon(tokio::spawn(guard.release())).await.unwrap().unwrap();
    keys_left(&server);
}

/// The `acquire` of rslock asks again and again until it is granted.
#[tokio::test]
async fn an_acquire_waits_without_asking_again() {
    let server = RedisServer::start();
    let lock = connect(&server).await.lock_with("resource", quiet()).unwrap();
    let guard = soon(lock.acquire()).await.unwrap();
    let waiting = soon(lock.enqueue()).await.unwrap();
    let mut counter = testkit::watch::Counter::start(&server);
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(counter.so_far().get("evalsha"), None);
    guard.release().await.unwrap();
    soon(waiting).await.unwrap().release().await.unwrap();
    keys_left(&server);
}

/// `extend(lock, ttl)` replaces the lifetime; a lock that is over is not revived by it.
#[tokio::test]
async fn a_renewal_replaces_the_lifetime_of_a_lock_that_is_held() {
    let ttl = Duration::from_millis(1500);
    let server = RedisServer::start();
    let guard = soon(lock(&server, ttl).await.acquire()).await.unwrap();
    let (asked, before) = (Instant::now(), guard.remaining());
    eventually_async("some of it is over", SOON, async || guard.remaining() < before * 9 / 10).await;
    guard.renew().await.unwrap();
    assert!(guard.remaining() + asked.elapsed() > before * 11 / 10, "{:?} after {before:?}", guard.remaining());
    soon(guard.lost()).await;
    assert!(matches!(guard.renew().await, Err(RenewError::Lost(_))));
    drop(guard);
    keys_left(&server);
}

/// `is_freed`.
#[tokio::test]
async fn the_server_says_whether_a_lock_is_freed() {
    let server = RedisServer::start();
    let (lock, other) = (lock(&server, TTL).await, lock(&server, TTL).await);
    let guard = soon(lock.acquire()).await.unwrap();
    assert!(verify(&guard).await.unwrap());
    other.force_break_lease(guard.token()).await.unwrap();
    assert!(!verify(&guard).await.unwrap());
    drop(guard);
    keys_left(&server);
}

/// `using` renews while a job runs, and the job asks whether to abort. fairlock drops the job at its next await.
#[tokio::test]
async fn a_job_is_renewed_while_it_runs_and_ends_with_its_lease() {
    let server = RedisServer::start();
    let options = LockOptions::new().lease(Duration::from_secs(2));
    let lock = connect(&server).await.lock_with("resource", options).unwrap();
    let renewed = lock.acquire().run(async |held| {
        for _ in 0..4 {
            held.renewed().await.unwrap();
        }
        5
    });
    assert_eq!(soon(renewed).await, Ok(5));
    let aborted = lock.acquire().run(async |held| {
        lock.force_break_lease(held.token()).await.unwrap();
        std::future::pending::<()>().await;
    });
    assert!(matches!(soon(aborted).await, Err(RunError::Lost(_))));
    keys_left(&server);
}

/// The example of `docs/coming-from.md`.
#[tokio::test]
async fn the_ported_example() {
    let server = RedisServer::start();
    let run = async || -> Result<(), Box<dyn std::error::Error>> {
        let client = Client::connect(&server.url()).await?;
        let options = LockOptions::new().lease(Duration::from_secs(10)).manual_renewal();
        let guard = client.lock_with("resource", options)?.acquire().timeout(Duration::from_secs(2)).await?;
        guard.renew().await?;
        guard.release().await?;
        Ok(())
    };
    run().await.unwrap();
    keys_left(&server);
}
