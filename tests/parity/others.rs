//! redis-py `Lock`, rslock, etcd `Mutex` and Curator `InterProcessMutex`: what only these locks have or get wrong, and a
//! function ported from each of the last two by the tables of `docs/coming-from.md`. `tests/api` shows the rest.

use std::{error::Error, time::Duration};

use fairlock::{
    Client, LockOptions,
    compat::{is_locked_by_anyone, verify},
};
use testkit::{
    Act, Proxy, RedisServer, SOON, Target, connect, eventually_async, keys_left, quiet, server_and_client, soon,
};

/// `raise_on_release_error=False` of redis-py.
#[tokio::test]
async fn a_scope_that_outlives_its_lease_raises_nothing_and_releases_no_other() {
    let (server, client) = server_and_client().await;
    let brief = LockOptions::new().lease(Duration::from_millis(300)).manual_renewal();
    let next = {
        let _guard = soon(client.lock_with("lock", brief).unwrap().acquire()).await.unwrap();
        soon(client.lock_with("lock", quiet()).unwrap().acquire()).await.unwrap()
    };
    assert!(verify(&next).await.unwrap());
    next.release().await.unwrap();
    keys_left(&server);
}

/// `thread_local` of redis-py: there, in Redisson and in Curator, a lock belongs to the thread that acquired it.
#[test]
fn a_guard_is_released_by_whichever_thread_has_it() {
    let server = RedisServer::start();
    let lock = Client::connect(&server.url()).blocking().unwrap().lock_with("lock", quiet()).unwrap();
    let guard = lock.acquire().blocking().unwrap();
    std::thread::spawn(move || guard.release().blocking()).join().unwrap().unwrap();
    keys_left(&server);
}

/// In rslock a guard that is dropped leaves its key until the lifetime is over.
#[tokio::test]
async fn a_dropped_guard_releases_and_blocks_no_runtime() {
    let server = RedisServer::start();
    let lock = connect(&server).await.lock("lock").unwrap();
    let proxy = Proxy::start(&server);
    let client = Client::connect(&proxy.url()).await.unwrap();
    let guard = soon(client.lock_with("lock", quiet()).unwrap().acquire()).await.unwrap();
    // The proxy holds the release back. The drop does not wait for it.
    let held = proxy.fault(Target::request("evalsha"), Act::Hold);
    drop(guard);
    held.await_struck();
    assert!(is_locked_by_anyone(&lock).await.unwrap());
    held.lift();
    eventually_async("it is released", SOON, async || !is_locked_by_anyone(&lock).await.unwrap()).await;
    keys_left(&server);
}

type Ported = Result<(), Box<dyn Error>>;

#[tokio::test]
async fn ported_from_etcd_mutex() -> Ported {
    async fn work() {}
    let (server, client) = server_and_client().await;
    let lock = client.lock_with("my-lock", LockOptions::new().lease(Duration::from_secs(60)))?;
    let guard = lock.acquire().timeout(Duration::from_secs(10)).await?;
    tokio::select! {
        lost = guard.lost() => return Err(lost.into()),
        () = work() => {}
    }
    guard.release().await?;
    keys_left(&server);
    Ok(())
}

#[test]
fn ported_from_curator_interprocessmutex() -> Ported {
    fn work() {}
    let server = RedisServer::start();
    let client = Client::connect(&server.url()).blocking()?;
    let lock = client.lock("locks/one")?;
    if let Ok(guard) = lock.acquire().timeout(Duration::from_secs(10)).blocking() {
        work();
        guard.release().blocking()?;
    }
    keys_left(&server);
    Ok(())
}
