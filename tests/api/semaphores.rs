//! Several holders: how many, in which slots, in what order, and what those who disagree are promised.

use std::collections::BTreeSet;
use std::time::Duration;

use fairlock::compat::{Ownership, is_locked_by_anyone, verify};
use fairlock::error::{InvalidOption, TryAcquireError};
use fairlock::{Client, Guard, Lock, LockOptions};
use futures_util::future::try_join_all;
use testkit::{Monitor, RedisServer, SOON, connect, eventually_async, keys_left_after, quiet, server_and_client, soon};

fn semaphore(client: &Client, slots: u32) -> Lock {
    client.semaphore_with("gpu", slots, quiet()).unwrap()
}

/// How often clients have sent this script.
fn calls(monitor: &mut Monitor, script: &str) -> usize {
    let digest = fairlock::__hooks::digest(script);
    monitor.lines().iter().filter(|line| line.contains(&digest)).count()
}

async fn held(lock: &Lock) -> Guard {
    soon(lock.acquire()).await.unwrap()
}

async fn is_full(lock: &Lock) -> bool {
    matches!(soon(lock.try_acquire()).await, Err(TryAcquireError::Busy { .. }))
}

#[tokio::test]
async fn so_many_hold_it_together_each_in_a_slot_of_its_own() {
    let (server, client) = server_and_client().await;
    let gpus = client.semaphore("gpu", 3).unwrap();
    let guards = [held(&gpus).await, held(&gpus).await, held(&gpus).await];
    assert_eq!(guards.each_ref().map(|guard| guard.slot()), [0, 1, 2]);
    assert!(guards.is_sorted_by_key(|guard| guard.token()));
    let state = gpus.inspect().await.unwrap();
    let seen: Vec<_> = state.holders.iter().map(|holder| (holder.slot, holder.slots, holder.token)).collect();
    assert_eq!(seen, guards.each_ref().map(|guard| (guard.slot(), 3, guard.token())));

    let busy = soon(gpus.try_acquire()).await.unwrap_err();
    assert!(matches!(&busy, TryAcquireError::Busy { held: 3, holders, .. } if holders[0].slot == 0), "{busy:?}");
    assert!(busy.to_string().contains("unless renewed, and by 2 others"), "{busy}");

    let [first, second, third] = guards;
    soon(second.release()).await.unwrap();
    let fourth = held(&gpus).await;
    assert_eq!(fourth.slot(), 1, "the lowest that is free");
    drop((first, third));
    keys_left_after(fourth, &server);
}

#[tokio::test]
async fn waiters_are_served_in_order_and_a_lost_guard_tells_its_slot() {
    let (_server, client) = server_and_client().await;
    let gpus = semaphore(&client, 2);
    let (first, second) = (held(&gpus).await, held(&gpus).await);
    let (third, fourth) = (soon(gpus.enqueue()).await.unwrap(), soon(gpus.enqueue()).await.unwrap());
    assert_eq!((soon(third.position()).await.unwrap(), soon(fourth.position()).await.unwrap()), (1, 2));

    gpus.force_break_lease(second.token()).await.unwrap();
    let third = soon(third).await.unwrap();
    assert_eq!(third.slot(), 1);
    soon(second.lost()).await;
    assert_eq!((second.slot(), second.held().slot()), (1, 1));
    first.check().unwrap();
    soon(first.release()).await.unwrap();
    assert_eq!(soon(fourth).await.unwrap().slot(), 0);
    drop(third);
}

#[tokio::test]
async fn a_number_that_cannot_be_is_refused_with_what_can_be() {
    let (_server, client) = server_and_client().await;
    for slots in [0, 1001, u32::MAX] {
        let error = client.semaphore("gpu", slots).unwrap_err();
        assert_eq!(error, LockOptions::new().slots(slots).check("gpu").unwrap_err());
        let text = format!("the slots are {slots}: a lock has from 1 to 1000, and with 1 only one may hold it");
        assert_eq!(error.to_string(), text);
    }
    client.semaphore("gpu", 1000).unwrap();
    let twice = client.semaphore_with("gpu", 4, LockOptions::new().slots(4));
    assert!(matches!(twice, Err(InvalidOption::FixedSlots { slots: 4, .. })));
    let keyed = fairlock::compat::KeyedMutex::with_options(&client, "users", LockOptions::new().slots(2));
    assert!(matches!(keyed, Err(InvalidOption::FixedSlots { slots: 2, .. })));
    fairlock::compat::KeyedMutex::with_options(&client, "users", LockOptions::new().slots(1)).unwrap();
}

