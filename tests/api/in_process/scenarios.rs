//! What ends the same on the lock service and on a real server.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fairlock::{
    Client, LockOptions, Waiting,
    error::{AcquireError, LostReason, RenewError, RunError, TryAcquireError},
    state::{BreakOutcome, EndedAs},
};
use testkit::{SOON, eventually_async, poll_once, quiet, soon};

use super::{Place, becomes_free, in_order};

/// Runs each of these with the service and with a real server.
macro_rules! scenarios {
    ($($name:ident)*) => {
        mod service {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $name() {
                super::$name(super::Place::service()).await;
            })*
        }
        mod redis {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $name() {
                super::$name(super::Place::redis()).await;
            })*
        }
    };
}

scenarios! {
    tokens_rise_and_a_release_frees_the_lock
    waiters_are_served_in_order
    many_waiters_of_one_client_are_served_in_order
    a_try_is_told_who_holds_the_lock
    a_try_does_not_overtake
    a_timeout_costs_its_own_waiter_only
    a_dropped_guard_hands_on
    a_dropped_waiter_leaves
    a_closed_client_gives_everything_back
    a_full_queue_refuses
    positions_count_from_the_head
    inspect_tells_of_holder_and_waiters
    any_name_label_and_owner_is_served
    locks_and_prefixes_are_apart
    a_holder_is_asked_to_stop
    a_lease_is_broken_by_force
    no_other_token_breaks_a_lease
    a_lease_is_renewed_and_extended
    an_unrenewed_lease_ends_and_its_holder_is_told
    a_grant_is_confirmed_first
    replicas_that_do_not_exist_are_waited_for_in_vain
    a_job_is_dropped_when_its_lease_is_broken
    several_locks_are_taken_together
    threads_exclude_each_other
    a_history_tells_of_past_grants
    lost_data_comes_back_in_order
    tokens_rise_over_a_loss_of_data
    an_outage_is_waited_out
    a_timeout_in_an_outage_leaves_nothing
    places_survive_an_outage_that_the_lease_does_not
}

async fn tokens_rise_and_a_release_frees_the_lock(place: Place) {
    let lock = place.lock().await;
    let mut last = 0;
    for _ in 0..5 {
        let guard = lock.acquire().await.unwrap();
        assert!(guard.token() > last && guard.check().is_ok());
        last = guard.token();
        guard.release().await.unwrap();
    }
    becomes_free(&lock).await;
}

async fn waiters_are_served_in_order(place: Place) {
    let (guard, waiting) = place.queue::<6>(quiet()).await;
    assert!(waiting.is_sorted_by_key(Waiting::ticket));
    in_order(guard, waiting).await;
    becomes_free(&place.lock().await).await;
}

async fn many_waiters_of_one_client_are_served_in_order(place: Place) {
    let lock = place.lock().await;
    let guard = lock.acquire().await.unwrap();
    let mut waiting = Vec::new();
    for _ in 0..50 {
        waiting.push(lock.enqueue().await.unwrap());
    }
    in_order(guard, waiting).await;
}

async fn a_try_is_told_who_holds_the_lock(place: Place) {
    let guard = place.lock().await.acquire().label("123").owner("456").await.unwrap();
    let TryAcquireError::Busy { holders, waiting, recovering_for, .. } =
        place.lock().await.try_acquire().await.unwrap_err()
    else {
        panic!("not busy")
    };
    let [holder] = &holders[..] else { panic!("{holders:?}") };
    assert_eq!(
        (holder.token, &*holder.label, &*holder.owner, holder.id.clone()),
        (guard.token(), "123", "456", guard.id())
    );
    assert!(holder.remaining <= guard.lease_length() && holder.confirmed && !holder.broken);
    assert_eq!((waiting, recovering_for), (0, None));
}

async fn a_try_does_not_overtake(place: Place) {
    let (guard, [waiting]) = place.queue(quiet()).await;
    guard.release().await.unwrap();
    // The lock is the waiter's, although it has not looked yet.
    let busy = place.lock().await.try_acquire().await.unwrap_err();
    assert!(matches!(busy, TryAcquireError::Busy { waiting: 0, .. }), "{busy:?}");
    drop(soon(waiting).await.unwrap());
}

