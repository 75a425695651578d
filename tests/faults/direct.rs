//! The direct connection, over which blocking callers acquire and release locks that are free: what the keeper takes
//! over, and what becomes of requests whose answers do not come.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::task::{Context, Poll, Wake};
use std::time::{Duration, Instant};

use fairlock::testing::digest;
use fairlock::{Acquire, Canceller, Client, Guard, Lock, LockOptions, LostReason, ReleaseError};
use testkit::{
    Act, Proxy, RedisServer, SOON, Target, eventually, is_direct, keys_left, poll_once, proxy::Fault, quiet, soon,
};

/// There is no direct connection in a cluster.
fn server() -> RedisServer {
    RedisServer::builder().alone().start()
}

/// A client that blocks, and a lock whose lease does not end while a test runs.
fn client_of(url: &str) -> (Client, Lock) {
    let client = Client::connect(url).blocking().unwrap();
    let lock = client.lock_with("x", quiet()).unwrap();
    (client, lock)
}

/// How a caller waits.
#[derive(Clone, Copy, Debug)]
enum By {
    /// It reads its answers itself.
    Blocking,
    /// The waker thread reads them.
    Task,
}

impl By {
    fn each(test: impl Fn(By)) {
        for by in [By::Blocking, By::Task] {
            println!("by {by:?}");
            test(by);
        }
    }

    /// It fails instead of waiting for ever.
    fn acquire(self, lock: &Lock) -> Guard {
        let acquire = lock.acquire().timeout(SOON);
        match self {
            By::Blocking => acquire.blocking(),
            By::Task => in_time(acquire),
        }
        .unwrap()
    }

    fn release(self, guard: Guard) -> Result<(), ReleaseError> {
        match self {
            By::Blocking => guard.release().blocking(),
            By::Task => in_time(guard.release()),
        }
    }

    /// A lease that was granted over the direct connection, which is made after a few acquires.
    #[track_caller]
    fn directly(self, lock: &Lock) -> Guard {
        let mut direct = None;
        eventually("the client has a direct connection", SOON, || {
            let guard = self.acquire(lock);
            if is_direct(&guard) {
                direct = Some(guard);
            } else {
                self.release(guard).unwrap();
            }
            direct.is_some()
        });
        direct.unwrap()
    }

    /// From now on the client has a direct connection, which nobody uses.
    #[track_caller]
    fn open(self, lock: &Lock) {
        self.release(self.directly(lock)).unwrap();
    }

    /// Makes twice as many acquires as would open the connection, and asserts that none of them uses it.
    #[track_caller]
    fn never_directly(self, server: &RedisServer, lock: &Lock) {
        for _ in 0..20 {
            let guard = self.acquire(lock);
            assert!(!is_direct(&guard));
            self.release(guard).unwrap();
        }
        assert_eq!(server.connections().len(), 1);
    }
}

/// The acquire of a task, whose request or answer this fault has struck.
fn under_way(lock: &Lock, struck: &Fault) -> Acquire {
    let mut acquire = lock.acquire();
    assert!(poll_once(&mut acquire).is_pending());
    struck.await_struck();
    acquire
}

/// Awaits a future on a runtime without I/O.
fn in_time<F: IntoFuture>(future: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(soon(future))
}

/// Why a lease is lost, which it is soon.
#[track_caller]
fn lost(guard: &Guard) -> LostReason {
    eventually("the lease is lost", SOON, || guard.check().is_err());
    guard.check().unwrap_err().reason
}

#[test]
fn callers_that_cycle_get_one_more_connection() {
    By::each(|by| {
        let server = server();
        let (client, lock) = client_of(&server.url());
        by.open(&lock);
        for _ in 0..100 {
            let guard = by.acquire(&lock);
            assert!(is_direct(&guard));
            by.release(guard).unwrap();
        }
        assert_eq!(server.connections().len(), 2);
        let guard = by.directly(&lock);
        let busy = lock.try_acquire().blocking();
        assert!(matches!(busy, Err(fairlock::TryAcquireError::Busy { .. })), "{busy:?}");
        drop((guard, lock, client));
        keys_left(&server);
    });
}

