//! A server whose memory is full admits no new waiters. Holders and waiters go on: leases are renewed, released and
//! handed on (I4, I9).

use std::future::IntoFuture as _;
use std::time::Duration;

use fairlock::{AcquireError, Client, LockOptions};
use redis::cmd;
use testkit::{RedisServer, keys_left, soon};

fn allow_bytes(server: &RedisServer, bytes: u64) {
    let () = cmd("CONFIG").arg("SET").arg("maxmemory").arg(bytes).query(&mut server.raw()).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn who_holds_and_waits_goes_on_while_memory_is_full() {
    let server = RedisServer::builder().config("maxmemory-policy noeviction").start();
    let client = Client::connect(&server.url()).await.unwrap();
    let options = LockOptions::new().lease(Duration::from_secs(60)).manual_renewal();
    let lock = client.lock_with("x", options).unwrap();
    let guard = lock.acquire().await.unwrap();
    let (next, leaves) = (lock.enqueue().await.unwrap(), lock.enqueue().await.unwrap());

    // Less than there is.
    allow_bytes(&server, 1);
    let left = guard.remaining();
    soon(guard.renew()).await.unwrap();
    assert!(guard.remaining() > left);
    match soon(lock.acquire().timeout(Duration::from_millis(500)).into_future()).await {
        Err(AcquireError::Timeout { cause: Some(cause), .. }) => assert!(cause.to_string().contains("OOM"), "{cause}"),
        other => panic!("taken in by a server that is full: {other:?}"),
    }
    drop(leaves);
    soon(guard.release()).await.unwrap();
    let next = soon(next).await.unwrap();
    // A claim is confirmed by a renewal.
    soon(next.renew()).await.unwrap();
    soon(next.release()).await.unwrap();

    allow_bytes(&server, 0);
    drop((lock, client));
    keys_left(&server);
}
