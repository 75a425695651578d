//! Before a client repeats a request it ends its old connection at the server, and no other (I10). That no late request
//! is executed then is shown in `api/cancellation.rs`.

use std::future::IntoFuture as _;
use std::time::Duration;

use fairlock::{Client, LockOptions};
use redis::cmd;
use testkit::{Act, Proxy, RedisServer, SOON, Target, eventually_async, keys_left_after, soon};

/// A restarted server counts its connections from the start: the old connection's number belongs to another client.
#[tokio::test(flavor = "multi_thread")]
async fn connections_of_other_clients_live_on_after_a_restart() {
    let server = RedisServer::start();
    // These connections come first, so that clients that return early do not get the old connection's number.
    let others: Vec<_> = (0..20).map(|_| server.raw()).collect();
    let proxy = Proxy::start(&server);
    let before = server.connections();
    let client = Client::connect(&proxy.url()).await.unwrap();
    let lock = client.lock("x").unwrap();
    let old: Vec<u64> = server.connections().difference(&before).copied().collect();
    assert_eq!(old.len(), 1, "{old:?}");

    proxy.refuse();
    server.restart();
    drop(others);
    let mut strangers: Vec<(u64, redis::Connection)> = Vec::new();
    while strangers.last().is_none_or(|(id, _)| *id < old[0]) {
        let mut stranger = server.raw();
        strangers.push((cmd("CLIENT").arg("ID").query(&mut stranger).unwrap(), stranger));
    }
    assert!(strangers.iter().any(|(id, _)| *id == old[0]), "nobody has the number {}", old[0]);
    proxy.heal();
    soon(lock.acquire().into_future()).await.unwrap().release().await.unwrap();
    for (id, stranger) in &mut strangers {
        cmd("PING").query::<String>(stranger).unwrap_or_else(|error| panic!("{id}: {error}"));
    }
    keys_left_after((lock, client), &server);
}

/// The path on which the server listens is part of its description of each connection, and may look like anything.
#[tokio::test(flavor = "multi_thread")]
async fn an_old_connection_is_ended_whatever_the_socket_is_called() {
    let server = RedisServer::builder().alone().folder("fairlock addr= id=1 ").start();
    let proxy = Proxy::start(&server);
    let client = Client::connect(&proxy.url()).await.unwrap();
    let lock = client.lock("x").unwrap();
    let old = server.connections();
    assert_eq!(old.len(), 1, "{old:?}");
    let held = proxy.fault_times(1, Target::request("evalsha").command(), Act::Hold);
    let waiting = tokio::spawn(lock.acquire().into_future());
    tokio::task::block_in_place(|| held.await_struck());
    proxy.abandon();
    soon(waiting).await.unwrap().unwrap().release().await.unwrap();
    assert!(server.connections().is_disjoint(&old), "{old:?} is left of {:?}", server.connections());
}

/// A server that is busy when a connection is set up does not answer with the connection's id. Such a connection is not
/// used: the next one could not end it, and its requests would be executed late.
#[tokio::test(flavor = "multi_thread")]
async fn a_connection_whose_number_is_not_known_is_not_used() {
    for asked in ["id", "server", "kill"] {
        let (server, proxy) = Proxy::of_a_server();
        let client = Client::connect(&proxy.url()).await.unwrap();
        let lock = client.lock("x").unwrap();
        let busy = || proxy.fault_times(1, Target::request(asked), Act::Answer("BUSY Redis is busy running a script."));
        if asked != "kill" {
            let busy = busy();
            proxy.abandon();
            eventually_async("the server is busy", SOON, async || busy.struck() == 1).await;
        }
        // Sent over the connection that was set up last.
        soon(lock.acquire().into_future()).await.unwrap().release().await.unwrap();
        // Those that are not used are gone.
        tokio::task::block_in_place(|| proxy.wait("one connection is left", |counts| counts.open == 1));
        let old = server.connections();

        let held = proxy.fault_times(1, Target::request("evalsha").command(), Act::Hold);
        let waiting = tokio::spawn(lock.acquire().into_future());
        tokio::task::block_in_place(|| held.await_struck());
        let busy = (asked == "kill").then(busy);
        proxy.abandon();
        soon(waiting).await.unwrap().unwrap().release().await.unwrap();
        assert!(busy.is_none_or(|busy| busy.struck() == 1), "nothing was ended");
        assert!(server.connections().is_disjoint(&old), "{asked}: {old:?} is left of {:?}", server.connections());
        drop((lock, client));
        drop(held);
    }
}

/// Where a client may not end its old connections a request may be executed late. It leaves only a claim behind.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_may_not_end_connections_gets_a_claim_first() {
    let liveness = Duration::from_secs(60);
    let options = || LockOptions::new().lease(10 * liveness).liveness(liveness);
    for (rules, longest) in [("+@all", 10 * liveness), ("+@all -client +client|id", liveness)] {
        let server = RedisServer::builder().user("locker", &format!("on >pw ~* &* {rules}")).start();
        let client = Client::connect(&server.url_as("locker", "pw")).await.unwrap();
        let lock = client.lock_with("x", options()).unwrap();
        // A claim is confirmed a tenth of a second later, which may be over when a busy machine looks.
        eventually_async("the first lease is no longer than that", SOON, async || {
            let guard = soon(lock.acquire().into_future()).await.unwrap();
            let left = guard.remaining();
            assert!(left > longest / 2, "{left:?} is left under {rules}");
            guard.release().await.unwrap();
            left <= longest
        })
        .await;
        keys_left_after((lock, client), &server);
    }
}
