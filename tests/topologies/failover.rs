//! Sentinels and clusters: waiters and holders do not notice what happens to the servers.
use std::time::Duration;

use fairlock::{Client, Guard, LockOptions, Waiting};
use testkit::cluster::Cluster;
use testkit::sentinel::{MASTER, Sentinels};
use testkit::watch::Counter;
use testkit::{RedisServer, eventually, quiet, soon};

/// The lease outlives an election on a slow machine.
fn patient() -> LockOptions {
    LockOptions::new().lease(Duration::from_secs(60)).liveness(Duration::from_secs(20))
}

/// A holder, and four waiters of four clients in this order.
async fn queue(url: &str, name: &str) -> (Guard, Vec<Waiting>) {
    queue_with(&patient(), url, name).await
}

async fn queue_with(options: &LockOptions, url: &str, name: &str) -> (Guard, Vec<Waiting>) {
    let lock = async || Client::connect(url).await.unwrap().lock_with(name, options.clone()).unwrap();
    let guard = soon(lock().await.acquire()).await.unwrap();
    let mut waiting = Vec::new();
    for _ in 0..4 {
        waiting.push(soon(lock().await.enqueue()).await.unwrap());
    }
    (guard, waiting)
}

async fn lock(url: &str, name: &str) -> fairlock::Lock {
    Client::connect(url).await.unwrap().lock_with(name, patient()).unwrap()
}

/// All waiters are served in order, with rising tokens.
async fn serve(guard: Guard, waiting: Vec<Waiting>) {
    let mut token = guard.token();
    guard.check().unwrap();
    soon(guard.release()).await.unwrap();
    for waiter in waiting {
        let ticket = waiter.ticket();
        let guard = tokio::time::timeout(testkit::SOON * 2, waiter).await.expect("nobody is forgotten").unwrap();
        assert!(guard.ticket() == ticket && guard.token() > token, "{guard:?} after the token {token}");
        token = guard.token();
        soon(guard.release()).await.unwrap();
    }
}

/// Waits until replicas have the writes: a promotion without them is another test.
fn replicated(master: &RedisServer, replicas: u64) {
    let mut raw = master.raw();
    let _: () = redis::cmd("SET").arg("{x}written").arg(1).arg("PX").arg(1).query(&mut raw).unwrap();
    eventually("replicas have everything", testkit::SOON, || {
        redis::cmd("WAIT").arg(replicas).arg(100).query::<u64>(&mut raw).unwrap() >= replicas
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn waiters_and_holders_keep_what_they_have_when_a_master_is_killed() {
    let set_up = Sentinels::start();
    let (guard, waiting) = queue(&set_up.url(), "x").await;
    let old = set_up.master();
    replicated(old, 2);
    old.kill();
    set_up.await_failover(old);
    serve(guard, waiting).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_master_that_is_demoted_while_it_runs_is_left_by_its_clients() {
    let set_up = Sentinels::builder().alert().start();
    let sentinels: Vec<String> = set_up.sentinels().iter().map(|s| format!("127.0.0.1:{}", s.port())).collect();
    let client = Client::builder().sentinel(&sentinels, MASTER).connect().await.unwrap();
    let lock = client.lock_with("x", patient()).unwrap();
    let guard = soon(lock.acquire()).await.unwrap();
    replicated(set_up.master(), 2);
    let old = set_up.master();
    let new = set_up.fail_over();
    set_up.await_replica(old);
    soon(guard.renew()).await.unwrap();
    let mut counter = Counter::start(new);
    soon(lock.inspect()).await.unwrap();
    assert!(counter.so_far().contains_key("evalsha"), "{:?}", counter.so_far());
    soon(guard.release()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_serves_locks_of_all_slots_in_order() {
    let cluster = Cluster::start();
    for name in ["a", "b", "c", "d", "e"] {
        // No heartbeat makes up for a push that does not arrive.
        let (guard, waiting) = queue_with(&quiet(), &cluster.url(), name).await;
        serve(guard, waiting).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_death_of_one_master_does_not_delay_other_slots() {
    let cluster = Cluster::builder().replicas().start();
    let slot = cluster.slot("x");
    let old = cluster.owner(slot);
    let elsewhere = ('a'..='z').map(String::from).find(|name| cluster.owner(cluster.slot(name)).port() != old.port());
    let other = lock(&cluster.url(), &elsewhere.expect("a name in another slot")).await;
    drop(soon(other.acquire()).await.unwrap());
    let (guard, waiting) = queue(&cluster.url(), "x").await;
    replicated(old, 1);

    old.kill();
    // Its own client has locks at the dead master, too.
    soon(other.acquire()).await.unwrap().release().await.unwrap();
    cluster.await_promotion(slot, old);
    serve(guard, waiting).await;
}

/// No request at the frozen master would show its silence; only the subscription of the new lock's channel is under
/// way.
#[tokio::test(flavor = "multi_thread")]
async fn a_new_lock_of_a_frozen_master_is_found_at_the_promoted_one() {
    let cluster = Cluster::builder().replicas().start();
    let slot = cluster.slot("x");
    let old = cluster.owner(slot);
    let known = Client::connect(&cluster.url()).await.unwrap();
    soon(known.lock("x").unwrap().acquire()).await.unwrap().release().await.unwrap();
    let of_old = |name: &String| cluster.slot(name) != slot && cluster.owner(cluster.slot(name)).port() == old.port();
    let new = (0..).map(|number| number.to_string()).find(of_old).unwrap();

    old.stop();
    cluster.await_promotion(slot, old);
    soon(known.lock(&new).unwrap().acquire()).await.unwrap().release().await.unwrap();
}