async fn a_timeout_costs_its_own_waiter_only(place: Place) {
    let (guard, [first]) = place.queue(quiet()).await;
    let timeout = place.lock().await.acquire().timeout(Duration::from_millis(100)).await.unwrap_err();
    assert!(matches!(timeout, AcquireError::Timeout { .. }), "{timeout:?}");
    let last = place.lock().await.enqueue().await.unwrap();
    in_order(guard, [first, last]).await;
}

async fn a_dropped_guard_hands_on(place: Place) {
    let (guard, [waiting]) = place.queue(quiet()).await;
    drop(guard);
    drop(soon(waiting).await.unwrap());
}

async fn a_dropped_waiter_leaves(place: Place) {
    let (guard, [first, second]) = place.queue(quiet()).await;
    drop(first);
    guard.release().await.unwrap();
    drop(soon(second).await.unwrap());
}

async fn a_closed_client_gives_everything_back(place: Place) {
    let client = Client::connect(&place.url()).await.unwrap();
    let lock = client.lock_with("lock", quiet()).unwrap();
    let guard = lock.acquire().await.unwrap();
    let own = lock.enqueue().await.unwrap();
    let other = place.lock().await.enqueue().await.unwrap();
    client.close().await;
    assert_eq!(guard.lost().await.reason, LostReason::Closed);
    own.await.unwrap_err();
    drop(soon(other).await.unwrap());
}

async fn a_full_queue_refuses(place: Place) {
    let options = quiet().max_waiting(2);
    let (guard, waiting) = place.queue::<2>(options.clone()).await;
    let full = soon(place.lock_with(options).await.acquire()).await.unwrap_err();
    assert!(matches!(full, AcquireError::QueueFull { waiting: 2, .. }), "{full:?}");
    in_order(guard, waiting).await;
}

async fn positions_count_from_the_head(place: Place) {
    let (guard, [first, second]) = place.queue(quiet()).await;
    assert_eq!((first.position().await.unwrap(), second.position().await.unwrap()), (1, 2));
    guard.release().await.unwrap();
    let _guard = soon(first).await.unwrap();
    assert_eq!(second.position().await.unwrap(), 1);
}

async fn inspect_tells_of_holder_and_waiters(place: Place) {
    let lock = place.lock().await;
    let state = lock.inspect().await.unwrap();
    assert_eq!((state.holders.len(), state.waiting, state.queue.len()), (0, 0, 0));
    let guard = lock.acquire().label("holds").await.unwrap();
    let waiting = [lock.enqueue().label("7").owner("8").await.unwrap(), lock.enqueue().await.unwrap()];
    let state = place.lock().await.inspect().await.unwrap();
    assert_eq!((&*state.holders[0].label, state.holders[0].token), ("holds", guard.token()));
    assert_eq!((state.waiting, state.recovering_for), (2, None));
    let tickets: Vec<_> = state.queue.iter().map(|waiter| (waiter.ticket, waiter.alive)).collect();
    assert_eq!(tickets, waiting.each_ref().map(|waiting| (waiting.ticket(), true)));
    assert_eq!((&*state.queue[0].label, &*state.queue[0].owner), ("7", "8"));
}

async fn any_name_label_and_owner_is_served(place: Place) {
    let client = Client::connect(&place.url()).await.unwrap();
    for name in ["a b", "x{}", "ü:{y}:lock", "\r\n$3\r\n", "\0"] {
        let lock = client.lock_with(name, quiet()).unwrap();
        let guard = lock.acquire().label("ß\r\n\0").owner("").await.unwrap();
        let waiting = lock.enqueue().await.unwrap();
        let holder = &lock.inspect().await.unwrap().holders[0];
        assert_eq!((&*holder.label, &*holder.owner), ("ß\r\n\0", ""));
        in_order(guard, [waiting]).await;
    }
}

async fn locks_and_prefixes_are_apart(place: Place) {
    let client = Client::connect(&place.url()).await.unwrap();
    // A user with rights to `fairlock:*` may use both.
    let other = Client::builder().url(&place.url()).prefix("fairlock:other").connect().await.unwrap();
    let mut guards = Vec::new();
    for lock in [client.lock("a"), client.lock("ab"), other.lock("a"), other.lock("ab")] {
        guards.push(lock.unwrap().try_acquire().await.unwrap());
    }
}

