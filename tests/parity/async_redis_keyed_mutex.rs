//! AsyncRedisKeyedMutex: a mutex for each key, for a scope or a job, released by key from anywhere in the process.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use fairlock::{
    LockOptions,
    compat::{KeyedMutex, is_locked_by_anyone},
    error::{AcquireError, InvalidOption, LostReason, RunError, TryAcquireError},
};
use futures_util::future::{join_all, try_join_all};
use testkit::{
    RedisServer, SOON, child, connect, eventually_async, keys_left, keys_left_after, quiet, server_and_client, soon,
};

async fn keyed(server: &RedisServer) -> KeyedMutex {
    KeyedMutex::with_options(&connect(server).await, "users", quiet()).unwrap()
}

async fn is_free(keyed: &KeyedMutex, key: impl fmt::Display) -> bool {
    !is_locked_by_anyone(&keyed.lock(key).unwrap()).await.unwrap()
}

struct Account {
    bank: u32,
    number: u32,
}

impl fmt::Display for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.bank, self.number)
    }
}

#[tokio::test]
async fn a_key_is_anything_that_can_be_displayed() {
    let server = RedisServer::start();
    let keyed = keyed(&server).await;
    soon(keyed.acquire(7)).await.unwrap();
    soon(keyed.acquire("alice")).await.unwrap();
    soon(keyed.acquire(Account { bank: 1, number: 2 })).await.unwrap();
    // Braces in keys are replaced, because they have a meaning in a cluster. No two keys become the same name.
    for (key, name) in
        [("{a}", "users:%7Ba%7D"), ("%7Ba%7D", "users:%257Ba%257D"), ("", "users:"), ("ä b", "users:ä b")]
    {
        assert_eq!(soon(keyed.acquire(key)).await.unwrap().name(), name);
        assert!(keyed.is_held(key));
    }
    assert!(keyed.is_held("7") && keyed.is_held("1-2") && !keyed.is_held(8), "{keyed:?}");
    let long = soon(keyed.acquire("x".repeat(600))).await;
    assert!(matches!(long, Err(AcquireError::Invalid(InvalidOption::NameTooLong { .. }))), "{long:?}");
    assert_eq!(soon(keyed.release_all()).await.unwrap(), 7);
    keys_left(&server);
}

/// The package for Python has the same names in its tests.
#[tokio::test]
async fn keys_of_different_spaces_are_different_locks() {
    let server = RedisServer::start();
    let client = connect(&server).await;
    for (space, key, name) in [
        ("user", "1:2", "user:1:2"),
        ("user:1", "2", "user%3A1:2"),
        ("user%3A1", "2", "user%253A1:2"),
        ("{a}:b", "{a}%", "{a}%3Ab:%7Ba%7D%25"),
    ] {
        assert_eq!(KeyedMutex::new(&client, space).unwrap().lock(key).unwrap().name(), name);
    }
    let space = "x".repeat(510);
    assert!(KeyedMutex::new(&client, &space).is_ok() && KeyedMutex::new(&client, &format!("{space}:")).is_err());
}

#[tokio::test]
async fn locked_for_the_length_of_a_scope() {
    let server = RedisServer::start();
    let (keyed, other) = (keyed(&server).await, keyed(&server).await);
    {
        let guard = soon(keyed.guard(7)).await.unwrap();
        guard.check().unwrap();
        assert!(matches!(other.try_acquire(7).await, Err(TryAcquireError::Busy { .. })));
        soon(other.try_acquire(8)).await.unwrap();
    }
    soon(other.acquire(7)).await.unwrap();
    assert_eq!((keyed.kept(), other.kept()), (0, 2));
    keys_left_after(other, &server);
}