/// A rolling deployment from 3 to 5, and back.
#[tokio::test]
async fn two_versions_that_disagree_keep_what_each_was_promised() {
    let server = RedisServer::start();
    let (before, after) = (connect(&server).await, connect(&server).await);
    let (three, five) = (semaphore(&before, 3), semaphore(&after, 5));

    // While a lease of three is held, three hold. A try that would allow more is told who does not.
    assert_eq!(soon(five.inspect()).await.unwrap().slots(), None);
    let old = soon(three.acquire().label("old")).await.unwrap();
    let mut new = vec![held(&five).await, held(&five).await];
    assert_eq!(soon(five.inspect()).await.unwrap().slots(), Some(3));
    let told = async |lock: &Lock| soon(lock.try_acquire()).await.unwrap_err().to_string();
    let (three_are_told, five_are_told) = (told(&three).await, told(&five).await);
    assert!(five_are_told.ends_with(", and by 2 others, 0 waiting (3 of 3; this one says 5)"), "{five_are_told}");
    assert!(three_are_told.ends_with(", and by 2 others, 0 waiting"), "{three_are_told}");
    let waiting = soon(five.enqueue()).await.unwrap();
    soon(old.release()).await.unwrap();
    new.push(soon(waiting).await.unwrap());
    while new.len() < 5 {
        new.push(held(&five).await);
    }
    assert!(is_full(&five).await);
    assert!(told(&three).await.ends_with(", 0 waiting (5 of 5; this one says 3)"), "one that would allow fewer, too");
    let mut slots: Vec<u32> = new.iter().map(|guard| guard.slot()).collect();
    slots.sort_unstable();
    assert_eq!(slots, [0, 1, 2, 3, 4]);

    // The first of three waits until it is one of three, and those behind it wait for it.
    let (old, behind) = (soon(three.enqueue()).await.unwrap(), soon(five.enqueue()).await.unwrap());
    for left in [4, 3] {
        soon(new.remove(0).release()).await.unwrap();
        assert_eq!(new.len(), left);
        assert_eq!(soon(old.position()).await.unwrap(), 1);
    }
    soon(new.remove(0).release()).await.unwrap();
    let old = soon(old).await.unwrap();
    assert!(old.slot() < 3 && new.len() == 2);
    assert_eq!(soon(behind.position()).await.unwrap(), 1);
    soon(old.release()).await.unwrap();
    drop(soon(behind).await.unwrap());
}

#[tokio::test]
async fn a_name_is_a_lock_for_some_and_a_semaphore_for_others() {
    let server = RedisServer::start();
    let (one, other) = (connect(&server).await, connect(&server).await);
    let (alone, three) = (semaphore(&one, 1), semaphore(&other, 3));
    let forgotten = held(&one.lock_with("gpu", quiet()).unwrap()).await;
    assert_eq!((alone.slots(), three.slots(), forgotten.slots()), (1, 3, 1));
    assert!(is_full(&three).await, "whoever has one slot is alone");
    assert_eq!(three.inspect().await.unwrap().holders[0].slots, 1);
    soon(forgotten.release()).await.unwrap();
    let (first, second) = (held(&three).await, held(&three).await);
    assert_eq!([first.slots(), second.slots()], [3, 3], "each says its own");
    let last = soon(alone.enqueue()).await.unwrap();
    assert_eq!(three.inspect().await.unwrap().queue[0].slots, 1);
    soon(first.release()).await.unwrap();
    assert_eq!(soon(last.position()).await.unwrap(), 1);
    soon(second.release()).await.unwrap();
    drop(soon(last).await.unwrap());
}

/// Each lease was granted before the loss, and none of them was over.
#[tokio::test]
async fn all_holders_come_back_to_their_slots_after_a_loss_of_data() {
    let server = RedisServer::start();
    let clients = [connect(&server).await, connect(&server).await];
    let gpus = clients.each_ref().map(|client| {
        let options = LockOptions::new().lease(Duration::from_secs(6)).renew_every(Duration::from_millis(100));
        client.lock_with("gpu", options.slots(3)).unwrap()
    });
    let guards = [held(&gpus[0]).await, held(&gpus[0]).await, held(&gpus[1]).await];
    server.flush();
    let are_back = async || gpus[0].inspect().await.unwrap().holders.len() == 3;
    eventually_async("all holders are back", SOON, are_back).await;
    let state = gpus[0].inspect().await.unwrap();
    let seen: Vec<_> = state.holders.iter().map(|holder| (holder.slot, holder.token)).collect();
    assert_eq!(seen, guards.each_ref().map(|guard| (guard.slot(), guard.token())));
    let waiting = soon(gpus[1].enqueue()).await.unwrap();
    for guard in &guards {
        soon(guard.renewed()).await.unwrap();
    }
    let [first, ..] = guards;
    soon(first.release()).await.unwrap();
    let next = tokio::time::timeout(SOON, waiting).await.unwrap().unwrap();
    assert_eq!(next.slot(), 0);
}

