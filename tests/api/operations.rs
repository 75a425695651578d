//! How operations are called: awaited, waited for on the spot, cancelled, polled once more.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;
use std::time::Duration;

use fairlock::{
    CancellationToken, Client, Lock, LockOptions,
    error::{AcquireError, Fault, LostReason, TryAcquireError},
    state::BreakOutcome,
};
use futures_util::FutureExt as _;
use testkit::{
    RedisServer, SOON, eventually, eventually_async, keys_left, keys_left_after, poll_once, server_and_client, soon,
};

fn lock(server: &RedisServer) -> Lock {
    Client::connect(&server.url()).blocking().unwrap().lock("lock").unwrap()
}

fn waiting(lock: &Lock) -> u64 {
    lock.inspect().blocking().unwrap().waiting
}

#[test]
fn every_operation_can_be_waited_for_on_the_spot() {
    let server = RedisServer::start();
    let client = Client::connect(&server.url()).blocking().unwrap();
    let lock = client.lock("lock").unwrap();
    let guard = lock.acquire().blocking().unwrap();
    guard.renew().blocking().unwrap();
    assert!(matches!(lock.try_acquire().blocking(), Err(TryAcquireError::Busy { .. })));
    let waiting = lock.enqueue().blocking().unwrap();
    assert_eq!(waiting.position().blocking().unwrap(), 1);
    assert_eq!(lock.inspect().blocking().unwrap().holders.remove(0).token, guard.token());
    assert_eq!(lock.trouble().blocking().unwrap(), None);

    assert!(matches!(lock.break_lease(guard.token()).blocking().unwrap(), BreakOutcome::Told { .. }));
    assert_eq!(guard.lost().blocking().reason, LostReason::Broken);
    assert_eq!(guard.held().ended().blocking().unwrap().reason, LostReason::Broken);
    assert_eq!(guard.renewed().blocking().unwrap_err().reason, LostReason::Broken);
    assert_eq!(lock.force_break_lease(guard.token()).blocking().unwrap(), BreakOutcome::Ended);
    guard.release().blocking().unwrap_err();

    waiting.blocking().unwrap().release().blocking().unwrap();
    assert_eq!(lock.acquire().run_blocking(|held| held.token() > 0), Ok(true));
    client.close().blocking();
    assert!(matches!(lock.inspect().blocking(), Err(Fault::Closed)));
    keys_left(&server);
}

#[test]
fn a_blocked_acquire_is_cancelled_by_another_thread() {
    let server = RedisServer::start();
    let (holder, lock) = (lock(&server), lock(&server));
    let guard = holder.acquire().blocking().unwrap();
    let place = lock.enqueue().blocking().unwrap();
    let cancellation = CancellationToken::new();
    let of_others = CancellationToken::new();
    let acquire = {
        let acquire = lock.acquire().cancelled_by(&cancellation);
        thread::spawn(move || acquire.blocking())
    };
    let queued = lock.enqueue().cancelled_by(&cancellation).blocking().unwrap();
    let queued = thread::spawn(move || queued.blocking());
    eventually("all wait", SOON, || waiting(&holder) == 3);

    of_others.cancel();
    assert!(!cancellation.is_cancelled() && !acquire.is_finished());
    cancellation.cancel();
    eventually("both return", SOON, || acquire.is_finished() && queued.is_finished());
    assert_eq!(acquire.join().unwrap().unwrap_err(), AcquireError::Cancelled);
    assert_eq!(queued.join().unwrap().unwrap_err(), AcquireError::Cancelled);
    eventually("they leave the queue", SOON, || waiting(&holder) == 1);

    // A later acquire is not even sent.
    assert_eq!(lock.acquire().cancelled_by(&cancellation).blocking().unwrap_err(), AcquireError::Cancelled);
    assert_eq!(lock.enqueue().cancelled_by(&cancellation).blocking().unwrap_err(), AcquireError::Cancelled);
    assert_eq!(lock.try_acquire().cancelled_by(&cancellation).blocking().unwrap_err(), TryAcquireError::Cancelled);
    guard.release().blocking().unwrap();
    keys_left_after(place.blocking().unwrap(), &server);
}

#[tokio::test]
async fn an_awaited_acquire_is_cancelled_by_another_thread() {
    let (server, client) = server_and_client().await;
    let lock = client.lock("lock").unwrap();
    let guard = lock.acquire().await.unwrap();
    let cancellation = CancellationToken::new();
    let mut acquire = lock.acquire().cancelled_by(&cancellation);
    assert!((&mut acquire).now_or_never().is_none());
    // This place is behind the acquire, which therefore is in the queue, too.
    drop(soon(lock.enqueue()).await.unwrap());
    thread::spawn(move || cancellation.cancel()).join().unwrap();
    assert_eq!(soon(&mut acquire).await.unwrap_err(), AcquireError::Cancelled);
    eventually_async("it leaves the queue, though its future is still there", SOON, async || {
        soon(lock.inspect()).await.unwrap().waiting == 0
    })
    .await;
    soon(guard.release()).await.unwrap();
    drop(acquire);
    client.close().await;
    keys_left(&server);
}