#[tokio::test]
async fn locked_for_the_length_of_a_job() {
    let server = RedisServer::start();
    let keyed = keyed(&server).await;
    assert_eq!(keyed.run(7, async |held| held.check().map(|()| 5)).await.unwrap(), Ok(5));
    assert!(is_free(&keyed, 7).await && keyed.kept() == 0);
    // A release from elsewhere in the process ends the job.
    let ended = keyed.run(7, async |_| {
        assert!(keyed.release(7).await.unwrap());
        std::future::pending::<()>().await;
    });
    let Err(RunError::Lost(lost)) = soon(ended).await else { panic!("it goes on") };
    assert_eq!(lost.reason, LostReason::Released);
    tokio::task::spawn_blocking(move || {
        assert_eq!(keyed.run_blocking(7, |held| held.check().map(|()| 5)).unwrap(), Ok(5));
        let ended = keyed.run_blocking(7, |_| keyed.release(7).blocking());
        assert!(matches!(ended, Err(RunError::Lost(lost)) if lost.reason == LostReason::Released));
        assert_eq!(keyed.kept(), 0);
    })
    .await
    .unwrap();
    keys_left(&server);
}

/// One counter for each key, and one job at a time for each of them.
#[tokio::test]
async fn jobs_of_one_key_exclude_each_other_and_those_of_others_run_beside_them() {
    let server = RedisServer::start();
    let processes = [keyed(&server).await, keyed(&server).await];
    let inside: Arc<[AtomicUsize; 3]> = Arc::default();
    let jobs = (0..60).map(|job| {
        let (keyed, inside, key) = (processes[job % 2].clone(), inside.clone(), job % 3);
        tokio::spawn(async move {
            keyed
                .run(key, async |_| {
                    assert_eq!(inside[key].fetch_add(1, Ordering::SeqCst), 0, "two at once");
                    tokio::task::yield_now().await;
                    inside[key].fetch_sub(1, Ordering::SeqCst);
                })
                .await
                .unwrap();
        })
    });
    soon(try_join_all(jobs)).await.unwrap();
    keys_left(&server);
}

#[tokio::test]
async fn released_by_key_from_anywhere_in_the_process() {
    let server = RedisServer::start();
    let keyed = keyed(&server).await;
    let held = soon(keyed.acquire("alice")).await.unwrap();
    let elsewhere = keyed.clone();
    let released = tokio::spawn(async move { elsewhere.release("alice").await });
    assert!(soon(released).await.unwrap().unwrap());
    assert_eq!(held.check().unwrap_err().reason, LostReason::Released);
    assert!(is_free(&keyed, "alice").await);
    // A second release does nothing, nor does one of a key that was never acquired.
    assert!(!keyed.release("alice").await.unwrap());
    assert!(!keyed.release("bob").await.unwrap() && !keyed.release("x".repeat(600)).await.unwrap());
    // A scope that is released by its key has nothing left to release, not even the next lease of the key.
    let guard = soon(keyed.guard("alice")).await.unwrap();
    assert!(keyed.release("alice").await.unwrap());
    let next = soon(keyed.acquire("alice")).await.unwrap();
    drop(guard);
    next.check().unwrap();
    assert!(keyed.is_held("alice") && !is_free(&keyed, "alice").await);
    keys_left_after(keyed, &server);
}

/// The other client stands for another process, whose keys are its own.
#[tokio::test]
async fn the_keys_of_others_are_not_released() {
    let server = RedisServer::start();
    let (keyed, other) = (keyed(&server).await, keyed(&server).await);
    soon(keyed.acquire(7)).await.unwrap();
    assert!(!other.release(7).await.unwrap());
    assert_eq!(other.release_all().await.unwrap(), 0);
    assert!(keyed.is_held(7) && !is_free(&keyed, 7).await);
    keys_left_after(keyed, &server);
}

#[tokio::test]
async fn after_release_all_it_goes_on() {
    let server = RedisServer::start();
    let keyed = keyed(&server).await;
    let scope = soon(keyed.guard("scope")).await.unwrap();
    join_all((0..100).map(|key| keyed.acquire(key))).await.into_iter().for_each(|held| drop(held.unwrap()));
    assert_eq!(keyed.kept(), 101);
    assert_eq!(soon(keyed.release_all()).await.unwrap(), 101);
    assert_eq!(keyed.kept(), 0);
    scope.check().unwrap_err();
    assert!(is_free(&keyed, 5).await && is_free(&keyed, "scope").await);
    soon(keyed.acquire(5)).await.unwrap();
    assert!(keyed.is_held(5));
    assert!(keyed.release(5).await.unwrap());
    keys_left_after(scope, &server);
}

