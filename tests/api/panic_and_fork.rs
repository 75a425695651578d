//! Handles without a keeper: it has panicked, or it stayed in the parent process at a fork.

use std::{
    io::{ErrorKind, Read as _, pipe},
    net::TcpStream,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use fairlock::{
    CancellationToken, Client, Guard, Lock, LockOptions, Waiting,
    compat::KeyedMutex,
    error::{AcquireError, Fault, LostReason, ReleaseError, RenewError, TryAcquireError},
    testing::LockService,
};
use futures_util::FutureExt as _;
use pollster::block_on;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, kill_process};
use testkit::{Child, RedisServer, SOON, child, eventually, keys_left, soon};

/// The helper processes of this file.
#[test]
fn child() {
    child::main(|role, args| match (role, args) {
        ("fork", [url]) => fork_while_holding(url),
        ("fork while awaiting", [url]) => fork_while_a_thread_awaits(url),
        ("fork and connect", [url]) => connect_after_forks(url),
        ("fork and close", [url]) => close_while_a_forked_process_lives(url),
        ("fork beside a service", []) => fork_beside_a_service(),
        other => panic!("no role {other:?}"),
    });
}

async fn fails_everywhere(lock: &Lock, fault: Fault) {
    assert!(matches!(lock.acquire().await, Err(AcquireError::Fault(its)) if its == fault));
    assert!(matches!(lock.enqueue().await, Err(AcquireError::Fault(its)) if its == fault));
    assert!(matches!(lock.try_acquire().await, Err(TryAcquireError::Fault(its)) if its == fault));
    assert_eq!(lock.inspect().await.unwrap_err(), fault);
    assert_eq!(lock.break_lease(1).await.unwrap_err(), fault);
    assert_eq!(lock.force_break_lease(1).await.unwrap_err(), fault);
}

#[tokio::test]
async fn a_keeper_that_panics_takes_every_lease_with_it() {
    let server = RedisServer::start();
    let options = || LockOptions::new().lease(Duration::from_secs(6)).liveness(Duration::from_secs(6));
    let client = Client::connect(&server.url()).await.unwrap();
    let locks = ["a", "b", "c"].map(|name| client.lock_with(name, options()).unwrap());
    let mut guards = Vec::new();
    for lock in &locks {
        guards.push(lock.acquire().await.unwrap());
    }
    let waiting = locks[0].enqueue().await.unwrap();
    let renewal = guards[1].renew();
    let lost = guards[0].lost();

    client.panic_keeper();
    let lost = soon(lost).await;
    assert_eq!((lost.reason, lost.token, &*lost.name), (LostReason::KeeperPanicked, guards[0].token(), "a"));
    for guard in &guards {
        assert_eq!(soon(guard.lost()).await.reason, LostReason::KeeperPanicked);
        assert_eq!(guard.check().unwrap_err().reason, LostReason::KeeperPanicked);
        assert_eq!(guard.remaining(), Duration::ZERO);
    }
    assert!(matches!(waiting.position().await, Err(Fault::KeeperPanicked)));
    assert!(matches!(waiting.await, Err(AcquireError::Fault(Fault::KeeperPanicked))));
    assert!(matches!(renewal.await, Err(RenewError::Lost(lost)) if lost.reason == LostReason::KeeperPanicked));
    for lock in &locks {
        fails_everywhere(lock, Fault::KeeperPanicked).await;
    }
    client.close().await;
    let released = guards.pop().unwrap().release().await;
    assert!(matches!(released, Err(ReleaseError::Lost(lost)) if lost.reason == LostReason::KeeperPanicked));
    drop((guards, client));

    // A new client finds what a dead process leaves: leases that end by themselves.
    let client = Client::connect(&server.url()).await.unwrap();
    for lock in locks {
        client.lock_with(lock.name(), options()).unwrap().acquire().await.unwrap().release().await.unwrap();
    }
    keys_left(&server);
}

