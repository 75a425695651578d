//! Clients of private servers, and the options that most tests want.

use fairlock::{Client, LockOptions};

use super::{
    server::RedisServer,
    waiting::{SOON, soon},
};

/// A client of this server.
pub async fn connect(server: &RedisServer) -> Client {
    soon(Client::connect(&server.url())).await.expect("a client of a private server")
}

/// A server of the test's own, and a client of it.
pub async fn server_and_client() -> (RedisServer, Client) {
    let server = RedisServer::start();
    let client = connect(&server).await;
    (server, client)
}

/// Heartbeats, renewals and the ends of leases are far away while a test runs: a waiter that hears of its grant heard
/// of it by a message, and what is gone was given back.
pub fn quiet() -> LockOptions {
    LockOptions::new().lease(100 * SOON).liveness(100 * SOON)
}

/// As quiet as a lock can be that becomes calm: the scripts leave one calm only for leases below five minutes.
pub fn calm() -> LockOptions {
    quiet().lease(8 * SOON)
}
