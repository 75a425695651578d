//! etcd `concurrency.Mutex`: a key for each waiter, in the order of their revisions, which lives as long as the lease
//! of its session.

use std::time::Duration;

use fairlock::{
    Client, Lock, LockOptions,
    compat::{Ownership, is_locked_by_anyone, set_automatic_renewal, verify},
    error::{LostReason, TryAcquireError},
};
use futures_util::FutureExt as _;
use testkit::{Proxy, RedisServer, SOON, connect, eventually_async, keys_left, quiet, soon};

async fn lock(server: &RedisServer) -> Lock {
    connect(server).await.lock_with("/my-lock", quiet()).unwrap()
}

async fn waiting(lock: &Lock) -> u64 {
    lock.inspect().await.unwrap().waiting
}

/// Tickets are what the revisions of the waiters' keys are in etcd.
#[tokio::test]
async fn tickets_rise_and_decide_the_order() {
    let server = RedisServer::start();
    let (one, two) = (lock(&server).await, lock(&server).await);
    let guard = soon(one.acquire()).await.unwrap();
    let (first, second) = (soon(two.enqueue()).await.unwrap(), soon(one.enqueue()).await.unwrap());
    assert!(guard.token() < first.ticket() && first.ticket() < second.ticket());
    guard.release().await.unwrap();
    let guard = soon(first).await.unwrap();
    assert!(guard.token() > second.ticket(), "tokens and tickets are of one order");
    drop((guard, second));
    keys_left(&server);
}

/// `Lock(ctx)` with a context that is cancelled. In etcd the key may stay if its removal fails too.
#[tokio::test]
async fn a_wait_that_is_dropped_leaves_the_queue() {
    let server = RedisServer::start();
    let lock = lock(&server).await;
    let guard = soon(lock.acquire()).await.unwrap();
    let mut waits = lock.acquire();
    assert!((&mut waits).now_or_never().is_none());
    eventually_async("it waits", SOON, async || waiting(&lock).await == 1).await;
    drop(waits);
    eventually_async("it has left", SOON, async || waiting(&lock).await == 0).await;
    drop(guard);
    keys_left(&server);
}

/// `TryLock` returns `ErrLocked`.
#[tokio::test]
async fn a_try_is_told_that_it_is_locked() {
    let server = RedisServer::start();
    let (one, two) = (lock(&server).await, lock(&server).await);
    let guard = soon(one.try_acquire()).await.unwrap();
    let locked = soon(two.try_acquire()).await.unwrap_err();
    assert!(matches!(&locked, TryAcquireError::Busy { holders, .. } if holders[0].id == guard.id()), "{locked}");
    drop(guard);
    keys_left(&server);
}

/// In etcd a second `Lock` of the same session returns at once, and its `Unlock` ends both. fairlock tells the owner.
#[tokio::test]
async fn the_same_owner_is_told_and_gets_no_second_lease() {
    let server = RedisServer::start();
    let lock = connect(&server).await.lock_with("/my-lock", quiet().owner("session-1")).unwrap();
    let guard = soon(lock.acquire()).await.unwrap();
    let second = soon(Ownership::of(lock.try_acquire())).await.unwrap();
    assert!(matches!(second, Ownership::Mine(_)), "{second:?}");
    guard.check().unwrap();
    drop(guard);
    keys_left(&server);
}

/// `Session.Done()`: the lease of the session could not be kept alive.
#[tokio::test]
async fn a_holder_hears_of_the_end_of_its_lease_before_it_ends() {
    let lease = Duration::from_secs(3);
    let server = RedisServer::start();
    let proxy = Proxy::start(&server);
    let (client, other) = (Client::connect(&proxy.url()).await.unwrap(), lock(&server).await);
    let options = LockOptions::new().lease(lease).notice(Duration::from_secs(1));
    let guard = soon(client.lock_with("/my-lock", options).unwrap().acquire()).await.unwrap();
    let next = soon(other.enqueue()).await.unwrap();
    proxy.refuse();
    proxy.cut();
    let lost = soon(guard.lost()).await;
    assert!(is_locked_by_anyone(&other).await.unwrap() && waiting(&other).await == 1, "it is not granted yet: {lost}");
    soon(next).await.unwrap().release().await.unwrap();
    proxy.heal();
    drop(guard);
    keys_left(&server);
}