/// In the child process of the fork. The keeper did not come along.
fn forked(url: &str, client: Client, lock: Lock, guards: [Guard; 3], waiting: [Waiting; 3]) {
    let [guard, released, dropped] = guards;
    let [awaited, asked, abandoned] = waiting;
    block_on(fails_everywhere(&lock, Fault::Forked));
    block_on(fails_everywhere(&client.lock("another").unwrap(), Fault::Forked));
    assert_eq!(guard.check().unwrap_err().reason, LostReason::Forked);
    assert_eq!((guard.remaining(), guard.held().remaining()), (Duration::ZERO, Duration::ZERO));
    assert_eq!(block_on(guard.lost()).reason, LostReason::Forked);
    assert_eq!(guard.held().check().unwrap_err().reason, LostReason::Forked);
    assert!(matches!(block_on(guard.renew()), Err(RenewError::Lost(lost)) if lost.reason == LostReason::Forked));
    assert!(matches!(block_on(released.release()), Err(ReleaseError::Fault(Fault::Forked))));
    assert!(matches!(block_on(asked.position()), Err(Fault::Forked)));
    assert!(matches!(awaited.blocking(), Err(AcquireError::Fault(Fault::Forked))));
    block_on(client.close());
    drop((dropped, abandoned, asked, guard, lock, client));

    // The child can use a client that it makes itself.
    let client = block_on(Client::connect(url)).unwrap();
    let own = block_on(client.lock("of the child").unwrap().acquire()).unwrap();
    block_on(own.release()).unwrap();
}

/// Waits for the end of a forked process, and kills it if it does not end.
pub(crate) fn ends_well(pid: i32) -> bool {
    let started = Instant::now();
    loop {
        match fork::waitpid_nohang(pid).unwrap() {
            Some(status) => return status == 0,
            None if started.elapsed() < 2 * SOON => std::thread::sleep(Duration::from_millis(5)),
            None => {
                kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
                fork::waitpid(pid).unwrap();
                return false;
            }
        }
    }
}

fn fork_while_holding(url: &str) {
    let client = block_on(Client::connect(url)).unwrap();
    let acquire = |name: &str| client.lock(name).unwrap().acquire().blocking().unwrap();
    let guards = ["a", "b", "c"].map(acquire);
    let enqueue = |name: &str| client.lock(name).unwrap().enqueue().blocking().unwrap();
    let waiting = ["a", "b", "c"].map(enqueue);
    let lock = client.lock("a").unwrap();
    let mut polled = Box::pin(guards[0].held().ended());
    assert!(polled.as_mut().now_or_never().is_none());

    match fork::fork().unwrap() {
        fork::Fork::Child => {
            let outcome = catch_unwind(AssertUnwindSafe(|| {
                assert_eq!(block_on(polled).unwrap().reason, LostReason::Forked);
                forked(url, client, lock, guards, waiting);
            }));
            std::process::exit(i32::from(outcome.is_err()));
        }
        fork::Fork::Parent(pid) => {
            assert!(ends_well(pid), "the forked process failed or hung");
            // In the parent everything is as before.
            for guard in &guards {
                guard.check().unwrap();
                let state = block_on(client.lock(guard.name()).unwrap().inspect()).unwrap();
                assert_eq!(state.holders[0].token, guard.token());
                assert_eq!(state.waiting, 1);
            }
            for (guard, waiting) in guards.into_iter().zip(waiting) {
                block_on(guard.release()).unwrap();
                drop(waiting.blocking().unwrap());
            }
        }
    }
}

#[test]
fn a_forked_process_can_neither_use_nor_give_away_what_its_parent_has() {
    fork_as("fork");
}

/// The forks are made by a process of its own, in this role.
fn fork_as(role: &str) {
    let server = RedisServer::start();
    let mut parent = Child::spawn(role, &[&server.url()]);
    assert!(parent.wait(5 * SOON).success());
    keys_left(&server);
}

