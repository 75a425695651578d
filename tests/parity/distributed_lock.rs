//! DistributedLock: an identifier for each lock, retries with a delay, renewal that is switched while the lock is held,
//! extensions, questions to the server, jobs, and functions that hold a lock of their own name.

use std::time::{Duration, Instant};

use fairlock::{
    Client, ClientBuilder, LockOptions,
    compat::{Locked, is_locked_by_anyone, is_locked_by_me, set_automatic_renewal, verify},
    error::{AcquireError, InvalidOption, LostReason, RenewError, RunError, TryAcquireError, TryRunError},
};
use testkit::{
    Child, RedisServer, SOON, child, connect, eventually_async, keys_left, keys_left_after, quiet, server_and_client,
    soon,
};

#[test]
fn child() {
    child::main(|role, _| match role {
        "by environment" => {
            let client = Client::from_env().blocking().unwrap();
            let guard = client.lock("lock").unwrap().acquire().blocking().unwrap();
            child::say(format_args!("{} {}", guard.label(), guard.token()));
            std::mem::forget(guard);
        }
        role => panic!("no role {role}"),
    });
}

#[tokio::test]
async fn each_acquire_has_an_identifier_of_its_own() {
    let (server, client) = server_and_client().await;
    let lock = client.lock("lock").unwrap();
    let first = soon(lock.acquire()).await.unwrap();
    let id = first.id();
    assert_eq!(lock.inspect().await.unwrap().holders.remove(0).id, id);
    assert!(id.starts_with(&format!("{}.", lock.client_id())), "{id} is of the client {}", lock.client_id());
    assert_eq!(first.held().id(), id);
    first.release().await.unwrap();
    let second = soon(lock.acquire()).await.unwrap();
    assert_ne!(second.id(), id);
    drop(second);
    assert_ne!(connect(&server).await.lock("lock").unwrap().client_id(), lock.client_id());
    keys_left(&server);
}

/// A number of retries and a delay between them are one timeout, which the waiter spends in the queue.
#[tokio::test]
async fn retries_and_their_delay_are_the_timeout() {
    let server = RedisServer::start();
    let lock = connect(&server).await.lock_with("lock", quiet()).unwrap();
    let guard = soon(lock.acquire()).await.unwrap();
    let (retries, delay) = (10, Duration::from_millis(20));
    let called = Instant::now();
    let error = soon(lock.acquire().timeout(retries * delay)).await.unwrap_err();
    assert!(matches!(error, AcquireError::Timeout { waited, .. } if waited >= retries * delay), "{error}");
    assert!(called.elapsed() >= retries * delay);
    let waiting = lock.acquire().timeout(SOON);
    let (granted, released) = tokio::join!(soon(waiting), guard.release());
    released.unwrap();
    granted.unwrap().release().await.unwrap();
    keys_left(&server);
}

#[tokio::test]
async fn renewal_is_switched_off_and_on_while_the_lock_is_held() {
    let lease = Duration::from_secs(6);
    let server = RedisServer::start();
    let renewed = LockOptions::new().lease(lease).renew_every(Duration::from_secs(1));
    let lock = connect(&server).await.lock_with("lock", renewed).unwrap();
    let guard = soon(lock.acquire()).await.unwrap();
    soon(guard.renewed()).await.unwrap();
    // A lease that is renewed by hand goes on, and so it does when automatic renewal is switched on again.
    set_automatic_renewal(&guard, false);
    guard.renew().await.unwrap();
    set_automatic_renewal(&guard, true);
    soon(guard.renewed()).await.unwrap();
    soon(guard.renewed()).await.unwrap();
    // With automatic renewal switched off it ends.
    set_automatic_renewal(&guard, false);
    assert!(matches!(soon(guard.lost()).await.reason, LostReason::NotRenewed { .. }));
    drop(guard);

    let manual = LockOptions::new().lease(lease).manual_renewal();
    let guard = soon(connect(&server).await.lock_with("lock", manual).unwrap().acquire()).await.unwrap();
    set_automatic_renewal(&guard, true);
    soon(guard.renewed()).await.unwrap();
    keys_left_after(guard, &server);
}

#[tokio::test]
async fn an_extension_counts_from_the_present_end_and_no_renewal_shortens_it() {
    let lease = Duration::from_secs(3);
    let server = RedisServer::start();
    let lock = connect(&server).await.lock_with("lock", LockOptions::new().lease(lease)).unwrap();
    let guard = soon(lock.acquire()).await.unwrap();
    // The order matters, because time may pass between the two.
    let (minute, asked, before) = (Duration::from_secs(60), Instant::now(), guard.remaining());
    guard.extend(minute).await.unwrap();
    assert!(guard.remaining() + asked.elapsed() >= before + minute, "{:?}", guard.remaining());
    let at_the_server = lock.inspect().await.unwrap().holders.remove(0).remaining;
    assert!(at_the_server + asked.elapsed() >= before + minute, "{at_the_server:?}");
    // Automatic renewals go on, and a renewal by hand works, too.
    soon(guard.renewed()).await.unwrap();
    guard.renew().await.unwrap();
    assert!(guard.remaining() + asked.elapsed() >= before + minute, "{:?}", guard.remaining());
    // Two extensions at the same time add up.
    let (one, two) = tokio::join!(guard.extend(minute), guard.extend(minute));
    one.and(two).unwrap();
    assert!(guard.remaining() + asked.elapsed() >= before + 3 * minute, "{:?}", guard.remaining());
    guard.release().await.unwrap();
    keys_left(&server);
}

