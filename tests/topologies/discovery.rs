//! How a client finds the server of a lock in a cluster, and what it does when another server has taken over: nodes that
//! redirect it, connections that end. No election takes place here, so the tests are quick; `topologies/failover.rs` has
//! the elections, and `masters.rs` the masters that sentinels name.

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use fairlock::{Client, Guard, Lock, Waiting};
use redis::cmd;
use testkit::watch::Counter;
use testkit::{Act, Child, Cluster, RedisServer, SOON, Target, child, eventually, eventually_async, quiet, run, soon};

/// The helper process of this file: a waiter that holds the lock until it is killed.
#[test]
fn child() {
    child::main(|_, args| {
        let lock = Client::connect_lazy(&args[0]).unwrap().lock_with("x", quiet()).unwrap();
        let waiting = lock.enqueue().blocking().unwrap();
        child::say("queued");
        let _guard = waiting.blocking().unwrap();
        child::say("granted");
        loop {
            std::thread::park();
        }
    });
}

/// No node is counted as dead while these tests run.
fn cluster() -> Cluster {
    Cluster::builder().node_timeout(100 * SOON).start()
}

async fn lock(url: &str, name: &str) -> Lock {
    soon(Client::connect(url)).await.unwrap().lock_with(name, quiet()).unwrap()
}

/// A holder, and a waiter of another client.
async fn pair(url: &str, name: &str) -> (Guard, Waiting) {
    let guard = soon(lock(url, name).await.acquire()).await.unwrap();
    (guard, soon(lock(url, name).await.enqueue()).await.unwrap())
}

async fn hand_over(guard: Guard, waiting: Waiting) {
    soon(guard.release()).await.unwrap();
    soon(soon(waiting).await.unwrap().release()).await.unwrap();
}

/// A name whose slot is this node's.
pub(crate) fn name_at(cluster: &Cluster, node: &RedisServer) -> String {
    let is_there = |name: &String| cluster.owner(cluster.slot(name)).port() == node.port();
    (0..).map(|number| format!("x{number}")).find(is_there).unwrap()
}

/// The channels of slots that have subscribers at this node. Before Redis 7 there are none.
fn listened_to(node: &RedisServer) -> Vec<String> {
    cmd("PUBSUB").arg("SHARDCHANNELS").query(&mut node.raw()).unwrap()
}

/// The ids of the connections of this kind, without those of sentinels.
fn connections(node: &RedisServer, kind: &str) -> BTreeSet<u64> {
    let list: String = cmd("CLIENT").arg(&["LIST", "TYPE", kind]).query(&mut node.raw()).unwrap();
    let of_clients = list.lines().filter(|line| !line.contains(" name=sentinel-"));
    of_clients.filter_map(|line| line.strip_prefix("id=")?.split(' ').next()?.parse().ok()).collect()
}

/// The connections that have subscribed.
pub(crate) fn listeners(node: &RedisServer) -> BTreeSet<u64> {
    connections(node, "pubsub")
}

/// Up to Redis 6 only the redirection of a request shows that the slot has moved. From 7 on the node says so first.
#[tokio::test(flavor = "multi_thread")]
async fn a_redirected_call_is_made_at_the_node_of_its_slot() {
    let cluster = cluster();
    let slot = cluster.slot("x");
    let guard = soon(lock(&cluster.url(), "x").await.acquire()).await.unwrap();
    cluster.migrate(slot, cluster.another_master(cluster.owner(slot))).finish();
    soon(guard.renew()).await.unwrap();
    soon(guard.release()).await.unwrap();
}

/// The old owner has no keys of the lock any more, and the new one does not own the slot yet.
#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_in_a_migrating_slot_is_found_at_its_destination() {
    let cluster = cluster();
    // With a waiter both keys are there to move.
    let (guard, waiting) = pair(&cluster.url(), "x").await;
    let slot = cluster.slot("x");
    // The slot moves to a node without connections of clients. Clients begin with the owner of the first slot.
    let known = [cluster.owner(0).port(), cluster.owner(slot).port()];
    let to = cluster.nodes().iter().find(|node| !known.contains(&node.port())).unwrap();
    let mut migration = cluster.migrate(slot, to);
    while migration.step().is_some() {}
    soon(guard.renew()).await.unwrap();
    migration.finish();
    // The message of the hand-off may come before the waiter has followed its slot.
    soon(waiting.position()).await.unwrap();
    hand_over(guard, waiting).await;
}

