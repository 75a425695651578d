//! The rights that docs/guide.md lists are enough. `acl_half_rights` takes each of them away.
use std::time::Duration;

use fairlock::{Client, LockOptions, error::TryAcquireError, state::BreakOutcome};
use testkit::{
    RedisServer, keys_left,
    run::{Topology, least_rights, takes_setinfo, version},
    sentinel::MASTER,
    soon,
};

/// Every script runs, with a queue, a hand-off, waiters that re-enter after a loss of data, and a heartbeat.
async fn use_all(server: &RedisServer, client: &Client) -> Result<(), Box<dyn std::error::Error>> {
    let options = LockOptions::new().lease(Duration::from_secs(6)).liveness(Duration::from_secs(4));
    let lock = client.lock_with("lock", options)?;
    let guard = lock.acquire().await?;
    match lock.try_acquire().await {
        Err(TryAcquireError::Busy { .. }) => {}
        Err(refused) => return Err(refused.into()),
        Ok(_) => panic!("granted twice"),
    }
    let (first, second) = (lock.enqueue().await?, lock.enqueue().await?);
    assert_eq!(lock.inspect().await?.queue.len(), 2);
    guard.renew().await?;
    // After a new connection the first waiter re-enters at its own place.
    for kind in ["normal", "pubsub"] {
        let _: u64 = redis::cmd("CLIENT").arg("KILL").arg("TYPE").arg(kind).query(&mut server.raw())?;
    }
    second.position().await?;
    // A part of the data is lost, then all of it.
    let _: u64 = redis::cmd("DEL").arg("fairlock:{lock}:waiters").query(&mut server.raw())?;
    second.position().await?;
    let _: () = redis::cmd("FLUSHALL").query(&mut server.raw())?;
    second.position().await?; // The first to return; the others follow.
    drop(guard);
    let guard = soon(first).await?;
    assert!(matches!(lock.break_lease(guard.token()).await?, BreakOutcome::Told { .. }));
    soon(guard.lost()).await;
    drop(guard);
    soon(second).await?.release().await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_rights_of_the_guide_are_enough() {
    let rights = least_rights("pw", Topology::of_this_run() == Topology::Cluster);
    let server = RedisServer::builder().user("locker", &rights).start();
    let client = Client::connect(&server.url_as("locker", "pw")).await.unwrap();
    use_all(&server, &client).await.unwrap();
    drop(client);
    let refused: Vec<redis::Value> = redis::cmd("ACL").arg("LOG").query(&mut server.raw()).unwrap();
    assert!(refused.is_empty(), "{refused:?}");
    keys_left(&server);
}

/// Sentinels know users from Redis 6.2 on.
#[tokio::test]
async fn the_rights_of_the_guide_are_enough_at_sentinels() {
    if version() < (6, 2) {
        return;
    }
    let guide = include_str!("../../docs/guide.md");
    let rights = guide.split('`').find(|words| words.contains("+sentinel|")).unwrap();
    let setinfo = if takes_setinfo() { "+client|setinfo" } else { "" };
    let server = RedisServer::builder().plain().tcp().start();
    let sentinel = RedisServer::builder()
        .plain()
        .tcp()
        .argument("--sentinel")
        .config(&format!("sentinel monitor {MASTER} 127.0.0.1 {} 1", server.port()))
        .user("locker", &format!("on >pw -@all {rights} {setinfo}"))
        .start();
    let url = |login: &str| format!("redis+sentinel://127.0.0.1:{}/{MASTER}?{login}", sentinel.port());
    let client = Client::connect(&url("sentinel_user=locker&sentinel_password=pw")).await.unwrap();
    client.lock("lock").unwrap().acquire().await.unwrap().release().await.unwrap();
    drop(client);
    let refused: Vec<redis::Value> = redis::cmd("ACL").arg("LOG").query(&mut sentinel.raw()).unwrap();
    assert!(refused.is_empty(), "{refused:?}");
    Client::connect(&url("sentinel_user=locker&sentinel_password=other")).await.unwrap_err();
    keys_left(&server);
}
