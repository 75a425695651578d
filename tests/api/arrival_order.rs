//! Arrivals are served in their exact order (I2), however many come at once, and no waiter's timeout costs another its
//! place (I8).

use std::{sync::Arc, time::Duration};

use fairlock::__hooks::model::{Entry, Memory, Request, Seat, Terms, UNBOUNDED};
use fairlock::__hooks::packing;
use fairlock::{Client, LockOptions, error::AcquireError};
use redis::{Connection, cmd};
use testkit::{RedisServer, SOON, eventually_async, keys_left, server_and_client, state::State};
use tokio::sync::Mutex;

const ARRIVALS: usize = 1000;

const SERVERS_CLOCK: &str = include_str!("../../lua/lib/time.lua");

/// The server's own clock, and one that stands still, so that all arrivals have the same microsecond.
const CLOCKS: [&str; 2] = [
    SERVERS_CLOCK,
    "local raw = 1700000000000000
     ",
];

/// The scripts of a lock, called by hand.
struct Scripts {
    raw: Connection,
    digests: Vec<(&'static str, String)>,
}

impl Scripts {
    fn load(server: &RedisServer, clock: &str) -> Scripts {
        let mut raw = server.raw();
        let load = |(name, text)| (name, cmd("SCRIPT").arg("LOAD").arg(text).query(&mut raw).unwrap());
        let digests = fairlock::__hooks::scripts(clock).into_iter().map(load).collect();
        Scripts { raw, digests }
    }

    fn call(&self, request: &Request) -> redis::Cmd {
        let (name, arguments) = packing::call(request, &Entry::default());
        let (_, digest) = self.digests.iter().find(|(script, _)| *script == name).unwrap();
        let mut call = cmd("EVALSHA");
        call.arg(digest).arg(1).arg(testkit::state::key("raw")).arg(arguments);
        call
    }

    /// An acquire of a client that the server does not know.
    fn acquire(&self, id: &str) -> redis::Cmd {
        const MINUTE: u64 = 60_000_000;
        let terms = Terms { lease: MINUTE, liveness: MINUTE, buffer: MINUTE, heartbeat: MINUTE, most: 1 };
        let (memory, seat) = (Memory::default(), Seat::default());
        self.call(&Request::Acquire { id: id.into(), room: UNBOUNDED, claim: false, terms, memory, seat })
    }

    fn release(&self, id: &str) -> redis::Cmd {
        let (memory, seat) = (Memory::default(), Seat::default());
        self.call(&Request::Release { id: id.into(), seat, memory })
    }