#[test]
fn short_leases_timeouts_and_cancellable_acquires_go_to_the_keeper() {
    By::each(|by| {
        let server = RedisServer::builder().alone().user("locker", "on >pw ~* &* +@all -client +client|id").start();
        let client = Client::connect(&server.url()).blocking().unwrap();
        let short = LockOptions::new().lease(Duration::from_secs(9));
        by.never_directly(&server, &client.lock_with("x", short).unwrap());
        // The keeper would take it over after its holder was to be told of its end.
        let told_early = LockOptions::new().lease(Duration::from_secs(10)).notice(Duration::from_millis(9500));
        let told_early = told_early.renew_every(Duration::from_millis(300));
        by.never_directly(&server, &client.lock_with("y", told_early).unwrap());
        drop(client);
        let (client, lock) = client_of(&server.url());
        by.open(&lock);
        // The connection is open, but not for a caller whose timeout is shorter than an answer may take.
        let hurried = lock.acquire().timeout(Duration::from_secs(1)).blocking().unwrap();
        assert!(!is_direct(&hurried));
        hurried.release().blocking().unwrap();
        let cancellable = lock.acquire().cancelled_by(&Canceller::new()).blocking().unwrap();
        assert!(!is_direct(&cancellable));
        cancellable.release().blocking().unwrap();
        drop((lock, client));
        // The connections of this user cannot be ended, and their late requests would be executed.
        let (client, lock) = client_of(&server.url_as("locker", "pw"));
        by.never_directly(&server, &lock);
        drop((lock, client));
    });
}

/// Until the keeper takes the lease over, nothing renews it.
#[test]
fn the_keeper_renews_a_lease_that_lasts() {
    By::each(|by| {
        let server = server();
        let (client, lock) = client_of(&server.url());
        let guard = by.directly(&lock);
        let before = guard.remaining();
        let renewed = in_time(guard.renewed()).unwrap();
        assert!(renewed > before - Duration::from_secs(1), "{renewed:?} after {before:?}");
        by.release(guard).unwrap();
        drop((lock, client));
        keys_left(&server);
    });
}

/// Each call is about a lease that the keeper does not know yet.
#[tokio::test(flavor = "multi_thread")]
async fn the_keeper_takes_over_a_lease_with_the_first_call_about_it() {
    let server = server();
    tokio::task::block_in_place(|| {
        let (client, lock) = client_of(&server.url());
        let held = || By::Blocking.directly(&lock);
        held().renew().blocking().unwrap();

        let guard = held();
        guard.extend(SOON).blocking().unwrap();
        assert!(guard.remaining() > 100 * SOON);
        guard.release().blocking().unwrap();

        let guard = held();
        guard.set_automatic_renewal(false);
        guard.release().blocking().unwrap();

        // A drop of the guard, and a release that is awaited, are such calls, too.
        drop(held());
        let guard = held();
        tokio::runtime::Handle::current().block_on(async { soon(guard.release()).await.unwrap() });

        let guard = held();
        client.close().blocking();
        assert_eq!(guard.check().unwrap_err().reason, LostReason::Closed);
        drop((guard, lock, client));
    });
    keys_left(&server);
}

/// An answer that names this client's lease is no reason to give it back: its caller has it.
#[test]
fn other_callers_of_the_client_see_a_lease_and_wait_for_it() {
    let server = server();
    let (client, lock) = client_of(&server.url());
    let guard = By::Blocking.directly(&lock);
    let seen = lock.inspect().blocking().unwrap();
    assert_eq!(seen.holder.unwrap().token, guard.token());
    let waiting = lock.enqueue().blocking().unwrap();
    assert_eq!(waiting.position().blocking().unwrap(), 1);
    guard.check().unwrap();
    let token = guard.token();
    guard.release().blocking().unwrap();
    let next = waiting.blocking().unwrap();
    assert!(next.token() > token);
    drop((next, lock, client));
    keys_left(&server);
}

