//! A burst of a client's own calls stands in the way of nothing that has a deadline (I12), and what was given up before
//! it was sent is not sent at all (I9).

use std::{
    future::IntoFuture as _,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use fairlock::{Client, LockOptions, error::AcquireError};
use redis::cmd;
use testkit::{
    Monitor, RedisServer, SOON, child, connect, eventually, keys_left, keys_left_after, keys_left_within, poll_once,
    quiet, server_and_client, soon,
};

/// How many requests may be unanswered on a connection.
const WINDOW: usize = 1000;
const BURST: usize = 5 * WINDOW;

/// So many acquires of a lock, all called at once.
fn burst(client: &Client, name: &str, count: usize) -> Vec<impl Future + Unpin + use<>> {
    let lock = client.lock_with(name, quiet()).unwrap();
    let called = |_| {
        let mut acquire = Box::pin(lock.acquire().into_future());
        assert!(poll_once(&mut acquire).is_pending());
        acquire
    };
    (0..count).map(called).collect()
}

/// The keeper has taken in all that was asked of it before. It needs no server for that.
async fn taken_in(client: &Client) {
    let last = client.lock("last").unwrap().acquire().timeout(Duration::from_millis(1));
    assert!(matches!(soon(last).await, Err(AcquireError::Timeout { .. })));
}

/// How many waiters the server knows.
fn queued(server: &RedisServer, name: &str) -> usize {
    cmd("ZCARD").arg(format!("fairlock:{{{name}}}:waiters")).query(&mut server.raw()).unwrap()
}

/// For each script that ran, in order, whether it was about a lock with this in its name.
fn scripts_about(monitor: &mut Monitor, name: &str) -> Vec<bool> {
    let lines = monitor.lines();
    let scripts = lines.iter().filter(|line| line.contains("\"EVALSHA\""));
    scripts.map(|line| line.contains(&format!("fairlock:{{{name}"))).collect()
}

/// In a cluster the first request about a lock waits for a subscription.
async fn alone() -> (RedisServer, Client) {
    let server = RedisServer::builder().alone().start();
    let client = connect(&server).await;
    (server, client)
}

#[tokio::test]
async fn renewals_and_releases_are_executed_before_the_acquires_that_wait() {
    let (server, client) = alone().await;
    let mut kept = Vec::new();
    for number in 0..6 {
        let lock = client.lock_with(&format!("held {number}"), quiet()).unwrap();
        kept.push(soon(lock.acquire()).await.unwrap());
    }
    let given_back = kept.split_off(3);
    let mut monitor = Monitor::start(&server);

    server.stop();
    let waiting = burst(&client, "wanted", BURST);
    let mut renewals: Vec<_> = kept.iter().map(|guard| Box::pin(guard.renew().into_future())).collect();
    let mut releases: Vec<_> = given_back.into_iter().map(|guard| Box::pin(guard.release().into_future())).collect();
    assert!(renewals.iter_mut().all(|renewal| poll_once(renewal).is_pending()));
    assert!(releases.iter_mut().all(|release| poll_once(release).is_pending()));
    taken_in(&client).await;
    server.cont();
    for renewal in renewals {
        soon(renewal).await.unwrap();
    }
    for release in releases {
        soon(release).await.unwrap();
    }
    // The first one has the lock.
    eventually("all others are in the queue", SOON, || queued(&server, "wanted") == BURST - 1);

    let of_leases = scripts_about(&mut monitor, "held");
    let at: Vec<usize> = of_leases.iter().enumerate().filter(|(_, held)| **held).map(|(at, _)| at).collect();
    assert_eq!(at, (WINDOW..WINDOW + 6).collect::<Vec<_>>(), "just behind what was unanswered already");
    assert_eq!(of_leases.len(), BURST + 6);
    keys_left_after((waiting, kept), &server);
}

/// The size of a queue that README names, next to leases that are as short as a leader's that must be replaced quickly.
#[tokio::test]
async fn a_hundred_thousand_acquires_at_once_cost_no_lease() {
    // A machine that stands still is no fault of the burst, and does so seldom.
    let mut least = Duration::ZERO;
    for _ in 0..3 {
        least = least.max(least_left_of_leases_next_to(100_000).await);
        if least > Duration::from_secs(1) {
            return;
        }
    }
    panic!("{least:?} were left of a lease of 5 s");
}

async fn least_left_of_leases_next_to(all: usize) -> Duration {
    let (server, client) = server_and_client().await;
    let holder = soon(connect(&server).await.lock_with("wanted", quiet()).unwrap().acquire()).await.unwrap();
    let mut guards = Vec::new();
    for number in 0..10 {
        let options = LockOptions::new().lease(Duration::from_secs(5));
        let lock = client.lock_with(&format!("held {number}"), options).unwrap();
        guards.push(soon(lock.acquire()).await.unwrap());
    }
    let views: Vec<_> = guards.iter().map(|guard| guard.held().clone()).collect();
    let over = Arc::new(AtomicBool::new(false));
    let is_over = over.clone();
    let watch = thread::spawn(move || {
        let mut least = Duration::MAX;
        while !is_over.load(Ordering::Relaxed) {
            least = views.iter().map(|held| held.remaining()).min().unwrap().min(least);
            thread::sleep(Duration::from_millis(1));
        }
        least
    });
    let waiting = burst(&client, "wanted", all);
    eventually("all are in the queue", 10 * SOON, || queued(&server, "wanted") == all);
    // They leave at once, too.
    drop(waiting);
    eventually("nobody is in the queue", 10 * SOON, || queued(&server, "wanted") == 0);
    over.store(true, Ordering::Relaxed);
    let least = watch.join().unwrap();
    println!("the least that was left of a lease of 5 s: {least:?}");
    let all_held = guards.iter().all(|guard| guard.check().is_ok());
    drop((guards, holder));
    keys_left_within(&server, 2 * SOON);
    if all_held { least } else { Duration::ZERO }
}

/// One by one as well, which is what `timeout(ZERO, lock.acquire())` does in a loop.
#[tokio::test]
async fn acquires_that_are_given_up_before_they_are_sent_are_not_sent() {
    for (futures, at_once) in [(BURST, BURST), (4 * BURST, 1)] {
        let (server, client) = alone().await;
        let mut monitor = Monitor::start(&server);
        server.stop();
        for _ in 0..futures / at_once {
            let waiting = burst(&client, "wanted", at_once);
            if at_once > 1 {
                taken_in(&client).await;
            }
            drop(waiting);
        }
        taken_in(&client).await;
        server.cont();
        soon(client.lock_with("behind", quiet()).unwrap().acquire()).await.unwrap().release().await.unwrap();
        keys_left(&server);
        // Those that were sent leave together.
        let (most, wanted) = (WINDOW + WINDOW / 20, scripts_about(&mut monitor, "wanted"));
        let wanted = wanted.iter().filter(|wanted| **wanted).count();
        let fits = if at_once > 1 { wanted == most } else { wanted <= most + 1 };
        assert!(fits, "{wanted} requests for {futures} futures");
        // One by one they may be gone before the keeper hears of them: then there is room.
        assert!(at_once == 1 || !scripts_about(&mut monitor, "last").contains(&true));
    }
}

/// The same for the memory of the process.
#[cfg(target_os = "linux")]
#[test]
fn futures_that_are_polled_once_and_dropped_leave_no_memory() {
    const FUTURES: usize = 50_000;
    child::alone("futures_that_are_polled_once_and_dropped_leave_no_memory", || {
        let server = RedisServer::builder().alone().start();
        let client = Client::connect(&server.url()).blocking().unwrap();
        let lock = client.lock_with("wanted", quiet()).unwrap();
        // It takes no requests, so whatever is written stays in the client.
        server.stop();
        let mut used = Vec::new();
        for _ in 0..6 {
            for _ in 0..FUTURES / 1000 {
                (0..1000).for_each(|_| drop(poll_once(&mut Box::pin(lock.acquire().into_future()))));
                // The keeper answers it by itself. What it has not taken in yet is no leak.
                lock.trouble().blocking().unwrap();
            }
            let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
            let pages: usize = statm.split(' ').nth(1).unwrap().parse().unwrap();
            used.push(pages * rustix::param::page_size());
        }
        // The first ones fill what is kept for the next ones.
        let grown = used[5].saturating_sub(used[0]);
        assert!(grown < 5 * FUTURES * 100, "{grown} bytes more for {} futures: {used:?}", 5 * FUTURES);
        server.cont();
        keys_left(&server);
    });
}

#[test]
fn a_lock_is_free_for_the_client_that_has_just_given_up_an_acquire_of_it() {
    let server = RedisServer::start();
    let client = Client::connect(&server.url()).blocking().unwrap();
    let lock = client.lock("lock").unwrap();
    let without_queue = client.lock_with("other", LockOptions::new().max_waiting(0)).unwrap();
    for round in 0..500 {
        for lock in [&lock, &without_queue] {
            drop(poll_once(&mut Box::pin(lock.acquire().into_future())));
        }
        let guard = lock.try_acquire().blocking().unwrap_or_else(|error| panic!("round {round}: {error}"));
        let other = without_queue.acquire().blocking().unwrap_or_else(|error| panic!("round {round}: {error}"));
        guard.release().blocking().unwrap();
        other.release().blocking().unwrap();
    }
    keys_left(&server);
}
