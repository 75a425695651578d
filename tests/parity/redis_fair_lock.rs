//! RedisFairLock: a queue in a sorted set, an acquire script, polling, a buffer before the dead are cleaned up, a
//! thread that renews, a context manager. Its features, and its known defects as behaviour that must not be.

use std::time::{Duration, Instant};

use fairlock::{
    Client, Lock, LockOptions, Waiting,
    error::{AcquireError, LostReason},
};
use testkit::{
    Act, Child, Proxy, RedisServer, SOON, Target, child, connect, eventually_async, keys_left, keys_left_after, quiet,
    server_and_client, soon,
};

/// The helper process that waits until it is killed.
#[test]
fn child() {
    child::main(|role, args| match (role, args) {
        ("wait", [url]) => {
            let client = Client::connect(url).blocking().unwrap();
            let waiting = client.lock_with("lock", impatient()).unwrap().enqueue().blocking().unwrap();
            child::say("queued");
            drop(waiting.blocking().unwrap());
        }
        other => panic!("no role {other:?}"),
    });
}

const LIVENESS: Duration = Duration::from_secs(2);
const BUFFER: Duration = Duration::from_secs(1);

/// Options with which dead waiters are noticed soon.
fn impatient() -> LockOptions {
    LockOptions::new().liveness(LIVENESS).buffer(BUFFER)
}

async fn lock(server: &RedisServer) -> Lock {
    connect(server).await.lock_with("lock", quiet()).unwrap()
}

async fn enqueue(lock: &Lock) -> Waiting {
    soon(lock.enqueue()).await.unwrap()
}

async fn waiting(lock: &Lock) -> u64 {
    lock.inspect().await.unwrap().waiting
}

#[tokio::test]
async fn waiters_are_served_in_the_order_of_their_arrival_without_polling() {
    let server = RedisServer::start();
    let locks = [lock(&server).await, lock(&server).await];
    let guard = soon(locks[0].acquire()).await.unwrap();
    let mut waiters = Vec::new();
    for turn in 0..10 {
        waiters.push(enqueue(&locks[turn % 2]).await);
    }
    // Heartbeats and renewals are far away, so only a message can wake each waiter.
    let mut before = guard;
    for next in waiters {
        before.release().await.unwrap();
        before = soon(next).await.unwrap();
    }
    before.release().await.unwrap();
    keys_left(&server);
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

#[tokio::test]
async fn a_timeout_of_zero_is_a_try() {
    let server = RedisServer::start();
    let lock = lock(&server).await;
    let guard = soon(lock.acquire().timeout(Duration::ZERO)).await.unwrap();
    soon(lock.acquire().timeout(Duration::ZERO)).await.unwrap_err();
    assert_eq!(waiting(&lock).await, 0, "it has never joined the queue");
    keys_left_after(guard, &server);
}

#[tokio::test]
async fn a_timeout_leaves_the_queue() {
    let server = RedisServer::start();
    let lock = lock(&server).await;
    let guard = soon(lock.acquire()).await.unwrap();
    let (bound, called) = (Duration::from_millis(50), Instant::now());
    soon(lock.acquire().timeout(bound)).await.unwrap_err();
    assert!(called.elapsed() >= bound);
    eventually_async("it has left", SOON, async || waiting(&lock).await == 0).await;
    keys_left_after(guard, &server);
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

#[tokio::test]
async fn renewal_stops_with_the_hold() {
    let (server, client) = server_and_client().await;
    let options = LockOptions::new().lease(Duration::from_secs(3)).renew_every(Duration::from_millis(50));
    let lock = client.lock_with("lock", options).unwrap();
    let guard = soon(lock.acquire()).await.unwrap();
    for _ in 0..3 {
        soon(guard.renewed()).await.unwrap();
    }
    guard.release().await.unwrap();
    let mut counter = testkit::watch::Counter::start(&server);
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(counter.so_far().get("evalsha"), None);
    keys_left(&server);
}

/// `auto_renewal=False`: it expires after `expire`.
#[tokio::test]
async fn without_renewal_the_lock_expires() {
    let server = RedisServer::start();
    let options = LockOptions::new().lease(Duration::from_millis(500)).manual_renewal();
    let brief = connect(&server).await.lock_with("lock", options).unwrap();
    let guard = soon(brief.acquire()).await.unwrap();
    let next = soon(lock(&server).await.acquire()).await.unwrap();
    assert!(next.token() > guard.token());
    guard.check().unwrap_err();
    keys_left_after((guard, next), &server);
}

/// RedisFairLock has the same buffer, after which dead waiters are cleaned up.
#[tokio::test]
async fn zombies_are_cleaned_up_after_their_liveness_and_a_buffer() {
    let server = RedisServer::start();
    let lock = connect(&server).await.lock_with("lock", impatient()).unwrap();
    let guard = soon(lock.acquire()).await.unwrap();
    let mut zombies = [(); 9].map(|()| Child::spawn("wait", &[&server.url()]));
    zombies.iter_mut().for_each(|zombie| drop(zombie.wait_line("queued", SOON)));
    let next = enqueue(&lock).await;
    assert_eq!(next.position().await.unwrap(), zombies.len() as u64 + 1);
    zombies.iter_mut().for_each(Child::kill);
    let released = Instant::now();
    guard.release().await.unwrap();
    soon(next).await.unwrap().release().await.unwrap();
    let window = LIVENESS + BUFFER + LIVENESS / 3;
    assert!(released.elapsed() < 6 * window, "{:?} for all nine together", released.elapsed());
    keys_left(&server);
}

/// The context manager of RedisFairLock.
#[test]
fn a_scope_that_panics_gives_the_lock_back() {
    let server = RedisServer::start();
    let lock = Client::connect(&server.url()).blocking().unwrap().lock_with("lock", quiet()).unwrap();
    let scope = std::panic::AssertUnwindSafe(|| {
        let _guard = lock.acquire().blocking().unwrap();
        panic!("a failure in the scope");
    });
    assert!(std::panic::catch_unwind(scope).is_err());
    lock.acquire().timeout(SOON).blocking().unwrap().release().blocking().unwrap();
    keys_left(&server);
}
