//! Faults of Sentinels and clusters that nobody would miss if they did not strike: a frozen master that takes writes, and
//! a slot that moves key by key.

use redis::{Commands as _, ErrorKind, RedisError, ServerErrorKind, cmd};
use testkit::{Cluster, RedisServer, SOON, Sentinels, eventually};

/// The server's error for a write, if it has one.
fn refusal(server: &RedisServer, key: &str) -> Option<RedisError> {
    server.try_raw().and_then(|mut raw| raw.set::<_, _, ()>(key, "value")).err()
}

fn is(refusal: Option<&RedisError>, kind: ServerErrorKind) -> bool {
    refusal.is_some_and(|error| error.kind() == ErrorKind::Server(kind))
}

#[test]
fn a_master_that_was_frozen_takes_writes_until_the_sentinels_catch_it() {
    let set_up = Sentinels::builder().replicas(1).start();
    let old = set_up.master();
    let mut raw = old.raw();
    old.stop();
    let new = set_up.await_failover(old);
    eventually("it takes writes", SOON, || refusal(new, "whose").is_none());
    // The write is sent while the master is frozen, so that no sentinel can have told it anything before it answers.
    raw.send_packed_command(&cmd("SET").arg("stale").arg(1).get_packed_command()).unwrap();
    old.cont();
    assert_eq!(raw.recv_response().unwrap(), redis::Value::Okay);
    set_up.await_replica(old);
    let remembers = || old.try_raw().and_then(|mut raw| raw.exists("stale"));
    eventually("it has forgotten what it took", SOON, || matches!(remembers(), Ok(false)));
}

#[test]
fn a_migration_moves_keys_one_by_one() {
    let cluster = Cluster::builder().node_timeout(SOON).start();
    let keys: Vec<String> = (0..5).map(|number| format!("{{tag}}:{number}")).collect();
    let slot = cluster.slot(&keys[0]);
    let from = cluster.owner(slot);
    let to = cluster.another_master(from);
    for key in &keys {
        assert!(refusal(from, key).is_none());
    }

    let mut migration = cluster.migrate(slot, to);
    assert!(is(refusal(from, "{tag}:absent").as_ref(), ServerErrorKind::Ask));
    let mut moved = Vec::new();
    while let Some(key) = migration.step() {
        moved.push(key);
        for key in &keys {
            let asked = refusal(from, key);
            assert_eq!(is(asked.as_ref(), ServerErrorKind::Ask), moved.contains(key), "{key}: {asked:?}");
            let asked = refusal(to, key);
            assert!(is(asked.as_ref(), ServerErrorKind::Moved), "{key}: {asked:?}");
        }
    }
    moved.sort();
    assert_eq!(moved, keys);
    assert_eq!(cluster.owner(slot).port(), from.port());
    migration.finish();
    assert_eq!(cluster.owner(slot).port(), to.port());
    assert!(is(refusal(from, &keys[0]).as_ref(), ServerErrorKind::Moved));
    assert_eq!(to.raw().get::<_, String>(&keys[4]).unwrap(), "value");
}
