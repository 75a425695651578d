//! What a lock costs the server, counted there (I11), and how a grant that its caller does not take is given back (I9).

use std::time::{Duration, Instant};

use fairlock::{LockOptions, error::AcquireError};
use testkit::{Monitor, RedisServer, SOON, connect, eventually_async, keys_left, quiet, soon, watch::Counter};

/// The commands of clients, without those that scripts called.
fn sent(lines: &[String]) -> Vec<&str> {
    lines.iter().map(String::as_str).filter(|line| !line.contains(" lua] ")).collect()
}

#[tokio::test]
async fn scripts_are_sent_to_a_server_that_lacks_them_and_to_no_other() {
    let server = RedisServer::start();
    let holds = async |client: fairlock::Client| {
        client.lock("lock").unwrap().acquire().await.unwrap().release().await.unwrap();
        client.close().await;
    };
    holds(connect(&server).await).await;
    let mut monitor = Monitor::start(&server);
    holds(connect(&server).await).await;
    let lines = monitor.lines();
    let sent: usize = sent(&lines).iter().map(|line| line.len()).sum();
    assert!(sent < 4096 && !lines.iter().any(|line| line.contains("\"LOAD\"")), "{sent} characters: {lines:#?}");

    let () = redis::cmd("SCRIPT").arg("FLUSH").query(&mut server.raw()).unwrap();
    holds(connect(&server).await).await;
    let loads = monitor.lines().iter().filter(|line| line.contains("\"LOAD\"")).count();
    assert_eq!(loads, fairlock::__hooks::verbs().count());
}

#[tokio::test]
async fn a_hand_off_is_one_call_and_one_push() {
    let server = RedisServer::start();
    let (here, there) = (connect(&server).await, connect(&server).await);
    let guard = here.lock_with("lock", quiet()).unwrap().acquire().await.unwrap();
    let lock = there.lock_with("lock", quiet()).unwrap();
    let waiting = lock.enqueue().await.unwrap();
    // A long queue behind it makes no difference.
    let mut behind = Vec::new();
    for _ in 0..100 {
        behind.push(lock.enqueue().await.unwrap());
    }

    let token = guard.token();
    let mut monitor = Monitor::start(&server);
    drop(guard);
    let next = soon(waiting).await.unwrap();
    let lines = monitor.lines();
    let position = |what: &str| lines.iter().position(|line| line.to_lowercase().contains(what));
    // Clusters have a second kind of channels.
    let published = lines.iter().filter(|line| line.to_lowercase().contains("publish\"")).count();
    // The new holder confirms its claim a while after it has the lock.
    let confirmed = position(&fairlock::__hooks::digest("renew"));
    let calls = sent(&lines).iter().filter(|line| line.to_lowercase().contains("\"evalsha\"")).count();
    assert_eq!((calls - usize::from(confirmed.is_some()), published), (1, 1), "{lines:#?}");
    assert!(confirmed.is_none() || confirmed > position("publish\""), "{lines:#?}");
    assert!(next.token() > token);
    next.check().unwrap();
    drop(behind);
    next.release().await.unwrap();
    keys_left(&server);
}

#[tokio::test]
async fn a_thousand_idle_waiters_cost_one_call_per_heartbeat() {
    const HEARTBEAT: Duration = Duration::from_secs(1);
    let server = RedisServer::start();
    let guard = connect(&server).await.lock_with("lock", quiet()).unwrap().acquire().await.unwrap();
    let lock = connect(&server).await.lock_with("lock", LockOptions::new().liveness(3 * HEARTBEAT)).unwrap();
    let mut waiters = Vec::new();
    for _ in 0..1000 {
        waiters.push(lock.enqueue().await.unwrap());
    }

    let start = Instant::now();
    let mut counter = Counter::start(&server);
    let evalsha = |counter: &mut Counter| counter.so_far().get("evalsha").copied().unwrap_or(0);
    eventually_async("several heartbeats", SOON, async || evalsha(&mut counter) >= 5).await;
    // The time includes that of counting, however long it takes.
    let (counted, heartbeats) = (evalsha(&mut counter), start.elapsed().as_secs_f64() / HEARTBEAT.as_secs_f64());
    // The first heartbeat may come at once, and the next one soon after it if that was late.
    assert!(counted as f64 <= heartbeats + 2.0, "{counted} calls in the time of {heartbeats:.1} heartbeats");

    drop(waiters);
    guard.release().await.unwrap();
    keys_left(&server);
}

#[tokio::test]
async fn a_grant_that_nobody_polls_is_given_back_after_a_lease() {
    let lease = Duration::from_secs(6);
    let server = RedisServer::start();
    let (here, there) = (connect(&server).await, connect(&server).await);
    let options = || LockOptions::new().lease(lease);
    let lock = here.lock_with("lock", options()).unwrap();
    let guard = lock.acquire().await.unwrap();
    let forgotten = there.lock_with("lock", options()).unwrap().enqueue().await.unwrap();
    let behind = lock.enqueue().await.unwrap();

    let start = Instant::now();
    guard.release().await.unwrap();
    let guard = soon(behind).await.unwrap();
    let took = start.elapsed();
    assert!(took >= lease, "the one before it had only {took:?} to take the lock");
    // While its keeper went on renewing for it, this would take for ever.
    assert!(took < SOON, "{took:?}");
    match forgotten.await {
        Err(AcquireError::NotTaken { lease: told, .. }) => assert_eq!(told, lease),
        other => panic!("{other:?}"),
    }
    guard.release().await.unwrap();
    keys_left(&server);
}
