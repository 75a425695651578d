//! Acquires of tasks: futures that are dropped, wakers that block, and the order among the tasks of a client.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::task::{Context, Poll, Wake};
use std::time::{Duration, Instant};

use super::*;
use fairlock::testing::digest;
use testkit::{Act, Proxy, SOON, Target, eventually, is_direct, keys_left, poll_once, quiet};

/// The future of a task is dropped while its request is under way: the lease that it is granted goes back, also if
/// nothing else is left of its client.
#[test]
fn a_lease_of_a_dropped_future_goes_back() {
    let server = server();
    let (_other, its) = client_of(&server.url());
    for last in [false, true] {
        let proxy = Proxy::start(&server);
        let (client, lock) = client_of(&proxy.url());
        By::Task.open(&lock);
        let reply = proxy.fault_times(1, Target::reply(digest("acquire")), Act::Hold);
        let future = under_way(&lock, &reply);
        drop(future);
        let client = (!last).then_some((lock, client));
        reply.lift();
        By::Task.release(By::Task.acquire(&its)).unwrap();
        drop(client);
    }
    keys_left(&server);
}

/// The lock is not free, so the acquire of the task has a place.
#[test]
fn a_future_that_was_dropped_leaves_the_queue() {
    let server = server();
    let proxy = Proxy::start(&server);
    let (client, lock) = client_of(&proxy.url());
    let another = client.lock_with("another", quiet()).unwrap();
    By::Task.open(&another);
    let (_other, its) = client_of(&server.url());
    let held = By::Task.acquire(&its);
    let reply = proxy.fault_times(1, Target::reply(digest("acquire")), Act::Hold);
    let future = under_way(&lock, &reply);
    drop(future);
    // The keeper hears that nobody wants it, and only then of the place.
    another.inspect().blocking().unwrap();
    reply.lift();
    eventually("it has left", SOON, || its.inspect().blocking().unwrap().waiting == 0);
    By::Task.open(&another);
    By::Task.release(held).unwrap();
    drop((lock, another, client));
}

/// The acquire is executed after the client was closed.
#[test]
fn a_lease_that_a_task_is_granted_when_its_client_is_closed_goes_back() {
    let server = server();
    let proxy = Proxy::start(&server);
    let (client, lock) = client_of(&proxy.url());
    By::Task.open(&lock);
    let request = proxy.fault_times(1, Target::request(digest("acquire")), Act::Hold);
    let future = under_way(&lock, &request);
    client.close().blocking();
    // The keeper looks once a second, and must not give up what is on its way.
    std::thread::sleep(Duration::from_millis(1500));
    request.lift();
    let failed = in_time(future);
    assert!(matches!(failed, Err(fairlock::error::AcquireError::Fault(fairlock::error::Fault::Closed))), "{failed:?}");
    let (other, its) = client_of(&server.url());
    By::Task.release(By::Task.acquire(&its)).unwrap();
    drop((lock, client, its, other));
    keys_left(&server);
}

/// Nobody blocks until the answer comes, so it is the keeper that notices.
#[test]
fn a_task_whose_answer_never_comes_is_served_by_the_keeper() {
    let server = server();
    let proxy = Proxy::start(&server);
    let (client, lock) = client_of(&proxy.url());
    for verb in ["acquire", "release"] {
        let mut guard = By::Task.directly(&lock);
        let old = server.connections();
        let swallowed = |verb| proxy.fault_times(1, Target::reply(digest(verb)), Act::Swallow);
        let lost = if verb == "release" {
            swallowed(verb)
        } else {
            By::Task.release(guard).unwrap();
            let lost = swallowed(verb);
            guard = By::Task.acquire(&lock);
            lost
        };
        By::Task.release(guard).unwrap();
        assert_eq!(lost.struck(), 1, "{verb}");
        eventually("the old connections are gone", SOON, || server.connections().is_disjoint(&old));
    }
    drop((lock, client));
    keys_left(&server);
}

/// Blocks the thread that wakes it.
struct Blocks {
    begun: Barrier,
    end: Barrier,
}

impl Wake for Blocks {
    fn wake(self: Arc<Self>) {
        self.begun.wait();
        self.end.wait();
    }
}