async fn a_holder_is_asked_to_stop(place: Place) {
    let (guard, [waiting]) = place.queue(quiet()).await;
    let told = place.lock().await.break_lease(guard.token()).await.unwrap();
    assert!(matches!(told, BreakOutcome::Told { remaining, .. } if remaining <= guard.lease_length()), "{told:?}");
    assert_eq!(soon(guard.lost()).await.reason, LostReason::Broken);
    // It holds the lock until it gives it back.
    let state = place.lock().await.inspect().await.unwrap();
    assert!(state.holders[0].token == guard.token() && state.holders[0].broken);
    drop(guard);
    drop(soon(waiting).await.unwrap());
}

async fn a_lease_is_broken_by_force(place: Place) {
    let (guard, [waiting]) = place.queue(quiet()).await;
    place.break_lease(guard.token()).await;
    assert_eq!(soon(guard.lost()).await.reason, LostReason::Broken);
    let next = soon(waiting).await.unwrap();
    assert!(next.token() > guard.token());
    drop(guard);
    next.release().await.unwrap();
}

async fn no_other_token_breaks_a_lease(place: Place) {
    let lock = place.lock().await;
    let guard = lock.acquire().await.unwrap();
    assert_eq!(lock.force_break_lease(guard.token() - 1).await.unwrap(), BreakOutcome::Unknown);
    assert_eq!(lock.break_lease(u64::MAX).await.unwrap(), BreakOutcome::Unknown);
    guard.release().await.unwrap();
}

async fn a_lease_is_renewed_and_extended(place: Place) {
    let guard = place.lock_with(quiet().lease(2 * SOON).manual_renewal()).await.acquire().await.unwrap();
    guard.renew().await.unwrap();
    guard.extend(2 * SOON).await.unwrap();
    assert!(guard.remaining() > 2 * SOON);
    let state = place.lock().await.inspect().await.unwrap();
    assert!(state.holders[0].remaining > 2 * SOON, "{state:?}");
}

async fn an_unrenewed_lease_ends_and_its_holder_is_told(place: Place) {
    let lease = Duration::from_secs(4);
    let (guard, [waiting]) = place.queue(quiet().lease(lease).manual_renewal()).await;
    if let Place::Service(service) = &place {
        service.advance(lease);
    }
    let next = soon(waiting).await.unwrap();
    assert!(next.token() > guard.token());
    let lost = guard.renew().await.unwrap_err();
    assert!(matches!(lost, RenewError::Lost(_)), "{lost:?}");
    guard.check().unwrap_err();
}

async fn a_grant_is_confirmed_first(place: Place) {
    let (guard, waiting) = place.queue::<2>(quiet().confirm_grants()).await;
    in_order(guard, waiting).await;
}

async fn replicas_that_do_not_exist_are_waited_for_in_vain(place: Place) {
    let lock = place.lock_with(quiet().replicas(1)).await;
    let timeout = lock.acquire().timeout(Duration::from_millis(300)).await.unwrap_err();
    assert!(matches!(timeout, AcquireError::Timeout { .. }), "{timeout:?}");
    becomes_free(&lock).await;
}

async fn a_job_is_dropped_when_its_lease_is_broken(place: Place) {
    let lock = place.lock().await;
    let job = lock.acquire().run(async |held| {
        place.break_lease(held.token()).await;
        std::future::pending::<()>().await;
    });
    let lost = soon(job).await.unwrap_err();
    assert!(matches!(&lost, RunError::Lost(lost) if lost.reason == LostReason::Broken), "{lost:?}");
}

async fn several_locks_are_taken_together(place: Place) {
    let client = Client::connect(&place.url()).await.unwrap();
    let all = client.lock_all(["b", "a", "lock"]).unwrap().await.unwrap();
    place.lock().await.try_acquire().await.unwrap_err();
    all.release().await.unwrap();
    drop(place.lock().await.try_acquire().await.unwrap());
}

