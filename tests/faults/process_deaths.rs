//! Nobody waits for the dead (I5): many waiters that died together cost one liveness window, and a holder that died
//! costs the rest of its lease.

use std::time::{Duration, Instant};

use fairlock::{Client, LockOptions};
use testkit::{Child, SOON, child, keys_left, server_and_client};

const DEAD: usize = 20;
const LIVENESS: Duration = Duration::from_secs(3);
const BUFFER: Duration = Duration::from_secs(1);
/// The most that dead waiters may cost in all: liveness, the buffer, and a heartbeat.
const WINDOW: Duration = Duration::from_secs(3 + 1 + 1);

/// The helper processes of this file.
#[test]
fn child() {
    child::main(|role, args| match (role, args) {
        ("wait", [url]) => wait(url),
        ("hold", [url, lease_s]) => hold(url, lease_s.parse().unwrap()),
        other => panic!("no role {other:?}"),
    });
}

fn waiters_options() -> LockOptions {
    LockOptions::new().liveness(LIVENESS).buffer(BUFFER)
}

#[tokio::main(flavor = "current_thread")]
async fn wait(url: &str) {
    let client = Client::connect(url).await.unwrap();
    let waiting = client.lock_with("lock", waiters_options()).unwrap().enqueue().await.unwrap();
    child::say("queued");
    let _guard = waiting.await.unwrap();
    child::say("granted");
    std::future::pending::<()>().await;
}

/// A liveness so long that no heartbeat comes while the test runs.
fn patient(lease_s: u64) -> LockOptions {
    LockOptions::new().lease(Duration::from_secs(lease_s)).liveness(10 * SOON)
}

#[tokio::main(flavor = "current_thread")]
async fn hold(url: &str, lease_s: u64) {
    let client = Client::connect(url).await.unwrap();
    let _guard = client.lock_with("lock", patient(lease_s)).unwrap().acquire().await.unwrap();
    child::say("granted");
    std::future::pending::<()>().await;
}

#[tokio::test]
async fn twenty_dead_waiters_cost_one_window() {
    let (server, client) = server_and_client().await;
    let lock = client.lock_with("lock", waiters_options()).unwrap();
    let guard = lock.acquire().await.unwrap();

    // Processes, not tasks: each has its own session, and none leaves the queue.
    let mut waiters: Vec<Child> = (0..DEAD).map(|_| Child::spawn("wait", &[&server.url()])).collect();
    waiters.iter_mut().for_each(|waiter| drop(waiter.wait_line("queued", SOON)));
    let last = lock.enqueue().await.unwrap();
    assert_eq!(last.position().await.unwrap(), DEAD as u64 + 1);

    waiters.iter_mut().for_each(Child::kill);
    let released = Instant::now();
    guard.release().await.unwrap();
    let guard = last.await.unwrap();
    // One window for each of them would be a hundred seconds. Half of that is slack for a busy machine.
    let took = released.elapsed();
    assert!(took < WINDOW * DEAD as u32 / 2, "{took:?} for {DEAD} dead waiters");
    assert!(waiters.iter_mut().all(|waiter| !waiter.lines().contains(&"granted".to_owned())));
    guard.release().await.unwrap();
    keys_left(&server);
}

/// The waiter that should ask when the lease ends may be dead too. Then the next ones ask.
#[tokio::test]
async fn a_dead_holder_costs_its_lease_and_no_poll() {
    for (lease_s, waiter_dies) in [("6", false), ("9", true)] {
        let (server, client) = server_and_client().await;
        let lock = client.lock_with("lock", patient(3)).unwrap();
        let mut holder = Child::spawn("hold", &[&server.url(), lease_s]);
        holder.wait_line("granted", SOON);
        let mut waiter = waiter_dies.then(|| Child::spawn("wait", &[&server.url()]));
        waiter.iter_mut().for_each(|waiter| drop(waiter.wait_line("queued", SOON)));
        let waiting = lock.enqueue().await.unwrap();
        waiter.iter_mut().for_each(Child::kill);
        holder.kill();

        let asked = Instant::now();
        let left = lock.inspect().await.unwrap().holders.remove(0).remaining;
        let guard = waiting.await.unwrap();
        let took = asked.elapsed();
        // A poll would come with a heartbeat, after 100 s.
        assert!(took >= left, "granted {:?} before the lease ended", left - took);
        let most = if waiter_dies { left.max(WINDOW) } else { left } + SOON;
        assert!(took < most, "granted {took:?} after the holder had died, the lease was {left:?}");
        guard.release().await.unwrap();
        keys_left(&server);
    }
}
