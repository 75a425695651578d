//! A master that falls silent, or whose address moves, and a replica without its latest writes that is promoted
//! instead.

use std::{collections::BTreeSet, time::Duration};

use super::{subscribers, tell};
use testkit::{
    Cluster, Proxy, RedisServer, SOON, Sentinels,
    crew::{Crew, Fault, Struck, clock, fault::concerned},
    eventually,
    history::{Trouble, Wait, now_ns},
    state::State,
};

/// SIGKILL of the master that sentinels know, while no replica has the latest grants. The server is back as a replica
/// when this returns.
pub fn master_killed(set_up: &Sentinels, hits: u64) -> Fault<'_> {
    Fault::new("the master was killed", hits, |crew| {
        let old = set_up.master();
        let lost_since = now_ns();
        unlink(old, &replicas(set_up, old));
        crew.work(5);
        let struck = Struck::during(&[Trouble::Silent, Trouble::LostData], || {
            let concerned = killed(crew, old, &replicas(set_up, old));
            set_up.await_failover(old);
            crew.work(1);
            concerned
        });
        old.restart();
        set_up.await_replica(old);
        struck.lost_since(lost_since)
    })
}

/// The same where grants wait for all replicas: no grant reaches its client between the stop of replication and the
/// return of the server as a replica, and no lease that a client was told of is forgotten.
pub fn master_of_all_replicas_killed(set_up: &Sentinels, hits: u64) -> Fault<'_> {
    Fault::new("the master was killed whose grants waited for all replicas", hits, |crew| {
        let old = set_up.master();
        Struck::during(&[Trouble::Silent, Trouble::LostPlaces], || {
            unlink(old, &replicas(set_up, old));
            let granted = |crew: &Crew| crew.history().waits().iter().filter(|wait| wait.token.is_some()).count();
            let before = granted(crew);
            crew.rest(Duration::from_secs(1));
            // A grant that replicas have acknowledged may still be on its way to its client.
            assert!(granted(crew) <= before + 1, "granted, and no replica has it");
            let concerned = killed(crew, old, &replicas(set_up, old));
            set_up.await_failover(old);
            old.restart();
            set_up.await_replica(old);
            crew.work(1);
            concerned
        })
    })
}

/// The master that sentinels know is paused (SIGSTOP) until there is another master, and then goes on as a master
/// (SIGCONT) until sentinels make it a replica. A hit is a master that gave tickets or tokens meanwhile. `lost`: what
/// each of the two does not know of the other.
pub fn master_cut_off(set_up: &Sentinels, lost: Trouble, hits: u64) -> Fault<'_> {
    Fault::new("the master was cut off, and took stale writes", hits, move |crew| {
        Struck::during(&[Trouble::Silent, Trouble::Divided, lost], || {
            let old = set_up.master();
            old.stop();
            let stopped_us = clock::of_this_machine().expect("a time after 1970");
            set_up.await_failover(old);
            old.cont();
            let mut stale = false;
            eventually("the old master is none any more", 4 * SOON, || {
                // A sentinel that makes it a replica ends all connections to it.
                let Ok((role, stamp)) = role_and_stamp(old) else { return false };
                stale |= role == "master" && stamp.is_some_and(|stamp| stamp > stopped_us);
                role != "master"
            });
            set_up.await_replica(old);
            crew.work(1);
            u64::from(stale)
        })
    })
}

/// SIGKILL of the master of this slot in a cluster, while no replica has the latest grants. The server is back as a
/// replica when this returns.
pub fn master_of_slot_killed(cluster: &Cluster, slot: u16, hits: u64) -> Fault<'_> {
    Fault::new("the master of the slot was killed", hits, move |crew| {
        let old = cluster.owner(slot);
        let replicas = cluster.replicas(old);
        let lost_since = now_ns();
        unlink(old, &replicas);
        crew.work(5);
        let struck = Struck::during(&[Trouble::Silent, Trouble::LostData], || {
            let concerned = killed(crew, old, &replicas);
            cluster.await_promotion(slot, old);
            crew.work(1);
            concerned
        });
        old.restart();
        cluster.await_replica(old);
        struck.lost_since(lost_since)
    })
}