/// The holder brings the whole extension back to a server that has forgotten it.
#[tokio::test]
async fn an_extension_outlives_a_loss_of_data() {
    let server = RedisServer::start();
    let (client, other) = (connect(&server).await, connect(&server).await);
    let (minute, lease) = (Duration::from_secs(60), Duration::from_secs(6));
    let lock = client.lock_with("lock", LockOptions::new().lease(lease)).unwrap();
    let guard = soon(lock.acquire()).await.unwrap();
    guard.extend(minute).await.unwrap();
    let (asked, before) = (Instant::now(), guard.remaining());
    assert!(before > minute);
    server.flush();
    // The next automatic renewal comes as soon as that of any lease, long before the end of the extension.
    let theirs = other.lock("lock").unwrap();
    eventually_async("it is back", SOON, async || is_locked_by_anyone(&theirs).await.unwrap()).await;
    let there = theirs.inspect().await.unwrap().holders.remove(0);
    assert_eq!(there.token, guard.token());
    assert!(there.remaining + asked.elapsed() >= before, "{:?} of {before:?}", there.remaining);
    guard.release().await.unwrap();
}

#[tokio::test]
async fn an_extension_has_bounds_and_an_end() {
    let server = RedisServer::start();
    let lock = connect(&server).await.lock("lock").unwrap();
    let guard = soon(lock.acquire()).await.unwrap();
    let month = Duration::from_secs(30 * 24 * 3600);
    let error = guard.extend(month).await.unwrap_err();
    assert!(matches!(error, RenewError::Invalid(InvalidOption::Duration { .. })), "{error}");
    let said = "the extended lease is more than 30 days: it must be between 0ns and 30 days";
    assert_eq!(error.to_string(), said);
    // Together they would leave more.
    let many = futures_util::future::join_all((0..5).map(|_| guard.extend(month * 5 / 6))).await;
    assert_eq!(many.iter().filter(|extended| extended.is_ok()).count(), 1, "{many:?}");
    assert!(guard.remaining() < month, "{:?}", guard.remaining());
    guard.check().unwrap();
    lock.force_break_lease(guard.token()).await.unwrap();
    soon(guard.lost()).await;
    assert!(matches!(guard.extend(Duration::from_secs(1)).await, Err(RenewError::Lost(_))));
    keys_left_after(guard, &server);
}

#[tokio::test]
async fn the_server_says_who_has_locked_it() {
    let server = RedisServer::start();
    let (here, there) = (connect(&server).await, connect(&server).await);
    let (mine, theirs) = (here.lock_with("lock", quiet()).unwrap(), there.lock_with("lock", quiet()).unwrap());
    let says = async |by_me: [bool; 2], by_anyone: bool| {
        let says = [is_locked_by_me(&mine).await.unwrap(), is_locked_by_me(&theirs).await.unwrap()];
        assert_eq!(says, by_me);
        for lock in [&mine, &theirs] {
            assert_eq!(is_locked_by_anyone(lock).await.unwrap(), by_anyone);
        }
    };
    says([false, false], false).await;
    let guard = soon(mine.acquire()).await.unwrap();
    says([true, false], true).await;
    assert!(verify(&guard).await.unwrap());
    // The holder may not have heard of the end of its lease yet, but the server knows.
    let next = soon(theirs.enqueue()).await.unwrap();
    theirs.force_break_lease(guard.token()).await.unwrap();
    assert!(!verify(&guard).await.unwrap());
    says([false, true], true).await;
    drop(soon(next).await.unwrap());
    drop(guard);
    eventually_async("nobody has it", SOON, async || !is_locked_by_anyone(&mine).await.unwrap()).await;

    // An owner is the same one in every process.
    let named = |client: &Client| client.lock_with("lock", quiet().owner("worker-1")).unwrap();
    let guard = soon(named(&here).acquire()).await.unwrap();
    assert!(is_locked_by_me(&named(&there)).await.unwrap());
    assert!(!is_locked_by_me(&theirs).await.unwrap());
    keys_left_after(guard, &server);
}

#[tokio::test]
async fn a_job_runs_under_the_lock_or_is_told_that_it_is_busy() {
    let server = RedisServer::start();
    let lock = connect(&server).await.lock_with("lock", quiet()).unwrap();
    assert_eq!(lock.try_acquire().run(async |held| held.check().map(|()| 5)).await.unwrap(), Ok(5));
    assert_eq!(lock.acquire().run(async |held| held.check().map(|()| 6)).await.unwrap(), Ok(6));
    let busy = lock.acquire().run(async |_| lock.try_acquire().run(async |_| ()).await).await.unwrap();
    assert!(matches!(busy, Err(TryRunError::Acquire(TryAcquireError::Busy { .. }))), "{busy:?}");
    let lost = lock
        .try_acquire()
        .run(async |held| {
            lock.force_break_lease(held.token()).await.unwrap();
            std::future::pending::<()>().await;
        })
        .await;
    assert!(matches!(lost, Err(TryRunError::Lost(_))), "{lost:?}");
    keys_left(&server);
}