/// After a loss of data the server takes a client that names nothing for a stranger, and grants it the lock.
#[test]
fn no_caller_overtakes_a_waiter_of_its_own_client_over_the_direct_connection() {
    let server = server();
    let (holder, its) = client_of(&server.url());
    let guard = By::Blocking.acquire(&its);
    let (client, lock) = client_of(&server.url());
    let waiting = lock.enqueue().blocking().unwrap();
    let another = client.lock_with("another", quiet()).unwrap();
    By::Blocking.open(&another);
    server.flush();
    let overtaking = lock.try_acquire().blocking();
    assert!(overtaking.is_err(), "{overtaking:?}");
    drop((guard, its, holder, waiting, lock, another, client));
}

/// A job may await much at once, so nothing that it awaits may block its thread.
#[test]
fn what_a_job_awaits_does_not_block_its_thread() {
    let server = server();
    let proxy = Proxy::start(&server);
    let (client, lock) = client_of(&proxy.url());
    let another = client.lock_with("another", quiet()).unwrap();
    By::Blocking.open(&another);
    let held = lock.acquire().timeout(Duration::from_secs(1));
    let awaited = held.run(|_| async {
        let reply = proxy.fault_times(1, Target::reply(digest("acquire")), Act::Hold);
        let (guard, ()) = tokio::join!(another.acquire(), async { reply.lift() });
        is_direct(&guard.unwrap())
    });
    assert!(awaited.blocking().unwrap());
    drop((lock, another, client));
    keys_left(&server);
}

/// The keeper's release is on its way then, and a request over the direct connection overtakes it.
#[test]
fn a_try_after_a_dropped_guard_finds_the_lock_free() {
    By::each(|by| {
        let server = server();
        let proxy = Proxy::start(&server);
        let (client, lock) = client_of(&proxy.url());
        by.open(&lock);
        let guard = lock.acquire().timeout(Duration::from_secs(1)).blocking().unwrap();
        assert!(!is_direct(&guard));
        let late = proxy.fault_times(1, Target::request(digest("release")), Act::Delay(Duration::from_millis(200)));
        drop(guard);
        late.await_struck();
        lock.try_acquire().blocking().unwrap().release().blocking().unwrap();
        drop((lock, client));
        keys_left(&server);
    });
}

/// An operator need not wait until the lease would have been renewed.
#[test]
fn a_holder_hears_soon_that_its_lease_was_broken() {
    By::each(|by| {
        let server = server();
        let (client, lock) = client_of(&server.url());
        let guard = by.directly(&lock);
        let (operator, same) = client_of(&server.url());
        same.force_break_lease(guard.token()).blocking().unwrap();
        assert_eq!(lost(&guard), LostReason::Broken);
        let released = by.release(guard);
        assert!(matches!(released, Err(ReleaseError::Lost(_))), "{released:?}");
        drop((lock, client, same, operator));
        keys_left(&server);
    });
}

/// Whether the request was executed or not, and whatever breaks, the caller has the lock much sooner than a lease
/// lasts, or has given it back. No request of the old connections is executed later (I10).
#[test]
fn a_request_without_an_answer_is_given_back_or_repeated() {
    By::each(|by| {
        let server = server();
        let proxy = Proxy::start(&server);
        let (client, lock) = client_of(&proxy.url());
        for (side, verb) in [("request", "acquire"), ("reply", "acquire"), ("request", "release"), ("reply", "release")]
        {
            let mut guard = by.directly(&lock);
            let old = server.connections();
            assert_eq!(old.len(), 2, "{old:?}");
            let target = match side {
                "request" => Target::request(digest(verb)),
                _ => Target::reply(digest(verb)),
            };
            let lost = || proxy.fault_times(1, target.clone(), Act::Cut(5));
            let lost = if verb == "release" {
                lost()
            } else {
                by.release(guard).unwrap();
                let lost = lost();
                guard = by.acquire(&lock);
                lost
            };
            by.release(guard).unwrap_or_else(|error| panic!("{side} of {verb}: {error}"));
            assert_eq!(lost.struck(), 1, "{side} of {verb}");
            eventually("the old connections are gone", SOON, || server.connections().is_disjoint(&old));
        }
        drop((lock, client));
        keys_left(&server);
    });
}

