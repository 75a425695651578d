//! Nothing is left behind (I9) by the end of `main`, by dropped guards and futures, by closed clients.

use std::{
    future::IntoFuture as _,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use fairlock::{
    Client, Guard,
    error::{AcquireError, Fault, LostReason, RenewError, TryAcquireError},
    state::BreakOutcome,
};
use redis::cmd;
use testkit::{
    Act, Child, Proxy, RedisServer, SOON, Target, child, connect, eventually, eventually_async, keys_left,
    keys_left_after, poll_once, quiet, server_and_client, soon, state::State,
};

/// The helper processes of this file.
#[test]
fn child() {
    child::main(|role, args| match (role, args) {
        ("hold to the end", [url, name]) => hold_to_the_end(url, name),
        ("end", [url, name, how, closes]) => end_without_dropping_all(url, name, how, closes == "true"),
        other => panic!("no role {other:?}"),
    });
}

/// How long the last handle waits for pending releases.
const LAST_DROP: Duration = Duration::from_millis(250);
/// The exit code of a process for which that time was too short.
const GAVE_UP: i32 = 3;

fn hold_to_the_end(url: &str, name: &str) {
    let guard = pollster::block_on(async {
        let client = Client::connect(url).await.unwrap();
        client.lock_with(name, quiet()).unwrap().acquire().await.unwrap()
    });
    let start = Instant::now();
    // This drops the last handle, as the last act of the process: nothing else delays its end.
    drop(guard);
    std::process::exit(if start.elapsed() < LAST_DROP { 0 } else { GAVE_UP });
}

#[test]
fn two_hundred_processes_that_end_with_a_drop_leave_no_lease() {
    const PROCESSES: usize = 200;
    let server = RedisServer::start();
    let (next, in_time) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let run = || {
        let mut raw = server.raw();
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= PROCESSES {
                return;
            }
            let name = format!("lock {number}");
            let mut process = Child::spawn("hold to the end", &[&server.url(), &name]);
            let code = process.wait(SOON).code();
            let state = State::read(&mut raw, &name);
            let held = (state.as_ref().is_some_and(|state| state.holder().is_some()), state.is_some());
            if code == Some(GAVE_UP) {
                // On a busy machine its keeper may have had no processor time until then.
                let () = cmd("DEL").arg(testkit::state::key(&name)).query(&mut raw).unwrap();
                continue;
            }
            assert_eq!(code, Some(0));
            assert_eq!(held, (false, true), "{name} (is it held, was it ever)");
            in_time.fetch_add(1, Ordering::Relaxed);
        }
    };
    std::thread::scope(|scope| (0..2).for_each(|_| drop(scope.spawn(run))));
    assert!(in_time.into_inner() > 0, "none of them was in time");
    keys_left(&server);
}

/// What the end of `main` does not drop. Then the process ends as it does after `main`.
fn end_without_dropping_all(url: &str, name: &str, how: &str, closes: bool) {
    static KEPT: Mutex<Option<Guard>> = Mutex::new(None);
    let client = Client::connect(url).blocking().unwrap();
    let lock = client.lock_with(name, quiet()).unwrap();
    let mut local = None;
    match how {
        "process::exit" => local = Some(lock.acquire().blocking().unwrap()),
        "a static" => *KEPT.lock().unwrap() = Some(lock.acquire().blocking().unwrap()),
        "a detached thread" => {
            let guard = lock.acquire().blocking().unwrap();
            std::thread::spawn(move || {
                let _guard = guard;
                std::thread::sleep(Duration::MAX);
            });
        }
        "a thread that waits" => {
            let waiting = lock.clone();
            std::thread::spawn(move || waiting.acquire().blocking());
            eventually("it waits", SOON, || lock.inspect().blocking().unwrap().waiting == 1);
        }
        other => panic!("no way to end {other:?}"),
    }
    if closes {
        client.close().blocking();
    }
    if local.is_none() {
        drop((lock, client));
    }
    std::process::exit(0);
}

