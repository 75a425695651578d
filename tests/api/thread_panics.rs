//! A thread of the library that panics: its callers are told at once, and with what it said. (What follows from the
//! panic of a keeper that has leases is in `panic_and_fork.rs`; wakers and callbacks of the program that panic are in
//! the library's own tests.)

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use fairlock::{__hooks::at_spots, Client, error::ConnectError};
use testkit::{RedisServer, SOON, alone, eventually_async, quiet, soon};

const SAID: &str = "seen in tests";

/// Each thread of this process panics at this spot while the value is true.
fn panics_at(spot: &'static str) -> Arc<AtomicBool> {
    let panics = Arc::new(AtomicBool::new(true));
    let does = panics.clone();
    at_spots(move |here| assert!(here != spot || !does.load(Ordering::SeqCst), "{SAID}"));
    panics
}

async fn refusal(url: &str) -> ConnectError {
    soon(Client::connect(url)).await.unwrap_err()
}

alone! {
    a_panic_while_connecting_is_the_error_of_connect: connect_in_panic;
    a_panic_while_a_name_is_looked_up_is_the_error_of_connect: look_up_in_panic;
    a_panic_of_the_keeper_while_connecting_is_the_error_of_connect: panic_the_keeper;
    a_panic_while_reconnecting_is_told_and_costs_neither_a_lease_nor_a_place: reconnect_in_panic;
}

/// One server, sentinels and nodes of a cluster are asked by threads of one kind.
#[tokio::main]
async fn connect_in_panic() {
    panics_at("a connection");
    for url in ["redis://127.0.0.1:1/", "redis+sentinel://127.0.0.1:1/master", "redis+cluster://127.0.0.1:1"] {
        let error = refusal(url).await;
        assert!(matches!(error, ConnectError::Panicked { .. }) && error.to_string().contains(SAID), "{url}: {error}");
        assert!(!error.is_transient());
    }
}

#[tokio::main]
async fn look_up_in_panic() {
    panics_at("a look-up");
    let error = refusal("redis://localhost:1/").await;
    assert!(error.to_string().contains(SAID), "{error}");
}

#[tokio::main]
async fn panic_the_keeper() {
    let panics = AtomicBool::new(true);
    at_spots(move |_| {
        let keeper = std::thread::current().name() == Some("fairlock-keeper");
        assert!(!keeper || !panics.swap(false, Ordering::SeqCst), "{SAID}");
    });
    let error = refusal("redis://127.0.0.1:1/").await;
    assert!(matches!(error, ConnectError::Panicked { .. }), "{error}");
}

#[tokio::main]
async fn reconnect_in_panic() {
    let server = RedisServer::builder().plain().start();
    let client = Client::connect(&server.admin_url()).await.unwrap();
    let lock = client.lock_with("lock", quiet()).unwrap();
    let guard = soon(lock.acquire()).await.unwrap();
    let waiting = soon(lock.enqueue()).await.unwrap();
    let panics = panics_at("a connection");
    let _: u32 = redis::cmd("CLIENT").arg(&["KILL", "TYPE", "pubsub"]).query(&mut server.raw()).unwrap();
    eventually_async("the panic is told", SOON, async || {
        soon(lock.trouble()).await.unwrap().is_some_and(|trouble| trouble.contains(SAID))
    })
    .await;
    assert!(soon(lock.acquire()).await.unwrap_err().to_string().contains(SAID));
    panics.store(false, Ordering::SeqCst);
    soon(guard.release()).await.unwrap();
    soon(soon(waiting).await.unwrap().release()).await.unwrap();
}
