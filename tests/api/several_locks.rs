//! Several locks under one guard, and one guard of several tasks.

use std::future::IntoFuture as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fairlock::{
    AllGuard, CancellationToken, Client, LockAll, LockOptions,
    compat::is_locked_by_anyone,
    error::{AcquireError, InvalidOption, LockAllError, LostReason},
};
use futures_util::future::try_join_all;
use testkit::{
    RedisServer, SOON, connect, eventually_async, keys_left, keys_left_after, quiet, server_and_client, soon,
};

async fn is_held(client: &Client, name: &str) -> bool {
    is_locked_by_anyone(&client.lock(name).unwrap()).await.unwrap()
}

async fn waiting(client: &Client, name: &str) -> u64 {
    client.lock(name).unwrap().inspect().await.unwrap().waiting
}

async fn all(client: &Client, names: &[&str]) -> AllGuard {
    soon(client.lock_all_with(names, quiet()).unwrap()).await.unwrap()
}

fn failed_at(error: LockAllError) -> (String, AcquireError) {
    match error {
        LockAllError::Acquire { name, error, .. } => (name.to_string(), error),
        other => panic!("{other}"),
    }
}

/// A case that a machine which stands still meanwhile takes for another one. So it is repeated with twice the time until
/// that has not happened; a case that comes out wrong for another reason does so each time.
async fn in_some_time<T>(mut case: impl AsyncFnMut(Duration) -> Option<T>) -> T {
    let mut time = Duration::from_millis(200);
    while time < SOON / 2 {
        if let Some(came_out) = case(time).await {
            return came_out;
        }
        time *= 2;
    }
    panic!("it never came out as it should, in up to {time:?}");
}

#[tokio::test]
async fn several_locks_are_taken_in_the_order_of_their_names_and_given_back_together() {
    let (server, client) = server_and_client().await;
    let locks = client.lock_all_with(["b", "c", "a", "b"], quiet()).unwrap().label("job 7").owner("me");
    assert_eq!(locks.names().collect::<Vec<_>>(), ["a", "b", "c"]);
    let guard = soon(locks).await.unwrap();
    let tokens: Vec<(&str, u64)> = guard.tokens().collect();
    assert!(tokens.iter().map(|(name, _)| *name).eq(["a", "b", "c"]), "{tokens:?}");
    for (name, token) in &tokens {
        let holder = client.lock(name).unwrap().inspect().await.unwrap().holders.remove(0);
        assert_eq!((holder.token, &*holder.label, &*holder.owner), (*token, "job 7", "me"));
    }
    assert!(guard.check().is_ok() && guard.remaining() > SOON);
    assert_eq!(guard.guards().len(), 3);
    soon(guard.release()).await.unwrap();
    for name in ["a", "b", "c"] {
        assert!(!is_held(&client, name).await);
    }
    keys_left_after(all(&client, &["b", "a"]).await, &server);
}

/// Each process names them in another order, as people do.
#[tokio::test]
async fn clients_that_take_several_locks_do_not_deadlock() {
    let server = RedisServer::start();
    let clients = [connect(&server).await, connect(&server).await, connect(&server).await];
    let orders = [["a", "b", "c"], ["c", "b", "a"], ["b", "c", "a"]];
    let jobs = (0..60).map(|job| {
        let locks = clients[job % 3].lock_all_with(orders[job % 3], quiet()).unwrap();
        tokio::spawn(async move { locks.await.unwrap().release().await })
    });
    for released in soon(try_join_all(jobs)).await.unwrap() {
        released.unwrap();
    }
    keys_left(&server);
}