/// At each fork other threads may have a mutex that is taken for the futures and keys of both.
fn fork_while_a_thread_awaits(url: &str) {
    let client = block_on(Client::connect(url)).unwrap();
    let lock = client.lock("a").unwrap();
    let guard = lock.acquire().blocking().unwrap();
    let keys = KeyedMutex::new(&client, "keys").unwrap();
    let mut key = Some(keys.guard("k").blocking().unwrap());
    let cancellation = CancellationToken::new();
    let mut waiting = Box::pin(lock.acquire().cancelled_by(&cancellation));
    assert!(waiting.as_mut().now_or_never().is_none());
    let mut waiting = Some(waiting);
    let (held, forks_on) = (guard.held(), AtomicBool::new(true));
    std::thread::scope(|threads| {
        threads.spawn(|| {
            while forks_on.load(Ordering::Relaxed) {
                assert!(held.ended().now_or_never().is_none());
                assert!(keys.is_held("k"));
            }
        });
        threads.spawn(|| {
            while forks_on.load(Ordering::Relaxed) {
                cancellation.cancel();
            }
        });
        let end_well = (0..100).all(|_| {
            let mut polled = Box::pin(held.ended());
            assert!(polled.as_mut().now_or_never().is_none());
            match fork::fork().unwrap() {
                fork::Fork::Child => {
                    drop((polled, waiting.take(), key.take()));
                    // The tasks of the parent are not woken here.
                    cancellation.cancel();
                    let outcome = keys.release("k").blocking();
                    assert!(matches!(outcome, Err(ReleaseError::Fault(Fault::Forked))) && keys.kept() == 0);
                    std::process::exit(0);
                }
                fork::Fork::Parent(pid) => ends_well(pid),
            }
        });
        forks_on.store(false, Ordering::Relaxed);
        assert!(end_well, "a forked process hung");
    });
    block_on(guard.release()).unwrap();
}

#[test]
fn a_forked_process_waits_for_no_mutex_of_its_parent() {
    fork_as("fork while awaiting");
}

/// The library's threads in this process, and the number of its descriptors.
fn threads_and_descriptors() -> (usize, usize) {
    let count = |folder: &str, of_us: fn(&std::path::Path) -> bool| {
        std::fs::read_dir(folder).unwrap().filter(|entry| of_us(&entry.as_ref().unwrap().path())).count()
    };
    let is_ours = |thread: &std::path::Path| {
        // A thread may end meanwhile.
        std::fs::read_to_string(thread.join("comm")).is_ok_and(|name| name.starts_with("fairlock-"))
    };
    (count("/proc/self/task", is_ours), count("/proc/self/fd", |_| true))
}

/// Makes clients one after the other in this process, and in one that it forks.
fn connect_many(url: &str, more_forks: u32) {
    let (threads, before) = threads_and_descriptors();
    assert_eq!(threads, 0, "no thread of the parent is here");
    for number in 0..100 {
        let client = block_on(Client::connect(url)).unwrap();
        if number % 10 == 0 {
            block_on(block_on(client.lock("x").unwrap().acquire()).unwrap().release()).unwrap();
        }
        block_on(client.close());
    }
    eventually("all threads have ended", SOON / 2, || {
        let (threads, descriptors) = threads_and_descriptors();
        threads == 0 && descriptors <= before
    });
    if more_forks > 0 {
        fork_and_connect_many(url, more_forks - 1);
    }
}

fn fork_and_connect_many(url: &str, more_forks: u32) {
    match fork::fork().unwrap() {
        fork::Fork::Child => {
            let outcome = catch_unwind(AssertUnwindSafe(|| connect_many(url, more_forks)));
            std::process::exit(i32::from(outcome.is_err()));
        }
        fork::Fork::Parent(pid) => assert!(ends_well(pid), "the forked process failed or hung"),
    }
}

