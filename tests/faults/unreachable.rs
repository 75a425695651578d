//! A server that hangs or is gone delays no caller for longer than promised (I8), and errors name the cause.

use std::{
    future::IntoFuture as _,
    time::{Duration, Instant},
};

use fairlock::{
    Acquire, Client, ClientBuilder, Enqueue, Guard, Held, Lock, LockOptions, TryAcquire, Waiting,
    error::{AcquireError, Fault, Lost, LostReason, ReleaseError, TryAcquireError},
};
use testkit::{
    Act, Proxy, RedisServer, SOON, Target, connect, eventually, keys_left, keys_left_after, quiet, server_and_client,
    soon,
};

/// Far longer than a scheduling delay, far shorter than for ever.
const SLACK: Duration = Duration::from_secs(10);

fn often() -> LockOptions {
    LockOptions::new().liveness(Duration::from_secs(2))
}

#[derive(Clone, Copy, Debug)]
enum Trouble {
    Stopped,
    Killed,
}

/// A waiter at position two when the fault begins.
async fn times_out(trouble: Trouble, timeout: Duration) {
    let server = RedisServer::builder().appendonly().start();
    let lock = connect(&server).await.lock_with("lock", often()).unwrap();
    let guard = lock.acquire().await.unwrap();
    let first = lock.enqueue().await.unwrap();
    let called = Instant::now();
    let second = lock.enqueue().timeout(timeout).await.unwrap();
    match trouble {
        Trouble::Stopped => server.stop(),
        Trouble::Killed => server.kill(),
    }
    match soon(second).await {
        Err(error @ AcquireError::Timeout { waited, position, .. }) => {
            assert!(waited >= timeout && called.elapsed() < timeout + SLACK, "{trouble:?} {waited:?}");
            assert_eq!(position, Some(2), "{trouble:?}");
            let AcquireError::Timeout { cause: Some(cause), .. } = &error else { panic!("{error}: no cause") };
            let said = error.to_string();
            assert!(said.contains(&cause.to_string()) && said.contains("position 2"), "{said}");
        }
        other => panic!("{other:?}"),
    }
    match trouble {
        Trouble::Stopped => server.cont(),
        Trouble::Killed => server.restart(),
    }
    // The client sends now what it could not send then; no proxy is between the two.
    guard.release().await.unwrap();
    first.await.unwrap().release().await.unwrap();
    keys_left(&server);
}

#[tokio::test]
async fn a_timeout_says_that_the_server_stood_still() {
    // Longer than it takes to notice that a server hangs.
    times_out(Trouble::Stopped, Duration::from_secs(9)).await;
}

#[tokio::test]
async fn a_timeout_says_that_the_server_was_gone() {
    times_out(Trouble::Killed, Duration::from_secs(6)).await;
}

#[tokio::test]
async fn an_acquire_returns_by_its_timeout_from_a_silent_server() {
    let server = RedisServer::start();
    let lock = connect(&server).await.lock("lock").unwrap();
    server.stop();
    let timeout = Duration::from_secs(3);
    let called = Instant::now();
    let error = soon(lock.acquire().timeout(timeout).into_future()).await.map(|_| ()).unwrap_err();
    let told = |waited, cause: &Option<_>| waited >= timeout && cause.is_some();
    assert!(
        matches!(&error, AcquireError::Timeout { waited, position: None, cause, .. } if told(*waited, cause)),
        "{error:?}"
    );
    assert!(called.elapsed() < timeout + SLACK, "{:?}", called.elapsed());
    server.cont();
    // The acquire in the socket is executed now, although its caller has given up.
    keys_left_after(lock.acquire().await.unwrap(), &server);
}