#[tokio::test]
async fn history_tells_the_slots() {
    if testkit::run::version() < (6, 2) {
        return;
    }
    let (_server, client) = server_and_client().await;
    let gpus = semaphore(&client, 2);
    gpus.record_history(true).await.unwrap();
    let (first, second) = (held(&gpus).await, held(&gpus).await);
    soon(second.release()).await.unwrap();
    soon(first.release()).await.unwrap();
    let slots: Vec<u32> = gpus.history(10).await.unwrap().grants.iter().map(|grant| grant.slot).collect();
    assert_eq!(slots, [0, 1]);
}

#[tokio::test]
async fn an_owner_is_found_in_whichever_slot_it_is() {
    let (_server, client) = server_and_client().await;
    let gpus = semaphore(&client, 2);
    let (others, mine) = (gpus.acquire().owner("other").await.unwrap(), gpus.acquire().owner("me").await.unwrap());
    match soon(Ownership::of(gpus.try_acquire().owner("me"))).await.unwrap() {
        Ownership::Mine(holder) => assert_eq!((holder.slot, holder.token), (1, mine.token())),
        other => panic!("{other:?}"),
    }
    let third = soon(Ownership::of(gpus.try_acquire().owner("third"))).await.unwrap();
    assert!(!third.is_mine() && third.owner() == "other", "{third:?}");
    soon(others.release()).await.unwrap();
    assert!(matches!(soon(Ownership::of(gpus.try_acquire().owner("me"))).await.unwrap(), Ownership::Granted(_)));
}

#[tokio::test]
async fn a_try_is_told_how_many_hold_it_and_the_sixteen_lowest_slots() {
    let (server, client) = server_and_client().await;
    let [pool, alone] = [40, 1].map(|slots| semaphore(&client, slots));
    let acquires = (0..40).map(|number| pool.acquire().owner(format!("job {number}")));
    let mut guards = soon(try_join_all(acquires)).await.unwrap();
    guards.sort_by_key(|guard| guard.slot());
    let told = async || match soon(alone.try_acquire()).await {
        Err(TryAcquireError::Busy { held, holders, .. }) => {
            (held, holders.iter().map(|holder| (holder.slot, holder.token)).collect::<Vec<_>>())
        }
        other => panic!("{other:?}"),
    };
    let lowest = |guards: &[Guard]| guards[..16].iter().map(|guard| (guard.slot(), guard.token())).collect();
    assert_eq!(told().await, (40, lowest(&guards)));
    soon(guards.remove(3).release()).await.unwrap();
    assert_eq!(told().await, (39, lowest(&guards)));

    // Nobody but the server knows whether one that a try is not told of has this owner.
    let mut monitor = Monitor::start(&server);
    let last = guards.last().unwrap();
    match soon(Ownership::of(alone.try_acquire().owner(last.owner().to_owned()))).await.unwrap() {
        Ownership::Mine(holder) => assert_eq!((holder.slot, holder.token), (39, last.token())),
        other => panic!("{other:?}"),
    }
    assert_eq!(calls(&mut monitor, "inspect"), 1);
    let first = soon(Ownership::of(alone.try_acquire().owner(guards[0].owner().to_owned()))).await.unwrap();
    assert!(first.is_mine());
    guards.truncate(16);
    let is_told = async || told().await == (16, lowest(&guards));
    eventually_async("the others are gone", SOON, is_told).await;
    let before = calls(&mut monitor, "inspect");
    let last = guards.last().unwrap();
    let found = soon(Ownership::of(alone.try_acquire().owner(last.owner().to_owned()))).await.unwrap();
    assert!(found.is_mine(), "{found:?}");
    assert_eq!(calls(&mut monitor, "inspect"), before, "the try was told of all");
}

