//! Faults of several servers, while four processes with eight waiters each use one lock (I1 to I9): masters that die or
//! are cut off under Sentinel and in a cluster, an address that moves to another master, slots that move, and faults on
//! the network. Judged as in `single_server.rs`.
//!
//! The ordinary run has one failover under Sentinel, a moving address, and a moving slot; `make test-all` runs them
//! all.

use std::time::{Duration, Instant};

use crate::injected::{connections, data, promotion, silence, slots, wire};
use testkit::{
    Cluster, Proxy, RedisServer, SOON, Sentinels, cluster,
    crew::{Crew, Fault, Report, Setup, clock, fault, seeds},
    history::Trouble,
    keys_left, run,
    sentinel::{self, MASTER},
};

/// A crew with generous limits, because an election on a busy machine takes time.
fn crew_of(url: &str, seed: u64) -> Setup {
    Crew::of(url).clock(clock::of_this_machine).seed(seed).long_of(4).patience(10 * SOON)
}

/// Lets these faults strike a crew, which works before and after.
fn suffer(crew: Setup, faults: Vec<Fault<'_>>) -> Report {
    let mut crew = crew.start();
    crew.work(20);
    crew.suffer(faults);
    crew.work(20);
    crew.finish()
}

fn at_sentinels(seed: u64, set_up: &Sentinels, crew: impl FnOnce(Setup) -> Setup, fault: Fault<'_>) {
    suffer(crew(crew_of(&set_up.url(), seed)), vec![fault]);
    keys_left(set_up.master());
}

fn in_cluster(seed: u64, cluster: &Cluster, fault: Fault<'_>) {
    suffer(crew_of(&cluster.url(), seed), vec![fault]);
    keys_left(cluster.owner(slot(cluster)));
}

/// On a busy machine servers are silent for seconds; a running one must not be counted as dead.
const LONG_SILENCE: Duration = Duration::from_secs(5);

fn sentinels() -> sentinel::Builder {
    Sentinels::builder().down_after(LONG_SILENCE)
}

fn cluster() -> cluster::Builder {
    Cluster::builder().node_timeout(LONG_SILENCE)
}

/// The slot of the crew's lock.
fn slot(cluster: &Cluster) -> u16 {
    cluster.slot("crew")
}

#[test]
fn promises_hold_when_sentinels_replace_a_master() {
    for seed in seeds(&[30]) {
        let set_up = sentinels().alert().start();
        at_sentinels(seed, &set_up, |crew| crew, promotion::master_killed(&set_up, 1));
    }
}

#[test]
#[ignore = "takes several elections: make test-all"]
fn promises_hold_when_sentinels_replace_one_master_after_another() {
    for seed in seeds(&[31, 32]) {
        let set_up = sentinels().alert().start();
        at_sentinels(seed, &set_up, |crew| crew, promotion::master_killed(&set_up, 3));
    }
}

#[test]
#[ignore = "takes several elections: make test-all"]
fn promises_hold_when_a_master_that_is_cut_off_takes_writes() {
    for seed in seeds(&[33]) {
        // Without `alert`: the old master takes writes for ten seconds.
        let set_up = sentinels().start();
        at_sentinels(seed, &set_up, |crew| crew, promotion::master_cut_off(&set_up, Trouble::LostData, 2));
    }
}

#[test]
#[ignore = "takes several elections: make test-all"]
fn promises_hold_when_a_master_with_all_grants_on_replicas_is_killed() {
    for seed in seeds(&[34]) {
        let set_up = sentinels().alert().start();
        let fault = promotion::master_of_all_replicas_killed(&set_up, 3);
        at_sentinels(seed, &set_up, |crew| crew.replicas(2), fault);
    }
}

/// A grant of the old master, after its return, reaches no client.
#[test]
#[ignore = "takes several elections: make test-all"]
fn promises_hold_when_a_master_whose_grants_wait_for_replicas_is_cut_off() {
    for seed in seeds(&[38]) {
        let set_up = sentinels().start();
        let fault = promotion::master_cut_off(&set_up, Trouble::LostPlaces, 2);
        at_sentinels(seed, &set_up, |crew| crew.replicas(2), fault);
    }
}

/// No client is told of grants of the old master after the move: the replica of the new master does not count for it.
#[test]
fn promises_hold_when_an_address_moves_to_another_master() {
    for seed in seeds(&[42]) {
        let first = RedisServer::builder().master().start();
        let second = first.replica();
        let third = second.replica();
        let address = Proxy::start(&first);
        let fault = promotion::address_moved(&address, [&first, &second, &third], 4);
        // A waiter has as long as its liveness for two answers of the master and one of the replica.
        let liveness = Duration::from_secs(4);
        suffer(crew_of(&address.url(), seed).liveness(liveness, liveness).replicas(1), vec![fault]);
        [first, second, third].iter().for_each(keys_left);
    }
}

#[test]
#[ignore = "takes several elections: make test-all"]
fn promises_hold_when_masters_of_a_cluster_are_replaced() {
    for seed in seeds(&[35, 36]) {
        let cluster = cluster().replicas().start();
        in_cluster(seed, &cluster, promotion::master_of_slot_killed(&cluster, slot(&cluster), 3));
    }
}

