//! A client with locks in thousands of slots of one node: the work of reaching the node anew grows linearly with their
//! number.
use std::collections::BTreeMap;
use std::time::Duration;

use fairlock::{Client, Guard, Lock};
use redis::cmd;
use rustix::time::{ClockId, clock_gettime};
use testkit::{Cluster, RedisServer, SOON, child::alone, eventually, quiet, run, soon};

/// The slots of the first of three nodes.
const THIRD: u16 = 16_384 / 3;

/// Names in this many slots of the first node.
fn names(cluster: &Cluster, count: usize) -> Vec<String> {
    let mut raw = cluster.owner(0).raw();
    let mut by_slot: BTreeMap<u16, String> = BTreeMap::new();
    for number in 0.. {
        if by_slot.len() == count {
            break;
        }
        let name = format!("x{number}");
        let slot = cmd("CLUSTER").arg("KEYSLOT").arg(&name).query(&mut raw).unwrap();
        if slot < THIRD {
            by_slot.insert(slot, name);
        }
    }
    by_slot.into_values().collect()
}

async fn together<T: Send + 'static>(all: impl Iterator<Item = impl Future<Output = T> + Send + 'static>) -> Vec<T> {
    let tasks: Vec<_> = all.map(tokio::spawn).collect();
    let mut outcomes = Vec::new();
    for task in tasks {
        outcomes.push(soon(task).await.unwrap());
    }
    outcomes
}

/// The processor time for subscribing to all channels anew and for asking for all locks again.
async fn reconnect(node: &RedisServer, guards: Vec<Guard>) -> (Duration, Vec<Guard>) {
    let spent = || Duration::try_from(clock_gettime(ClockId::ProcessCPUTime)).unwrap();
    let (before, mut raw, subscribed) = (spent(), node.raw(), format!(" ssub={} ", guards.len()));
    let killed: u32 = cmd("CLIENT").arg("KILL").arg("TYPE").arg("pubsub").query(&mut raw).unwrap();
    assert_eq!(killed, 1);
    eventually("the client listens to all again", SOON, || {
        let list: String = cmd("CLIENT").arg("LIST").arg("TYPE").arg("pubsub").query(&mut raw).unwrap();
        list.contains(&subscribed)
    });
    let renew = |guard: Guard| async move {
        guard.renew().await.unwrap();
        guard
    };
    let (mut left, mut renewed) = (guards.into_iter().peekable(), Vec::new());
    // Not all at once: on a busy machine the last of four thousand would not be answered in time.
    while left.peek().is_some() {
        renewed.extend(together(left.by_ref().take(100).map(renew)).await);
    }
    (spent() - before, renewed)
}

/// Alone in its process, because it measures the processor time of the whole process.
#[test]
fn four_times_as_many_slots_reconnect_at_about_four_times_the_cost() {
    alone("four_times_as_many_slots_reconnect_at_about_four_times_the_cost", reconnect_few_and_many);
}

#[tokio::main]
async fn reconnect_few_and_many() {
    if run::version() < (7, 0) {
        return;
    }
    const FEW: usize = 1000;
    let cluster = Cluster::builder().node_timeout(100 * SOON).start();
    let client = soon(Client::connect(&cluster.url())).await.unwrap();
    // No lease is renewed in between.
    let options = quiet();
    let names = names(&cluster, 4 * FEW);
    let locks: Vec<Lock> = names.iter().map(|name| client.lock_with(name, options.clone()).unwrap()).collect();
    let acquire = |lock: Lock| async move { lock.acquire().await.unwrap() };

    let guards = together(locks[..FEW].iter().cloned().map(acquire)).await;
    let (few, mut guards) = reconnect(cluster.owner(0), guards).await;
    guards.extend(together(locks[FEW..].iter().cloned().map(acquire)).await);
    let (many, guards) = reconnect(cluster.owner(0), guards).await;
    // Work that grows with the square would be sixteen times as much, with the cube sixty-four times.
    assert!(many < 10 * few, "{few:?} for {FEW} slots, {many:?} for {}", guards.len());
}