/// A key without a timeout is renewed while it is held.
#[tokio::test]
async fn without_a_timeout_a_key_is_renewed_while_it_is_held() {
    let lease = Duration::from_secs(6);
    let (_server, client) = server_and_client().await;
    let renewed = LockOptions::new().lease(lease).renew_every(Duration::from_secs(1));
    let keyed = KeyedMutex::with_options(&client, "users", renewed).unwrap();
    let held = soon(keyed.acquire(7)).await.unwrap();
    for _ in 0..7 {
        soon(held.renewed()).await.unwrap();
    }
    assert!(keyed.is_held(7) && !is_free(&keyed, 7).await);
    // A key with a timeout ends by itself, and a later release says so.
    let keyed = KeyedMutex::with_options(&client, "hosts", LockOptions::new().lease(lease).manual_renewal()).unwrap();
    let held = soon(keyed.acquire(7)).await.unwrap();
    soon(held.ended()).await.unwrap();
    eventually_async("it is free", SOON, async || is_free(&keyed, 7).await).await;
    assert!(!keyed.is_held(7));
    keyed.release(7).await.unwrap_err();
}

#[tokio::test]
async fn an_acquire_waits_for_as_long_as_its_timeout() {
    let server = RedisServer::start();
    let (keyed, other) = (keyed(&server).await, keyed(&server).await);
    soon(keyed.acquire(7)).await.unwrap();
    let (bound, called) = (Duration::from_millis(50), Instant::now());
    let late = soon(other.timeout(bound).acquire(7)).await;
    assert!(matches!(late, Err(AcquireError::Timeout { .. })) && called.elapsed() >= bound, "{late:?}");
    let (granted, released) = tokio::join!(soon(other.timeout(SOON).acquire(7)), keyed.release(7));
    granted.unwrap();
    assert!(released.unwrap());
    keys_left_after(other, &server);
}

/// The test runs in a process of its own, because it measures its memory.
#[test]
fn thousands_of_keys_need_memory_only_while_they_are_held() {
    child::alone("thousands_of_keys_need_memory_only_while_they_are_held", || {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(many_keys());
    });
}

async fn many_keys() {
    const BATCH: usize = 500;
    // In a cluster the client remembers something of each slot.
    let server = RedisServer::builder().alone().start();
    let client = connect(&server).await;
    let keyed = KeyedMutex::new(&client, "users").unwrap();
    let through = async |batches: std::ops::Range<usize>| {
        for batch in batches {
            let keys = || (0..BATCH).map(|key| format!("batch {batch}, key {key}, with a name of a usual length"));
            for held in join_all(keys().map(|key| keyed.acquire(key))).await {
                held.unwrap();
            }
            assert_eq!(keyed.kept(), BATCH);
            for released in join_all(keys().map(|key| keyed.release(key))).await {
                assert!(released.unwrap());
            }
            assert_eq!(keyed.kept(), 0);
        }
    };
    through(0..4).await;
    let before = resident();
    through(4..24).await;
    let grown = resident().saturating_sub(before);
    assert!(grown < 4 << 20, "{grown} bytes more after 10,000 keys: {} each", grown / 10_000);

    // Leases that nobody ever releases are forgotten as new ones come.
    let brief = LockOptions::new().lease(Duration::from_millis(200)).manual_renewal();
    let keyed = KeyedMutex::with_options(&client, "brief", brief).unwrap();
    for key in 0..100 {
        soon(keyed.acquire(key)).await.unwrap();
    }
    eventually_async("they are over", SOON, async || !keyed.is_held(99)).await;
    for key in 100..300 {
        soon(keyed.acquire(key)).await.unwrap();
    }
    assert!(keyed.kept() < 300, "{}", keyed.kept());
}

/// The bytes of memory that this process uses.
fn resident() -> usize {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
    pages.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
}
