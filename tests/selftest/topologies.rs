//! Sentinels and clusters of the test kit, tested: a failover moves the master, a migration moves keys one by one.

use redis::{Commands as _, ErrorKind, RedisError, ServerErrorKind, cmd};
use testkit::{Cluster, RedisServer, SOON, Sentinels, eventually};

/// The server's error for a write, if it has one.
fn refusal(server: &RedisServer, key: &str) -> Option<RedisError> {
    server.try_raw().and_then(|mut raw| raw.set::<_, _, ()>(key, "value")).err()
}

/// Sentinels end the connections of a server that they demote, and sometimes once more a little later.
fn is_read_only_soon(server: &RedisServer) {
    let refused = || is(refusal(server, "key").as_ref(), ServerErrorKind::ReadOnly);
    eventually("it is read-only", SOON, refused);
}

fn is(refusal: Option<&RedisError>, kind: ServerErrorKind) -> bool {
    refusal.is_some_and(|error| error.kind() == ErrorKind::Server(kind))
}

#[test]
fn sentinels_replace_a_master_that_was_killed_and_take_it_back_as_a_replica() {
    let set_up = Sentinels::builder().alert().start();
    let old = set_up.master();
    assert_eq!(old.port(), set_up.servers()[0].port());
    assert!(is(refusal(&set_up.servers()[1], "key").as_ref(), ServerErrorKind::ReadOnly));
    assert!(refusal(old, "key").is_none());
    eventually("the write reached a replica", SOON, || set_up.servers()[1].raw().exists("key").unwrap());

    old.kill();
    let new = set_up.await_failover(old);
    assert_ne!(new.port(), old.port());
    assert_eq!(set_up.master().port(), new.port());
    assert_eq!(new.raw().get::<_, String>("key").unwrap(), "value");
    eventually("it takes writes", SOON, || refusal(new, "key").is_none());

    old.restart();
    set_up.await_replica(old);
    is_read_only_soon(old);
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
fn a_failover_without_a_fault_makes_the_old_master_read_only() {
    let set_up = Sentinels::builder().replicas(1).alert().start();
    let old = set_up.master();
    let new = set_up.fail_over();
    assert_ne!(new.port(), old.port());
    set_up.await_replica(old);
    is_read_only_soon(old);

    // The role that sentinels gave a server outlives its process: it was started as a replica.
    new.restart();
    let role: Vec<redis::Value> = cmd("ROLE").query(&mut new.raw()).unwrap();
    assert_eq!(role[0], redis::Value::BulkString("master".into()));
}

#[test]
fn sentinels_still_agree_without_one_of_them() {
    let set_up = Sentinels::builder().replicas(1).start();
    set_up.sentinels()[0].stop();
    let old = set_up.master();
    old.kill();
    set_up.await_failover(old);
}

#[test]
fn every_slot_of_a_cluster_has_one_owner() {
    let cluster = Cluster::start();
    assert_eq!(cluster.nodes().len(), 3);
    // The hash tag decides, so the keys of one lock are together.
    assert_eq!(cluster.slot("fairlock:{lock}:waiters"), cluster.slot("fairlock:{lock}:lock"));
    for slot in [0, 1, 5461, 5462, 10_922, 10_923, 16_383] {
        cluster.owner(slot);
    }
    let slot = cluster.slot("key");
    let owner = cluster.owner(slot);
    for node in cluster.nodes() {
        let refusal = refusal(node, "key");
        assert_eq!(refusal.is_none(), node.port() == owner.port());
        assert!(refusal.is_none() || is(refusal.as_ref(), ServerErrorKind::Moved), "{refusal:?}");
    }
}

#[test]
fn a_migration_moves_keys_one_by_one() {
    let cluster = Cluster::start();
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

#[test]
fn the_end_of_a_migration_moves_what_is_left() {
    let cluster = Cluster::start();
    let slot = cluster.slot("{tag}:0");
    let (from, to) = (cluster.owner(slot), cluster.another_master(cluster.owner(slot)));
    for number in 0..3 {
        assert!(refusal(from, &format!("{{tag}}:{number}")).is_none());
    }
    cluster.migrate(slot, to).finish();
    assert!(to.raw().exists::<_, bool>("{tag}:2").unwrap());
}

#[test]
fn a_replica_takes_the_place_of_a_master_that_was_killed() {
    let cluster = Cluster::builder().replicas().start();
    assert_eq!(cluster.nodes().len(), 6);
    let slot = cluster.slot("key");
    let old = cluster.owner(slot);
    let [replica] = cluster.replicas(old)[..] else { panic!("one replica") };
    assert!(refusal(old, "key").is_none());
    eventually("the write reached the replica", SOON, || {
        redis::cmd("DBSIZE").query::<u32>(&mut replica.raw()).unwrap() == 1
    });

    old.kill();
    let new = cluster.await_promotion(slot, old);
    assert_eq!(new.port(), replica.port());
    eventually("it takes writes", SOON, || refusal(new, "key").is_none());

    old.restart();
    cluster.await_replica(old);
    assert_eq!(cluster.owner(slot).port(), new.port());
}