#[tokio::test]
async fn calls_without_a_timeout_fail_after_five_seconds() {
    let (server, client) = server_and_client().await;
    let lock = client.lock("lock").unwrap();
    let busy = client.lock("busy").unwrap();
    let guard = busy.acquire().await.unwrap();
    let waiting = busy.enqueue().await.unwrap();
    server.stop();
    let called = Instant::now();
    // An enqueue has no such timeout: it waits for its place as long as an acquire does.
    let enqueue = lock.enqueue().timeout(Duration::from_secs(6));
    let (inspect, attempt, enqueue, position, broken) = tokio::join!(
        lock.inspect(),
        lock.try_acquire(),
        enqueue.into_future(),
        waiting.position(),
        lock.break_lease(1)
    );
    assert!(called.elapsed() < Duration::from_secs(6) + SLACK, "{:?}", called.elapsed());
    for fault in [inspect.unwrap_err(), position.unwrap_err(), broken.unwrap_err()] {
        assert!(matches!(fault, Fault::Unavailable { .. }), "{fault:?}");
        let said = fault.to_string();
        assert!(said.contains("within 5s") && !said.contains("5.0"), "{said}");
    }
    assert!(matches!(attempt, Err(TryAcquireError::Fault(Fault::Unavailable { .. }))), "{attempt:?}");
    let waited_for =
        |error: &AcquireError| matches!(error, AcquireError::Timeout { waited, .. } if waited.as_secs() >= 6);
    assert!(enqueue.as_ref().is_err_and(waited_for), "{enqueue:?}");
    server.cont();
    keys_left_after((guard, waiting), &server);
}

#[tokio::test]
async fn a_holder_that_cannot_renew_hears_it_in_time() {
    let lease = Duration::from_secs(9);
    let (server, client) = server_and_client().await;
    let guard = client.lock_with("lock", LockOptions::new().lease(lease)).unwrap().acquire().await.unwrap();
    let release = client.lock_with("other", LockOptions::new().lease(lease)).unwrap().acquire().await.unwrap();
    server.stop();
    let stopped = Instant::now();
    let (lost, released) = tokio::join!(soon(guard.lost()), soon(release.release()));
    assert!(matches!(&lost.reason, LostReason::NotRenewed { cause: Some(_), .. }), "{lost}");
    assert!(matches!(&released, Err(ReleaseError::Unknown { .. })), "{released:?}");
    assert!(stopped.elapsed() < lease + SLACK, "{:?}", stopped.elapsed());
    server.cont();
    keys_left_after(guard, &server);
}

/// Connecting may take a second at first for a client that needs answers soon.
#[tokio::test(flavor = "multi_thread")]
async fn a_network_that_is_slow_to_connect_is_given_longer() {
    let (server, proxy) = Proxy::of_a_server();
    let client = soon(Client::connect(&proxy.url())).await.unwrap();
    let guard = soon(connect(&server).await.lock("lock").unwrap().acquire()).await.unwrap();
    // A client that waits needs answers soon.
    let waiting = soon(client.lock_with("lock", often()).unwrap().enqueue()).await.unwrap();
    let delay = proxy.fault(Target::request("hello").command(), Act::Delay(Duration::from_millis(1500)));
    proxy.cut();
    delay.await_struck();
    soon(guard.release()).await.unwrap();
    soon(soon(waiting).await.unwrap().release()).await.unwrap();
    keys_left(&server);
}

/// A server that accepts a connection and says nothing is given up after a second by a client that needs answers soon,
/// also at its first attempt. Other clients give it five.
#[tokio::test(flavor = "multi_thread")]
async fn a_silent_first_connection_is_given_up_as_soon_as_the_lock_needs() {
    let server = RedisServer::builder().alone().start();
    let ways = [Proxy::start(&server), Proxy::start(&server)];
    let silences = [0, 1].map(|way: usize| ways[way].fault_times(1, Target::request("hello").command(), Act::Hold));
    let other = Client::connect_lazy(&ways[0].url()).unwrap().lock_with("other", quiet()).unwrap();
    let patient = tokio::spawn(other.acquire().into_future());
    silences[0].await_struck();
    let lock = Client::connect_lazy(&ways[1].url()).unwrap().lock_with("lock", often()).unwrap();
    let guard = soon(lock.acquire().into_future()).await.unwrap();
    assert_eq!((silences[1].struck(), ways[0].counts().connections), (1, 1), "the other connects again as soon");
    silences.iter().for_each(testkit::proxy::Fault::lift);
    guard.release().await.unwrap();
    soon(patient).await.unwrap().unwrap().release().await.unwrap();
    keys_left(&server);
}

