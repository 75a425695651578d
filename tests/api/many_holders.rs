//! Hundreds of holders of one lock, many of one client: nobody loses a lease by it, nor does a neighbour at the same
//! server. Each request costs what it names, so a slot is used as soon as it is free.

use std::time::Duration;

use fairlock::{Client, Guard, LockOptions, Waiting};
use futures_util::future::{join_all, try_join_all};
use testkit::{Proxy, RedisServer, SOON, connect, eventually_async, server_and_client, soon};

const MANY: usize = 1000;
/// Longer than any claim here, so that it shows which holders have confirmed.
const LEASE: Duration = Duration::from_secs(60);
const CLAIMED: Duration = Duration::from_secs(15);
/// More than a server needs for all of this, and less than one on which each request costs what all hold: 6 to 14 s.
const BUSY: Duration = Duration::from_secs(2);

/// Of another client, with a lease that ends if the server is busy for some seconds.
async fn neighbour(server: &RedisServer) -> Guard {
    let options = LockOptions::new().lease(Duration::from_secs(3));
    soon(connect(server).await.lock_with("beside", options).unwrap().acquire()).await.unwrap()
}

async fn enqueued(clients: &[Client], count: usize, most: usize) -> Vec<Waiting> {
    let queue = |at: usize| {
        let options = LockOptions::new().lease(LEASE).slots(most as u32);
        clients[at % clients.len()].lock_with("x", options).unwrap().enqueue().into_future()
    };
    try_join_all((0..count).map(queue)).await.unwrap()
}

/// All are granted and confirm their leases.
async fn confirmed(waiting: Vec<Waiting>) -> Vec<Guard> {
    let guards = try_join_all(waiting.into_iter().map(Waiting::into_future)).await.unwrap();
    let all_have = async || guards.iter().all(|guard| guard.remaining() > CLAIMED);
    eventually_async("all confirm", 4 * SOON, all_have).await;
    guards
}

fn none_is_lost(guards: &[Guard], neighbour: &Guard, server: &RedisServer) {
    let lost = guards.iter().filter(|guard| guard.check().is_err()).count();
    assert_eq!(lost, 0, "of {} leases", guards.len());
    if let Err(lost) = neighbour.check() {
        // It may be the machine that kept the server waiting.
        let busy = computed(server);
        assert!(busy < BUSY, "{lost}, and the server has computed for {busy:?}");
    }
}

/// What the server has taken of a core since it started.
fn computed(server: &RedisServer) -> Duration {
    let seconds = |field: &str| server.info(field).unwrap().parse::<f64>().unwrap();
    Duration::from_secs_f64(seconds("used_cpu_user") + seconds("used_cpu_sys"))
}

async fn release_all(guards: Vec<Guard>) {
    try_join_all(guards.into_iter().map(|guard| guard.release().into_future())).await.unwrap();
}

#[tokio::test]
async fn a_thousand_readers_of_one_client_come_in_after_a_writer() {
    let (server, client) = server_and_client().await;
    let beside = neighbour(&server).await;
    let writer = soon(connect(&server).await.lock("x").unwrap().acquire()).await.unwrap();
    let waiting = enqueued(&[client], MANY, MANY).await;
    soon(writer.release()).await.unwrap();
    let guards = confirmed(waiting).await;
    none_is_lost(&guards, &beside, &server);
    release_all(guards).await;
}

#[tokio::test]
async fn a_thousand_holders_of_one_client_and_of_twenty_come_back_after_a_loss_of_data() {
    for of in [1, 20] {
        let server = RedisServer::start();
        let beside = neighbour(&server).await;
        let clients = join_all((0..of).map(|_| connect(&server))).await;
        let guards = confirmed(enqueued(&clients, MANY, MANY).await).await;
        server.flush();
        let renewed = join_all(guards.iter().map(|guard| guard.renew().into_future())).await;
        assert_eq!(renewed.into_iter().filter(Result::is_err).count(), 0, "of {of} clients");
        none_is_lost(&guards, &beside, &server);
        // The slots are the same, and each once.
        let state = soon(clients[0].lock("x").unwrap().inspect()).await.unwrap();
        let held = |guard: &Guard| (guard.slot(), guard.token());
        let mut expected: Vec<_> = guards.iter().map(held).collect();
        expected.sort_unstable();
        assert_eq!(state.holders.iter().map(|it| (it.slot, it.token)).collect::<Vec<_>>(), expected);
        release_all(guards).await;
    }
}

#[tokio::test]
async fn a_thousand_slots_are_handed_over_at_once_within_one_client() {
    let (server, client) = server_and_client().await;
    let beside = neighbour(&server).await;
    let clients = [client];
    let guards = confirmed(enqueued(&clients, MANY, MANY).await).await;
    let waiting = enqueued(&clients, MANY, MANY).await;
    release_all(guards).await;
    let guards = confirmed(waiting).await;
    none_is_lost(&guards, &beside, &server);
    release_all(guards).await;
}

/// Their client sends no heartbeat while this test runs.
#[tokio::test]
async fn waiters_of_one_client_are_granted_the_slots_of_a_dead_process_as_each_lease_ends() {
    const SLOTS: u32 = 8;
    let (server, proxy) = Proxy::of_a_server();
    let options = LockOptions::new().slots(SLOTS).liveness(10 * SOON);
    let dies = soon(Client::connect(&proxy.url())).await.unwrap();
    let mut held = Vec::new();
    for nth in 1..=SLOTS {
        let lease = Duration::from_millis(1000 + 200 * u64::from(nth));
        let lock = dies.lock_with("x", options.clone().lease(lease).manual_renewal()).unwrap();
        held.push(soon(lock.acquire()).await.unwrap());
    }
    proxy.refuse();
    proxy.cut();
    let lock = connect(&server).await.lock_with("x", options.lease(10 * SOON)).unwrap();
    let waiting = try_join_all((0..SLOTS).map(|_| lock.enqueue().into_future())).await.unwrap();
    let guards = soon(try_join_all(waiting.into_iter().map(Waiting::into_future))).await.unwrap();
    assert_eq!(guards.iter().map(|guard| guard.slot()).collect::<Vec<_>>(), [0, 1, 2, 3, 4, 5, 6, 7]);
    drop(held);
}

/// A claim lasts for a liveness, and what it was until its holder confirmed it does not count any more.
#[tokio::test]
async fn a_lease_that_is_confirmed_costs_no_more_than_itself_when_its_holder_dies() {
    let (server, proxy) = Proxy::of_a_server();
    let options = LockOptions::new().liveness(10 * SOON);
    let (first, next) = (connect(&server).await, connect(&server).await);
    let dies = soon(Client::connect(&proxy.url())).await.unwrap();
    let guard = soon(first.lock("x").unwrap().acquire()).await.unwrap();
    let short = dies.lock_with("x", options.clone().lease(Duration::from_secs(1))).unwrap();
    let waiting = soon(short.enqueue()).await.unwrap();
    soon(guard.release()).await.unwrap();
    let held = soon(waiting).await.unwrap();
    let lock = next.lock_with("x", options).unwrap();
    let is_confirmed = async || lock.inspect().await.unwrap().holders.iter().all(|holder| holder.confirmed);
    eventually_async("it confirms", SOON, is_confirmed).await;
    let waiting = soon(lock.enqueue()).await.unwrap();
    proxy.refuse();
    proxy.cut();
    drop(soon(waiting).await.unwrap());
    drop(held);
}
