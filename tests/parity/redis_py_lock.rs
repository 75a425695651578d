//! redis-py `Lock`: SET NX PX with a token, polled every `sleep` seconds, extended and released by scripts that compare
//! the token.

use std::time::{Duration, Instant};

use fairlock::{
    Client, Lock, LockOptions,
    compat::{is_locked_by_anyone, is_locked_by_me, verify},
    error::{AcquireError, LostReason, ReleaseError, RenewError, TryAcquireError},
};
use testkit::{RedisServer, SOON, connect, eventually_async, keys_left, quiet, soon};

const LONG: Duration = Duration::from_secs(100);

/// `Lock(redis, "lock", timeout=…)`: a lease that ends by itself.
async fn with_timeout(server: &RedisServer, timeout: Duration) -> Lock {
    connect(server).await.lock_with("lock", LockOptions::new().lease(timeout).manual_renewal()).unwrap()
}

#[tokio::test]
async fn acquire_without_blocking() {
    let server = RedisServer::start();
    let (one, two) = (with_timeout(&server, LONG).await, with_timeout(&server, LONG).await);
    let guard = soon(one.try_acquire()).await.unwrap();
    assert!(matches!(soon(two.try_acquire()).await, Err(TryAcquireError::Busy { .. })));
    drop(guard);
    keys_left(&server);
}

#[tokio::test]
async fn acquire_with_a_blocking_timeout() {
    let server = RedisServer::start();
    let (one, two) = (with_timeout(&server, LONG).await, with_timeout(&server, LONG).await);
    let guard = soon(one.acquire()).await.unwrap();
    let (bound, called) = (Duration::from_millis(100), Instant::now());
    assert!(matches!(soon(two.acquire().timeout(bound)).await, Err(AcquireError::Timeout { .. })));
    assert!(called.elapsed() >= bound);
    drop(guard);
    keys_left(&server);
}

#[tokio::test]
async fn the_timeout_is_the_lease() {
    let server = RedisServer::start();
    let (brief, lock) = (with_timeout(&server, Duration::from_millis(500)).await, with_timeout(&server, LONG).await);
    let guard = soon(brief.acquire()).await.unwrap();
    // The lock is granted when the lease is over. The holder was told before that.
    let next = soon(lock.acquire()).await.unwrap();
    assert!(matches!(guard.check().unwrap_err().reason, LostReason::NotRenewed { .. } | LostReason::Ended));
    next.release().await.unwrap();
    keys_left(&server);
}

/// In redis-py a lock without a timeout never ends, not even when its process dies.
#[tokio::test]
async fn without_a_timeout_it_is_renewed_while_it_is_held() {
    let server = RedisServer::start();
    let options = LockOptions::new().lease(Duration::from_secs(2));
    let lock = connect(&server).await.lock_with("lock", options).unwrap();
    let guard = soon(lock.acquire()).await.unwrap();
    for _ in 0..4 {
        soon(guard.renewed()).await.unwrap();
    }
    guard.release().await.unwrap();
    keys_left(&server);
}

#[tokio::test]
async fn extend_adds_to_what_is_left() {
    let server = RedisServer::start();
    let guard = soon(with_timeout(&server, LONG).await.acquire()).await.unwrap();
    let (asked, before) = (Instant::now(), guard.remaining());
    guard.extend(LONG).await.unwrap();
    assert!(guard.remaining() + asked.elapsed() >= before + LONG, "{:?}", guard.remaining());
    drop(guard);
    keys_left(&server);
}

/// `reacquire`, and `extend` with `replace_ttl`.
#[tokio::test]
async fn renew_sets_the_timeout_anew() {
    let lease = Duration::from_secs(4);
    let server = RedisServer::start();
    let guard = soon(with_timeout(&server, lease).await.acquire()).await.unwrap();
    eventually_async("some of it is over", SOON, async || guard.remaining() < lease * 3 / 4).await;
    let before = guard.remaining();
    guard.renew().await.unwrap();
    assert!(guard.remaining() > before && guard.remaining() <= lease);
    drop(guard);
    keys_left(&server);
}