/// The request waits in a proxy that goes on delivering it when both sides have given the connection up.
#[test]
fn a_late_request_is_not_executed() {
    By::each(|by| {
        let server = server();
        let proxy = Proxy::start(&server);
        let (client, lock) = client_of(&proxy.url());
        by.open(&lock);
        let held = proxy.fault_times(1, Target::request(digest("acquire")), Act::Hold);
        std::thread::scope(|threads| {
            let waiting = threads.spawn(|| by.acquire(&lock));
            held.await_struck();
            proxy.abandon();
            let guard = waiting.join().unwrap();
            assert!(!is_direct(&guard));
            by.release(guard).unwrap();
        });
        held.lift();
        proxy.wait("the late request was delivered", |counts| counts.late + counts.late_refused > 0);
        drop((lock, client));
        keys_left(&server);
    });
}

/// A refusal passes: the keeper asks again over its own connection, and the caller waits on.
#[test]
fn a_refused_direct_request_is_repeated_by_the_keeper() {
    By::each(|by| {
        let server = server();
        let proxy = Proxy::start(&server);
        let (client, lock) = client_of(&proxy.url());
        by.open(&lock);
        let refused = proxy.fault_times(
            3,
            Target::request(digest("acquire")),
            Act::Answer("OOM command not allowed when used memory"),
        );
        by.release(by.acquire(&lock)).unwrap();
        assert_eq!(refused.struck(), 3);
        drop(refused);
        let guard = by.directly(&lock);
        let refused = proxy.fault_times(1, Target::request(digest("release")), Act::Answer("LOADING Redis is loading"));
        by.release(guard).unwrap();
        assert_eq!(refused.struck(), 1);
        drop((lock, client));
        keys_left(&server);
    });
}

/// The keeper hears on its own connection that the server is gone, and closes the direct one with it.
#[test]
fn after_a_restart_of_the_server_callers_get_a_new_connection() {
    By::each(|by| {
        let server = server();
        let client = Client::connect(&server.url()).blocking().unwrap();
        // A restart is followed by a recovery as long as the liveness.
        let options = LockOptions::new().lease(Duration::from_secs(20)).liveness(Duration::from_millis(300));
        let lock = client.lock_with("x", options).unwrap();
        let guard = by.directly(&lock);
        server.restart();
        let released = by.release(guard);
        assert!(matches!(released, Ok(()) | Err(ReleaseError::Lost(_))), "{released:?}");
        by.open(&lock);
        drop((lock, client));
        keys_left(&server);
    });
}

#[test]
fn a_connection_that_nobody_uses_is_closed() {
    By::each(|by| {
        let server = server();
        let (client, lock) = client_of(&server.url());
        by.open(&lock);
        assert_eq!(server.connections().len(), 2);
        eventually("the connection is closed", SOON, || server.connections().len() == 1);
        by.open(&lock);
        drop((lock, client));
        keys_left(&server);
    });
}

#[test]
fn a_keeper_that_panics_takes_the_lease_along() {
    let server = server();
    let (client, lock) = client_of(&server.url());
    let guard = By::Blocking.directly(&lock);
    client.panic_keeper();
    assert_eq!(lost(&guard), LostReason::KeeperPanicked);
    assert!(lock.acquire().blocking().is_err());
    drop((guard, lock, client));
}

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

/// The lock is not free, so the acquire of the task would go to the keeper next.
#[test]
fn a_future_that_was_dropped_joins_no_queue() {
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
    reply.lift();
    // The connection is free again when the reply is known.
    By::Task.open(&another);
    assert_eq!(its.inspect().blocking().unwrap().waiting, 0);
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
    assert!(matches!(failed, Err(fairlock::AcquireError::Fault(fairlock::Fault::Closed))), "{failed:?}");
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
            assert!(!is_direct(&guard));
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

/// The waker thread reads the answers to tasks. Another thread does so while a waker blocks.
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
        eventually("both are in the queue", SOON, || its.inspect().blocking().unwrap().waiting == 2);
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

/// The keeper looks only once a second for itself.
#[test]
fn a_client_ends_with_the_answer_to_a_release_that_nobody_awaits() {
    let server = server();
    let mut took = Duration::ZERO;
    for _ in 0..5 {
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
        took += start.elapsed();
    }
    assert!(took < Duration::from_secs(1), "{took:?}");
    keys_left(&server);
}
