//! ClusterLock: an owner that the caller chooses, a try that answers who owns the lock, and a refresh that asks at each
//! call and writes seldom. The scenarios of its integration suite are the tests of the module `suite`, by their names.

use std::time::{Duration, Instant};

use fairlock::{
    Client, Guard, Lock, LockOptions,
    compat::{Ownership, verify},
    error::TryAcquireError,
};
use testkit::{RedisServer, SOON, connect, eventually_async, keys_left, keys_left_after, server_and_client, soon};

mod suite;

/// A lock of this owner, through a client of its own. Its leases are renewed by `refresh` alone.
async fn lock(server: &RedisServer, owner: &str, lease: Duration) -> Lock {
    of(&connect(server).await, owner, lease)
}

/// A server, and such a lock of each of two owners.
async fn workers(lease: Duration) -> (RedisServer, Lock, Lock) {
    let server = RedisServer::start();
    let (one, two) = (lock(&server, "worker-1", lease).await, lock(&server, "worker-2", lease).await);
    (server, one, two)
}

fn of(client: &Client, owner: &str, lease: Duration) -> Lock {
    client.lock_with("lock", LockOptions::new().lease(lease).manual_renewal().owner(owner)).unwrap()
}

/// A lease so long that it does not end while a test runs.
const LONG: Duration = Duration::from_secs(100);

async fn ownership(lock: &Lock) -> Ownership {
    soon(Ownership::of(lock.try_acquire())).await.unwrap()
}

async fn granted(lock: &Lock) -> Guard {
    match ownership(lock).await {
        Ownership::Granted(guard) => guard,
        other => panic!("{other:?}"),
    }
}

/// What is left of the lease by the server's clock.
async fn left(lock: &Lock) -> Duration {
    lock.inspect().await.unwrap().holders.remove(0).remaining
}

#[tokio::test]
async fn the_same_owner_is_told_so_by_whatever_client_and_gets_no_second_lease() {
    let server = RedisServer::start();
    let (here, there) = (connect(&server).await, connect(&server).await);
    let guard = granted(&of(&here, "worker-1", LONG)).await;
    for client in [&here, &there] {
        let lock = of(client, "worker-1", LONG);
        let answer = ownership(&lock).await;
        let Ownership::Mine(holder) = &answer else { panic!("{answer:?}") };
        assert_eq!((holder.token, &*holder.id, answer.owner()), (guard.token(), &*guard.id(), "worker-1"));
        assert!(answer.is_mine());
        // The answer neither renews nor releases: its drop leaves the lease alone.
        drop(answer);
        assert!(verify(&guard).await.unwrap());
    }
    guard.check().unwrap();
    guard.release().await.unwrap();
    keys_left(&server);
}

#[tokio::test]
async fn acquires_without_an_owner_are_not_by_the_same_one() {
    let server = RedisServer::start();
    let lock = lock(&server, "", LONG).await;
    let guard = granted(&lock).await;
    let answer = ownership(&lock).await;
    assert!(matches!(answer, Ownership::Other(_)) && !answer.is_mine() && answer.owner().is_empty(), "{answer:?}");
    keys_left_after(guard, &server);
}

/// A free lock with waiters has no owner that could be named.
#[tokio::test]
async fn a_try_behind_a_queue_is_busy_and_names_nobody() {
    let server = RedisServer::start();
    let (lock, other) = (lock(&server, "worker-1", LONG).await, lock(&server, "worker-2", LONG).await);
    let guard = granted(&lock).await;
    let waiting = soon(other.enqueue()).await.unwrap();
    server.flush();
    // The waiter hears of the loss and returns; the server waits for the holder, which has not heard of it.
    eventually_async("it returns", SOON, async || other.inspect().await.unwrap().waiting == 1).await;
    let busy = soon(Ownership::of(other.try_acquire())).await;
    let nobody = matches!(
        &busy,
        Err(TryAcquireError::Busy { holders, waiting: 1, recovering_for: Some(_), .. }) if holders.is_empty()
    );
    assert!(nobody, "{busy:?}");
    keys_left_after((waiting, guard), &server);
}

/// The texts of a lock, and those of a guard.
#[tokio::test]
async fn getters_tell_name_owner_label_lease_and_id() {
    let server = RedisServer::start();
    let client = Client::builder().url(&server.url()).label("the client").connect().await.unwrap();
    let plain = client.lock("plain").unwrap();
    assert_eq!((plain.name(), plain.owner(), plain.label()), ("plain", "", "the client"));
    let options = LockOptions::new().lease(LONG).owner("worker-1").label("the lock");
    let lock = client.lock_with("lock", options).unwrap();
    let of_lock = (lock.name(), lock.owner(), lock.label(), lock.lease_length());
    assert_eq!(of_lock, ("lock", "worker-1", "the lock", LONG));

    let called = std::time::SystemTime::now();
    let guard = soon(lock.acquire()).await.unwrap();
    let held = guard.held();
    assert_eq!((guard.name(), guard.owner(), guard.label(), guard.lease_length()), of_lock);
    assert_eq!((held.name(), held.owner(), held.label(), held.lease_length()), of_lock);
    assert_eq!((held.id(), held.ticket(), held.token()), (guard.id(), guard.ticket(), guard.token()));
    assert!(guard.id().starts_with(&format!("{}.", lock.client_id())));
    assert!(guard.granted_at() >= called && guard.granted_at() <= std::time::SystemTime::now());
    assert!(guard.waited() < SOON && held.waited() == guard.waited() && held.granted_at() == guard.granted_at());

    // An acquire may name other texts.
    let waits = lock.acquire().owner("another").label("label");
    let begun = Instant::now();
    let (next, ()) = tokio::join!(soon(waits), async {
        eventually_async("it waits", SOON, async || lock.inspect().await.unwrap().waiting == 1).await;
        tokio::time::sleep(Duration::from_millis(20)).await;
        guard.release().await.unwrap();
    });
    let next = next.unwrap();
    assert_eq!((next.owner(), next.label()), ("another", "label"));
    assert!(next.waited() >= Duration::from_millis(20) && next.waited() <= begun.elapsed(), "{:?}", next.waited());
    keys_left_after(next, &server);
}

#[tokio::test]
async fn owners_and_labels_of_locks_have_bounds() {
    let (_server, client) = server_and_client().await;
    let long = "x".repeat(4097);
    for options in [LockOptions::new().owner(&long), LockOptions::new().label(&long)] {
        client.lock_with("lock", options.clone()).unwrap_err();
        options.check("lock").unwrap_err();
    }
}

/// The bound for the answer of a try is the caller's, and its end is told apart from "busy".
#[tokio::test]
async fn a_try_has_a_timeout_for_the_answer() {
    let (server, one, two) = workers(LONG).await;
    let guard = granted(&one).await;
    let bound = Duration::from_millis(100);
    assert!(matches!(Ownership::of(two.try_acquire().timeout(SOON)).await, Ok(Ownership::Other(_))));
    server.stop();
    let called = Instant::now();
    let unknown = soon(Ownership::of(two.try_acquire().timeout(bound))).await.unwrap_err();
    assert!(called.elapsed() >= bound, "{:?}", called.elapsed());
    let fault = matches!(&unknown, TryAcquireError::Fault(fairlock::error::Fault::Unavailable { waited, .. }) if *waited >= bound);
    assert!(fault, "{unknown}");
    server.cont();
    keys_left_after(guard, &server);
}
