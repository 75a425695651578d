//! Acquires, releases and other calls while nothing is wrong.

use std::time::Duration;

use super::*;
use fairlock::{
    CancellationToken, Client, LockOptions,
    error::{LostReason, ReleaseError},
};
use fairlock::{compat::set_automatic_renewal, testing::digest};
use testkit::{Act, Proxy, RedisServer, SOON, Target, is_direct, keys_left, quiet, soon};

/// Shorter than an answer may take (5 s), so this acquire goes to the keeper.
const HURRIED: Duration = Duration::from_secs(4);

#[test]
fn callers_that_cycle_get_one_more_connection() {
    By::each(|by| {
        let server = server();
        let (client, lock) = client_of(&server.url());
        by.open(&lock);
        let mut direct = 0;
        for _ in 0..100 {
            let guard = by.acquire(&lock);
            direct += u32::from(is_direct(&guard));
            by.release(guard).unwrap();
        }
        // The keeper takes over what a caller on a slow machine holds for half a second.
        assert!(direct > 50, "{direct} of 100 directly");
        assert_eq!(server.connections().len(), 2);
        let guard = by.directly(&lock);
        let busy = lock.try_acquire().blocking();
        assert!(matches!(busy, Err(fairlock::error::TryAcquireError::Busy { .. })), "{busy:?}");
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
        // The holder is to be told in the first half of its lease. So the keeper might take it over too late.
        by.never_directly(&server, &client.lock_with("y", quiet().notice(60 * SOON)).unwrap());
        drop(client);
        let (client, lock) = client_of(&server.url());
        by.open(&lock);
        // The connection is open, but not for a caller whose timeout is shorter than an answer may take.
        let hurried = lock.acquire().timeout(HURRIED).blocking().unwrap();
        assert!(!is_direct(&hurried));
        hurried.release().blocking().unwrap();
        let cancellable = lock.acquire().cancelled_by(&CancellationToken::new()).blocking().unwrap();
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
        let (asked, before) = (std::time::Instant::now(), guard.remaining());
        let renewed = in_time(guard.renewed()).unwrap();
        assert!(renewed + asked.elapsed() > before, "{renewed:?} after {before:?}");
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
        set_automatic_renewal(&guard, false);
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
    assert_eq!(seen.holders[0].token, guard.token());
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
    let held = lock.acquire().timeout(HURRIED);
    let awaited = held.run(|_| async {
        let reply = proxy.fault_times(1, Target::reply(digest("acquire")), Act::Hold);
        let (guard, ()) = tokio::join!(another.acquire(), async { reply.lift() });
        is_direct(&guard.unwrap())
    });
    assert!(fairlock::testing::block_on(awaited).unwrap());
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
        let guard = lock.acquire().timeout(HURRIED).blocking().unwrap();
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