async fn threads_exclude_each_other(place: Place) {
    let names = ["a", "b", "c"];
    let held = names.map(|name| (name, AtomicBool::new(false)));
    let tokens = Mutex::new(BTreeMap::<&str, Vec<u64>>::new());
    let clients = [(); 3].map(|()| Client::connect(&place.url()).blocking().unwrap());
    std::thread::scope(|scope| {
        for client in clients.iter().flat_map(|client| [client; 3]) {
            scope.spawn(|| {
                for (name, held) in held.iter().cycle().take(30) {
                    let guard = client.lock(name).unwrap().acquire().blocking().unwrap();
                    assert!(!held.swap(true, Ordering::SeqCst), "two hold {name}");
                    tokens.lock().unwrap().entry(name).or_default().push(guard.token());
                    held.store(false, Ordering::SeqCst);
                }
            });
        }
    });
    let tokens = tokens.into_inner().unwrap();
    assert!(tokens.values().all(|tokens| tokens.len() == 90 && tokens.is_sorted()), "{tokens:?}");
}

async fn a_history_tells_of_past_grants(place: Place) {
    let lock = place.lock().await;
    if lock.record_history(true).await.is_err() {
        return; // Redis 6.0
    }
    let (guard, [waiting]) = place.queue(quiet().label("9")).await;
    let tokens = [guard.token(), {
        drop(guard);
        soon(waiting).await.unwrap().token()
    }];
    becomes_free(&lock).await;
    let history = lock.history(5).await.unwrap();
    let told: Vec<_> = history.grants.iter().map(|past| (past.token, &*past.label, past.ended)).collect();
    assert_eq!(told, [tokens[1], tokens[0]].map(|token| (token, "9", EndedAs::Released)));
}

/// Only its release ends the recovery, so that everybody has the time to return.
fn lasting() -> LockOptions {
    LockOptions::new().lease(100 * SOON).liveness(Duration::from_secs(4)).manual_renewal()
}

async fn lost_data_comes_back_in_order(place: Place) {
    let (guard, waiting) = place.queue::<4>(lasting()).await;
    place.lose_data();
    let lock = place.lock().await;
    eventually_async("the waiters are back", SOON, async || lock.inspect().await.unwrap().waiting == 4).await;
    guard.renew().await.unwrap();
    let state = lock.inspect().await.unwrap();
    assert_eq!(state.holders[0].token, guard.token());
    assert!(state.recovering_for.is_some());
    in_order(guard, waiting).await;
}

async fn tokens_rise_over_a_loss_of_data(place: Place) {
    // The recovery lasts as long as any lease may.
    let lock = place.lock_with(lasting().lease(Duration::from_secs(4))).await;
    let first = lock.acquire().await.unwrap();
    let token = first.token();
    first.release().await.unwrap();
    place.lose_data();
    let second = soon(lock.acquire()).await.unwrap();
    assert!(second.token() > token);
}

async fn an_outage_is_waited_out(place: Place) {
    let lock = place.lock().await;
    place.pause();
    let mut acquire = lock.acquire();
    assert!(poll_once(&mut acquire).is_pending());
    place.resume();
    drop(soon(acquire).await.unwrap());
}

async fn a_timeout_in_an_outage_leaves_nothing(place: Place) {
    let lock = place.lock().await;
    place.pause();
    let timeout = soon(lock.acquire().timeout(Duration::from_millis(200))).await.unwrap_err();
    assert!(matches!(timeout, AcquireError::Timeout { .. }), "{timeout:?}");
    place.resume();
    becomes_free(&place.lock().await).await;
}

async fn places_survive_an_outage_that_the_lease_does_not(place: Place) {
    let options = LockOptions::new().lease(Duration::from_secs(6)).liveness(Duration::from_secs(3));
    let guard = place.lock_with(options).await.acquire().await.unwrap();
    let mut waiting = Vec::new();
    for _ in 0..3 {
        waiting.push(place.lock_with(quiet().liveness(Duration::from_secs(3))).await.enqueue().await.unwrap());
    }
    place.pause();
    assert!(matches!(soon(guard.lost()).await.reason, LostReason::NotRenewed { .. }));
    place.resume();
    let first = soon(waiting.remove(0)).await.unwrap();
    in_order(first, waiting).await;
}