/// The replica of a master is promoted, and the address of the master leads new connections there. Half of the clients
/// lose their connections and find the new master. The other half stays connected to the old master, which grants and
/// has no replica any more; a client that asks for its replicas must connect anew, to the new master, which has one. A
/// hit is a client that stayed and is granted the lock afterwards: by the new master, or two hold at once.
///
/// `chain`: each of these servers replicates the one before it. The old master becomes the last one.
pub fn address_moved<'a>(address: &'a Proxy, mut chain: [&'a RedisServer; 3], hits: u64) -> Fault<'a> {
    Fault::new("the address moved to another master", hits, move |crew| {
        let [old, new, last] = chain;
        chain.rotate_left(1);
        Struck::during(&[Trouble::Silent, Trouble::Divided, Trouble::LostPlaces], || {
            tell(new, &["REPLICAOF", "NO", "ONE"]);
            address.lead_to(new);
            let mut clients: Vec<String> = subscribers(old).into_iter().collect();
            crew.rng().shuffle(&mut clients);
            let stay = clients.split_off(clients.len() / 2);
            for client in clients {
                tell(old, &["CLIENT", "KILL", "ID", client.trim_start_matches("id=")]);
            }
            tell(old, &["CLIENT", "KILL", "TYPE", "normal"]);
            all_granted(crew);
            // If grants of the old master counted, some of these would be among them.
            crew.work(20);
            tell(old, &["REPLICAOF", "127.0.0.1", &last.port().to_string()]);
            // Nobody ends the connections of those who stay.
            eventually("the old master is a replica", SOON, || old.info("master_link_status").as_deref() == Some("up"));
            crew.work(1);
            stay.len() as u64
        })
    })
}

/// Waits until each process has been granted the lock after this call.
#[track_caller]
fn all_granted(crew: &Crew) {
    let from = now_ns();
    eventually("each process is granted the lock", 4 * SOON, || {
        let history = crew.recent();
        let since = |wait: &&Wait| wait.granted_ns.is_some_and(|at| at >= from);
        let granted: BTreeSet<&str> = history.waits().iter().filter(since).map(|wait| wait.process.as_str()).collect();
        crew.awake().iter().all(|name| granted.contains(name.as_str()))
    });
}

fn replicas<'a>(set_up: &'a Sentinels, master: &RedisServer) -> Vec<&'a RedisServer> {
    set_up.servers().iter().filter(|server| server.port() != master.port()).collect()
}

/// From now on replicas get no writes. To pause them is not enough: they would read later what has been sent to them.
fn unlink(master: &RedisServer, replicas: &[&RedisServer]) {
    replicas.iter().for_each(|replica| replica.stop());
    tell(master, &["CLIENT", "KILL", "TYPE", "replica"]);
}

/// 1 if a member was affected.
fn killed(crew: &Crew, master: &RedisServer, unlinked: &[&RedisServer]) -> u64 {
    master.kill();
    unlinked.iter().for_each(|replica| replica.cont());
    concerned(crew).min(1)
}

/// Both at one moment. A lock that is in use has a stamp.
fn role_and_stamp(server: &RedisServer) -> redis::RedisResult<(String, Option<u64>)> {
    let mut both = redis::pipe();
    both.atomic().cmd("ROLE").add_command(State::command("crew"));
    let (role, numbers): (Vec<redis::Value>, Option<Vec<u8>>) = both.query(&mut server.try_raw()?)?;
    let role = role.into_iter().next().map(redis::from_redis_value).transpose()?;
    Ok((role.unwrap_or_default(), numbers.map(|packed| State::unpack(packed).stamp())))
}
