//! Curator `InterProcessMutex`: ephemeral sequential nodes of ZooKeeper, re-entrant by thread, revocable by agreement.

use std::time::{Duration, Instant};

use fairlock::{
    Client, Lock, LockOptions,
    compat::{is_locked_by_anyone, is_locked_by_me},
    error::{AcquireError, LostReason},
    state::BreakOutcome,
};
use testkit::{Proxy, RedisServer, SOON, connect, eventually_async, keys_left, quiet, soon};

async fn lock(server: &RedisServer) -> Lock {
    connect(server).await.lock_with("locks/one", quiet()).unwrap()
}

/// `acquire(time, unit)` returns false after the time.
#[tokio::test]
async fn an_acquire_gives_up_after_its_time() {
    let server = RedisServer::start();
    let (one, two) = (lock(&server).await, lock(&server).await);
    let guard = soon(one.acquire()).await.unwrap();
    let (time, called) = (Duration::from_millis(100), Instant::now());
    assert!(matches!(soon(two.acquire().timeout(time)).await, Err(AcquireError::Timeout { .. })));
    assert!(called.elapsed() >= time);
    guard.release().await.unwrap();
    soon(two.acquire().timeout(SOON)).await.unwrap().release().await.unwrap();
    keys_left(&server);
}

/// Tickets are what the sequence numbers of nodes are there.
#[tokio::test]
async fn participants_are_served_in_the_order_of_their_nodes() {
    let server = RedisServer::start();
    let (one, two) = (lock(&server).await, lock(&server).await);
    let guard = soon(one.acquire()).await.unwrap();
    let (first, second) = (soon(two.enqueue()).await.unwrap(), soon(one.enqueue()).await.unwrap());
    guard.release().await.unwrap();
    let guard = soon(first).await.unwrap();
    assert_eq!(second.position().await.unwrap(), 1);
    guard.release().await.unwrap();
    soon(second).await.unwrap().release().await.unwrap();
    keys_left(&server);
}

/// `getParticipantNodes`, with what `getLockNodeBytes` would have put into them.
#[tokio::test]
async fn participants_are_listed_in_their_order_with_their_texts() {
    let server = RedisServer::start();
    let lock = lock(&server).await;
    let guard = soon(lock.acquire().label("holder").owner("host-0")).await.unwrap();
    let mut waiting = Vec::new();
    for number in 1..=3 {
        let enqueue = lock.enqueue().label(format!("waiter {number}")).owner(format!("host-{number}"));
        waiting.push(soon(enqueue).await.unwrap());
    }
    let state = lock.inspect().await.unwrap();
    let holder = &state.holders[0];
    assert_eq!((&*holder.label, &*holder.owner), ("holder", "host-0"));
    let queue: Vec<_> = state.queue.iter().map(|waiter| (&*waiter.label, &*waiter.owner)).collect();
    assert_eq!(queue, [("waiter 1", "host-1"), ("waiter 2", "host-2"), ("waiter 3", "host-3")]);
    drop((guard, waiting));
    keys_left(&server);
}

/// `makeRevocable` and `Revoker.attemptRevoke`: the holder is asked, and gives the lock back in its own time. In
/// fairlock this time ends with the lease.
#[tokio::test]
async fn a_holder_is_asked_to_give_the_lock_back() {
    let server = RedisServer::start();
    let (lock, other) = (lock(&server).await, lock(&server).await);
    let guard = soon(lock.acquire()).await.unwrap();
    let next = soon(other.enqueue()).await.unwrap();
    let asked = other.break_lease(guard.token()).await.unwrap();
    assert!(matches!(asked, BreakOutcome::Told { .. }), "{asked:?}");
    assert_eq!(soon(guard.lost()).await.reason, LostReason::Broken);
    // Nobody is granted the lock before the holder has tidied up.
    assert_eq!(next.position().await.unwrap(), 1);
    drop(guard);
    soon(next).await.unwrap().release().await.unwrap();
    keys_left(&server);
}

/// The state SUSPENDED: a holder in fairlock need not stop, because its lease says until when it is safe.
#[tokio::test]
async fn a_connection_that_is_back_in_time_costs_nothing() {
    let server = RedisServer::start();
    let proxy = Proxy::start(&server);
    let client = Client::connect(&proxy.url()).await.unwrap();
    let guard = soon(client.lock_with("locks/one", quiet()).unwrap().acquire()).await.unwrap();
    let connections = proxy.counts().connections;
    proxy.cut();
    proxy.wait("it connects again", |counts| counts.connections > connections);
    guard.renew().await.unwrap();
    guard.check().unwrap();
    guard.release().await.unwrap();
    keys_left(&server);
}

/// The state LOST: the holder is told before the lock can be granted to another.
#[tokio::test]
async fn a_lost_session_is_told() {
    let server = RedisServer::start();
    let proxy = Proxy::start(&server);
    let client = Client::connect(&proxy.url()).await.unwrap();
    let options = LockOptions::new().lease(Duration::from_secs(2));
    let guard = soon(client.lock_with("locks/one", options).unwrap().acquire()).await.unwrap();
    proxy.refuse();
    proxy.cut();
    let lost = soon(guard.lost()).await;
    assert!(matches!(lost.reason, LostReason::NotRenewed { cause: Some(_), .. }), "{lost}");
    drop(guard);
    proxy.heal();
    keys_left(&server);
}

/// `InterProcessMultiLock`.
#[tokio::test]
async fn several_locks_are_one_entity() {
    let server = RedisServer::start();
    let client = connect(&server).await;
    let guard = soon(client.lock_all_with(["locks/one", "locks/two"], quiet()).unwrap()).await.unwrap();
    assert!(is_locked_by_me(&client.lock("locks/two").unwrap()).await.unwrap());
    guard.release().await.unwrap();
    assert!(!is_locked_by_anyone(&client.lock("locks/one").unwrap()).await.unwrap());
    keys_left(&server);
}

/// Re-entrance, `isAcquiredInThisProcess` and `isOwnedByCurrentThread`.
#[tokio::test]
async fn handles_of_one_lease_are_counted() {
    let server = RedisServer::start();
    let lock = lock(&server).await;
    let outer = soon(lock.acquire()).await.unwrap().share();
    let inner = outer.clone();
    inner.check().unwrap();
    assert!(!inner.release().await.unwrap() && is_locked_by_me(&lock).await.unwrap());
    assert!(soon(outer.release()).await.unwrap());
    eventually_async("it is free", SOON, async || !is_locked_by_me(&lock).await.unwrap()).await;
    keys_left(&server);
}

/// The example of `docs/coming-from.md`.
#[test]
fn the_ported_example() {
    fn work() {}
    let server = RedisServer::start();
    let run = || -> Result<(), Box<dyn std::error::Error>> {
        let client = Client::connect(&server.url()).blocking()?;
        let lock = client.lock("locks/one")?;
        if let Ok(guard) = lock.acquire().timeout(Duration::from_secs(10)).blocking() {
            work();
            guard.release().blocking()?;
        }
        Ok(())
    };
    run().unwrap();
    keys_left(&server);
}