#[test]
fn promises_hold_while_a_slot_moves_key_by_key() {
    for seed in seeds(&[37]) {
        let cluster = cluster().start();
        in_cluster(seed, &cluster, slots::migrated(&cluster, slot(&cluster), 12));
        cluster.nodes().iter().for_each(keys_left);
    }
}

/// Faults of the network in front of a server. (The slack as in `single_server.rs`, which has the same for one server.)
fn on_the_way(seed: u64, url: &str, proxy: &Proxy) {
    let crew = crew_of(url, seed).slack(Duration::from_secs(6));
    let faults = vec![
        wire::cut(proxy, 5),
        wire::lost(proxy, 5),
        wire::delayed(proxy, 60),
        wire::delivered_late(proxy, false, 5),
    ];
    suffer(crew, faults);
}

#[test]
#[ignore = "takes long: make test-all"]
fn promises_hold_on_a_bad_network_to_a_cluster() {
    // Before that, no node names a proxy.
    if run::version() < (7, 0) {
        return;
    }
    for seed in seeds(&[39]) {
        let cluster = Cluster::builder().node_timeout(100 * SOON).start();
        let owner = cluster.owner(slot(&cluster));
        let proxy = cluster.put_proxy_before(owner);
        on_the_way(seed, &cluster.url(), &proxy);
        keys_left(owner);
    }
}

#[test]
#[ignore = "takes long: make test-all"]
fn promises_hold_on_a_bad_network_to_the_master_of_sentinels() {
    for seed in seeds(&[40]) {
        let server = RedisServer::builder().plain().start();
        let proxy = Proxy::start(&server).tcp();
        let sentinel = RedisServer::builder().plain().tcp().argument("--sentinel");
        let sentinel = sentinel.config(&format!("sentinel monitor {MASTER} 127.0.0.1 {} 1", proxy.port())).start();
        on_the_way(seed, &format!("redis-sentinel://127.0.0.1:{}/{MASTER}", sentinel.port()), &proxy);
        keys_left(&server);
    }
}

#[test]
#[ignore = "takes long: make test-all"]
fn promises_hold_on_a_bad_network_to_a_sentinel() {
    for seed in seeds(&[41]) {
        let server = RedisServer::builder().plain().tcp().start();
        let sentinel = RedisServer::builder().plain().tcp().argument("--sentinel");
        let sentinel = sentinel.config(&format!("sentinel monitor {MASTER} 127.0.0.1 {} 1", server.port())).start();
        let proxy = Proxy::start(&sentinel).tcp();
        let crew = crew_of(&format!("redis-sentinel://127.0.0.1:{}/{MASTER}", proxy.port()), seed);
        suffer(crew.slack(Duration::from_secs(6)), vec![wire::asked_in_vain(&proxy, &server, 12)]);
        keys_left(&server);
    }
}

/// Rounds of faults and deaths for a given time. Each begins with these faults of the server that grants, and ends with
/// the others, each set in random order. `make soak MINUTES=… AT=sentinels`, or `AT=cluster`
fn soak<'a>(url: &str, mut round: impl FnMut() -> (&'a RedisServer, Vec<Vec<Fault<'a>>>)) {
    let minutes: f64 = std::env::var("FAIRLOCK_MINUTES").ok().and_then(|text| text.parse().ok()).unwrap_or(1.0);
    let until = Instant::now() + Duration::from_secs_f64(60.0 * minutes);
    let seed = seeds(&[fastrand::u64(..)])[0];
    println!("seed {seed}");
    // For each set of faults, as in `single_server.rs`.
    let crew = crew_of(url, seed).slack(Duration::from_secs(6)).patience(Duration::from_secs(900));
    let mut crew = crew.start();
    while Instant::now() < until {
        let (server, then) = round();
        crew.suffer(vec![
            connections::killed(server, 1),
            connections::scripts_flushed(server, 10, 1),
            silence::stopped(server, silence::briefly, 1),
            silence::paused(server, silence::briefly, 1),
            data::flushed(server, 1),
            fault::holders_killed(1),
            fault::waiters_killed(1),
            fault::holders_paused(1),
            fault::processes_paused_briefly(1),
        ]);
        then.into_iter().for_each(|faults| crew.suffer(faults));
        crew.work(20);
    }
    crew.finish();
}

#[test]
#[ignore = "takes as many minutes as it is told to"]
fn soak_at_sentinels() {
    let set_up = sentinels().start();
    soak(&set_up.url(), || {
        let killed = promotion::master_killed(&set_up, 1);
        (set_up.master(), vec![vec![killed, promotion::master_cut_off(&set_up, Trouble::LostData, 1)]])
    });
    keys_left(set_up.master());
}

#[test]
#[ignore = "takes as many minutes as it is told to"]
fn soak_at_cluster() {
    let cluster = cluster().replicas().start();
    let slot = slot(&cluster);
    soak(&cluster.url(), || {
        let moved = slots::migrated(&cluster, slot, 3);
        // The place of the process to be killed is known when the fault strikes.
        (cluster.owner(slot), vec![vec![moved, promotion::master_of_slot_killed(&cluster, slot, 1)]])
    });
    keys_left(cluster.owner(slot));
}
