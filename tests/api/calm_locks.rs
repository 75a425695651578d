//! Releases of locks where nothing else happens: an HDEL gives the lease back, and the script follows where somebody
//! came meanwhile (I6, I9).

use fairlock::{Client, Lock, LockOptions, error::TryAcquireError};
use testkit::{
    Act, Monitor, Proxy, RedisServer, SOON, Target, calm, connect, eventually_async, keys_left, keys_left_after,
    server_and_client, soon,
};

/// A lock whose next grant leaves it calm: it was granted twice, and nobody holds it or waits.
async fn calm_lock(client: &Client, name: &str, options: LockOptions) -> Lock {
    let lock = client.lock_with(name, options).unwrap();
    for _ in 0..2 {
        soon(lock.acquire()).await.unwrap().release().await.unwrap();
    }
    lock
}

/// What clients have sent for locks: the names of scripts, and each HDEL.
fn sent(monitor: &mut Monitor) -> Vec<&'static str> {
    let verbs = fairlock::__hooks::verbs().map(|(verb, _)| (verb, fairlock::__hooks::digest(verb)));
    let names: Vec<(&str, String)> = verbs.chain([("HDEL", "\"HDEL\"".to_owned())]).collect();
    let name = |line: &String| Some(names.iter().find(|(_, text)| line.contains(text.as_str()))?.0);
    monitor.lines().iter().filter(|line| !line.contains(" lua] ")).filter_map(name).collect()
}

#[tokio::test]
async fn an_uncontended_cycle_is_two_scripts_and_soon_a_script_and_an_hdel() {
    let (server, client) = server_and_client().await;
    let lock = client.lock_with("lock", calm()).unwrap();
    // In a cluster, a client asks for the messages of a lock before it asks for the lock, once.
    lock.acquire().await.unwrap().release().await.unwrap();
    let mut monitor = Monitor::start(&server);
    for cycles in [&["acquire", "release"][..], &["acquire", "release", "acquire", "HDEL"]] {
        lock.acquire().await.unwrap().release().await.unwrap();
        assert_eq!(sent(&mut monitor), cycles);
    }
    // The release of a guard that is dropped is not awaited, and costs no more.
    keys_left_after(lock.acquire().await.unwrap(), &server);
    assert_eq!(sent(&mut monitor)[4..], ["acquire", "HDEL"]);
}

#[tokio::test]
async fn every_way_to_hold_a_calm_lock_is_a_script_and_an_hdel() {
    let (server, client) = server_and_client().await;
    let lock = calm_lock(&client, "lock", calm()).await;
    let several = ["a", "b", "c"];
    for name in several {
        calm_lock(&client, name, calm()).await;
    }
    let mut monitor = Monitor::start(&server);
    let guard = soon(lock.acquire()).await.unwrap();
    let token = guard.token();
    guard.release().await.unwrap();
    assert_eq!(sent(&mut monitor), ["acquire", "HDEL"]);
    // A try, a guard that is dropped, and another client, for which the lock is calm as well.
    drop(soon(lock.try_acquire()).await.unwrap());
    let guard = soon(lock.acquire()).await.unwrap();
    assert!(guard.token() > token);
    guard.release().await.unwrap();
    let other = connect(&server).await.lock_with("lock", calm()).unwrap();
    let mut monitor = Monitor::start(&server);
    soon(other.acquire().run(async |_| {})).await.unwrap();
    assert_eq!(sent(&mut monitor), ["acquire", "HDEL"]);
    // All of several locks, together.
    soon(client.lock_all_with(several, calm()).unwrap()).await.unwrap().release().await.unwrap();
    let mut together = sent(&mut monitor).split_off(2);
    together.sort();
    assert_eq!(together, ["HDEL", "HDEL", "HDEL", "acquire", "acquire", "acquire"]);
    keys_left(&server);
}