/// In etcd one session keeps many mutexes alive; in fairlock one client does.
#[tokio::test]
async fn one_client_holds_many_locks() {
    let server = RedisServer::start();
    let client = connect(&server).await;
    let locks: Vec<Lock> = (0..50).map(|n| client.lock_with(&format!("/lock-{n}"), quiet()).unwrap()).collect();
    let guards = futures_util::future::try_join_all(locks.iter().map(Lock::acquire)).await.unwrap();
    assert!(guards.iter().all(|guard| guard.check().is_ok()));
    drop(guards);
    keys_left(&server);
}

/// `Session.Close()`.
#[tokio::test]
async fn a_client_that_is_closed_gives_everything_back() {
    let server = RedisServer::start();
    let (client, other) = (connect(&server).await, lock(&server).await);
    let guard = soon(client.lock_with("/my-lock", quiet()).unwrap().acquire()).await.unwrap();
    let _second = soon(client.lock_with("/another", quiet()).unwrap().acquire()).await.unwrap();
    soon(client.close()).await;
    assert_eq!(guard.check().unwrap_err().reason, LostReason::Closed);
    assert!(!is_locked_by_anyone(&other).await.unwrap());
    keys_left(&server);
}

/// `Session.Orphan()`: nothing is kept alive any more, and nothing is given back.
#[tokio::test]
async fn a_lease_that_is_left_alone_ends_by_itself() {
    let server = RedisServer::start();
    let client = connect(&server).await;
    let lock = client.lock_with("/my-lock", LockOptions::new().lease(Duration::from_millis(500))).unwrap();
    let guard = soon(lock.acquire()).await.unwrap();
    soon(guard.renewed()).await.unwrap();
    set_automatic_renewal(&guard, false);
    soon(guard.lost()).await;
    eventually_async("it has ended", SOON, async || !is_locked_by_anyone(&lock).await.unwrap()).await;
    drop(guard);
    keys_left(&server);
}

/// `Key()` and `Header().Revision`: what names this hold, and a number that rises with each.
#[tokio::test]
async fn id_and_token_name_a_hold() {
    let server = RedisServer::start();
    let lock = lock(&server).await;
    let guard = soon(lock.acquire()).await.unwrap();
    let (id, token) = (guard.id(), guard.token());
    guard.release().await.unwrap();
    let guard = soon(lock.acquire()).await.unwrap();
    assert!(guard.id() != id && guard.token() > token);
    drop(guard);
    keys_left(&server);
}

/// `IsOwner()`, as far as it can be asked from outside of a transaction.
#[tokio::test]
async fn the_server_says_whether_the_lease_is_held() {
    let server = RedisServer::start();
    let (lock, operator) = (lock(&server).await, lock(&server).await);
    let guard = soon(lock.acquire()).await.unwrap();
    assert!(verify(&guard).await.unwrap());
    operator.force_break_lease(guard.token()).await.unwrap();
    assert!(!verify(&guard).await.unwrap());
    drop(guard);
    keys_left(&server);
}

/// The example of `docs/coming-from.md`.
#[tokio::test]
async fn the_ported_example() {
    async fn work() {}
    let server = RedisServer::start();
    let run = async || -> Result<(), Box<dyn std::error::Error>> {
        let client = Client::connect(&server.url()).await?;
        let lock = client.lock_with("my-lock", LockOptions::new().lease(Duration::from_secs(60)))?;
        let guard = lock.acquire().timeout(Duration::from_secs(10)).await?;
        tokio::select! {
            lost = guard.lost() => return Err(lost.into()),
            () = work() => {}
        }
        guard.release().await?;
        client.close().await;
        Ok(())
    };
    run().await.unwrap();
    keys_left(&server);
}
