//! A bound on the length of a queue: exact, for newcomers only, and told by an error of its own.

use std::time::Duration;

use fairlock::{
    Client, Lock, LockOptions,
    error::{AcquireError, TryAcquireError},
};
use futures_util::future::join_all;
use testkit::{Act, Proxy, RedisServer, SOON, Target, connect, eventually_async, keys_left_after, quiet, soon};

fn bounded(client: &Client, most: u32) -> Lock {
    client.lock_with("lock", quiet().max_waiting(most)).unwrap()
}

async fn waiting(lock: &Lock) -> u64 {
    lock.inspect().await.unwrap().waiting
}

#[tokio::test]
async fn a_full_queue_admits_no_newcomer() {
    let server = RedisServer::start();
    let client = connect(&server).await;
    let (none, lock) = (bounded(&client, 0), bounded(&client, 2));
    let guard = soon(none.acquire()).await.unwrap();
    assert!(matches!(soon(none.acquire()).await, Err(AcquireError::QueueFull { waiting: 0, .. })));
    let (first, second) = (soon(lock.enqueue()).await.unwrap(), soon(lock.enqueue()).await.unwrap());
    let full = soon(lock.acquire()).await.unwrap_err();
    assert!(matches!(full, AcquireError::QueueFull { waiting: 2, .. }), "{full:?}");
    assert_eq!(full.to_string(), "the queue is full, 2 waiting: try again later, or allow more by `max_waiting`");
    let full = soon(lock.enqueue().timeout(SOON)).await.unwrap_err();
    assert!(matches!(full, AcquireError::QueueFull { .. }), "{full:?}");
    // A try and an acquire with a timeout of zero join no queue, so the bound does not concern them.
    assert!(matches!(
        soon(lock.try_acquire()).await,
        Err(TryAcquireError::Busy { holders, waiting: 2, .. }) if holders.len() == 1
    ));
    assert!(matches!(soon(lock.acquire().timeout(Duration::ZERO)).await, Err(AcquireError::Timeout { .. })));
    assert_eq!(waiting(&lock).await, 2);

    // There is room for another waiter as soon as one is granted the lock.
    guard.release().await.unwrap();
    let guard = soon(first).await.unwrap();
    let third = soon(lock.enqueue()).await.unwrap();
    drop(guard);
    drop(soon(second).await.unwrap());
    keys_left_after(soon(third).await.unwrap(), &server);
}

/// The bound holds however many acquires come at once, from however many clients.
#[tokio::test]
async fn the_bound_is_exact() {
    const MOST: u32 = 5;
    let server = RedisServer::start();
    let locks = join_all((0..4).map(|_| connect(&server))).await.iter().map(|it| bounded(it, MOST)).collect::<Vec<_>>();
    let guard = soon(locks[0].acquire()).await.unwrap();
    let came = soon(join_all((0..40).map(|n| locks[n % 4].enqueue()))).await;
    let (places, refused): (Vec<_>, Vec<_>) = came.into_iter().partition(Result::is_ok);
    assert_eq!((places.len(), refused.len()), (MOST as usize, 40 - MOST as usize));
    let full = |error| matches!(error, Some(AcquireError::QueueFull { waiting, .. }) if waiting == u64::from(MOST));
    assert!(refused.into_iter().all(|it| full(it.err())));
    assert_eq!(waiting(&locks[0]).await, u64::from(MOST));
    keys_left_after((guard, places), &server);
}

/// Waiters that return are no newcomers, although the queue is full without them.
#[tokio::test]
async fn a_place_is_kept_over_lost_connections_and_lost_data() {
    let server = RedisServer::start();
    let proxy = Proxy::start(&server);
    let options = || LockOptions::new().lease(100 * SOON).liveness(Duration::from_secs(2));
    let client = Client::connect(&proxy.url()).await.unwrap();
    let lock = client.lock_with("lock", options().max_waiting(2)).unwrap();
    let other = connect(&server).await.lock_with("lock", options()).unwrap();
    let guard = soon(other.acquire()).await.unwrap();
    let (first, second) = (soon(lock.enqueue()).await.unwrap(), soon(lock.enqueue()).await.unwrap());
    let others = soon(join_all((0..2).map(|_| other.enqueue()))).await;

    proxy.refuse();
    proxy.cut();
    server.flush();
    eventually_async("the others are back", SOON, async || waiting(&other).await == 2).await;
    proxy.heal();
    eventually_async("all are back", SOON, async || waiting(&other).await == 4).await;
    assert_eq!((first.position().await.unwrap(), second.position().await.unwrap()), (1, 2));
    guard.release().await.unwrap();
    drop(soon(first).await.unwrap());
    drop(soon(second).await.unwrap());
    keys_left_after(others, &server);
}

/// The waiter itself fills the queue, and the reply that says so is lost.
#[tokio::test]
async fn a_waiter_whose_reply_was_lost_keeps_its_place_in_a_full_queue() {
    let server = RedisServer::start();
    let proxy = Proxy::start(&server);
    let lock = bounded(&connect(&server).await, 1);
    let unlucky = bounded(&Client::connect(&proxy.url()).await.unwrap(), 1);
    // This loads the scripts. Its release is answered before the next answer is lost.
    soon(unlucky.acquire()).await.unwrap().release().await.unwrap();
    let guard = soon(lock.acquire()).await.unwrap();
    let fault = proxy.fault_times(1, Target::reply("evalsha"), Act::Cut(0));
    let place = soon(unlucky.enqueue()).await.unwrap();
    fault.await_struck();
    assert_eq!(waiting(&lock).await, 1);
    guard.release().await.unwrap();
    keys_left_after(soon(place).await.unwrap(), &server);
}
