//! A waiter keeps its place while the server is silent, restarts or loses its data (I7), and the holder keeps the lock
//! meanwhile (I1, I3).

use std::time::Duration;

use fairlock::{Client, Guard, Lock, LockOptions};
use redis::{AsyncCommands as _, Commands as _, cmd};
use testkit::{Child, RedisServer, SOON, child, eventually, eventually_async, keys_left};

const PROCESSES: usize = 4;
const WAITERS: usize = 20;
const LIVENESS: Duration = Duration::from_secs(4);
const BUFFER: Duration = Duration::from_secs(1);
/// Longer than the liveness and the buffer, and longer than a client's patience with a silent server.
const OUTAGE: Duration = Duration::from_secs(6);

/// The helper processes of this file.
#[test]
fn child() {
    child::main(|role, args| match (role, args) {
        ("wait", [url, admin_url, turns, lease_s]) => wait(url, admin_url, turns, lease_s.parse().unwrap()),
        other => panic!("no role {other:?}"),
    });
}

fn options(lease_s: u64) -> LockOptions {
    LockOptions::new().lease(Duration::from_secs(lease_s)).liveness(LIVENESS).buffer(BUFFER)
}

/// Enqueues one waiter for each turn that it is given, and reports which were served.
#[tokio::main(flavor = "current_thread")]
async fn wait(url: &str, admin_url: &str, turns: &str, lease_s: u64) {
    let client = Client::connect(url).await.unwrap();
    let lock = client.lock_with("lock", options(lease_s)).unwrap();
    // The redis crate's own timeout is half a second.
    let patient =
        redis::AsyncConnectionConfig::new().set_response_timeout(Some(SOON)).set_connection_timeout(Some(SOON));
    let admin = redis::Client::open(admin_url).unwrap();
    let mut given = admin.get_multiplexed_async_connection_with_config(&patient).await.unwrap();
    let mut waiters = tokio::task::JoinSet::new();
    for _ in 0..WAITERS / PROCESSES {
        while given.lpop::<_, Option<u32>>(turns, None).await.unwrap().is_none() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let waiting = lock.enqueue().await.unwrap();
        child::say(format!("queued {}", waiting.ticket()));
        waiters.spawn(async move {
            let guard = waiting.await.unwrap();
            child::say(format!("granted {} {}", guard.ticket(), guard.token()));
            guard.release().await.unwrap();
        });
    }
    drop(given);
    while let Some(served) = waiters.join_next().await {
        served.unwrap();
    }
}

/// One holder, and behind it 20 waiters of 4 processes that arrive in turn.
struct Queue {
    server: RedisServer,
    lock: Lock,
    guard: Guard,
    children: Vec<Child>,
    tickets: Vec<u64>,
}

impl Queue {
    async fn form(server: RedisServer, lease_s: u64) -> Queue {
        let client = Client::connect(&server.url()).await.unwrap();
        let lock = client.lock_with("lock", options(lease_s)).unwrap();
        let guard = lock.acquire().await.unwrap();
        let turns = |process: usize| format!("turns:{process}");
        let spawn = |process| {
            Child::spawn("wait", &[&server.url(), &server.admin_url(), &turns(process), &lease_s.to_string()])
        };
        let mut children: Vec<Child> = (0..PROCESSES).map(spawn).collect();
        let mut tickets = Vec::new();
        for arrival in 0..WAITERS {
            let process = arrival % PROCESSES;
            let () = server.raw().rpush(turns(process), 1).unwrap();
            let line = children[process].wait_line("queued ", SOON);
            tickets.push(line["queued ".len()..].parse().unwrap());
        }
        assert!(tickets.is_sorted_by(|a, b| a < b), "{tickets:?}");
        Queue { server, lock, guard, children, tickets }
    }

    async fn queued(&self) -> Vec<u64> {
        // More than one answer timeout can pass before the client has reconnected.
        let mut state = None;
        eventually_async("the server answers", SOON, async || {
            state = self.lock.inspect().await.ok();
            state.is_some()
        })
        .await;
        state.unwrap().queue.iter().map(|waiter| waiter.ticket).collect()
    }

    /// The holder still holds the lock. It lets go, and all waiters are served in the order of their tickets.
    async fn served_in_order(self) {
        let token = self.guard.token();
        self.guard.check().unwrap();
        self.guard.release().await.unwrap();
        Self::was_served_in_order(&self.server, self.children, token, &self.tickets);
    }

    fn was_served_in_order(server: &RedisServer, mut children: Vec<Child>, before: u64, tickets: &[u64]) {
        let mut served: Vec<(u64, u64)> = Vec::new();
        for child in &mut children {
            assert!(child.wait(2 * SOON).success());
            let grants = |child: &mut Child| -> Vec<String> {
                child.lines().iter().filter_map(|line| line.strip_prefix("granted ").map(str::to_owned)).collect()
            };
            eventually("its last words are read", SOON, || grants(child).len() == WAITERS / PROCESSES);
            for line in grants(child) {
                let (ticket, token) = line.split_once(' ').unwrap();
                served.push((token.parse().unwrap(), ticket.parse().unwrap()));
            }
        }
        served.sort_unstable();
        let (tokens, served): (Vec<u64>, Vec<u64>) = served.into_iter().unzip();
        assert_eq!(served, tickets, "the order in which they were served is not that of their tickets");
        assert!(tokens[0] > before && tokens.is_sorted_by(|a, b| a < b), "{before} {tokens:?}");
        keys_left(server);
    }
}

