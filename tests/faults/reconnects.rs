//! Clients that return to a server that lost their data, or that end in the moment of a grant. Each case was a bug
//! once.
use std::future::IntoFuture;
use std::pin::Pin;
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Wake, Waker};
use std::time::{Duration, Instant};

use fairlock::{Client, LockOptions};
use testkit::{
    Act, Proxy, RedisServer, SOON, Target, connect, eventually, eventually_async, keys_left, keys_left_after,
    poll_once, quiet, soon, state::State,
};

/// A waiter whose place is in the snapshot knows more than the snapshot: that another was granted the lock since.
#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_known_to_the_snapshot_tells_the_server_of_later_grants() {
    let (server, proxy) = Proxy::of_a_server();
    let options = || LockOptions::new().lease(Duration::from_secs(9)).liveness(Duration::from_secs(2));
    let lock = |client: &Client| client.lock_with("x", options()).unwrap();
    let (old, holder, waiter) =
        (connect(&server).await, Client::connect(&proxy.url()).await.unwrap(), connect(&server).await);
    let first = lock(&old).acquire().await.unwrap();
    let next = lock(&holder).enqueue().await.unwrap();
    let mut last = lock(&waiter).enqueue().await.unwrap();
    let _: () = redis::cmd("SAVE").query(&mut server.raw()).unwrap();
    first.release().await.unwrap();
    let guard = soon(next.into_future()).await.unwrap();
    guard.renew().await.unwrap();
    last.position().await.unwrap();

    proxy.refuse();
    server.kill();
    server.restart();
    let state = lock(&waiter);
    eventually_async("the waiter is back, and nobody is granted", SOON, async || {
        state.inspect().await.is_ok_and(|state| state.recovering_for.is_some())
    })
    .await;
    assert!(guard.check().is_ok() && !poll_once(&mut last).is_ready(), "granted while another holds the lock");
    proxy.heal();
    eventually_async("the holder is back", SOON, async || {
        state.inspect().await.is_ok_and(|state| state.holders.iter().any(|holder| holder.token == guard.token()))
    })
    .await;
    guard.release().await.unwrap();
    soon(last.into_future()).await.unwrap().release().await.unwrap();
    keys_left_after((old, holder, waiter, state), &server);
}

/// A stranger may be granted the lock after a loss, but an earlier client is no stranger.
#[tokio::test(flavor = "multi_thread")]
async fn a_newcomer_does_not_overtake_waiters_that_its_own_client_knows() {
    let server = RedisServer::start();
    // Nothing is granted until the recovery ends, which is as long as a lease.
    let options = || LockOptions::new().lease(Duration::from_secs(6)).liveness(Duration::from_secs(6));
    let (holder, waiter) = (connect(&server).await, connect(&server).await);
    let guard = holder.lock_with("x", options()).unwrap().acquire().await.unwrap();
    let mut old = waiter.lock_with("x", options()).unwrap().enqueue().await.unwrap();
    server.flush();
    let mut new = waiter.lock_with("x", options()).unwrap().enqueue().await.unwrap();
    let mut own = holder.lock_with("x", options()).unwrap().enqueue().await.unwrap();
    assert!(guard.check().is_ok());
    assert!(!poll_once(&mut new).is_ready() && !poll_once(&mut own).is_ready(), "granted while another holds the lock");

    // The holder re-asserts itself, and hands over in the old order.
    let lock = holder.lock_with("x", options()).unwrap();
    eventually_async("the holder is back", SOON, async || {
        lock.inspect().await.unwrap().holders.iter().any(|holder| holder.token == guard.token())
    })
    .await;
    eventually_async("the old waiter is back", SOON, async || {
        lock.inspect().await.unwrap().queue.first().is_some_and(|first| first.ticket == old.ticket())
    })
    .await;
    let token = guard.token();
    guard.release().await.unwrap();
    let second = (&mut old).await.unwrap();
    assert!(second.token() > token);
    assert!(!poll_once(&mut new).is_ready() && !poll_once(&mut own).is_ready());
    second.release().await.unwrap();
    let (first, later) = if new.ticket() < own.ticket() { (new, own) } else { (own, new) };
    let third = first.await.unwrap();
    third.release().await.unwrap();
    later.await.unwrap().release().await.unwrap();
    keys_left_after((holder, waiter, lock), &server);
}

/// A grant and the end of its client meet in one turn of the keeper.
#[test]
fn a_client_that_ends_as_it_is_granted_leaves_nothing() {
    let server = RedisServer::start();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    for round in 0..400_u64 {
        runtime.block_on(async {
            let client = connect(&server).await;
            let mut acquire = client.lock(&format!("x{round}")).unwrap().acquire().into_future();
            let _ = poll_once(&mut acquire);
            // About the time that an answer takes on this machine.
            let start = Instant::now();
            while start.elapsed() < Duration::from_micros(round * 7919 % 400) {
                std::hint::spin_loop();
            }
            drop(acquire);
        });
    }
    keys_left(&server);
}

/// Wakes no task: it does this in the waker thread when the keeper has an outcome.
struct Instead<F: FnOnce() + Send>(Mutex<Option<F>>);