/// A program that makes its clients and then forks has a single thread until then.
#[test]
fn a_client_that_is_merely_made_has_no_thread() {
    child::alone("a_client_that_is_merely_made_has_no_thread", || {
        let server = RedisServer::start();
        let client = Client::builder().url(&server.url()).connect_lazy().unwrap();
        let (lock, never_used) = (client.lock("x").unwrap(), client.lock("y").unwrap().acquire());
        assert_eq!(threads_and_descriptors().0, 0);
        drop(never_used);
        drop(Client::connect_lazy(&server.url()).unwrap());
        assert_eq!(threads_and_descriptors().0, 0);
        block_on(block_on(lock.acquire()).unwrap().release()).unwrap();
        assert!(threads_and_descriptors().0 >= 2);
        drop((lock, client));
        eventually("all threads have ended", SOON, || threads_and_descriptors().0 == 0);
        keys_left(&server);
    });
}

fn connect_after_forks(url: &str) {
    let client = block_on(Client::connect(url)).unwrap();
    fork_and_connect_many(url, 1);
    drop(client);
}

#[cfg(target_os = "linux")]
#[test]
fn clients_of_a_forked_process_leave_no_threads_and_no_descriptors() {
    fork_as("fork and connect");
}

/// The forked process lives until this one is killed, with copies of the descriptors.
fn close_while_a_forked_process_lives(url: &str) {
    let client = block_on(Client::connect(url)).unwrap();
    let lock = client.lock("x").unwrap();
    let cycle = || lock.acquire().blocking().unwrap().release().blocking().unwrap();
    cycle();
    let ((mut dropped, drops), (mut lives, life)) = (pipe().unwrap(), pipe().unwrap());
    match fork::fork().unwrap() {
        fork::Fork::Child => {
            drop((client, lock, drops, life));
            lives.read_to_end(&mut Vec::new()).unwrap();
            std::process::exit(0);
        }
        fork::Fork::Parent(_) => {
            drop(drops);
            dropped.read_to_end(&mut Vec::new()).unwrap();
            cycle();
            block_on(client.close());
            drop((lock, client));
            child::say("closed");
            lives.read_to_end(&mut Vec::new()).unwrap();
        }
    }
}

#[test]
fn a_client_that_is_closed_ends_its_connections_though_a_forked_process_has_copies() {
    let server = RedisServer::builder().alone().start();
    let mut parent = Child::spawn("fork and close", &[&server.url()]);
    parent.wait_line("closed", SOON);
    eventually("no connection is left", SOON, || server.connections().is_empty());
    parent.kill();
}

/// The thread of the service stays in the parent.
fn fork_beside_a_service() {
    let service = LockService::start().unwrap();
    let address = service.url()["redis://".len()..].trim_end_matches('/').to_owned();
    let ((dropped, drops), (mut lives, life)) = (pipe().unwrap(), pipe().unwrap());
    match fork::fork().unwrap() {
        fork::Fork::Child => {
            drop(life);
            let asked = catch_unwind(AssertUnwindSafe(|| service.lose_data()));
            drop((service, drops));
            // The parent ends its service while this process has copies of the descriptors.
            lives.read_to_end(&mut Vec::new()).unwrap();
            std::process::exit(i32::from(asked.is_ok()));
        }
        fork::Fork::Parent(pid) => {
            drop(drops);
            let most = Timespec::try_from(SOON / 2).unwrap();
            let ended = poll(&mut [PollFd::new(&dropped, PollFlags::IN)], Some(&most)).unwrap();
            if ended == 0 {
                kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
                panic!("the forked process hung");
            }
            let client = service.client().blocking().unwrap();
            let guard = client.lock("x").unwrap().acquire().blocking().unwrap();
            assert!(service.break_lease("x"), "the service of the parent is as before");
            drop((guard, client, service));
            if cfg!(target_os = "linux") {
                let refused = TcpStream::connect(address).unwrap_err();
                assert_eq!(refused.kind(), ErrorKind::ConnectionRefused, "the forked process keeps no port");
            }
            drop(life);
            assert!(ends_well(pid), "the forked process failed or hung");
        }
    }
}

#[test]
fn a_forked_process_drops_the_lock_service_of_its_parent_without_waiting() {
    let mut parent = Child::spawn("fork beside a service", &[]);
    assert!(parent.wait(SOON).success());
}
