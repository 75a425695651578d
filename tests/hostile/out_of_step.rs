//! A reply that never comes, or comes twice, while the connection goes on: each later reply would go to the request
//! before or after its own. TCP does not do that, but a proxy that reads frames, or a server, may.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use std::time::Duration;

use fairlock::{Client, LockOptions};
use testkit::{Act, Proxy, SOON, Target, connect, eventually_async, soon};

/// So many turns of each task after the fault show that all is well.
const TURNS: u32 = 50;

/// Several tasks take turns at a lock, over the proxy and next to it, while another lock is held over the proxy. A call
/// or two may fail.
async fn is_noticed(verb: &str, times: usize) {
    let (server, proxy) = Proxy::of_a_server();
    let client = Client::connect(&proxy.url()).await.unwrap();
    let direct = connect(&server).await;
    let lease = LockOptions::new().lease(Duration::from_secs(6));
    let held = client.lock_with("held", lease).unwrap().acquire().await.unwrap();
    held.renew().await.unwrap();

    let (struck, inside) = (AtomicBool::new(false), AtomicU32::new(0));
    let turns = async |client: &Client| {
        let lock = client.lock("x").unwrap();
        let (mut turns, mut failed) = (0, 0);
        while turns < TURNS {
            assert!(failed < 20, "calls go on to fail");
            let Ok(guard) = lock.acquire().await else {
                failed += 1;
                continue;
            };
            assert_eq!(inside.fetch_add(1, SeqCst), 0, "two holders");
            tokio::task::yield_now().await;
            inside.fetch_sub(1, SeqCst);
            let released = guard.release().await;
            (turns, failed) = match released {
                Ok(()) if struck.load(SeqCst) => (turns + 1, failed),
                Ok(()) => (turns, failed),
                Err(_) => (turns, failed + 1),
            };
        }
        held.check().unwrap();
    };
    let strike = async {
        let fault = proxy.fault_times(1, Target::reply(fairlock::__hooks::digest(verb)), Act::Repeat(times));
        eventually_async("a reply is struck", SOON, async || fault.struck() == 1).await;
        struck.store(true, SeqCst);
    };
    let all = async { tokio::join!(strike, turns(&client), turns(&client), turns(&client), turns(&direct)) };
    soon(all).await;
    // The reply to a renewal finds its lease.
    held.renew().await.unwrap();
    soon(held.release()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn client_recovers_after_a_reply_that_never_comes() {
    for verb in ["acquire", "release"] {
        is_noticed(verb, 0).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn client_recovers_after_a_reply_that_comes_twice() {
    for verb in ["acquire", "release"] {
        is_noticed(verb, 2).await;
    }
}

/// A waiter has a place to lose: unlike a call, it goes on over the next connection.
#[tokio::test(flavor = "multi_thread")]
async fn waiter_keeps_its_ticket_over_a_reply_that_comes_twice() {
    let (server, proxy) = Proxy::of_a_server();
    let (client, direct) = (Client::connect(&proxy.url()).await.unwrap(), connect(&server).await);
    let options = || LockOptions::new().liveness(Duration::from_secs(2));
    let guard = direct.lock_with("x", options()).unwrap().acquire().await.unwrap();
    let waiter = client.lock_with("x", options()).unwrap().enqueue().await.unwrap();
    let later = direct.lock_with("x", options()).unwrap().enqueue().await.unwrap();
    let ticket = waiter.ticket();
    let before = proxy.counts().connections;
    let _fault = proxy.fault_times(1, Target::reply(fairlock::__hooks::digest("heartbeat")), Act::Repeat(2));
    eventually_async("the client connects again", SOON, async || proxy.counts().connections > before).await;
    guard.release().await.unwrap();
    let second = soon(waiter).await.unwrap();
    assert_eq!(second.ticket(), ticket);
    second.release().await.unwrap();
    soon(later).await.unwrap().release().await.unwrap();
}
