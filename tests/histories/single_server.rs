//! Faults of one server and of the network, one at a time, while four processes with eight waiters each use one lock
//! (I1 to I9). The judges of the history find no overlap except where `docs/guarantees.md` makes an exception, no
//! waiter overtaken, no acquire that returned after its timeout, no stall beyond the options of the lock, and no waiter
//! forgotten; nothing is left on the server.
//!
//! A fault that did not strike fails its test. The ordinary run takes fixed seeds; `FAIRLOCK_CASES=10` takes ten random
//! ones for each test. `make soak MINUTES=60` mixes all faults at random on one server for that time.

use std::time::{Duration, Instant};

use crate::injected::{connections, data, memory, messages, silence, time, wire};
use testkit::{
    Proxy, RedisServer,
    crew::{Crew, Fault, Setup, fault, seeds},
    keys_left,
    vclock::WallClock,
};

/// What the judges add to every bound. A client that was cut off looks for the server again after little more than a
/// second; and a grant to a client that is not back yet lasts a claim.
const SLACK: Duration = Duration::from_secs(6);

/// Lets these faults strike a crew at this server, which works before and after.
fn suffer<'a>(seed: u64, server: &'a RedisServer, crew: Setup, faults: Vec<Fault<'a>>) {
    let mut crew = crew.seed(seed).slack(SLACK).long_of(4).start();
    crew.work(20);
    crew.suffer(faults);
    crew.work(20);
    crew.finish();
    keys_left(server);
}

/// The same at a single server. A grant that its client has not heard of lasts a claim, so brief silences, and the
/// return of a client whose connection was killed, must be shorter than the shortest claim on a slow machine too. That
/// may need more than a second to restart a server.
fn at_server(seed: u64, server: &RedisServer, faults: Vec<Fault<'_>>) {
    let crew = Crew::at(server).liveness(Duration::from_secs(5), Duration::from_millis(1500));
    suffer(seed, server, crew.lease(Duration::from_secs(4)), faults);
}

/// The same at a server without more settings, unless the run has other seeds than this one.
fn at_plain_server(seed: u64, faults: impl Fn(&RedisServer) -> Vec<Fault<'_>>) {
    for seed in seeds(&[seed]) {
        let server = RedisServer::start();
        at_server(seed, &server, faults(&server));
    }
}

#[test]
fn promises_hold_while_connections_are_killed() {
    at_plain_server(10, |server| vec![connections::killed(server, 100)]);
}

#[test]
fn promises_hold_while_scripts_are_flushed() {
    at_plain_server(11, |server| vec![connections::scripts_flushed(server, 50, 50)]);
}

#[test]
fn promises_hold_while_the_server_is_stopped() {
    at_plain_server(12, |server| {
        vec![silence::stopped(server, silence::briefly, 4), silence::stopped(server, silence::for_long, 2)]
    });
}

#[test]
fn promises_hold_while_the_server_is_paused() {
    at_plain_server(13, |server| {
        vec![silence::paused(server, silence::briefly, 4), silence::paused(server, silence::for_long, 2)]
    });
}

#[test]
fn promises_hold_while_the_server_is_busy_with_a_script() {
    for seed in seeds(&[14]) {
        let server = RedisServer::builder().config(silence::SOON_BUSY).start();
        let faults = vec![silence::busy(&server, silence::briefly, 4), silence::busy(&server, silence::for_long, 2)];
        at_server(seed, &server, faults);
    }
}

#[test]
fn promises_hold_when_a_killed_server_keeps_its_data() {
    for seed in seeds(&[15]) {
        let server = RedisServer::builder().appendonly().start();
        let faults =
            vec![silence::restarted(&server, silence::briefly, 3), silence::restarted(&server, silence::for_long, 1)];
        at_server(seed, &server, faults);
    }
}

#[test]
fn promises_hold_when_a_killed_server_loses_its_latest_data() {
    at_plain_server(16, |server| vec![data::rolled_back(server, 3)]);
}

#[test]
fn promises_hold_when_a_killed_server_loses_its_data() {
    at_plain_server(17, |server| vec![data::restarted_empty(server, 3)]);
}

#[test]
fn promises_hold_when_the_server_is_flushed() {
    at_plain_server(18, |server| vec![data::flushed(server, 4)]);
}

/// Leases that are long compared with the liveness, so that the recovery alone would not wait for their renewals; and
/// processes with one waiter each: a holder's own waiters would hear of the loss before it has to renew.
#[test]
fn promises_hold_when_the_server_is_flushed_again_and_again() {
    for seed in seeds(&[24]) {
        let server = RedisServer::start();
        let short = Duration::from_millis(600);
        let crew = Crew::at(&server).processes(10).waiters(1).lease(Duration::from_secs(4)).liveness(short, short);
        suffer(seed, &server, crew, vec![data::flushed_thrice(&server, 3)]);
    }
}

#[test]
fn promises_hold_while_messages_are_forged() {
    at_plain_server(25, |server| vec![messages::forged(server, 100)]);
}

#[test]
fn promises_hold_while_the_server_is_out_of_memory() {
    at_plain_server(19, |server| vec![memory::out_of_memory(server, silence::for_long, 2)]);
}