/// Rust drops nothing but the values that `main` owns itself.
#[tokio::test]
async fn the_end_of_main_gives_back_only_what_it_drops_and_close_gives_back_the_rest() {
    let (server, client) = server_and_client().await;
    for how in ["process::exit", "a static", "a detached thread", "a thread that waits"] {
        for closes in [false, true] {
            let lock = client.lock_with(&format!("{how}, {closes}"), quiet()).unwrap();
            let mine = if how == "a thread that waits" { Some(lock.acquire().await.unwrap()) } else { None };
            let args = [&server.url(), lock.name(), how, &closes.to_string()];
            assert!(Child::spawn("end", &args).wait(SOON).success(), "{how}");
            let state = lock.inspect().await.unwrap();
            let left = state.holders.first().filter(|_| mine.is_none()).is_some() || state.waiting > 0;
            assert_eq!(left, !closes, "{how}: {state:?}");
        }
    }
}

/// While a pending release has no answer, the drop of the last handle waits for it as long as documented.
#[tokio::test]
async fn the_last_handle_waits_for_what_is_given_back() {
    let server = RedisServer::start();
    let proxy = Proxy::start(&server);
    let client = Client::connect(&proxy.url()).await.unwrap();
    let guard = client.lock_with("lock", quiet()).unwrap().acquire().await.unwrap();
    let held = proxy.fault(Target::reply("evalsha"), Act::Hold);
    drop(client);
    let start = Instant::now();
    drop(guard);
    assert!(start.elapsed() >= LAST_DROP, "it waited for {:?}", start.elapsed());
    held.await_struck();
    proxy.heal();
    keys_left(&server);
}

/// At each point where an acquire can be dropped: before it is polled, on its way to the server, in the queue, and when
/// it has been granted.
#[tokio::test]
async fn dropped_acquires_leave_the_queue() {
    let (server, client) = server_and_client().await;
    let lock = client.lock_with("lock", quiet()).unwrap();
    let guard = lock.acquire().await.unwrap();
    let waiting = async || lock.inspect().await.unwrap().waiting;
    let behind = lock.enqueue().await.unwrap();

    drop(lock.acquire().into_future());
    for _ in 0..50 {
        let (mut acquire, mut enqueue) = (lock.acquire().into_future(), lock.enqueue().into_future());
        // The ticket may be there already, if this thread had to wait for its turn.
        drop((poll_once(&mut acquire), poll_once(&mut enqueue)));
        drop((acquire, enqueue, lock.enqueue().await.unwrap()));
    }
    let mut queued = lock.acquire().into_future();
    assert!(poll_once(&mut queued).is_pending());
    eventually_async("it stands in the queue", SOON, async || waiting().await == 2).await;
    drop(queued);
    eventually_async("all dropped ones are gone", SOON, async || waiting().await == 1).await;
    assert_eq!(behind.position().await.unwrap(), 1);

    // A try is dropped on its way.
    let mut attempt = client.lock_with("free", quiet()).unwrap().try_acquire().into_future();
    drop(poll_once(&mut attempt));
    drop(attempt);

    // An acquire is dropped that was granted, and not polled since.
    guard.release().await.unwrap();
    eventually_async("it is granted", SOON, async || waiting().await == 0).await;
    assert_eq!(behind.position().await.unwrap(), 0);
    keys_left_after(behind, &server);
}

#[tokio::test]
async fn the_last_handle_ends_the_connection() {
    let (server, client) = server_and_client().await;
    let lock = client.lock_with("lock", quiet()).unwrap();
    drop(client);
    let guard = lock.acquire().await.unwrap();
    drop(lock);
    let waits_for_it = guard.held();
    let connections = || {
        let list: String = cmd("CLIENT").arg("LIST").query(&mut server.raw()).unwrap();
        // Sentinels subscribe, too.
        list.lines().filter(|line| line.contains("sub=1") && !line.contains("name=sentinel-")).count()
    };
    assert_eq!(connections(), 1);
    drop(guard);
    // A `Held` does not keep the client alive.
    eventually("the connection is closed", SOON, || connections() == 0);
    waits_for_it.check().unwrap_err();
    keys_left(&server);
}

