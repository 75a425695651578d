//! Hostile lock names, in logs.

use fairlock::LockOptions;
use testkit::texts::HOSTILE;
use testkit::{child::alone, keys_left_after, log::Log, server_and_client, soon};

/// A name with line ends could write lines of its own. Alone in its file, because a process decides once for all
/// threads which records are collected.
#[test]
fn names_are_quoted_in_logs() {
    alone("names_are_quoted_in_logs", log_hostile_names);
}

#[tokio::main(flavor = "current_thread")]
async fn log_hostile_names() {
    let (server, client) = server_and_client().await;
    let log = Log::collect();
    for name in HOSTILE {
        let lock = client.lock_with(name, LockOptions::new()).unwrap();
        lock.acquire().await.unwrap().release().await.unwrap();
        let guard = lock.acquire().await.unwrap();
        lock.force_break_lease(guard.token()).await.unwrap();
        soon(guard.lost()).await;
    }
    let log = log.text();
    for event in ["granted", "released", "lease lost"] {
        assert!(log.matches(event).count() >= HOSTILE.len(), "{event}: {log}");
    }
    let bad = log.chars().find(|c| c.is_control());
    assert!(bad.is_none(), "{bad:?} in {log:?}");
    keys_left_after(client, &server);
}