#[tokio::test]
async fn several_locks_are_acquired_by_one_timeout_or_not_at_all() {
    let server = RedisServer::start();
    let (client, other) = (connect(&server).await, connect(&server).await);
    let guard = all(&other, &["b"]).await;
    let late = in_some_time(async |bound| {
        let called = Instant::now();
        let late = soon(client.lock_all(["c", "b", "a"]).unwrap().timeout(bound).into_future()).await.unwrap_err();
        assert!(called.elapsed() >= bound);
        // The first lock is free, and its answer takes a while.
        late.to_string().contains(r#""b""#).then_some(late)
    })
    .await;
    assert!(late.to_string().starts_with(r#"the lock "b", one of several, was not acquired: not granted"#), "{late}");
    let (name, error) = failed_at(late);
    assert!(matches!(error, AcquireError::Timeout { .. }), "{error}");
    assert_eq!(name, "b");
    // The first lock was held meanwhile, and is given back. The last one was never asked for.
    eventually_async("it is given back", SOON, async || !is_held(&client, "a").await).await;
    assert_eq!(waiting(&client, "b").await, 0);

    // With a timeout of zero each lock is only tried.
    let (name, _) = failed_at(soon(client.lock_all(["a", "b"]).unwrap().timeout(Duration::ZERO)).await.unwrap_err());
    assert_eq!(name, "b");
    guard.release().await.unwrap();
    soon(client.lock_all(["b", "a"]).unwrap().timeout(Duration::ZERO)).await.unwrap().release().await.unwrap();
    keys_left(&server);
}

/// The time that the first lock took is not left for the next one.
#[tokio::test]
async fn the_timeout_is_for_all_locks_together() {
    let server = RedisServer::start();
    let (client, other) = (connect(&server).await, connect(&server).await);
    let second = all(&other, &["b"]).await;
    in_some_time(async |bound| {
        let first = all(&other, &["a"]).await;
        let called = Instant::now();
        let locks = client.lock_all_with(["a", "b"], quiet()).unwrap().timeout(bound);
        let (late, ()) = tokio::join!(soon(locks), async {
            tokio::time::sleep(bound / 2).await;
            drop(first);
        });
        assert!(called.elapsed() >= bound, "{:?}", called.elapsed());
        let (name, AcquireError::Timeout { waited, .. }) = failed_at(late.unwrap_err()) else { panic!("not too late") };
        (name == "b" && waited < bound * 9 / 10).then_some(())
    })
    .await;
    keys_left_after(second, &server);
}

#[tokio::test]
async fn a_guard_of_several_locks_is_lost_when_one_is() {
    let server = RedisServer::start();
    let (client, operator) = (connect(&server).await, connect(&server).await);
    let guard = all(&client, &["a", "b", "c"]).await;
    let token = guard.guards()[1].token();
    operator.lock("b").unwrap().break_lease(token).await.unwrap();
    let lost = soon(guard.lost()).await;
    assert_eq!((&*lost.name, lost.token, &lost.reason), ("b", token, &LostReason::Broken));
    assert_eq!(guard.check().unwrap_err(), lost);
    soon(guard.release()).await.unwrap_err();
    eventually_async("all are free", SOON, async || !is_held(&client, "a").await && !is_held(&client, "c").await).await;

    // A loss also ends an acquire that still waits for other locks.
    let other = all(&operator, &["b"]).await;
    let (lost, ()) = tokio::join!(soon(client.lock_all_with(["a", "b"], quiet()).unwrap()), async {
        eventually_async("it waits", SOON, async || waiting(&client, "b").await == 1).await;
        let first = operator.lock("a").unwrap();
        let token = first.inspect().await.unwrap().holders.remove(0).token;
        first.break_lease(token).await.unwrap();
    });
    assert!(matches!(lost, Err(LockAllError::Lost(lost)) if *lost.name == *"a"));
    keys_left_after(other, &server);
}

#[tokio::test]
async fn a_job_under_several_locks_ends_with_the_first_lost_lease() {
    let (server, client) = server_and_client().await;
    let locks = || client.lock_all_with(["a", "b"], quiet()).unwrap();
    let held = locks().run(async |held| held).await.unwrap();
    assert!(held.len() == 2 && held[0].token() < held[1].token(), "{held:?}");
    assert!(!is_held(&client, "a").await && !is_held(&client, "b").await);
    let ended = locks().run(async |held| {
        client.lock("b").unwrap().force_break_lease(held[1].token()).await.unwrap();
        std::future::pending::<()>().await;
    });
    assert!(matches!(soon(ended).await, Err(LockAllError::Lost(lost)) if *lost.name == *"b"));
    keys_left(&server);
}

#[test]
fn several_locks_are_waited_for_on_the_spot() {
    let server = RedisServer::start();
    let client = Client::connect(&server.url()).blocking().unwrap();
    let guard = client.lock_all(["a", "b"]).unwrap().blocking().unwrap();
    let cancellation = CancellationToken::new();
    let locks = client.lock_all(["a", "b"]).unwrap().cancelled_by(&cancellation);
    let thread = std::thread::spawn(move || locks.blocking());
    testkit::eventually("it waits", SOON, || client.lock("a").unwrap().inspect().blocking().unwrap().waiting == 1);
    cancellation.cancel();
    let (name, error) = failed_at(thread.join().unwrap().unwrap_err());
    assert_eq!((&*name, error), ("a", AcquireError::Cancelled));
    guard.release().blocking().unwrap();
    let locks = || client.lock_all_with(["a", "b"], quiet()).unwrap();
    assert_eq!(locks().run_blocking(|held| held.len()).unwrap(), 2);
    let ended = locks().run_blocking(|held| client.lock("b").unwrap().force_break_lease(held[1].token()).blocking());
    assert!(matches!(ended, Err(LockAllError::Lost(lost)) if *lost.name == *"b"));
    keys_left(&server);
}

/// A semaphore, a reader and a writer: each name once, and of two that differ the one that lets fewer in.
#[tokio::test]
async fn locks_of_all_kinds_are_taken_together() {
    let (server, client) = server_and_client().await;
    let gpus = client.lock_with("gpu", quiet().slots(2)).unwrap();
    let index = client.rw_lock_with("index", quiet()).unwrap();
    let locks = || client.lock_all_with(["b", "reports"], quiet()).unwrap().and(&gpus);
    let other = soon(gpus.acquire()).await.unwrap();
    let reading = soon(locks().and(index.reader()).label("job 7")).await.unwrap();
    let seen: Vec<_> = reading.guards().iter().map(|held| (held.name(), held.slot(), held.label())).collect();
    assert_eq!(seen, [("b", 0, "job 7"), ("gpu", 1, "job 7"), ("index", 0, "job 7"), ("reports", 0, "job 7")]);
    drop(soon(index.try_read()).await.unwrap());
    soon(reading.release()).await.unwrap();
    other.release().await.unwrap();

    let without_names = soon(LockAll::from(&gpus).and(index.reader()).and(&gpus)).await.unwrap();
    let seen: Vec<_> = without_names.guards().iter().map(|held| (held.name(), held.slots())).collect();
    assert_eq!(seen, [("gpu", 2), ("index", 1000)]);
    soon(without_names.release()).await.unwrap();

    let twice = [index.reader(), index.writer(), index.reader()];
    let slots =
        twice.iter().fold(locks(), |locks, lock| locks.and(lock)).and(&client.lock_with("gpu", quiet()).unwrap());
    assert_eq!(slots.names().collect::<Vec<_>>(), ["b", "gpu", "index", "reports"]);
    let inspected = soon(slots.run(async |held| {
        assert_eq!(held.iter().map(|held| held.slot()).collect::<Vec<_>>(), [0; 4]);
        [gpus.inspect().await.unwrap(), index.reader().inspect().await.unwrap()]
    }));
    assert!(inspected.await.unwrap().iter().all(|state| state.holders[0].slots == 1));
    keys_left(&server);
}

#[tokio::test]
async fn locks_of_two_clients_are_not_taken_together() {
    let server = RedisServer::start();
    let (one, other) = (connect(&server).await, connect(&server).await);
    let stranger = other.lock("b").unwrap();
    let all = one.lock_all(["a"]).unwrap();
    all.clone().and(&one.clone().lock("b").unwrap()).await.unwrap().release().await.unwrap();
    for locks in [all.clone().and(&stranger), one.lock_all(["a", "b"]).unwrap().and(&stranger)] {
        let (name, error) = failed_at(soon(locks).await.unwrap_err());
        let refused = matches!(error, AcquireError::Invalid(InvalidOption::OtherClient { .. }));
        assert!(name == "b" && refused, "{name} {error}");
    }
    keys_left(&server);
}

#[tokio::test]
async fn a_dropped_acquire_of_several_locks_leaves_nothing() {
    let (server, client) = server_and_client().await;
    let guard = all(&client, &["b"]).await;
    let task = tokio::spawn(client.lock_all_with(["a", "b"], quiet()).unwrap().into_future());
    eventually_async("it waits", SOON, async || waiting(&client, "b").await == 1).await;
    task.abort();
    eventually_async("it has left", SOON, async || waiting(&client, "b").await == 0).await;
    eventually_async("it is given back", SOON, async || !is_held(&client, "a").await).await;
    keys_left_after(guard, &server);
}

#[test]
fn a_list_of_names_is_checked_before_anything_is_sent() {
    let client = Client::connect_lazy("redis://127.0.0.1:1/").unwrap();
    let none: [&str; 0] = [];
    assert_eq!(client.lock_all(none).unwrap_err(), InvalidOption::NoNames);
    assert_eq!(client.lock_all(["a", ""]).unwrap_err(), InvalidOption::EmptyName);
    let impossible = LockOptions::new().lease(Duration::ZERO);
    assert!(matches!(client.lock_all_with(["a"], impossible), Err(InvalidOption::Duration { .. })));
}

#[tokio::test]
async fn tasks_share_a_guard_and_the_last_of_them_gives_the_lock_back() {
    let (server, client) = server_and_client().await;
    let lock = client.lock_with("lock", quiet()).unwrap();
    let guard = Arc::new(soon(lock.acquire()).await.unwrap());
    let tasks = (0..3).map(|_| guard.clone()).map(|guard| async move { guard.renew().await });
    for renewed in soon(try_join_all(tasks.map(tokio::spawn))).await.unwrap() {
        renewed.unwrap();
    }
    let last = guard.clone();
    drop(guard);
    assert!(is_held(&client, "lock").await);
    soon(Arc::into_inner(last).unwrap().release()).await.unwrap();
    assert!(!is_held(&client, "lock").await);
    keys_left_after(lock, &server);
}