/// No request is sent: the node itself reports that a slot has left it. The node that the client was told is dead then.
#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_follows_its_slot_to_the_next_server() {
    let cluster = cluster();
    let dead = cluster.owner(0);
    let from = cluster.another_master(dead);
    let to = cluster.nodes().iter().find(|node| ![dead.port(), from.port()].contains(&node.port())).unwrap();
    let (name, url) = (name_at(&cluster, from), |node: &RedisServer| cluster.url_of(&[node]));
    let (guard, waiting) = pair(&url(dead), &name).await;
    dead.kill();
    // A client that connects now is told the dead node first.
    let other = lock(&url(from), &name_at(&cluster, to)).await;
    soon(soon(other.acquire()).await.unwrap().release()).await.unwrap();

    cluster.migrate(cluster.slot(&name), to).finish();
    if run::version() >= (7, 0) {
        // The rest of a channel's name is random, and may have anything in it.
        let tag = format!("{{{name}}}");
        let follow = || listened_to(to).iter().filter(|channel| channel.contains(&tag)).count() == 2;
        eventually("both clients listen at the new owner", SOON, follow);
        assert!(listened_to(from).is_empty(), "{:?}", listened_to(from));
    }
    hand_over(guard, waiting).await;
}

/// A waiter sends nothing for a while: the end of its connection shows by itself.
#[tokio::test(flavor = "multi_thread")]
async fn a_subscription_that_broke_is_made_again() {
    if run::version() < (7, 0) {
        return;
    }
    let cluster = cluster();
    let owner = cluster.owner(cluster.slot("x"));
    let (guard, waiting) = pair(&cluster.url(), "x").await;
    assert_eq!(listened_to(owner).len(), 2);
    let killed: u32 = cmd("CLIENT").arg("KILL").arg("TYPE").arg("pubsub").query(&mut owner.raw()).unwrap();
    assert_eq!(killed, 2);
    eventually("both clients listen again", SOON, || listened_to(owner).len() == 2);
    hand_over(guard, waiting).await;
}

/// A client reads at the same time that it is subscribed and that its connection broke: it is not subscribed any more.
#[tokio::test(flavor = "multi_thread")]
async fn the_confirmation_of_an_old_subscription_does_not_count_for_the_next() {
    if run::version() < (7, 0) {
        return;
    }
    let cluster = cluster();
    let owner = cluster.owner(cluster.slot("x"));
    let proxy = cluster.put_proxy_before(owner);
    let guard = soon(lock(&cluster.url(), "x").await.acquire()).await.unwrap();
    let before = listeners(owner);
    let confirmation = proxy.fault_times(1, Target::reply("ssubscribe").command(), Act::Hold);
    let mut waiter = Child::spawn("wait", &[&cluster.url()]);
    confirmation.await_struck();
    waiter.stop();
    let replies = proxy.counts().replies;
    for id in listeners(owner).difference(&before) {
        let _: u32 = cmd("CLIENT").arg("KILL").arg("ID").arg(id).query(&mut owner.raw()).unwrap();
    }
    confirmation.lift();
    proxy.wait("the confirmation has arrived", |counts| counts.replies > replies);
    waiter.cont();
    waiter.wait_line("queued", SOON);
    soon(guard.release()).await.unwrap();
    // By a message: heartbeats are far away.
    waiter.wait_line("granted", SOON);
}

/// The connection does not end; only nothing arrives on it any more.
#[tokio::test(flavor = "multi_thread")]
async fn a_subscription_that_fell_silent_is_made_again() {
    if run::version() < (7, 0) {
        return;
    }
    let cluster = cluster();
    let proxy = cluster.put_proxy_before(cluster.owner(cluster.slot("x")));
    let client = soon(Client::connect(&cluster.url())).await.unwrap();
    let lock = client.lock_with("x", quiet().liveness(Duration::from_secs(3))).unwrap();
    let guard = soon(lock.acquire()).await.unwrap();
    let (first, second) = (soon(lock.enqueue()).await.unwrap(), soon(lock.enqueue()).await.unwrap());
    let before = proxy.counts().connections;
    let lost = proxy.fault_times(1, Target::push("smessage"), Act::Swallow);
    soon(guard.release()).await.unwrap();
    let guard = soon(first).await.unwrap();
    lost.await_struck();
    // The other waiter still waits for a message. There is no other reason to connect.
    proxy.wait("the client connects again", |counts| counts.connections > before);
    hand_over(guard, second).await;
}

/// A lock that is new to its client is asked for where its slot was; and no node names its own host.
#[tokio::test(flavor = "multi_thread")]
async fn nodes_without_a_host_in_their_answers_are_found_at_the_host_that_was_asked() {
    let cluster = cluster();
    if run::version() >= (7, 0) {
        for node in cluster.nodes() {
            node.set("cluster-preferred-endpoint-type", "unknown-endpoint");
        }
    }
    let from = cluster.owner(cluster.slot("x"));
    let client = soon(Client::connect(&cluster.url_of(&[from]))).await.unwrap();
    let at = |node: &RedisServer| client.lock_with(&name_at(&cluster, node), quiet()).unwrap();
    for node in cluster.nodes() {
        soon(soon(at(node).acquire()).await.unwrap().release()).await.unwrap();
    }
    let moved = name_at(&cluster, from) + "-moved";
    let from = cluster.owner(cluster.slot(&moved));
    cluster.migrate(cluster.slot(&moved), cluster.another_master(from)).finish();
    let lock = client.lock_with(&moved, quiet()).unwrap();
    let counters: Vec<Counter> = cluster.nodes().iter().map(Counter::start).collect();
    let (guard, waiting) = (soon(lock.acquire()).await.unwrap(), soon(lock.enqueue()).await.unwrap());
    for mut counter in counters {
        // A client at the wrong node would have had to ask where the slot is.
        let calls = counter.so_far();
        assert!(!calls.keys().any(|call| call.starts_with("cluster")), "{calls:?}");
    }
    hand_over(guard, waiting).await;
}