#[tokio::test]
async fn locked_and_owned() {
    let server = RedisServer::start();
    let (one, two) = (with_timeout(&server, LONG).await, with_timeout(&server, LONG).await);
    assert!(!is_locked_by_anyone(&one).await.unwrap());
    let guard = soon(one.acquire()).await.unwrap();
    assert!(is_locked_by_anyone(&two).await.unwrap());
    assert!(verify(&guard).await.unwrap() && !is_locked_by_me(&two).await.unwrap());
    drop(guard);
    keys_left(&server);
}

/// `LockNotOwnedError`.
#[tokio::test]
async fn the_end_of_a_lease_is_an_error_of_extend_renew_and_release() {
    let server = RedisServer::start();
    let guard = soon(with_timeout(&server, Duration::from_millis(300)).await.acquire()).await.unwrap();
    soon(guard.lost()).await;
    assert!(matches!(guard.extend(LONG).await, Err(RenewError::Lost(_))));
    assert!(matches!(guard.renew().await, Err(RenewError::Lost(_))));
    assert!(matches!(guard.release().await, Err(ReleaseError::Lost(_))));
    keys_left(&server);
}

/// `raise_on_release_error=False`.
#[tokio::test]
async fn a_scope_that_outlives_its_lease_raises_nothing() {
    let server = RedisServer::start();
    let (brief, lock) = (with_timeout(&server, Duration::from_millis(300)).await, with_timeout(&server, LONG).await);
    let next = {
        let _guard = soon(brief.acquire()).await.unwrap();
        soon(lock.acquire()).await.unwrap()
    };
    // The end of the scope has not released what another one holds.
    assert!(verify(&next).await.unwrap());
    next.release().await.unwrap();
    keys_left(&server);
}

/// `acquire(token=…)`: a text that the caller chooses.
#[tokio::test]
async fn a_caller_names_itself_by_an_owner() {
    let server = RedisServer::start();
    let (one, two) = (with_timeout(&server, LONG).await, with_timeout(&server, LONG).await);
    let guard = soon(one.acquire().owner("worker-3")).await.unwrap();
    assert_eq!(two.inspect().await.unwrap().holders[0].owner, "worker-3");
    drop(guard);
    keys_left(&server);
}

/// In redis-py a release takes the token from the thread (`thread_local`); in fairlock from the guard.
#[test]
fn a_guard_is_released_by_whichever_thread_has_it() {
    let server = RedisServer::start();
    let lock = Client::connect(&server.url()).blocking().unwrap().lock_with("lock", quiet()).unwrap();
    let guard = lock.acquire().blocking().unwrap();
    std::thread::spawn(move || guard.release().blocking()).join().unwrap().unwrap();
    keys_left(&server);
}

/// In redis-py the first caller that polls is next.
#[tokio::test]
async fn who_waits_longest_is_next() {
    let server = RedisServer::start();
    let lock = connect(&server).await.lock_with("lock", quiet()).unwrap();
    let guard = soon(lock.acquire()).await.unwrap();
    let (first, second) = (soon(lock.enqueue()).await.unwrap(), soon(lock.enqueue()).await.unwrap());
    guard.release().await.unwrap();
    let guard = soon(first).await.unwrap();
    assert_eq!(second.position().await.unwrap(), 1);
    drop((guard, second));
    keys_left(&server);
}

/// The example of `docs/coming-from.md`.
#[test]
fn the_ported_example() {
    fn work() {}
    let server = RedisServer::start();
    let run = || -> Result<(), Box<dyn std::error::Error>> {
        let client = Client::connect(&server.url()).blocking()?;
        let lock = client.lock_with("reports", LockOptions::new().lease(Duration::from_secs(60)).manual_renewal())?;
        let guard = lock.acquire().timeout(Duration::from_secs(5)).blocking()?;
        work();
        guard.extend(Duration::from_secs(30)).blocking()?;
        guard.release().blocking()?;
        Ok(())
    };
    run().unwrap();
    keys_left(&server);
}