#[test]
fn a_job_that_is_not_async_runs_under_the_lock_too() {
    let server = RedisServer::start();
    let lock = Client::connect(&server.url()).blocking().unwrap().lock_with("lock", quiet()).unwrap();
    assert_eq!(lock.acquire().run_blocking(|held| held.check().map(|()| 5)).unwrap(), Ok(5));
    let busy = lock.acquire().run_blocking(|_| lock.try_acquire().run_blocking(|_| ())).unwrap();
    assert!(matches!(busy, Err(TryRunError::Acquire(TryAcquireError::Busy { .. }))), "{busy:?}");
    let force = |token: u64| lock.force_break_lease(token).blocking().unwrap();
    let lost = lock.acquire().run_blocking(|held| {
        force(held.token());
        held.ended().blocking()
    });
    assert!(matches!(lost, Err(RunError::Lost(_))), "{lost:?}");
    let lost = lock.try_acquire().run_blocking(|held| {
        force(held.token());
        held.ended().blocking()
    });
    assert!(matches!(lost, Err(TryRunError::Lost(_))), "{lost:?}");
    keys_left(&server);
}

#[test]
fn a_panic_in_a_job_gives_the_lock_back() {
    let server = RedisServer::start();
    let lock = Client::connect(&server.url()).blocking().unwrap().lock_with("lock", quiet()).unwrap();
    let job = || lock.acquire().run_blocking(|_| panic!("a failure in the job"));
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(job)).is_err());
    lock.acquire().timeout(SOON).blocking().unwrap().release().blocking().unwrap();
    keys_left(&server);
}

/// The scope of the guard is the scope of the hold.
#[tokio::test]
async fn a_scope_that_ends_gives_the_lock_back() {
    let server = RedisServer::start();
    let lock = connect(&server).await.lock_with("lock", quiet()).unwrap();
    {
        let _guard = soon(lock.acquire()).await.unwrap();
        assert!(is_locked_by_me(&lock).await.unwrap());
    }
    soon(lock.acquire()).await.unwrap().release().await.unwrap();
    keys_left(&server);
}

async fn nightly(count: u32) -> u32 {
    count + 1
}

fn nightly_blocking(count: u32) -> u32 {
    count + 1
}

#[tokio::test]
async fn a_function_holds_the_lock_of_its_own_name() {
    let (server, client) = server_and_client().await;
    let nightly = Locked::by_name(&client, nightly).unwrap();
    assert_eq!(nightly.lock().name(), "parity::distributed_lock::nightly");
    assert_eq!(nightly.call(1).await.unwrap(), 2);
    let guard = soon(nightly.lock().acquire()).await.unwrap();
    let tried = nightly.lock().try_acquire().run(async |_| ()).await;
    assert!(matches!(tried, Err(TryRunError::Acquire(TryAcquireError::Busy { .. }))));
    drop(guard);

    // A closure has no name of its own, but can be given one.
    let error = Locked::by_name(&client, async |(): ()| ()).unwrap_err();
    assert!(matches!(error, InvalidOption::Closure { .. }), "{error}");
    let named = Locked::new(client.lock("named").unwrap(), async |(a, b): (u32, u32)| a + b);
    assert_eq!(named.call((2, 3)).await.unwrap(), 5);
    keys_left(&server);
}

#[test]
fn a_function_that_is_not_async_holds_the_lock_of_its_own_name() {
    let server = RedisServer::start();
    let client = Client::connect(&server.url()).blocking().unwrap();
    let nightly = Locked::by_name(&client, nightly_blocking).unwrap();
    assert_eq!(nightly.call_blocking(1).unwrap(), 2);
    keys_left(&server);
}

#[tokio::test]
async fn a_function_can_name_itself() {
    assert_eq!(fairlock::compat::function_name!(), "parity::distributed_lock::a_function_can_name_itself");
    let from_a_closure = || fairlock::compat::function_name!();
    assert_eq!(from_a_closure(), "parity::distributed_lock::a_function_can_name_itself");
}

#[test]
fn the_environment_says_where_the_server_is() {
    // Another user has no rights to this prefix.
    let server = RedisServer::builder().plain().start();
    let url = server.url();
    let variables = [&*format!("REDIS_URL={url}"), "FAIRLOCK_PREFIX=team", "FAIRLOCK_LABEL=job"];
    let mut job = Child::spawn_under(&[&["env"], &variables[..]].concat(), "by environment", &[]);
    job.wait_line("job ", SOON);
    let client = ClientBuilder::from_env().url(&url).prefix("team").connect().blocking().unwrap();
    assert_eq!(client.lock("lock").unwrap().inspect().blocking().unwrap().holders.remove(0).label, "job");
}