#[tokio::test]
async fn a_lock_that_got_a_waiter_meanwhile_is_handed_off_at_once() {
    let (server, client) = server_and_client().await;
    let other = connect(&server).await;
    for slots in [1, 2] {
        let name = format!("lock {slots}");
        let options = || calm().slots(slots);
        let lock = calm_lock(&client, &name, options()).await;
        let guard = soon(lock.acquire()).await.unwrap();
        let there = other.lock_with(&name, options()).unwrap();
        let mut held = Vec::new();
        for _ in 1..slots {
            held.push(soon(there.acquire()).await.unwrap());
        }
        let waiting = soon(there.enqueue()).await.unwrap();
        let mut monitor = Monitor::start(&server);
        guard.release().await.unwrap();
        // No heartbeat would tell it while the test runs.
        let next = soon(waiting).await.unwrap();
        let requests = sent(&mut monitor);
        assert_eq!(requests[..2], ["HDEL", "release"], "{slots}: {requests:?}");
        next.release().await.unwrap();
    }
    keys_left_after((client, other), &server);
}

#[tokio::test]
async fn a_renewed_lease_is_given_back_by_the_script() {
    let (server, client) = server_and_client().await;
    let lock = calm_lock(&client, "lock", calm()).await;
    let guard = soon(lock.acquire()).await.unwrap();
    guard.renew().await.unwrap();
    let mut monitor = Monitor::start(&server);
    guard.release().await.unwrap();
    assert_eq!(sent(&mut monitor), ["release"]);
    keys_left(&server);
}

/// The script follows the HDEL, and the try is sent between them.
#[tokio::test]
async fn a_try_after_a_drop_finds_the_lock_free_although_others_looked_for_it() {
    let (server, client) = server_and_client().await;
    let other = connect(&server).await.lock_with("lock", calm()).unwrap();
    let lock = calm_lock(&client, "lock", calm()).await;
    let guard = soon(lock.acquire()).await.unwrap();
    assert!(matches!(soon(other.try_acquire()).await, Err(TryAcquireError::Busy { .. })));
    drop(guard);
    soon(lock.try_acquire()).await.unwrap().release().await.unwrap();
    keys_left(&server);
}

/// Lost before or after it is executed: the release that follows tells which lease is meant, and no more.
#[tokio::test(flavor = "multi_thread")]
async fn a_release_whose_hdel_is_lost_counts_once_it_is_repeated() {
    for target in [Target::request("hdel"), Target::reply("hdel")] {
        let (server, proxy) = Proxy::of_a_server();
        let client = Client::connect(&proxy.url()).await.unwrap();
        let lock = calm_lock(&client, "lock", calm()).await;
        let guard = soon(lock.acquire()).await.unwrap();
        let lost = proxy.fault_times(1, target.command(), Act::Cut(0));
        let mut monitor = Monitor::start(&server);
        soon(guard.release()).await.unwrap();
        assert_eq!(lost.struck(), 1);
        assert_eq!(sent(&mut monitor).last(), Some(&"release"));
        // Nobody has to wait for anything.
        drop(soon(connect(&server).await.lock_with("lock", calm()).unwrap().try_acquire()).await.unwrap());
        keys_left_after((lock, client), &server);
    }
}

/// It names a lease that is used once.
#[tokio::test(flavor = "multi_thread")]
async fn an_hdel_that_is_executed_late_ends_no_later_lease() {
    // No client may end its old connection here.
    let server = RedisServer::builder().alone().config("rename-command CLIENT \"\"").start();
    let proxy = Proxy::start(&server);
    let client = Client::connect(&proxy.url()).await.unwrap();
    let lock = calm_lock(&client, "lock", calm()).await;
    let guard = soon(lock.acquire()).await.unwrap();
    let held = proxy.fault_times(1, Target::request("hdel").command(), Act::Hold);
    let releasing = tokio::spawn(guard.release());
    tokio::task::block_in_place(|| held.await_struck());
    proxy.abandon();
    soon(releasing).await.unwrap().unwrap();
    let guard = soon(lock.acquire()).await.unwrap();
    let mut monitor = Monitor::start(&server);
    held.lift();
    eventually_async("it is executed", SOON, async || sent(&mut monitor).contains(&"HDEL")).await;
    guard.renew().await.unwrap();
    guard.release().await.unwrap();
    keys_left_after((lock, client), &server);
}