impl<F: FnOnce() + Send + 'static> Instead<F> {
    fn waker(act: F) -> Waker {
        Arc::new(Self(Mutex::new(Some(act)))).into()
    }
}

impl<F: FnOnce() + Send> Wake for Instead<F> {
    fn wake(self: Arc<Self>) {
        let act = self.0.lock().unwrap().take();
        act.into_iter().for_each(|act| act());
    }
}

/// Many answers come at once, those of five futures among them, and a waker drops these futures at that moment. The
/// waker thread is held up until then, so the drops and the grants meet in the keeper in any order.
#[test]
fn an_acquire_dropped_while_it_is_granted_is_released() {
    const AT_A_TIME: usize = 257;
    let server = RedisServer::start();
    // A loopback port takes any amount of data; each small frame takes much of the buffer of a unix socket.
    let proxy = Proxy::start(&server).tcp();
    let client = Client::builder().url(&proxy.tcp_url()).connect_lazy().unwrap();
    let lock = |name: &str| {
        let options = quiet();
        client.lock_with(name, options).unwrap()
    };
    keys_left_after(lock("set-up").acquire().blocking().unwrap(), &server);
    let [acquire, inspect] = ["acquire", "inspect"].map(fairlock::__hooks::digest);
    let answers = proxy.fault(Target::reply(acquire), Act::Hold);
    let inspected = proxy.fault(Target::request(inspect), Act::Answer("ERR nobody is to know"));

    let mut late: Vec<_> = (0..5).map(|number| lock(&format!("late{number}")).acquire().into_future()).collect();
    let mut first = lock("first").acquire().into_future();
    let (give_up, given_up) = mpsc::channel();
    let (done, is_done) = mpsc::channel();
    let waker = Instead::waker(move || {
        drop(given_up.recv().unwrap());
        done.send(()).unwrap();
    });
    assert!(Pin::new(&mut first).poll(&mut Context::from_waker(&waker)).is_pending());
    // From now on no answer gets through.
    answers.await_struck();
    let asked = lock("asked");
    let mut asking: Vec<_> = (0..AT_A_TIME).map(|_| Box::pin(asked.inspect())).collect();
    assert!(!asking.iter_mut().any(|asking| poll_once(asking).is_ready()));
    assert!(!late.iter_mut().any(|late| poll_once(late).is_ready()));
    give_up.send(late).unwrap();
    eventually("all are granted", SOON, || granted(&server) == 6);
    eventually("the others are answered", SOON, || inspected.struck() == AT_A_TIME as u64);

    let (held_up, holds) = mpsc::channel();
    let (go_on, goes_on) = mpsc::channel::<()>();
    let waker = Instead::waker(move || {
        held_up.send(()).unwrap();
        let _ = goes_on.recv();
    });
    let short = loop {
        let mut short = lock("short").acquire().timeout(Duration::from_millis(1)).into_future();
        // On a busy machine the timeout may be over before this poll is.
        if Pin::new(&mut short).poll(&mut Context::from_waker(&waker)).is_pending() {
            break short;
        }
    };
    holds.recv_timeout(SOON).unwrap();
    let replies = proxy.counts().replies;
    answers.lift();
    proxy.wait("all answers are there", |counts| counts.replies >= replies + 6);
    drop(go_on);
    is_done.recv_timeout(SOON).unwrap();
    drop(smol::block_on(first).unwrap());
    keys_left_after((asking, short), &server);
}

/// How many locks are held.
fn granted(server: &RedisServer) -> usize {
    let mut raw = server.raw();
    let keys: Vec<String> = redis::cmd("KEYS").arg("*:lock").query(&mut raw).unwrap();
    let names = keys.iter().map(|key| key.trim_start_matches("fairlock:{").trim_end_matches("}:lock"));
    names.filter(|name| State::read(&mut raw, name).is_some_and(|state| state.holder().is_some())).count()
}

/// A connection that swallows everything is noticed in time for the turn: according to the liveness, not to a fixed
/// patience.
#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_keeps_its_turn_over_a_silent_connection() {
    let server = RedisServer::start();
    let proxy = Proxy::start(&server);
    let options = || LockOptions::new().liveness(Duration::from_secs(3)).buffer(Duration::from_secs(3));
    let direct = connect(&server).await;
    let proxied = Client::connect(&proxy.url()).await.unwrap();
    let guard = direct.lock_with("x", options()).unwrap().acquire().await.unwrap();
    let first = proxied.lock_with("x", options()).unwrap().enqueue().await.unwrap();
    let mut second = direct.lock_with("x", options()).unwrap().enqueue().await.unwrap();

    proxy.fault_times(1, Target::request(""), Act::Swallow).await_struck();
    proxy.wait("it connects again", |counts| counts.connections > 1);
    assert!(first.position().await.is_ok(), "it is back");
    guard.release().await.unwrap();
    let granted = first.await.unwrap();
    assert!(!poll_once(&mut second).is_ready());
    granted.release().await.unwrap();
    second.await.unwrap().release().await.unwrap();
    keys_left_after((direct, proxied), &server);
}