#[test]
fn promises_hold_on_a_network_that_loses_cuts_and_delays() {
    for seed in seeds(&[20]) {
        let (server, proxy) = Proxy::of_a_server();
        let faults = vec![wire::cut(&proxy, 5), wire::lost(&proxy, 5), wire::delayed(&proxy, 60)];
        suffer(seed, &server, Crew::at(&server).by_way_of(&proxy.url()), faults);
    }
}

/// The old connections are killed before anything is asked again, so no request on them is executed.
#[test]
fn promises_hold_on_a_network_that_delivers_late() {
    for seed in seeds(&[21]) {
        let (server, proxy) = Proxy::of_a_server();
        let faults = vec![wire::delivered_late(&proxy, false, 5)];
        suffer(seed, &server, Crew::at(&server).by_way_of(&proxy.url()), faults);
    }
}

/// Where clients may not kill connections, late requests are executed.
#[test]
fn promises_hold_where_late_requests_are_executed() {
    for seed in seeds(&[23]) {
        let rules = "on >secret ~* &* +@all -client +client|id";
        let server = RedisServer::builder().plain().user("worker", rules).start();
        let proxy = Proxy::start(&server);
        let faults = vec![wire::delivered_late(&proxy, true, 5)];
        let url = format!("{}?user=worker&pass=secret", proxy.url());
        suffer(seed, &server, Crew::at(&server).by_way_of(&url), faults);
    }
}

#[cfg(target_os = "linux")]
#[test]
fn promises_hold_when_the_clock_of_the_server_is_set() {
    for seed in seeds(&[22]) {
        let clock = WallClock::on_time();
        let server = clock.given_to(RedisServer::builder()).start();
        let faults = vec![time::forwards(&clock, &server, 3), time::back(&clock, &server, 3)];
        at_server(seed, &server, faults);
    }
}

/// All faults at random, for a given time. `make soak MINUTES=…`
#[cfg(target_os = "linux")]
#[test]
#[ignore = "takes as many minutes as it is told to"]
fn soak() {
    let minutes: f64 = std::env::var("FAIRLOCK_MINUTES").ok().and_then(|text| text.parse().ok()).unwrap_or(1.0);
    let until = Instant::now() + Duration::from_secs_f64(60.0 * minutes);
    let seed = seeds(&[fastrand::u64(..)])[0];
    println!("seed {seed}");
    let clock = WallClock::on_time();
    let server = clock.given_to(RedisServer::builder().alone()).config(silence::SOON_BUSY).start();
    let proxy = Proxy::start(&server);
    let crew = Crew::at(&server).by_way_of(&proxy.url()).seed(seed).slack(SLACK).long_of(4);
    // For each round: no waiter awaits its end, and on a busy machine every strike takes time.
    let mut crew = crew.patience(Duration::from_secs(900)).start();
    let memory_of = |crew: &Crew| {
        let used: u64 = server.info("used_memory").unwrap().parse().unwrap();
        let resident = crew.pids().into_iter().map(resident_kib).collect::<Vec<_>>();
        (resident, used / 1024)
    };
    let mut at_start = None;
    loop {
        // Each fault at least once in every round, in random order.
        crew.suffer(vec![
            connections::killed(&server, 1),
            connections::scripts_flushed(&server, 10, 1),
            silence::stopped(&server, silence::briefly, 1),
            silence::stopped(&server, silence::for_long, 1),
            silence::paused(&server, silence::briefly, 1),
            silence::paused(&server, silence::for_long, 1),
            silence::busy(&server, silence::briefly, 1),
            silence::shut_down(&server, silence::briefly, 1),
            silence::shut_down(&server, silence::for_long, 1),
            data::flushed(&server, 1),
            data::flushed_thrice(&server, 1),
            data::restarted_empty(&server, 1),
            data::rolled_back(&server, 1),
            memory::out_of_memory(&server, silence::for_long, 1),
            messages::forged(&server, 20),
            wire::cut(&proxy, 2),
            wire::lost(&proxy, 2),
            wire::delayed(&proxy, 20),
            wire::delivered_late(&proxy, false, 2),
            time::forwards(&clock, &server, 1),
            time::back(&clock, &server, 1),
            fault::holders_paused(1),
            fault::processes_paused_briefly(2),
        ]);
        crew.work(20);
        // The first round fills caches that are filled once.
        let memory = memory_of(&crew);
        let (start, now) = (&*at_start.get_or_insert_with(|| memory.clone()), &memory);
        println!("memory in KiB: clients {:?}, server {}; at first {:?}, {}", now.0, now.1, start.0, start.1);
        if until <= Instant::now() {
            break;
        }
    }
    let (start, end) = (at_start.unwrap(), memory_of(&crew));
    crew.finish();
    keys_left(&server);
    // A leak that grows with every fault would have grown by more.
    let flat = |start: u64, end: u64| end <= start + start / 4;
    assert!(flat(start.1, end.1), "memory of the server: {start:?} {end:?}");
    assert!(start.0.iter().zip(&end.0).all(|(start, end)| flat(*start, *end)), "memory of clients: {start:?} {end:?}");
}

#[cfg(target_os = "linux")]
fn resident_kib(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a process that lives");
    line.trim().trim_end_matches(" kB").parse().unwrap()
}