#[tokio::test]
async fn all_holders_are_read_in_pages() {
    let (server, client) = server_and_client().await;
    let pool = semaphore(&client, 1000);
    let mut guards = soon(try_join_all((0..1000).map(|_| pool.acquire()))).await.unwrap();
    guards.sort_by_key(|guard| guard.slot());
    let waiters: Vec<_> = soon(try_join_all((0..501).map(|_| pool.enqueue()))).await.unwrap();
    let tickets: Vec<u64> = waiters.iter().map(|waiter| waiter.ticket()).collect();
    let mut monitor = Monitor::start(&server);
    let state = soon(pool.inspect()).await.unwrap();
    let seen: Vec<_> = state.holders.iter().map(|holder| (holder.slot, holder.token)).collect();
    assert_eq!(seen, guards.iter().map(|guard| (guard.slot(), guard.token())).collect::<Vec<_>>());
    let seen: Vec<_> = state.queue.iter().map(|waiter| waiter.ticket).collect();
    assert_eq!(seen, tickets);
    // The last one tells that there are no more.
    assert_eq!(calls(&mut monitor, "inspect"), 3);

    // One lease is looked up where it is.
    assert!(soon(verify(guards.last().unwrap())).await.unwrap());
    assert!(soon(is_locked_by_anyone(&pool)).await.unwrap());
    assert_eq!(calls(&mut monitor, "inspect"), 5);
}

/// A client whose leases fill a lock: each is renewed, found and given back for itself.
#[tokio::test]
async fn a_client_may_have_many_leases_of_one_lock() {
    let (server, client) = server_and_client().await;
    let options = quiet().slots(64).renew_every(Duration::from_millis(50));
    let pool = client.lock_with("pool", options).unwrap();
    let guards = soon(try_join_all((0..64).map(|_| pool.acquire()))).await.unwrap();
    let mut slots: Vec<u32> = guards.iter().map(|guard| guard.slot()).collect();
    slots.sort_unstable();
    assert!(slots.into_iter().eq(0..64));
    soon(try_join_all(guards.iter().map(|guard| guard.renewed()))).await.unwrap();
    let waiting = soon(try_join_all((0..64).map(|_| pool.enqueue()))).await.unwrap();
    assert!(is_full(&pool).await);
    let before: BTreeSet<u64> = guards.iter().map(|guard| guard.token()).collect();
    guards.into_iter().for_each(drop);
    let next = soon(try_join_all(waiting)).await.unwrap();
    assert!(next.iter().all(|guard| Some(&guard.token()) > before.last()));
    keys_left_after(next, &server);
}

/// A stranger comes first, so that the server knows of no loss. The older lease returns to its own slot, if both let the
/// other in; otherwise the later one stands.
#[tokio::test]
async fn after_a_loss_a_lease_comes_back_beside_a_strangers_that_it_fits_with() {
    for (of_stranger, fits) in [(5, true), (1, false)] {
        let server = RedisServer::start();
        let three = semaphore(&connect(&server).await, 3);
        let (first, second) = (held(&three).await, held(&three).await);
        soon(first.release()).await.unwrap();
        server.flush();
        let stranger = held(&semaphore(&connect(&server).await, of_stranger)).await;
        assert_eq!((stranger.slot(), second.slot()), (0, 1));
        let renewed = soon(second.renew()).await;
        assert_eq!(renewed.is_ok(), fits, "{renewed:?}");
        stranger.check().unwrap();
        let holders = three.inspect().await.unwrap().holders;
        let tokens: Vec<u64> = holders.iter().map(|holder| holder.token).collect();
        let expected = [stranger.token(), second.token()];
        assert_eq!(tokens, expected[..if fits { 2 } else { 1 }]);
    }
}

/// Acquires that are dropped while their answers are under way, next to leases of the same client.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dropped_acquire_leaves_no_lease_among_those_of_its_client() {
    let server = RedisServer::start();
    let clients = [connect(&server).await, connect(&server).await];
    let rounds = (0..2 * 8).map(|number| {
        let (pool, writer) = (semaphore(&clients[number % 2], 1000), semaphore(&clients[number % 2], 1));
        async move {
            for round in 0..100_u64 {
                let after = Duration::from_micros(fastrand::u64(0..3000));
                let lock = if number == 0 && round % 10 == 0 { &writer } else { &pool };
                if round % 3 == 0 {
                    drop(tokio::time::timeout(after, lock.try_acquire()).await);
                } else {
                    drop(tokio::time::timeout(after, lock.acquire()).await);
                }
            }
        }
    });
    let tasks: Vec<_> = rounds.map(tokio::spawn).collect();
    for task in tasks {
        task.await.unwrap();
    }
    let pool = semaphore(&clients[0], 1000);
    let is_empty = async || pool.inspect().await.unwrap().holders.is_empty();
    eventually_async("nobody holds it", SOON, is_empty).await;
}
