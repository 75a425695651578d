//! Requests without an answer, late ones, refused ones, and connections that end.

use std::time::Duration;

use super::*;
use fairlock::testing::digest;
use fairlock::{
    Client, LockOptions,
    error::{LostReason, ReleaseError},
};
use testkit::{Act, Proxy, SOON, Target, eventually, keys_left};

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