#[tokio::test]
async fn a_closed_client_tells_everybody_and_gives_everything_back() {
    let (server, client) = server_and_client().await;
    let lock = client.lock_with("lock", quiet()).unwrap();
    let guard = lock.acquire().await.unwrap();
    let waiting = [lock.enqueue().await.unwrap(), lock.enqueue().await.unwrap()];
    let mut acquire = lock.acquire().into_future();
    assert!(poll_once(&mut acquire).is_pending());

    client.close().await;
    assert_eq!(soon(guard.lost()).await.reason, LostReason::Closed);
    keys_left(&server);
    for waiting in waiting {
        assert!(matches!(waiting.await, Err(AcquireError::Fault(Fault::Closed))));
    }
    assert!(matches!(acquire.await, Err(AcquireError::Fault(Fault::Closed))));

    for lock in [lock, client.lock("another").unwrap()] {
        assert!(matches!(lock.acquire().await, Err(AcquireError::Fault(Fault::Closed))));
        assert!(matches!(lock.enqueue().await, Err(AcquireError::Fault(Fault::Closed))));
        assert!(matches!(lock.try_acquire().await, Err(TryAcquireError::Fault(Fault::Closed))));
        assert_eq!(lock.inspect().await.unwrap_err(), Fault::Closed);
        assert_eq!(lock.break_lease(guard.token()).await.unwrap_err(), Fault::Closed);
    }
    assert!(matches!(guard.renew().await, Err(RenewError::Lost(lost)) if lost.reason == LostReason::Closed));
    assert!(guard.release().await.is_err());
    client.close().await;
    keys_left(&server);
}

/// Its handles live on: they need no server any more.
#[tokio::test]
async fn a_closed_client_leaves_the_server_and_does_not_come_back() {
    let server = RedisServer::builder().alone().start(); // Sentinels would be connected, too.
    let client = connect(&server).await;
    let lock = client.lock_with("lock", quiet()).unwrap();
    let guard = lock.acquire().await.unwrap();
    let lazy = Client::connect_lazy(&server.url()).unwrap();
    client.close().await;
    lazy.close().await;
    eventually("it has no connections", SOON, || server.connections().is_empty());
    let latest = || -> u64 { cmd("CLIENT").arg("ID").query(&mut server.raw()).unwrap() };
    let before = latest();
    for lock in [lock, lazy.lock_with("lock", quiet()).unwrap()] {
        for _ in 0..100 {
            assert!(matches!(lock.acquire().await, Err(AcquireError::Fault(Fault::Closed))));
        }
    }
    assert!(guard.release().await.is_err());
    assert_eq!(latest(), before + 1, "the next connection after ours is ours");
    eventually("it has no connections", SOON, || server.connections().is_empty());
}

/// While the server hangs no release reaches it, so a loss that is reported now is reported before the release.
#[tokio::test]
async fn a_closed_client_tells_its_guards_before_it_gives_back() {
    let (server, client) = server_and_client().await;
    let lock = client.lock_with("lock", quiet()).unwrap();
    let guard = lock.acquire().await.unwrap();
    let waiting = lock.enqueue().await.unwrap();
    let token = guard.token();
    let another = connect(&server).await.lock_with("another", quiet()).unwrap();
    server.stop();
    let mut unanswered = Box::pin(another.inspect());
    assert!(poll_once(&mut unanswered).is_pending());
    let (lost, refused, ()) = tokio::join!(soon(guard.lost()), soon(waiting), client.close());
    // It takes about a second, and a call of another client waits for its answer for five.
    assert!(poll_once(&mut unanswered).is_pending(), "it took as long as a call without an answer");
    assert_eq!(lost.reason, LostReason::Closed);
    assert!(matches!(refused, Err(AcquireError::Fault(Fault::Closed))));

    server.cont();
    // The client now sends the release that it could not send before.
    keys_left(&server);
    let other = connect(&server).await.lock_with("lock", quiet()).unwrap();
    assert_eq!(other.break_lease(token).await.unwrap(), BreakOutcome::Unknown);
}
