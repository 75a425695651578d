//! A master that falls silent, and a replica that is promoted in its place, perhaps without the latest writes.

use crate::support::{
    Cluster, RedisServer, SOON, Sentinels,
    crew::{Crew, Fault, Struck, clock, fault::concerned},
    eventually,
    history::Trouble,
};

/// Replicas may lack the latest writes.
const LATEST_GONE: [Trouble; 2] = [Trouble::Silent, Trouble::LostData];

/// SIGKILL of the master that sentinels know. It comes back as a replica before this is over.
pub fn master_killed(set_up: &Sentinels, hits: u64) -> Fault<'_> {
    Fault::new("the master was killed", hits, |crew| {
        let old = set_up.master();
        let struck = Struck::during(&LATEST_GONE, || {
            let concerned = killed(crew, old);
            set_up.await_failover(old);
            crew.work(1);
            concerned
        });
        old.restart();
        set_up.await_replica(old);
        struck
    })
}

/// The same while grants wait for all replicas: so nobody is granted the lock until the old master is one, and no lease that
/// anybody was told of is forgotten.
pub fn master_of_all_replicas_killed(set_up: &Sentinels, hits: u64) -> Fault<'_> {
    Fault::new("the master was killed, and all replicas had the grants", hits, |crew| {
        Struck::during(&[Trouble::Silent, Trouble::LostPlaces], || {
            let old = set_up.master();
            let concerned = killed(crew, old);
            set_up.await_failover(old);
            old.restart();
            set_up.await_replica(old);
            crew.work(1);
            concerned
        })
    })
}

/// The master that sentinels know stands still (SIGSTOP) until there is another, and goes on as the master that it was
/// (SIGCONT) until sentinels make a replica of it. A hit is one that gave tickets or tokens meanwhile.
pub fn master_cut_off(set_up: &Sentinels, hits: u64) -> Fault<'_> {
    Fault::new("the master was cut off, and took stale writes", hits, |crew| {
        Struck::during(&[Trouble::Silent, Trouble::Divided], || {
            let old = set_up.master();
            old.stop();
            let stopped_us = clock::of_this_machine().expect("a time after 1970");
            set_up.await_failover(old);
            old.cont();
            let mut stale = false;
            eventually("the old master is none any more", 4 * SOON, || {
                // Who makes a replica of it ends all connections to it.
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

/// Both at one moment.
fn role_and_stamp(server: &RedisServer) -> redis::RedisResult<(String, Option<u64>)> {
    let mut both = redis::pipe();
    both.atomic().cmd("ROLE").cmd("HGET").arg("fairlock:{crew}:state").arg("stamp");
    let (role, stamp): (Vec<redis::Value>, Option<u64>) = both.query(&mut server.try_raw()?)?;
    let role = role.into_iter().next().map(redis::from_redis_value).transpose()?;
    Ok((role.unwrap_or_default(), stamp))
}

/// SIGKILL of the master of this slot in a cluster. It comes back as a replica before this is over.
pub fn master_of_slot_killed(cluster: &Cluster, slot: u16, hits: u64) -> Fault<'_> {
    Fault::new("the master of the slot was killed", hits, move |crew| {
        let old = cluster.owner(slot);
        let struck = Struck::during(&LATEST_GONE, || {
            let concerned = killed(crew, old);
            cluster.await_promotion(slot, old);
            crew.work(1);
            concerned
        });
        old.restart();
        cluster.await_replica(old);
        struck
    })
}

/// 1 if that concerned anybody.
fn killed(crew: &Crew, master: &RedisServer) -> u64 {
    master.kill();
    concerned(crew).min(1)
}
