//! A server that may evict keys of locks.

use std::time::Duration;

use fairlock::{
    Client, LockOptions,
    error::{LostReason, RenewError},
};
use redis::cmd;
use testkit::{RedisServer, SOON, child::alone, eventually, keys_left_after, log::Log, soon};

/// Alone in its file, because a process decides once for all threads which records are collected.
#[test]
fn a_client_is_warned_of_eviction_and_told_of_an_evicted_lock() {
    alone("a_client_is_warned_of_eviction_and_told_of_an_evicted_lock", connect_and_be_evicted);
}

#[tokio::main(flavor = "current_thread")]
async fn connect_and_be_evicted() {
    // It evicts keys with a TTL, and every key of a lock has one.
    let server = RedisServer::builder().config("maxmemory 1gb").config("maxmemory-policy volatile-lru").start();
    let limit = |bytes: u64| {
        let () = cmd("CONFIG").arg(&["SET", "maxmemory", &bytes.to_string()]).query(&mut server.raw()).unwrap();
    };
    let log = Log::collect();
    let [evicted, stranger] =
        [Client::connect(&server.url()).await.unwrap(), Client::connect(&server.url()).await.unwrap()];
    // Not before the stranger has the lock.
    let renewed_soon = LockOptions::new().lease(Duration::from_secs(30)).renew_every(Duration::from_secs(5));
    let guard = evicted.lock_with("lock", renewed_soon).unwrap().acquire().await.unwrap();
    let warned = |log: &str| log.contains("may evict keys of locks") && log.contains("volatile-lru");
    eventually("both are warned", SOON, || warned(&log.text()));

    limit(1);
    // The server makes room for every write, as far as there is anything to evict.
    let _ = cmd("SET").arg("key").arg("value").exec(&mut server.raw());
    assert_eq!(cmd("DBSIZE").query::<u64>(&mut server.raw()).unwrap(), 0, "nothing was evicted");
    limit(0);

    // The server knows of no lease any more.
    let other = soon(stranger.lock("lock").unwrap().acquire()).await.unwrap();
    assert!(other.token() > guard.token());
    // The holder hears of it at its next automatic renewal, and not at its deadline.
    assert_eq!(soon(guard.lost()).await.reason, LostReason::Ended);
    assert!(matches!(soon(guard.renew()).await, Err(RenewError::Lost(_))));
    other.check().unwrap();
    other.release().await.unwrap();
    keys_left_after(guard, &server);
}