/// The keeper reads the answers to tasks, and another thread wakes them while a waker blocks.
#[test]
fn a_waker_that_blocks_does_not_delay_the_answers_to_tasks() {
    let server = server();
    let (client, lock) = client_of(&server.url());
    let another = client.lock_with("another", quiet()).unwrap();
    By::Task.open(&another);
    let connections = server.connections();
    let (other, its) = client_of(&server.url());
    let held = By::Task.acquire(&its);
    let waker = Arc::new(Blocks { begun: Barrier::new(2), end: Barrier::new(2) });
    let mut waiting = lock.acquire();
    assert!(Pin::new(&mut waiting).poll(&mut Context::from_waker(&waker.clone().into())).is_pending());
    eventually("it waits", SOON, || its.inspect().blocking().unwrap().waiting == 1);
    By::Task.release(held).unwrap();
    waker.begun.wait();
    let guard = By::Task.acquire(&another);
    assert!(is_direct(&guard));
    By::Task.release(guard).unwrap();
    // No connection was given up for it.
    assert!(server.connections().is_superset(&connections));
    waker.end.wait();
    drop((waiting, lock, another, client, its, other));
    keys_left(&server);
}

/// Many threads use a few locks. Some of them find the direct connection free, and the others ask the keeper.
#[test]
fn holders_over_either_connection_exclude_each_other() {
    const THREADS: usize = 6;
    const ROUNDS: usize = 200;
    let server = server();
    let clients = [client_of(&server.url()).0, client_of(&server.url()).0];
    let counters: [std::sync::Mutex<u64>; 3] = Default::default();
    let direct = AtomicUsize::new(0);
    std::thread::scope(|threads| {
        for thread in 0..THREADS {
            let (client, counters, direct) = (&clients[thread % 2], &counters, &direct);
            threads.spawn(move || {
                // On a busy machine the connection may be taken each time that a lock is free, so there may be more rounds.
                let none = |_: &usize| direct.load(Ordering::Relaxed) == 0;
                for round in (0..ROUNDS).chain((ROUNDS..100 * ROUNDS).take_while(none)) {
                    let at = (round / 20 + thread) % counters.len();
                    let by = [By::Blocking, By::Task][(thread + round) % 2];
                    let guard = by.acquire(&client.lock_with(&format!("lock {at}"), quiet()).unwrap());
                    direct.fetch_add(usize::from(is_direct(&guard)), Ordering::Relaxed);
                    let mut counter = counters[at].try_lock().expect("nobody else holds the lock");
                    assert!(guard.token() > std::mem::replace(&mut *counter, guard.token()));
                    drop(counter);
                    match round % 3 {
                        0 => drop(guard),
                        _ => by.release(guard).unwrap(),
                    }
                }
            });
        }
    });
    assert!(direct.into_inner() > 0, "no lease was granted over a direct connection");
    drop(clients);
    keys_left(&server);
}

/// The first of them has its request under way over the direct connection when the others go to the keeper.
#[test]
fn tasks_of_one_client_are_served_in_the_order_of_their_acquires() {
    let server = server();
    let (_other, its) = client_of(&server.url());
    for is_free in [false, true] {
        let proxy = Proxy::start(&server);
        let (client, lock) = client_of(&proxy.url());
        let another = client.lock_with("another", quiet()).unwrap();
        By::Task.open(&another);
        let held = (!is_free).then(|| By::Task.acquire(&its));
        let reply = proxy.fault_times(1, Target::reply(digest("acquire")), Act::Hold);
        let first = under_way(&lock, &reply);
        let mut second = lock.acquire();
        assert!(poll_once(&mut second).is_pending());
        // The first of them is the holder where the lock is free.
        let waiting = 2 - u64::from(is_free);
        eventually("both are known", SOON, || its.inspect().blocking().unwrap().waiting == waiting);
        reply.lift();
        held.into_iter().for_each(|held| By::Task.release(held).unwrap());
        for mut next in [first, second] {
            let mut guard = None;
            eventually("it is served", SOON, || {
                if let Poll::Ready(acquired) = poll_once(&mut next) {
                    guard = Some(acquired.unwrap());
                }
                guard.is_some()
            });
            drop(guard);
        }
        drop((lock, another, client));
    }
    keys_left(&server);
}

/// The keeper looks only once a second for itself, and the drop of the last handle takes a quarter of that. So a client
/// that ended with a look of the keeper would never end sooner than half a second after the answer.
#[test]
fn a_client_ends_with_the_answer_to_a_release_that_nobody_awaits() {
    let server = server();
    let ends = || {
        let proxy = Proxy::start(&server);
        let (client, lock) = client_of(&proxy.url());
        let guard = By::Task.directly(&lock);
        let reply = proxy.fault_times(1, Target::reply(digest("release")), Act::Hold);
        let mut release = Box::pin(guard.release().into_future());
        assert!(poll_once(&mut release).is_pending());
        reply.await_struck();
        // It waits for a while, and leaves the rest to the keeper.
        drop((release, lock, client));
        let start = Instant::now();
        reply.lift();
        eventually("the connections are closed", SOON, || server.connections().is_empty());
        start.elapsed()
    };
    // A busy machine may be slow at any one of them.
    assert!((0..20).any(|_| ends() < Duration::from_millis(500)), "each time something else ended it");
    keys_left(&server);
}