    fn holder(&mut self) -> Option<String> {
        State::read(&mut self.raw, "raw").and_then(|state| state.holder())
    }
}

fn ticket(reply: &[u8]) -> u64 {
    packing::reply(reply).unwrap().seat().ticket
}

#[test]
fn a_thousand_arrivals_in_one_write_are_served_in_order() {
    for clock in CLOCKS {
        let server = RedisServer::start();
        let mut scripts = Scripts::load(&server, clock);
        // Random names, each a client of its own: nothing but their arrival puts them in this order.
        let ids: Vec<String> = (0..ARRIVALS).map(|_| format!("{:032x}.1", fastrand::u128(..))).collect();
        let mut arrivals = redis::pipe();
        for id in &ids {
            arrivals.add_command(scripts.acquire(id));
        }
        // The raw connection sends a pipeline as one packed buffer.
        let replies: Vec<Vec<u8>> = arrivals.query(&mut scripts.raw).unwrap();
        let tickets: Vec<u64> = replies[1..].iter().map(|reply| ticket(reply)).collect();
        assert!(tickets.is_sorted_by(|a, b| a < b), "{tickets:?}");

        let mut tokens = Vec::new();
        for id in &ids {
            assert_eq!(scripts.holder().as_ref(), Some(id));
            let reply: Vec<u8> = scripts.release(id).query(&mut scripts.raw).unwrap();
            // The token of the next holder is the last stamp.
            tokens.push(packing::reply(&reply).unwrap().memory().stamp);
        }
        // The last release granted the lock to no waiter.
        tokens.pop();
        assert!(tokens.is_sorted_by(|a, b| a < b), "{tokens:?}");
        assert_eq!(scripts.holder(), None);
        keys_left(&server);
    }
}

#[test]
fn a_ticket_is_the_microsecond_of_its_arrival() {
    let server = RedisServer::start();
    let mut scripts = Scripts::load(&server, SERVERS_CLOCK);
    let time = |raw: &mut Connection| {
        let (seconds, micros): (u64, u64) = cmd("TIME").query(raw).unwrap();
        seconds * 1_000_000 + micros
    };
    let _: Vec<u8> = scripts.acquire("first.1").query(&mut scripts.raw).unwrap();
    let before = time(&mut scripts.raw);
    let reply: Vec<u8> = scripts.acquire("second.1").query(&mut scripts.raw).unwrap();
    let arrived = before..=time(&mut scripts.raw);
    assert!(arrived.contains(&ticket(&reply)), "{} is not in {arrived:?}", ticket(&reply));
}

#[tokio::test]
async fn a_thousand_acquires_of_one_client_are_served_in_order() {
    let (server, client) = server_and_client().await;
    let lock = client.lock("queue").unwrap();
    let first = lock.acquire().await.unwrap();

    let served = Arc::new(Mutex::new(Vec::new()));
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..ARRIVALS {
        let (lock, served) = (lock.clone(), served.clone());
        // On this runtime of one thread, tasks begin in the order in which they were spawned.
        tasks.spawn(async move {
            let guard = lock.acquire().await.unwrap();
            served.lock().await.push((guard.token(), number));
        });
    }
    while lock.inspect().await.unwrap().waiting < ARRIVALS as u64 {
        tokio::task::yield_now().await;
    }
    let first_token = first.token();
    first.release().await.unwrap();
    while let Some(served) = tasks.join_next().await {
        served.unwrap();
    }

    let mut served = served.lock().await.clone();
    served.sort_unstable();
    assert!(served.iter().map(|(_, number)| *number).eq(0..ARRIVALS), "{served:?}");
    assert!(served[0].0 > first_token);
    keys_left(&server);
}

/// Liveness and buffer together are shorter than a third of the short timeout: a waiter is kept in the queue by its heartbeats, not by anything
/// that the server could take for its timeout.
#[tokio::test]
async fn a_short_timeout_costs_a_waiter_with_a_long_one_nothing() {
    let server = RedisServer::start();
    let options = || LockOptions::new().liveness(Duration::from_millis(1500)).buffer(Duration::from_millis(1500));
    let (near, far) = (Client::connect(&server.url()).await.unwrap(), Client::connect(&server.url()).await.unwrap());
    let lock = near.lock_with("queue", options()).unwrap();
    let guard = lock.acquire().await.unwrap();

    let (short, long) = (Duration::from_secs(12), Duration::from_secs(600));
    let far_lock = far.lock_with("queue", options()).unwrap();
    // Waiters with short timeouts stand before and behind the long one. Some belong to its client, some to another.
    let before = lock.enqueue().timeout(short).await.unwrap();
    let stays = far_lock.enqueue().timeout(long).await.unwrap();
    let behind = [
        far_lock.enqueue().timeout(short).await.unwrap(),
        lock.enqueue().timeout(short).await.unwrap(),
        lock.enqueue().timeout(short).await.unwrap(),
    ];
    let last = lock.enqueue().timeout(long).await.unwrap();
    let ticket = stays.ticket();
    for waiting in behind.into_iter().chain([before]) {
        match waiting.await {
            Err(AcquireError::Timeout { waited, position, .. }) => {
                assert!(waited >= short, "{waited:?}");
                assert!(position.is_some());
            }
            other => panic!("{other:?}"),
        }
    }

    // A waiter that gave up leaves in the background.
    eventually_async("only the long ones wait", SOON, async || lock.inspect().await.unwrap().waiting == 2).await;
    let queue = lock.inspect().await.unwrap().queue;
    let tickets: Vec<u64> = queue.iter().map(|waiter| waiter.ticket).collect();
    assert_eq!(tickets, [ticket, last.ticket()]);
    assert_eq!(stays.position().await.unwrap(), 1);
    guard.release().await.unwrap();
    let guard = stays.await.unwrap();
    assert_eq!(guard.ticket(), ticket);
    let token = guard.token();
    drop(guard); // It is a short claim, which may be over before a slow machine has given it back.
    assert!(last.await.unwrap().token() > token);
    keys_left(&server);
}
