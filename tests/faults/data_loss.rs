//! After a loss of data: how long a recovery lasts, what ends it, and what must not be forgotten.

use std::time::{Duration, Instant};

use fairlock::{Client, Guard, Lock, LockOptions, state::BreakOutcome};
use testkit::{RedisServer, SOON, connect, eventually_async, keys_left, keys_left_after, soon, watch::Counter};

/// Far longer than a recovery without anybody to wait for, and renewed only by hand: the holder is connected and sends
/// nothing.
const LEASE: Duration = Duration::from_secs(600);
const LIVENESS: Duration = Duration::from_secs(3);

fn options() -> LockOptions {
    LockOptions::new().lease(LEASE).liveness(LIVENESS).manual_renewal()
}

async fn lock_of(server: &RedisServer) -> Lock {
    Client::connect(&server.url()).await.unwrap().lock_with("lock", options()).unwrap()
}

/// Waits until a waiter has returned to the emptied server, and returns how long the recovery that it opened lasts.
async fn recovery(lock: &Lock) -> Duration {
    let mut left = None;
    eventually_async("a recovery is open", SOON, async || {
        left = lock.inspect().await.unwrap().recovering_for;
        left.is_some()
    })
    .await;
    left.unwrap()
}

/// The lock has a holder, and another process waits for it.
async fn held_and_waited_for(server: &RedisServer) -> (Guard, Lock, fairlock::Waiting) {
    let guard = lock_of(server).await.acquire().await.unwrap();
    let lock = lock_of(server).await;
    let waiting = lock.enqueue().await.unwrap();
    (guard, lock, waiting)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_recovery_waits_for_the_holder_however_often_data_is_lost() {
    for comes_back in [true, false] {
        let server = RedisServer::start();
        let (guard, lock, waiting) = held_and_waited_for(&server).await;
        for losses in 1..=10 {
            server.flush();
            let left = recovery(&lock).await;
            assert!(left > LEASE / 2, "after {losses} losses of data the recovery lasts {left:?} only");
        }
        let token = guard.token();
        if comes_back {
            // Everything is as it was.
            guard.renew().await.unwrap();
            assert_eq!(lock.inspect().await.unwrap().holders.first().map(|holder| holder.token), Some(token));
        }
        // Otherwise the server hears of its lease only by this.
        guard.release().await.unwrap();
        let next = soon(waiting).await.expect("long before the lease would have ended");
        assert!(next.token() > token);
        keys_left_after(next, &server);
    }
}

/// The server has it for less time than before then: what its holder was sure of. A holder that counted only what moves
/// its deadline would hear of no renewal, and ask for the next one at once.
#[tokio::test(flavor = "multi_thread")]
async fn an_extended_lease_that_was_re_asserted_is_renewed_as_often_as_before() {
    const OFTEN: Duration = Duration::from_millis(100);
    let server = RedisServer::start();
    let options = LockOptions::new().lease(Duration::from_secs(3)).renew_every(OFTEN);
    let guard = connect(&server).await.lock_with("lock", options).unwrap().acquire().await.unwrap();
    guard.extend(LEASE).await.unwrap();
    server.flush();
    // The first may have reached the server before.
    for _ in 0..2 {
        soon(guard.renewed()).await.unwrap();
    }
    let begun = Instant::now();
    let mut counter = Counter::start(&server);
    for _ in 0..5 {
        assert!(soon(guard.renewed()).await.unwrap() > LEASE / 2);
    }
    let calls = counter.so_far()["evalsha"];
    let most = begun.elapsed().as_millis() / OFTEN.as_millis() + 2;
    assert!(u128::from(calls) <= most, "{calls} calls instead of {most}");
    guard.release().await.unwrap();
    keys_left(&server);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_ends_a_recovery_that_waits_for_a_dead_holder() {
    let server = RedisServer::start();
    let (guard, lock, waiting) = held_and_waited_for(&server).await;
    server.flush();
    recovery(&lock).await;
    for outcome in [lock.break_lease(0).await.unwrap(), lock.force_break_lease(0).await.unwrap()] {
        assert_eq!(outcome, BreakOutcome::Unknown, "no lease has the token 0");
    }
    recovery(&lock).await;
    assert!(lock.end_recovery().await.unwrap());
    let next = soon(waiting).await.expect("long before the lease would have ended");
    // The old holder is told, by force or not.
    guard.renew().await.unwrap_err();
    assert!(!lock.end_recovery().await.unwrap(), "it is over");
    keys_left_after((guard, next), &server);
}

/// Waiters of other clients come back within their own heartbeats, and are not overtaken by clients that notice sooner.
#[tokio::test(flavor = "multi_thread")]
async fn a_recovery_gives_the_slowest_waiter_time_to_return() {
    let server = RedisServer::start();
    let slow = Duration::from_secs(60);
    let lock_with = async |liveness| {
        let options = options().liveness(liveness);
        Client::connect(&server.url()).await.unwrap().lock_with("lock", options).unwrap()
    };
    let guard = lock_with(LIVENESS).await.acquire().await.unwrap();
    let first = lock_with(slow).await.enqueue().await.unwrap();
    let quick = lock_with(LIVENESS).await;
    let second = quick.enqueue().await.unwrap();
    // The quick client has heard how slow the slowest is.
    second.position().await.unwrap();
    guard.release().await.unwrap();
    let guard = soon(first).await.unwrap();
    let third = lock_with(slow).await.enqueue().await.unwrap();
    second.position().await.unwrap();
    drop(guard);
    let guard = soon(second).await.unwrap();
    let fourth = quick.enqueue().await.unwrap();
    fourth.position().await.unwrap();
    server.flush();
    guard.release().await.unwrap();
    let left = recovery(&quick).await;
    assert!(left > slow / 2, "the slow one notices within {:?}, and the recovery lasts {left:?}", slow / 3);
    drop((third, fourth));
}

#[cfg(target_os = "linux")]
mod clocks {
    use super::*;
    use testkit::vclock::WallClock;

    const HOUR: Duration = Duration::from_secs(3600);

    async fn cycle(lock: &Lock) -> u64 {
        let guard = lock.acquire().await.unwrap();
        let token = guard.token();
        guard.release().await.unwrap();
        token
    }

    /// Waits until the server has read its clock, which was set, and has removed the keys that expired by it.
    async fn look(server: &RedisServer, before: u64, forwards: bool) {
        eventually_async("the server has the new time", SOON, async || (time_of(server) > before + 1000) == forwards)
            .await;
        let _: bool = redis::cmd("EXISTS").arg("fairlock:{lock}:lock").query(&mut server.raw()).unwrap();
    }

    fn time_of(server: &RedisServer) -> u64 {
        let (seconds, _): (u64, u64) = redis::cmd("TIME").query(&mut server.raw()).unwrap();
        seconds
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn tokens_rise_over_a_clock_that_jumps_while_nobody_wants_the_lock() {
        let clock = WallClock::on_time();
        let server = clock.given_to(RedisServer::builder()).start();
        let mut last = 0;
        for _ in 0..2 {
            last = cycle(&lock_of(&server).await).await;
        }
        let now = time_of(&server);
        clock.step_forwards(2 * HOUR);
        look(&server, now, true).await;
        clock.step_back(2 * HOUR + Duration::from_secs(60));
        look(&server, now, false).await;
        let token = cycle(&lock_of(&server).await).await;
        assert!(token > last, "{token} after {last}");
    }

    /// As after a failover to a server that lacks the last grant and whose clock is behind.
    #[tokio::test(flavor = "multi_thread")]
    async fn tokens_rise_over_a_loss_of_data_on_a_slow_clock_if_the_holder_gives_back() {
        let clock = WallClock::on_time();
        let server = clock.given_to(RedisServer::builder()).start();
        let guard = lock_of(&server).await.acquire().await.unwrap();
        let last = guard.token();
        server.flush();
        let now = time_of(&server);
        clock.step_back(HOUR);
        look(&server, now, false).await;
        guard.release().await.unwrap();
        let token = cycle(&lock_of(&server).await).await;
        assert!(token > last, "{token} after {last}");
    }
}
