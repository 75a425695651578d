//! Redisson `RFairLock`: a fair lock for the threads of Java programs, with a watchdog, a lease time on request,
//! re-entrance by thread, and a wait of 5 seconds for each dead thread in the queue.

use std::time::{Duration, Instant};

use fairlock::{
    CancellationToken, Client, Lock, LockOptions, SharedGuard,
    compat::{is_locked_by_anyone, is_locked_by_me, verify},
    error::{AcquireError, LostReason},
    state::BreakOutcome,
};
use testkit::{Child, RedisServer, SOON, child, connect, eventually, eventually_async, keys_left, quiet, soon};

const LIVENESS: Duration = Duration::from_secs(2);

fn impatient() -> LockOptions {
    LockOptions::new().liveness(LIVENESS).buffer(Duration::from_secs(1))
}

/// The helper process that waits until it is killed.
#[test]
fn child() {
    child::main(|role, args| match (role, args) {
        ("wait", [url]) => {
            let client = Client::connect(url).blocking().unwrap();
            let waiting = client.lock_with("myLock", impatient()).unwrap().enqueue().blocking().unwrap();
            child::say("queued");
            drop(waiting.blocking().unwrap());
        }
        other => panic!("no role {other:?}"),
    });
}

async fn lock(server: &RedisServer, options: LockOptions) -> Lock {
    connect(server).await.lock_with("myLock", options).unwrap()
}

/// In Redisson five dead threads cost 25 seconds. In fairlock all of them cost one liveness, buffer and heartbeat.
#[tokio::test]
async fn dead_waiters_cost_one_window_in_all() {
    let server = RedisServer::start();
    let lock = lock(&server, impatient()).await;
    let guard = soon(lock.acquire()).await.unwrap();
    let mut dead = [(); 5].map(|()| Child::spawn("wait", &[&server.url()]));
    dead.iter_mut().for_each(|waiter| drop(waiter.wait_line("queued", SOON)));
    let next = soon(lock.enqueue()).await.unwrap();
    dead.iter_mut().for_each(Child::kill);
    let released = Instant::now();
    guard.release().await.unwrap();
    soon(next).await.unwrap().release().await.unwrap();
    assert!(released.elapsed() < Duration::from_secs(15), "{:?}", released.elapsed());
    keys_left(&server);
}

/// `lock()`: the watchdog.
#[tokio::test]
async fn the_lock_is_renewed_while_its_client_lives() {
    let server = RedisServer::start();
    let guard = soon(lock(&server, LockOptions::new().lease(Duration::from_secs(2))).await.acquire()).await.unwrap();
    for _ in 0..4 {
        soon(guard.renewed()).await.unwrap();
    }
    guard.release().await.unwrap();
    keys_left(&server);
}

/// `lock(leaseTime, unit)` ends by itself. Redisson does not tell its thread.
#[tokio::test]
async fn a_lease_time_ends_the_hold_and_its_holder_is_told() {
    let server = RedisServer::start();
    let brief = lock(&server, LockOptions::new().lease(Duration::from_millis(500)).manual_renewal()).await;
    let guard = soon(brief.acquire()).await.unwrap();
    assert!(matches!(soon(guard.lost()).await.reason, LostReason::NotRenewed { .. }));
    eventually_async("it is free", SOON, async || !is_locked_by_anyone(&brief).await.unwrap()).await;
    drop(guard);
    keys_left(&server);
}

/// `tryLock(waitTime, leaseTime, unit)`.
#[tokio::test]
async fn a_try_with_a_time_to_wait() {
    let server = RedisServer::start();
    let (one, two) = (lock(&server, quiet()).await, lock(&server, quiet()).await);
    let guard = soon(one.acquire()).await.unwrap();
    let late = soon(two.acquire().timeout(Duration::from_millis(50))).await;
    assert!(matches!(late, Err(AcquireError::Timeout { .. })), "{late:?}");
    guard.release().await.unwrap();
    soon(two.acquire().timeout(SOON)).await.unwrap().release().await.unwrap();
    keys_left(&server);
}