/// The pauses between attempts to connect are no longer than a session or a lease allows, so that a server that is
/// reachable now and then is found in time. With a long session and a long lease they grow. A lease may be shorter than
/// the session of its holder as a waiter.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_with_short_leases_tries_to_connect_more_often() {
    let server = RedisServer::builder().alone().start();
    let ways = [Proxy::start(&server), Proxy::start(&server), Proxy::start(&server)];
    let options = [(1, 1), (10, 1), (60, 60)].map(|(liveness, lease)| {
        LockOptions::new().liveness(Duration::from_secs(liveness)).lease(Duration::from_secs(lease))
    });
    let mut held = Vec::new();
    for (way, options) in ways.iter().zip(options) {
        let client = soon(Client::connect(&way.url())).await.unwrap();
        let name = way.url();
        held.push(soon(client.lock_with(&name, options).unwrap().acquire()).await.unwrap());
    }
    ways.iter().for_each(Proxy::refuse);
    ways.iter().for_each(Proxy::cut);
    // At most 640 ms in one case, and at least half of it; at most 83 ms in the others. The first seven attempts are
    // alike, and a busy machine adds the same to each of the others.
    eventually("many attempts for a short session or lease, and fewer for long ones", SOON, || {
        let [often, by_lease, seldom] = [0, 1, 2].map(|way: usize| ways[way].counts().refused);
        often.min(by_lease) >= 40 && 4 * seldom < 3 * often.min(by_lease)
    });
    ways.iter().for_each(Proxy::heal);
}

#[tokio::test]
async fn a_lazy_client_waits_for_its_server() {
    let server = RedisServer::start();
    server.kill();
    let client = Client::connect_lazy(&server.url()).unwrap();
    let lock = client.lock("lock").unwrap();
    let patient = tokio::spawn(lock.acquire().into_future());
    // While the other waits, every attempt to connect fails.
    let error = soon(lock.acquire().timeout(Duration::from_secs(1)).into_future()).await.map(|_| ()).unwrap_err();
    assert!(matches!(error, AcquireError::Timeout { position: None, cause: Some(_), .. }), "{error:?}");
    server.restart();
    soon(patient).await.unwrap().unwrap().release().await.unwrap();
    keys_left(&server);
}

/// Every handle and future can be sent to another task or thread, kept anywhere, and polled without pinning.
#[test]
fn handles_and_futures_can_go_to_other_threads() {
    fn anywhere<T: Send + Sync + Unpin + 'static>() {}
    fn sent<T: Send + 'static>(_: impl FnOnce(&'static Lock, Guard) -> T) {}
    fn shared<T: Send + Sync + 'static>(_: impl FnOnce(Guard) -> T) {}
    anywhere::<(Client, ClientBuilder, Lock, LockOptions)>();
    anywhere::<(Guard, Held, Waiting)>();
    anywhere::<(Acquire, TryAcquire, Enqueue, fairlock::Operation<Lost>)>();
    anywhere::<(AcquireError, TryAcquireError, ReleaseError, Fault, Lost)>();
    sent(|lock, _| lock.acquire().run(async |held| held.token()));
    sent(|lock, _| lock.inspect());
    sent(|lock, _| lock.break_lease(1));
    shared(|guard| guard.renewed());
    shared(|guard| guard.held().renewed());
    shared(|guard| guard.renew());
    shared(|guard| guard.release());
    shared(|guard| guard.held().ended());
}
