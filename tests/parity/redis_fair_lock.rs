//! RedisFairLock: a queue in a sorted set, an acquire script, polling, a thread that renews. Its known defects, as
//! behaviour that must not be; `tests/api` and `tests/faults` test its features.

use std::time::{Duration, Instant};

use fairlock::{
    Client, Lock, LockOptions, Waiting,
    error::{AcquireError, LostReason},
};
use testkit::{
    Act, Proxy, RedisServer, SOON, Target, connect, eventually_async, keys_left, keys_left_after, quiet, soon,
};

async fn lock(server: &RedisServer) -> Lock {
    connect(server).await.lock_with("lock", quiet()).unwrap()
}

async fn enqueue(lock: &Lock) -> Waiting {
    soon(lock.enqueue()).await.unwrap()
}

async fn waiting(lock: &Lock) -> u64 {
    lock.inspect().await.unwrap().waiting
}

/// The scores of RedisFairLock are whole seconds, so waiters of the same second are served in the order of their ids.
#[tokio::test]
async fn arrivals_within_one_second_keep_their_order() {
    let server = RedisServer::start();
    let locks = [lock(&server).await, lock(&server).await, lock(&server).await];
    let guard = soon(locks[0].acquire()).await.unwrap();
    let mut waiters = Vec::new();
    for turn in 0..60 {
        waiters.push(enqueue(&locks[turn % 3]).await);
    }
    let tickets: Vec<u64> = waiters.iter().map(Waiting::ticket).collect();
    assert!(tickets.windows(2).all(|pair| pair[0] < pair[1]), "{tickets:?}");
    let queue: Vec<u64> = locks[0].inspect().await.unwrap().queue.iter().map(|waiter| waiter.ticket).collect();
    assert_eq!(queue, tickets);
    keys_left_after((guard, waiters), &server);
}

/// RedisFairLock's script cleans up by the timeout of the caller: with zero, all others are too old.
#[tokio::test]
async fn a_caller_without_time_evicts_nobody() {
    let server = RedisServer::start();
    let (lock, other) = (lock(&server).await, lock(&server).await);
    let guard = soon(lock.acquire()).await.unwrap();
    let patient = enqueue(&lock).await;
    for _ in 0..10 {
        let late = soon(other.acquire().timeout(Duration::ZERO)).await;
        assert!(matches!(late, Err(AcquireError::Timeout { .. })), "{late:?}");
        soon(other.acquire().timeout(Duration::from_millis(1))).await.unwrap_err();
    }
    assert_eq!(patient.position().await.unwrap(), 1);
    guard.release().await.unwrap();
    soon(patient).await.unwrap().release().await.unwrap();
    keys_left(&server);
}

/// In RedisFairLock a waiter whose reply is lost arrives twice. Its first entry stays at the head for ever.
#[tokio::test]
async fn a_lost_reply_leaves_no_ghost_in_the_queue() {
    let server = RedisServer::start();
    let proxy = Proxy::start(&server);
    let lock = lock(&server).await;
    let client = Client::connect(&proxy.url()).await.unwrap();
    let unlucky = client.lock_with("lock", quiet()).unwrap();
    // This loads the scripts.
    drop(soon(unlucky.acquire()).await.unwrap());
    let guard = soon(lock.acquire()).await.unwrap();
    let fault = proxy.fault_times(1, Target::reply("evalsha"), Act::Cut(0));
    let place = enqueue(&unlucky).await;
    fault.await_struck();
    let next = enqueue(&lock).await;
    assert_eq!(waiting(&lock).await, 2, "one place for each");
    assert_eq!(place.position().await.unwrap(), 1);
    drop(place);
    guard.release().await.unwrap();
    soon(next).await.unwrap().release().await.unwrap();
    keys_left(&server);
}

/// A RedisFairLock has one identifier, which all threads share.
#[test]
fn two_threads_share_one_lock_object() {
    let server = RedisServer::start();
    let lock = Client::connect(&server.url()).blocking().unwrap().lock_with("lock", quiet()).unwrap();
    let inside = std::sync::atomic::AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                for _ in 0..50 {
                    let guard = lock.acquire().timeout(SOON).blocking().unwrap();
                    assert_eq!(inside.fetch_add(1, std::sync::atomic::Ordering::SeqCst), 0, "two at once");
                    std::thread::yield_now();
                    inside.fetch_sub(1, std::sync::atomic::Ordering::SeqCst);
                    guard.release().blocking().unwrap();
                }
            });
        }
    });
    keys_left(&server);
}

/// The release of a RedisFairLock waits for a thread that sleeps for a second.
#[test]
fn a_release_waits_for_no_renewal() {
    const TURNS: u32 = 30;
    let server = RedisServer::start();
    let client = Client::connect(&server.url()).blocking().unwrap();
    let interval = Duration::from_secs(10);
    let lock = client.lock_with("lock", LockOptions::new().renew_every(interval)).unwrap();
    let begun = Instant::now();
    for _ in 0..TURNS {
        lock.acquire().blocking().unwrap().release().blocking().unwrap();
    }
    assert!(begun.elapsed() < interval * TURNS / 2, "{:?} for {TURNS} turns", begun.elapsed());
    keys_left(&server);
}

/// The thread of a RedisFairLock ends after three errors in a row, and its user goes on believing in the lock.
#[tokio::test]
async fn renewal_outlives_any_number_of_errors_and_its_end_is_told() {
    let server = RedisServer::start();
    let proxy = Proxy::start(&server);
    let client = Client::connect(&proxy.url()).await.unwrap();
    let options = LockOptions::new().lease(Duration::from_secs(6)).renew_every(Duration::from_millis(100));
    let guard = soon(client.lock_with("lock", options).unwrap().acquire()).await.unwrap();
    let errors = proxy.fault_times(5, Target::reply("evalsha"), Act::Answer("ERR an error of the server"));
    eventually_async("it has failed five times", SOON, async || errors.struck() == 5).await;
    soon(guard.renewed()).await.unwrap();
    guard.check().unwrap();

    proxy.fault(Target::reply("evalsha"), Act::Answer("ERR an error of the server"));
    let lost = soon(guard.lost()).await;
    let LostReason::NotRenewed { cause: Some(cause), .. } = &lost.reason else { panic!("{lost}") };
    assert!(cause.to_string().contains("an error of the server"), "{cause}");
    guard.check().unwrap_err();
    proxy.heal();
    keys_left_after(guard, &server);
}
