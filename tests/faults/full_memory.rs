//! A server whose memory is full admits no new waiters. Holders and waiters go on: leases are renewed, released and
//! handed on (I4, I8, I9, I12).

use std::time::Duration;

use fairlock::{Client, LockOptions, error::AcquireError};
use redis::cmd;
use testkit::{RedisServer, SOON, eventually_async, keys_left, soon};

const LEASE: Duration = Duration::from_secs(6);
const LIVENESS: Duration = Duration::from_secs(5);
const BUFFER: Duration = Duration::from_secs(1);

/// Sets the limit of the server's memory. One below what it uses fills it; 0 is no limit.
fn limit(server: &RedisServer, bytes: u64) {
    let () = cmd("CONFIG").arg("SET").arg("maxmemory").arg(bytes).query(&mut server.raw()).unwrap();
}

#[tokio::test]
async fn leases_and_places_go_on_while_newcomers_are_refused() {
    let server = RedisServer::start();
    let options = LockOptions::new().lease(LEASE).liveness(LIVENESS).buffer(BUFFER);
    let [holder, waiter, newcomer] = ["holder", "waiter", "newcomer"];
    let mut locks = Vec::new();
    for _ in [holder, waiter, newcomer] {
        locks.push(Client::connect(&server.url()).await.unwrap().lock_with("lock", options.clone()).unwrap());
    }
    let [holder, waiter, newcomer] = &locks[..] else { unreachable!("three were made") };
    let guard = holder.acquire().await.unwrap();
    let waiting = waiter.enqueue().await.unwrap();
    let leaving = waiter.enqueue().await.unwrap();

    limit(&server, 1);
    guard.renew().await.unwrap();
    drop(leaving);
    eventually_async("it has left", SOON, async || holder.inspect().await.unwrap().waiting == 1).await;
    // The timeout is longer than the lease, and than a session without heartbeats.
    let timeout = 2 * LEASE.max(LIVENESS + BUFFER);
    match newcomer.acquire().timeout(timeout).await {
        Err(AcquireError::Timeout { waited, position: None, cause: Some(cause), .. }) => {
            assert!(waited >= timeout && waited < timeout + SOON, "{waited:?}");
            assert!(cause.to_string().contains("OOM"), "{cause}");
        }
        other => panic!("{other:?}"),
    }
    guard.check().unwrap();
    let state = holder.inspect().await.unwrap();
    assert_eq!(state.holders.first().map(|holder| holder.token), Some(guard.token()));
    assert!(state.queue.len() == 1 && state.queue[0].alive, "{:?}", state.queue);
    let token = guard.token();
    guard.release().await.unwrap();
    let guard = soon(waiting).await.unwrap();
    assert!(guard.token() > token);
    guard.renew().await.unwrap();
    guard.release().await.unwrap();

    limit(&server, 0);
    soon(newcomer.acquire()).await.unwrap().release().await.unwrap();
    keys_left(&server);
}