/// How often this node was asked for the slots.
fn questions(counter: &mut Counter) -> u64 {
    counter.so_far().iter().filter(|(call, _)| call.starts_with("cluster")).map(|(_, count)| count).sum()
}

/// The least time that this many discoveries in a row take on a machine of any speed: the pauses between them double up
/// to 320 ms. The first one or two may have begun before, or without a pause.
const TEN_DISCOVERIES: Duration = Duration::from_millis(500);

/// Answers of the other nodes do not make it more urgent to ask them for the slots of a dead node.
#[tokio::test(flavor = "multi_thread")]
async fn other_nodes_are_not_flooded_with_questions_while_a_node_is_away() {
    let cluster = cluster();
    let dead = cluster.owner(0);
    let alive = cluster.another_master(dead);
    let client = soon(Client::connect(&cluster.url())).await.unwrap();
    let acquire =
        async |node| soon(client.lock_with(&name_at(&cluster, node), quiet()).unwrap().acquire()).await.unwrap();
    let (_lost, guard) = (acquire(dead).await, acquire(alive).await);
    let mut counter = Counter::start(alive);
    let start = Instant::now();
    dead.kill();
    soon(async {
        while questions(&mut counter) < 10 {
            guard.renew().await.unwrap();
        }
    })
    .await;
    assert!(start.elapsed() >= TEN_DISCOVERIES, "{:?}", start.elapsed());
}

/// How often this node has redirected a client, with `MOVED` or `ASK`.
fn sent_on(node: &RedisServer, how: &str) -> u64 {
    let stats = node.info(&format!("errorstat_{how}"));
    stats.map_or(0, |stats| stats.strip_prefix("count=").unwrap().parse().unwrap())
}

fn set_slot(at: &RedisServer, slot: u16, rest: &[&str]) {
    let () = cmd("CLUSTER").arg("SETSLOT").arg(slot).arg(rest).query(&mut at.raw()).unwrap();
}

fn id_of(node: &RedisServer) -> String {
    cmd("CLUSTER").arg("MYID").query(&mut node.raw()).unwrap()
}

/// The state that an operator's tool leaves behind if it ends too early.
#[tokio::test(flavor = "multi_thread")]
async fn nodes_that_name_each_other_are_not_asked_in_circles() {
    if run::version() < (6, 2) {
        return;
    }
    let cluster = cluster();
    let slot = cluster.slot("x");
    let (from, to) = (cluster.owner(slot), cluster.another_master(cluster.owner(slot)));
    let lock = lock(&cluster.url(), "x").await;
    let start = Instant::now();
    set_slot(from, slot, &["NODE", &id_of(to)]);
    let acquiring = tokio::spawn(async move { lock.acquire().await });
    eventually_async("it is asked again", SOON, async || sent_on(from, "MOVED") >= 10).await;
    assert!(start.elapsed() >= TEN_DISCOVERIES, "{:?}", start.elapsed());
    set_slot(to, slot, &["NODE", &id_of(to)]);
    soon(soon(acquiring).await.unwrap().unwrap().release()).await.unwrap();
}

/// A client that is redirected to a node which does not import the slot hears of that, and asks again.
#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_two_nodes_redirect_to_each_other_is_made_again() {
    if run::version() < (7, 0) {
        return;
    }
    let cluster = cluster();
    let slot = cluster.slot("x");
    let (from, to) = (cluster.owner(slot), cluster.another_master(cluster.owner(slot)));
    let lock = lock(&cluster.url(), "x").await;
    soon(lock.inspect()).await.unwrap();
    let before = listeners(from);
    assert_eq!(before.len(), 1);
    set_slot(from, slot, &["MIGRATING", &id_of(to)]);
    let acquiring = tokio::spawn(async move { lock.acquire().await });
    eventually_async("it is sent back", SOON, async || sent_on(to, "MOVED") >= 5).await;
    assert_eq!(listeners(from), before, "the connection was taken for dead");
    set_slot(from, slot, &["STABLE"]);
    soon(soon(acquiring).await.unwrap().unwrap().release()).await.unwrap();
}

/// A client that treats a cluster node as a single server gets an error, where it would wait for ever.
#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_node_that_is_used_as_a_single_server_is_refused() {
    let cluster = cluster();
    let node = cluster.another_master(cluster.owner(cluster.slot("x")));
    let client = soon(Client::connect(&node.url())).await.unwrap();
    let lock = client.lock_with("x", quiet()).unwrap();
    let error = soon(lock.inspect()).await.unwrap_err().to_string();
    assert!(error.contains("node of a cluster"), "{error}");
}