#[test]
fn an_acquire_with_a_timeout_of_zero_is_a_try() {
    let server = RedisServer::start();
    let (holder, lock) = (lock(&server), lock(&server));
    let guard = lock.acquire().timeout(Duration::ZERO).blocking().unwrap();
    let refused = holder.acquire().timeout(Duration::ZERO).blocking().unwrap_err();
    assert!(matches!(refused, AcquireError::Timeout { position: None, .. }), "{refused:?}");
    assert_eq!(refused.to_string(), "not granted at once");
    assert_eq!(waiting(&lock), 0, "it never stood in the queue");
    guard.release().blocking().unwrap();
    holder.acquire().timeout(Duration::MAX).blocking().unwrap().release().blocking().unwrap();
    keys_left(&server);
}

#[test]
fn a_try_waits_for_its_answer_as_long_as_it_is_told() {
    let server = RedisServer::builder().alone().start();
    let lock = lock(&server);
    server.stop();
    // A try may wait for longer than the usual five seconds, and for less.
    let mut patient = lock.try_acquire().timeout(100 * SOON);
    let mut usual = Box::pin(lock.inspect());
    assert!(poll_once(&mut patient).is_pending() && poll_once(&mut usual).is_pending());
    let refused = lock.try_acquire().timeout(Duration::from_millis(50)).blocking().unwrap_err();
    assert!(matches!(refused, TryAcquireError::Fault(Fault::Unavailable { .. })), "{refused:?}");
    assert!(poll_once(&mut usual).is_pending(), "it waited for as long as other calls");
    let usual = pollster::block_on(usual);
    assert!(matches!(usual, Err(Fault::Unavailable { .. })), "{usual:?}");
    assert!(poll_once(&mut patient).is_pending());
    server.cont();
    pollster::block_on(patient).unwrap().release().blocking().unwrap();
}

#[tokio::test]
async fn renewals_can_be_awaited() {
    let (_server, client) = server_and_client().await;
    let often = LockOptions::new().lease(2 * SOON).renew_every(Duration::from_millis(50));
    let guard = soon(client.lock_with("often", often).unwrap().acquire()).await.unwrap();
    for _ in 0..3 {
        assert!(soon(guard.renewed()).await.unwrap() > SOON);
    }

    // A future that was made before a renewal hears of it, even if it is polled later.
    let guard = soon(client.lock("lock").unwrap().acquire()).await.unwrap();
    let renewed = guard.renewed();
    soon(guard.renew()).await.unwrap();
    assert!(soon(renewed).await.unwrap() <= Duration::from_secs(30));
    let (held, never_polled, mut next) = (guard.held(), guard.renewed(), Box::pin(guard.renewed()));
    assert!(next.as_mut().now_or_never().is_none());
    soon(guard.release()).await.unwrap();
    for over in [soon(next).await, soon(never_polled).await, soon(held.renewed()).await] {
        assert_eq!(over.unwrap_err().reason, LostReason::Released);
    }
}

#[test]
fn a_lease_that_was_given_back_is_not_lost() {
    let server = RedisServer::start();
    let lock = lock(&server);
    let guard = lock.acquire().blocking().unwrap();
    let (held, before) = (guard.held(), guard.held().ended());
    guard.release().blocking().unwrap();
    assert_eq!((before.blocking(), held.ended().blocking()), (None, None));
    let guard = lock.acquire().blocking().unwrap();
    let before = guard.held().ended();
    drop(guard);
    assert_eq!(before.blocking(), None);
}

/// Other futures panic as well. A future that stayed pending for ever would hide the mistake.
#[tokio::test]
async fn a_future_that_is_polled_after_it_resolved_panics() {
    fn panics<F: Future + Unpin>(mut future: F) {
        let again = catch_unwind(AssertUnwindSafe(|| (&mut future).now_or_never().is_some()));
        assert!(again.is_err());
    }
    let server = RedisServer::start();
    let lock = Client::connect(&server.url()).await.unwrap().lock("lock").unwrap();
    let mut acquire = lock.acquire();
    let guard = soon(&mut acquire).await.unwrap();
    panics(acquire);
    let mut attempt = lock.try_acquire();
    soon(&mut attempt).await.unwrap_err();
    panics(attempt);
    let mut enqueue = lock.enqueue();
    let mut waiting = soon(&mut enqueue).await.unwrap();
    panics(enqueue);
    let mut release = Box::pin(guard.release());
    soon(&mut release).await.unwrap();
    panics(release);
    drop(soon(&mut waiting).await.unwrap());
    panics(waiting);
}
