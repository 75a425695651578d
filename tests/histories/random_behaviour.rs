//! Clients that behave at random, judged by the history of what happened to them (I1 to I9).
//!
//! Four processes with eight waiters each wait for one lock, as tasks and as threads, with every kind of acquire. They
//! hold the lock for random times, block their runtimes, cancel at random awaits, drop guards and panic while they hold
//! the lock; the wakers of some block or panic. Meanwhile processes are killed and stopped, and connections are cut.
//!
//! The ordinary run takes fixed seeds. `FAIRLOCK_CASES=100` takes that many random ones, `FAIRLOCK_SEED=7` this one. A
//! seed decides what every waiter does and which process is hit by which fault, not how the machine schedules it. A run
//! that fails names its seed and keeps its history.

use std::{panic::AssertUnwindSafe, path::Path, time::Duration};

use crate::injected::silence;
use redis::cmd;

use testkit::{
    RedisServer,
    crew::{Crew, Fault, Report, Struck, fault, seeds},
    history::History,
    keys_left,
    state::forget_holder,
};

fn run(seed: u64, work: impl FnOnce(&mut Crew, &RedisServer)) -> Report {
    let server = RedisServer::start();
    let mut crew = Crew::at(&server).seed(seed).start();
    work(&mut crew, &server);
    let report = crew.finish();
    keys_left(&server);
    report
}

/// Kills all connections to the server, or one.
fn connections_killed(server: &RedisServer, hits: u64) -> Fault<'_> {
    Fault::new("connections killed", hits, move |crew| {
        let mut raw = server.raw();
        let mut kill = |filter: [&str; 2]| -> u64 { cmd("CLIENT").arg("KILL").arg(&filter).query(&mut raw).unwrap() };
        if crew.rng().bool() {
            // Connections that have subscribed certainly belong to the crew.
            kill(["TYPE", "normal"]);
            return Struck::hits(kill(["TYPE", "pubsub"]));
        }
        let list: String = cmd("CLIENT").arg(&["LIST", "TYPE", "pubsub"]).query(&mut server.raw()).unwrap();
        let ids: Vec<&str> = list.lines().filter_map(|line| line.split(' ').next()?.strip_prefix("id=")).collect();
        if ids.is_empty() {
            return Struck::hits(0);
        }
        Struck::hits(kill(["ID", ids[crew.rng().usize(..ids.len())]]))
    })
}

#[test]
fn processes_that_cancel_block_and_panic_break_no_promise() {
    for seed in seeds(&[1]) {
        let report = run(seed, |crew, _| crew.work(300));
        // Every kind of behaviour occurred, and the kinds that want the lock got it.
        for whim in ["acquire", "enqueue", "position", "run", "drops", "panics", "abandons", "releases", "blocks"] {
            assert!(report.whims.get(whim).is_some_and(|(_, grants)| *grants > 0), "nobody {whim}: {report}");
        }
        for whim in ["try", "block", "timeout", "aborted", "wakerblocks", "wakerpanics"] {
            assert!(report.whims.contains_key(whim), "nobody {whim}: {report}");
        }
    }
}

#[test]
fn order_stands_while_processes_and_connections_die() {
    for seed in seeds(&[2, 3]) {
        let report = run(seed, |crew, server| {
            crew.work(50);
            crew.suffer(vec![
                fault::holders_killed(2),
                fault::waiters_killed(10),
                fault::holders_paused(2),
                fault::processes_paused_briefly(4),
                connections_killed(server, 10),
            ]);
            crew.work(50);
        });
        assert!(report.died_holding > 0 && report.died_waiting > 0, "{report}");
    }
}

/// The message of a failed run. It kept its history, which is of no use here.
fn failure(seed: u64, run: impl FnOnce()) -> String {
    let panic = std::panic::catch_unwind(AssertUnwindSafe(run)).expect_err("this must fail");
    let said = panic.downcast_ref::<String>().expect("a message").clone();
    let (_, history) = said.split_once(&format!("[seed {seed}, history ")).expect("the seed and the history");
    let history = Path::new(history.split_once(']').unwrap().0);
    assert!(History::read(history).is_ok_and(|history| !history.waits().is_empty()), "{said}");
    std::fs::remove_file(history).unwrap();
    said
}

#[test]
fn a_fault_that_does_not_strike_fails_its_test() {
    let server = RedisServer::start();
    let said = failure(4, || {
        let crew = Crew::at(&server).seed(4).processes(1).patience(Duration::from_secs(1));
        let mut crew = crew.start();
        crew.work(1);
        crew.suffer(vec![Fault::new("missed", 1, |_| Struck::hits(0))]);
    });
    assert!(said.contains("it did not strike: missed"), "{said}");
}

/// A server that forgets its leases grants the lock again. The judges must notice that among all the random behaviour.
#[test]
fn a_server_that_grants_twice_is_found_out() {
    let server = RedisServer::start();
    let said = failure(5, || {
        let mut crew = Crew::at(&server).seed(5).start();
        crew.suffer(vec![Fault::new("two hold", 1, |crew| {
            forget_holder(&mut server.raw(), "crew");
            Struck::hits(u64::from(crew.history().exclusion(crew.terms()).is_err()))
        })]);
        crew.finish();
    });
    assert!(said.contains("two hold at once"), "{said}");
}

/// Lease, liveness and buffer of each acquire are drawn up to the longest that there are. Nobody dies, because that
/// would take as long to get over.
#[test]
fn order_stands_whatever_the_times_are() {
    for seed in seeds(&[6]) {
        let server = RedisServer::start();
        let mut crew = Crew::at(&server).seed(seed).any_times().start();
        crew.work(50);
        crew.suffer(vec![connections_killed(&server, 10)]);
        crew.work(50);
        crew.finish();
        keys_left(&server);
    }
}

/// The server stands still for longer than some count as alive, and for a moment in the eyes of others.
#[test]
fn outages_cost_nobody_its_turn_whatever_the_times_are() {
    let run = |seed: u64| {
        let server = RedisServer::start();
        let mut crew = Crew::at(&server).seed(seed).processes(12).waiters(1).any_times().start();
        crew.suffer(vec![silence::stopped_apart(&server, |_| Duration::from_secs(6), 4)]);
        crew.finish();
        keys_left(&server);
    };
    for two in seeds(&[7, 8]).chunks(2) {
        std::thread::scope(|scope| two.iter().for_each(|&seed| drop(scope.spawn(move || run(seed)))));
    }
}