/// The release is the first request after the server's silence: at that moment every session has been silent for too
/// long.
#[tokio::test]
async fn order_outlives_a_server_that_was_stopped() {
    let Queue { server, lock: _lock, guard, children, tickets } = Queue::form(RedisServer::start(), 30).await;
    let token = guard.token();
    server.stop();
    let (released, ()) = tokio::join!(guard.release(), async {
        tokio::time::sleep(OUTAGE).await;
        server.cont();
    });
    released.unwrap();
    Queue::was_served_in_order(&server, children, token, &tickets);
}

#[tokio::test]
async fn order_outlives_a_restart() {
    for all_return_before_the_release in [false, true] {
        let queue = Queue::form(RedisServer::builder().appendonly().start(), 30).await;
        queue.server.kill();
        tokio::time::sleep(OUTAGE).await;
        queue.server.restart();
        if all_return_before_the_release {
            assert_eq!(queue.queued().await, queue.tickets);
            eventually_async("everybody counts as alive", SOON, async || {
                queue.lock.inspect().await.is_ok_and(|state| state.queue.iter().all(|waiter| waiter.alive))
            })
            .await;
        }
        queue.served_in_order().await;
    }
}

#[tokio::test]
async fn a_flush_changes_neither_holder_nor_order() {
    let queue = Queue::form(RedisServer::start(), 9).await;
    data_is_lost(queue, RedisServer::flush).await;
}

#[tokio::test]
async fn an_empty_restart_changes_neither_holder_nor_order() {
    let queue = Queue::form(RedisServer::start(), 9).await;
    data_is_lost(queue, |server| {
        server.kill();
        server.restart();
        assert!(!server.dir().join("dump.rdb").exists(), "it kept its data");
    })
    .await;
}

#[tokio::test]
async fn a_snapshot_of_just_now_changes_neither_holder_nor_order() {
    let server = RedisServer::start();
    snapshot_of_others(&server).await;
    data_is_lost(Queue::form(server, 9).await, back_to_the_snapshot).await;
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_snapshot_of_an_hour_ago_changes_neither_holder_nor_order() {
    let clock = testkit::vclock::WallClock::on_time();
    let server = clock.given_to(RedisServer::builder()).start();
    snapshot_of_others(&server).await;
    clock.step_forwards(Duration::from_secs(3600));
    data_is_lost(Queue::form(server, 9).await, back_to_the_snapshot).await;
}

/// In the snapshot another process holds the lock, and others wait. All of them are gone before the queue forms.
async fn snapshot_of_others(server: &RedisServer) {
    let client = Client::connect(&server.url()).await.unwrap();
    let lock = client.lock_with("lock", options(9)).unwrap();
    let guard = lock.acquire().await.unwrap();
    let waiting = [lock.enqueue().await.unwrap(), lock.enqueue().await.unwrap()];
    let () = cmd("SAVE").query(&mut server.raw()).unwrap();
    drop(waiting);
    guard.release().await.unwrap();
    client.close().await;
}

fn back_to_the_snapshot(server: &RedisServer) {
    server.kill();
    server.restart();
    assert!(server.log().contains("DB loaded from disk"), "{}", server.log());
}

/// Only the holder has the lock, and no newcomer overtakes a waiter.
async fn data_is_lost(queue: Queue, lose: impl FnOnce(&RedisServer)) {
    let token = queue.guard.token();
    let lost = queue.guard.lost();
    lose(&queue.server);
    // No client is told to come back: renewals and heartbeats find out.
    let mut places = Vec::new();
    eventually_async("holder and waiters are back", SOON, async || {
        let Ok(state) = queue.lock.inspect().await else { return false };
        // A snapshot shows the earlier holder.
        assert!(state.holders.iter().all(|holder| holder.token <= token), "somebody was granted: {state:?}");
        places = state.queue.iter().map(|waiter| waiter.ticket).collect();
        state.holders.iter().any(|holder| holder.token == token) && places.ends_with(&queue.tickets)
    })
    .await;

    let newcomer = queue.lock.enqueue().await.unwrap();
    assert!(newcomer.ticket() > *queue.tickets.last().unwrap());
    assert_eq!(newcomer.position().await.unwrap(), places.len() as u64 + 1);
    drop(newcomer);
    assert!(tokio::time::timeout(Duration::ZERO, lost).await.is_err(), "the holder was told that it lost the lock");
    queue.served_in_order().await;
}

/// This is the worst moment: nothing is restored yet when the holder releases.
#[tokio::test]
async fn a_flush_just_before_the_release_changes_no_order() {
    let queue = Queue::form(RedisServer::start(), 9).await;
    let token = queue.guard.token();
    queue.server.flush();
    // The server cannot tell any more whether this is a release or a loss.
    let _ = queue.guard.release().await;
    Queue::was_served_in_order(&queue.server, queue.children, token, &queue.tickets);
}
