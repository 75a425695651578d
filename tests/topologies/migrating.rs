//! Clients of a lock whose slot is migrating. `slot_states.rs` has each request in each state of such a lock.

use std::time::Duration;

use fairlock::{Client, Guard, Lock, Waiting};
use testkit::{Cluster, Monitor, SOON, calm, soon, state::key};

use crate::discovery::name_at;

fn cluster() -> Cluster {
    Cluster::builder().node_timeout(100 * SOON).start()
}

async fn lock(cluster: &Cluster) -> Lock {
    soon(Client::connect(&cluster.url())).await.unwrap().lock_with("x", calm()).unwrap()
}

async fn hand_over(guard: Guard, waiting: Waiting) {
    // The message may come before the waiter has followed its slot.
    soon(waiting.position()).await.unwrap();
    soon(guard.release()).await.unwrap();
    soon(soon(waiting).await.unwrap().release()).await.unwrap();
}

/// It does not fail: it asks again.
async fn refused_for_the_moment(joining: &mut (impl Future + Unpin)) {
    assert!(tokio::time::timeout(Duration::from_millis(300), joining).await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_without_waiters_is_used_while_its_slot_migrates() {
    let cluster = cluster();
    let slot = cluster.slot("x");
    let (first, second) = (lock(&cluster).await, lock(&cluster).await);
    let guard = soon(first.acquire()).await.unwrap();
    let waiting = soon(second.enqueue()).await.unwrap();
    let mut migration = cluster.migrate(slot, cluster.another_master(cluster.owner(slot)));
    // The hand-off takes the last waiter out of the queue, whose key goes with it.
    soon(guard.release()).await.unwrap();
    let guard = soon(waiting).await.unwrap();
    soon(guard.renew()).await.unwrap();
    soon(guard.release()).await.unwrap();
    let guard = soon(first.acquire()).await.unwrap();
    soon(guard.renew()).await.unwrap();
    while migration.step().is_some() {}
    soon(guard.renew()).await.unwrap();
    // At the new node the queue may begin.
    let waiting = soon(second.enqueue()).await.unwrap();
    soon(guard.renew()).await.unwrap();
    migration.finish();
    hand_over(guard, waiting).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_that_nobody_has_used_is_granted_while_its_slot_migrates() {
    let cluster = cluster();
    let slot = cluster.slot("x");
    let migration = cluster.migrate(slot, cluster.another_master(cluster.owner(slot)));
    let guard = soon(lock(&cluster).await.acquire()).await.unwrap();
    soon(guard.renew()).await.unwrap();
    migration.finish();
    soon(guard.renew()).await.unwrap();
    soon(guard.release()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_waiter_queues_when_the_key_of_its_lock_has_moved() {
    let cluster = cluster();
    let slot = cluster.slot("x");
    let guard = soon(lock(&cluster).await.acquire()).await.unwrap();
    let mut migration = cluster.migrate(slot, cluster.another_master(cluster.owner(slot)));
    let mut joining = Box::pin(lock(&cluster).await.enqueue().into_future());
    refused_for_the_moment(&mut joining).await;
    soon(guard.renew()).await.unwrap();
    while migration.step().is_some() {}
    let waiting = soon(joining).await.unwrap();
    migration.finish();
    hand_over(guard, waiting).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_whose_keys_are_on_two_nodes_is_served_when_they_are_on_one() {
    let cluster = cluster();
    let slot = cluster.slot("x");
    let guard = soon(lock(&cluster).await.acquire()).await.unwrap();
    let waiting = soon(lock(&cluster).await.enqueue()).await.unwrap();
    let mut migration = cluster.migrate(slot, cluster.another_master(cluster.owner(slot)));
    migration.take(&key("x"));
    let mut joining = Box::pin(lock(&cluster).await.enqueue().into_future());
    refused_for_the_moment(&mut joining).await;
    migration.finish();
    let third = soon(joining).await.unwrap();
    hand_over(guard, waiting).await;
    soon(soon(third).await.unwrap().release()).await.unwrap();
}

/// What a calm lock has of its holder goes with its key.
#[tokio::test(flavor = "multi_thread")]
async fn a_calm_lock_is_given_back_wherever_its_key_is() {
    let cluster = cluster();
    let slot = cluster.slot("x");
    let (old, new) = (cluster.owner(slot), cluster.another_master(cluster.owner(slot)));
    let client = soon(Client::connect(&cluster.url())).await.unwrap();
    let (first, second) = (lock(&cluster).await, client.lock_with("x", calm()).unwrap());
    // Where it has no connection yet, a release is repeated, and goes by script.
    let elsewhere = client.lock(&name_at(&cluster, new)).unwrap();
    let hold_again = async |lock: &Lock| soon(lock.acquire()).await.unwrap();
    for lock in [&first, &second, &first, &second, &elsewhere] {
        soon(hold_again(lock).await.release()).await.unwrap();
    }
    let guard = hold_again(&first).await;
    let mut monitors = [old, new].map(Monitor::start);
    let mut migration = cluster.migrate(slot, new);
    soon(guard.release()).await.unwrap();
    let guard = hold_again(&second).await;
    while migration.step().is_some() {}
    // The old node names the new one for this request only.
    soon(guard.release()).await.unwrap();
    let guard = hold_again(&first).await;
    migration.finish();
    // The slot has moved, as after a connection that broke.
    soon(guard.release()).await.unwrap();
    let is_hdel = |line: &&String| line.contains("\"HDEL\"") && !line.contains(" lua] ");
    assert_eq!(monitors.each_mut().map(|monitor| monitor.lines().iter().filter(is_hdel).count()), [1, 1]);
    for lock in [&first, &second] {
        let guard = soon(lock.try_acquire()).await.unwrap();
        soon(guard.release()).await.unwrap();
    }
}