/// `lockInterruptibly`: of a thread. What is awaited is dropped instead.
#[test]
fn an_interrupted_wait_leaves_the_queue() {
    let server = RedisServer::start();
    let lock = Client::connect(&server.url()).blocking().unwrap().lock_with("myLock", quiet()).unwrap();
    let guard = lock.acquire().blocking().unwrap();
    let cancellation = CancellationToken::new();
    let interrupted = std::thread::scope(|scope| {
        let waits = scope.spawn(|| lock.acquire().cancelled_by(&cancellation).blocking());
        let waiting = || lock.inspect().blocking().unwrap().waiting;
        eventually("it waits", SOON, || waiting() == 1);
        cancellation.cancel();
        let interrupted = waits.join().unwrap();
        eventually("it has left", SOON, || waiting() == 0);
        interrupted
    });
    assert!(matches!(interrupted, Err(AcquireError::Cancelled)), "{interrupted:?}");
    guard.release().blocking().unwrap();
    keys_left(&server);
}

/// Instead of re-entrance, a caller hands a handle of its lease to code that needs the lock.
#[tokio::test]
async fn a_handle_takes_the_place_of_re_entrance() {
    async fn outer(guard: SharedGuard) -> usize {
        let holds = inner(guard.clone()).await;
        assert_eq!(guard.handles(), holds - 1, "the inner one has ended");
        holds
    }
    async fn inner(guard: SharedGuard) -> usize {
        guard.check().unwrap();
        guard.handles()
    }
    let server = RedisServer::start();
    let lock = lock(&server, quiet()).await;
    let guard = soon(lock.acquire()).await.unwrap().share();
    assert_eq!(outer(guard.clone()).await, 3, "`getHoldCount`");
    assert!(soon(guard.release()).await.unwrap());
    keys_left(&server);
}

/// `isLocked`, `isHeldByCurrentThread`, `isHeldByThread`, `remainTimeToLive`.
#[tokio::test]
async fn questions() {
    let server = RedisServer::start();
    let (one, two) = (lock(&server, quiet()).await, lock(&server, quiet()).await);
    assert!(!is_locked_by_anyone(&one).await.unwrap() && one.inspect().await.unwrap().holders.is_empty());
    let guard = soon(one.acquire()).await.unwrap();
    assert!(is_locked_by_anyone(&two).await.unwrap());
    assert!(verify(&guard).await.unwrap() && !is_locked_by_me(&two).await.unwrap());
    let holder = two.inspect().await.unwrap().holders.remove(0);
    assert!(holder.remaining > SOON && guard.remaining() > SOON);
    assert_eq!((holder.id, &*holder.label), (guard.id(), guard.label()));
    drop(guard);
    keys_left(&server);
}

/// `forceUnlock`. fairlock tells the former holder.
#[tokio::test]
async fn a_forced_unlock_is_told() {
    let server = RedisServer::start();
    let (one, operator) = (lock(&server, quiet()).await, lock(&server, quiet()).await);
    let guard = soon(one.acquire()).await.unwrap();
    assert_eq!(operator.force_break_lease(guard.token()).await.unwrap(), BreakOutcome::Ended);
    assert_eq!(soon(guard.lost()).await.reason, LostReason::Broken);
    drop(guard);
    keys_left(&server);
}

/// In Redisson a lock with fencing tokens is another class, which is not fair.
#[tokio::test]
async fn each_grant_of_the_fair_lock_has_a_token() {
    let server = RedisServer::start();
    let lock = lock(&server, quiet()).await;
    let mut last = 0;
    for _ in 0..5 {
        let guard = soon(lock.acquire()).await.unwrap();
        assert!(guard.token() > last);
        last = guard.token();
        guard.release().await.unwrap();
    }
    keys_left(&server);
}

/// `MultiLock`.
#[tokio::test]
async fn several_locks_as_one() {
    let server = RedisServer::start();
    let client = connect(&server).await;
    let guard = soon(client.lock_all_with(["lock3", "lock1", "lock2"], quiet()).unwrap()).await.unwrap();
    assert!(guard.tokens().map(|(name, _)| name).eq(["lock1", "lock2", "lock3"]));
    guard.release().await.unwrap();
    keys_left(&server);
}

/// The example of `docs/coming-from.md`.
#[tokio::test]
async fn the_ported_example() {
    async fn work() {}
    let server = RedisServer::start();
    let run = async || -> Result<(), Box<dyn std::error::Error>> {
        let client = Client::connect(&server.url()).await?;
        let options = LockOptions::new().lease(Duration::from_secs(10)).manual_renewal();
        match client.lock_with("myLock", options)?.acquire().timeout(Duration::from_secs(100)).await {
            Ok(guard) => {
                work().await;
                guard.release().await?;
            }
            Err(AcquireError::Timeout { .. }) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(())
    };
    run().await.unwrap();
    keys_left(&server);
}
