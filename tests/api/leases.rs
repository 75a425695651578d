//! Holding: with automatic renewal, with manual renewal, by `run`; and every way in which a hold ends without a
//! release (I4).

use std::{
    future::pending,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use fairlock::{
    Client, Lock, LockOptions,
    error::{AcquireError, LostReason, ReleaseError, RenewError, RunError, TryAcquireError},
    state::BreakOutcome,
};
use testkit::{RedisServer, SOON, eventually_async, keys_left, keys_left_after, soon};
use tokio::sync::Notify;

async fn lock(server: &RedisServer, options: LockOptions) -> Lock {
    Client::connect(&server.url()).await.unwrap().lock_with("lock", options).unwrap()
}

/// Without a renewal the holder hears that its lease is lost before another waiter can be granted the lock.
#[tokio::test]
async fn a_lease_that_is_not_renewed_by_hand_is_lost_before_it_is_over() {
    let lease = Duration::from_secs(6);
    let server = RedisServer::start();
    let lock = lock(&server, LockOptions::new().lease(lease).manual_renewal().notice(lease / 2)).await;
    let called = Instant::now();
    let guard = lock.acquire().await.unwrap();
    let waiting = lock.enqueue().await.unwrap();
    let token = guard.token();

    let lost = soon(guard.lost()).await;
    assert!(called.elapsed() >= lease / 3, "after {:?} of {lease:?}", called.elapsed());
    assert!(matches!(lost.reason, LostReason::NotRenewed { cause: None, .. }), "{lost}");
    // The lease is over for the holder. The notice has yet to pass before another can have the lock.
    assert!(guard.check().is_err());
    let state = lock.inspect().await.unwrap();
    assert_eq!((state.holders.first().map(|holder| holder.token), state.waiting), (Some(token), 1));
    assert!(matches!(guard.renew().await, Err(RenewError::Lost(lost)) if lost.token == token));

    // The client gives the lock back at the deadline, although the guard still exists.
    let next = waiting.await.unwrap();
    assert!(guard.remaining().is_zero());
    assert!(matches!(guard.release().await, Err(ReleaseError::Lost(_))));
    next.release().await.unwrap();
    keys_left(&server);
}

#[tokio::test]
async fn a_lease_that_is_renewed_by_hand_is_kept() {
    let lease = Duration::from_secs(5);
    let server = RedisServer::start();
    let lock = lock(&server, LockOptions::new().lease(lease).manual_renewal()).await;
    let guard = lock.acquire().await.unwrap();
    let waiting = lock.enqueue().await.unwrap();
    let start = Instant::now();
    while start.elapsed() < 3 * lease / 2 {
        let (asked, before) = (Instant::now(), guard.remaining());
        tokio::time::sleep(lease / 10).await;
        guard.renew().await.unwrap();
        // The end of the lease has moved by the time since the last renewal.
        assert!(guard.remaining() + asked.elapsed() >= before + lease / 10, "{:?} after {before:?}", guard.remaining());
    }
    guard.check().unwrap();
    assert_eq!(waiting.position().await.unwrap(), 1);
    guard.release().await.unwrap();
    waiting.await.unwrap().release().await.unwrap();
    keys_left(&server);
}

#[tokio::test]
async fn a_longest_hold_ends_renewal() {
    let (lease, longest, often) = (Duration::from_secs(4), Duration::from_secs(5), Duration::from_millis(250));
    let server = RedisServer::start();
    let lock = lock(&server, LockOptions::new().lease(lease).renew_every(often).max_hold(longest)).await;
    let called = Instant::now();
    let guard = lock.acquire().await.unwrap();
    assert_eq!(soon(guard.lost()).await.reason, LostReason::MaxHold);
    assert!(called.elapsed() > longest, "{:?}", called.elapsed());
    keys_left_after(guard, &server);
}

/// Sets its flag when it is dropped.
struct Dropped(Arc<AtomicBool>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[tokio::test]
async fn a_job_is_cancelled_when_its_lease_is_lost() {
    let server = RedisServer::start();
    let (worker, operator) = (lock(&server, LockOptions::new()).await, lock(&server, LockOptions::new()).await);
    for force in [false, true] {
        let (begun, cancelled) = (Notify::new(), Arc::new(AtomicBool::new(false)));
        let job = worker.acquire().run(async |_| {
            let _dropped = Dropped(cancelled.clone());
            begun.notify_one();
            pending::<()>().await;
        });
        let breaks = async {
            begun.notified().await;
            let token = operator.inspect().await.unwrap().holders.remove(0).token;
            let broken = if force {
                operator.force_break_lease(token).await.unwrap()
            } else {
                operator.break_lease(token).await.unwrap()
            };
            (token, broken)
        };
        let (ended, (token, broken)) = soon(async { tokio::join!(job, breaks) }).await;
        let Err(RunError::Lost(lost)) = ended else { panic!("{ended:?}") };
        assert_eq!((lost.token, lost.reason), (token, LostReason::Broken));
        assert!(
            if force { broken == BreakOutcome::Ended } else { matches!(broken, BreakOutcome::Told { .. }) },
            "{broken:?}"
        );
        assert!(cancelled.load(Ordering::Relaxed));
        keys_left(&server);
    }
}

/// The clock decides, even if the job never lets the runtime poll anything else.
#[tokio::test]
async fn a_job_that_ends_after_its_lease_is_lost() {
    let lease = Duration::from_secs(3); // A grant must be taken within it.
    let server = RedisServer::start();
    let (short, lock) = (
        lock(&server, LockOptions::new().lease(lease).manual_renewal()).await,
        lock(&server, LockOptions::new()).await,
    );
    let ended = short.acquire().run(async |_| std::thread::sleep(lease)).await;
    assert!(matches!(ended, Err(RunError::Lost(_))), "{ended:?}");
    assert_eq!(lock.acquire().run(async |held| held.check().map(|()| 5)).await.unwrap(), Ok(5));
    let guard = lock.acquire().await.unwrap();
    let timeout = lock.acquire().timeout(Duration::from_millis(50)).run(async |_| ()).await;
    assert!(matches!(timeout, Err(RunError::Acquire(AcquireError::Timeout { .. }))), "{timeout:?}");
    keys_left_after(guard, &server);
}

#[tokio::test]
async fn an_operator_who_breaks_a_lease_tells_its_holder() {
    let server = RedisServer::start();
    // The holder hears of it at once, and not by its next renewal.
    let lease = 100 * SOON;
    let options = || LockOptions::new().lease(lease);
    let (here, there) = (lock(&server, options()).await, lock(&server, options()).await);
    let guard = here.acquire().await.unwrap();
    assert_eq!(there.break_lease(guard.token() - 1).await.unwrap(), BreakOutcome::Unknown);
    guard.check().unwrap();

    let BreakOutcome::Told { remaining, .. } = there.break_lease(guard.token()).await.unwrap() else {
        panic!("not told")
    };
    assert!(remaining <= lease && !remaining.is_zero());
    let lost = soon(guard.lost()).await;
    assert_eq!(lost.reason, LostReason::Broken);
    // The holder may tidy up: the lock is not granted before it releases, and the lease is not renewed either.
    let state = there.inspect().await.unwrap().holders.remove(0);
    assert!(state.broken && state.token == guard.token());
    assert!(matches!(there.try_acquire().await, Err(TryAcquireError::Busy { .. })));
    keys_left_after(guard, &server);
}

#[tokio::test]
async fn any_client_sees_the_holder_and_the_waiters() {
    let lease = Duration::from_secs(30);
    let server = RedisServer::start();
    let client = Client::builder().url(&server.url()).label("the client \"ä\" {1}").connect().await.unwrap();
    let lock = client.lock_with("lock", LockOptions::new().lease(lease)).unwrap();
    let owner = "owner \u{0}\r\n of a hundred bytes".repeat(4);
    let guard = lock.acquire().owner(owner.clone()).await.unwrap();
    let first = lock.enqueue().label("first").owner("somebody").await.unwrap();
    let label = "é".repeat(2048);
    let second = lock.enqueue().label(label.clone()).await.unwrap();
    assert!(guard.token() < first.ticket() && first.ticket() < second.ticket());
    assert_eq!((first.position().await.unwrap(), second.position().await.unwrap()), (1, 2));

    let looked = lock.inspect().await.unwrap();
    let holder = &looked.holders[0];
    assert_eq!((holder.token, &*holder.label, &*holder.owner), (guard.token(), "the client \"ä\" {1}", &*owner));
    assert!(holder.remaining <= lease && holder.remaining > Duration::ZERO && !holder.broken);
    let queue: Vec<_> = looked.queue.iter().map(|w| (w.ticket, w.label.as_str(), w.owner.as_str(), w.alive)).collect();
    assert_eq!(queue, [(first.ticket(), "first", "somebody", true), (second.ticket(), label.as_str(), "", true)]);
    assert!(looked.queue[0].waited >= looked.queue[1].waited && looked.waiting == 2);
    tokio::time::sleep(Duration::from_millis(20)).await;
    let later = lock.inspect().await.unwrap();
    let step = Duration::from_millis(20);
    assert!(later.queue[0].waited >= looked.queue[0].waited + step);
    assert!(later.holders[0].held_for >= holder.held_for + step);

    match lock.try_acquire().await {
        Err(error @ TryAcquireError::Busy { .. }) => {
            let said = error.to_string();
            assert!(said.contains("the client") && said.contains("2 waiting"), "{said}");
            let TryAcquireError::Busy { holders, waiting, .. } = error else { unreachable!() };
            let [holder] = &holders[..] else { panic!("{holders:?}") };
            assert_eq!((holder.token, &*holder.owner, waiting), (guard.token(), &*owner, 2));
            assert!(holder.remaining <= lease && holder.remaining > Duration::ZERO);
        }
        other => panic!("{other:?}"),
    }

    guard.release().await.unwrap();
    let guard = first.await.unwrap();
    assert!(guard.token() > second.ticket(), "tokens and tickets are of one order");
    assert_eq!(second.position().await.unwrap(), 1);
    guard.release().await.unwrap();
    eventually_async("it is granted", SOON, async || second.position().await.unwrap() == 0).await;
    let guard = second.await.unwrap();
    assert_eq!(lock.inspect().await.unwrap().holders.remove(0).label, label);
    guard.release().await.unwrap();
    assert!(lock.inspect().await.unwrap().holders.is_empty());
    keys_left(&server);
}

/// There are more waiters than one page shows.
#[tokio::test]
async fn a_long_queue_is_shown_whole() {
    let server = RedisServer::start();
    let lock = lock(&server, LockOptions::new()).await;
    let guard = lock.acquire().await.unwrap();
    let mut waiters = Vec::new();
    for _ in 0..1234 {
        waiters.push(lock.enqueue().await.unwrap());
    }
    let state = lock.inspect().await.unwrap();
    assert_eq!(state.waiting, 1234);
    assert!(state.queue.iter().map(|waiter| waiter.ticket).eq(waiters.iter().map(|waiter| waiter.ticket())));
    keys_left_after((waiters, guard), &server);
}
