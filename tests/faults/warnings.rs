//! What a client warns of is logged when it happens, whether or not a caller comes by.

use std::time::Duration;

use fairlock::{Client, LockOptions};
use testkit::{Proxy, RedisServer, SOON, child::alone, eventually, keys_left, log::Log};

/// Alone, because what is logged is decided once for all threads.
#[test]
fn troubles_of_an_idle_client_are_logged() {
    alone("troubles_of_an_idle_client_are_logged", lose_connection_and_lease);
}

fn lose_connection_and_lease() {
    let server = RedisServer::builder().alone().start();
    let proxy = Proxy::start(&server);
    let log = Log::collect();
    let client = Client::connect(&proxy.url()).blocking().unwrap();
    let options = LockOptions::new().lease(Duration::from_secs(1));
    let guard = client.lock_with("lock", options).unwrap().acquire().blocking().unwrap();

    proxy.cut();
    eventually("both the loss of the connection and the next one are told", SOON, || {
        let log = log.text();
        log.contains("the connection was lost") && log.contains("connected again")
    });
    // Nobody awaits the loss of the lease.
    proxy.refuse();
    proxy.cut();
    eventually("the loss of the lease is told", SOON, || {
        let log = log.text();
        log.contains("lease lost") && log.contains("lock=\"lock\"")
    });
    assert_eq!(log.text().matches("lease lost").count(), 1);
    proxy.heal();
    drop(guard);
    keys_left(&server);
}
