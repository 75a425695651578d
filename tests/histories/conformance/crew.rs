//! Processes of drivers and of Rust in one queue, while processes are killed, connections break and data is lost. The
//! same judges read the history.

use std::{panic::AssertUnwindSafe, time::Duration};

use redis::cmd;
use testkit::{
    Proxy, RedisServer, SOON,
    crew::{Crew, Fault, Setup, Struck, fault, seeds},
    eventually,
    history::{Trouble, Wait, now_ns},
    keys_left,
};

use crate::injected::{connections, data, silence, wire};

/// Processes of these drivers, in turn, are every other process of a crew.
pub fn share_a_queue(drivers: &[String]) {
    for seed in seeds(&[31]).into_iter().filter(|_| !drivers.is_empty()) {
        let server = RedisServer::builder().plain().start();
        let proxy = Proxy::start(&server).tcp();
        let mut crew = crew(&server, &proxy, drivers).seed(seed).start();
        crew.work(20);
        crew.suffer(vec![
            killed("Rust processes killed", false, 3),
            killed("processes of drivers killed", true, 3),
            fault::holders_killed(2),
            fault::processes_paused_briefly(3),
            fault::holders_paused(1),
            fault::holders_paused_of("holders of drivers paused for long", "-driver", 2),
            connections::killed(&server, 30),
            connections::scripts_flushed(&server, 10, 5),
            wire::cut(&proxy, 3),
            wire::lost(&proxy, 2),
            wire::delayed(&proxy, 20),
            data::flushed(&server, 4),
            rolled_back(&server),
            silence::stopped(&server, silence::briefly, 2),
        ]);
        (0..drivers.len()).for_each(|kind| is_served(&mut crew, &format!("-driver{kind}-")));
        crew.finish();
        keys_left(&server);
    }
}

/// The same with so many slots, under fewer faults.
pub fn share_slots(drivers: &[String], slots: usize) {
    for seed in seeds(&[32]) {
        let server = RedisServer::builder().plain().start();
        let proxy = Proxy::start(&server).tcp();
        let mut crew = crew(&server, &proxy, drivers).seed(seed).slots(slots as u32).start();
        crew.work(20);
        crew.suffer(vec![
            killed("Rust processes killed", false, 1),
            killed("processes of drivers killed", true, 2),
            fault::holders_paused_of("holders of drivers paused for long", "-driver", 1),
            connections::killed(&server, 10),
            data::flushed(&server, 1),
        ]);
        (0..drivers.len()).for_each(|kind| is_served(&mut crew, &format!("-driver{kind}-")));
        let report = crew.finish();
        assert_eq!(report.at_once, slots, "{report}");
        keys_left(&server);
    }
}

fn crew(server: &RedisServer, proxy: &Proxy, drivers: &[String]) -> Setup {
    Crew::at(server)
        .by_way_of(&proxy.tcp_url())
        .processes(8)
        .waiters(4)
        // Long enough for an interpreter on a busy machine.
        .lease(Duration::from_secs(3))
        .liveness(Duration::from_millis(2500), Duration::from_millis(2500))
        .slack(Duration::from_secs(6))
        .long_of(4)
        .every_other_is(drivers)
}

/// Kills processes of one kind. A hit is a waiter that died in the queue, or holding the lock.
fn killed(name: &'static str, of_driver: bool, hits: u64) -> Fault<'static> {
    Fault::new(name, hits, move |crew| {
        let awake = crew.awake();
        let concerned = |wait: &&Wait| {
            let ended = wait.released_ns.or(wait.lost_ns).or(wait.left_ns).or(wait.returned_ns);
            wait.waiter.contains("-driver") == of_driver && ended.is_none() && awake.contains(&wait.process)
        };
        let history = crew.recent();
        let Some(process) = history.waits().iter().find(concerned).map(|wait| wait.process.clone()) else {
            return Struck::hits(0);
        };
        crew.kill(&process);
        let died = |wait: &&Wait| wait.process == process && wait.died_ns.is_some() && wait.released_ns.is_none();
        Struck::hits(crew.recent().waits().iter().filter(died).count().min(1) as u64)
    })
}

/// SIGKILL, and another start with the data of an earlier moment.
fn rolled_back(server: &RedisServer) -> Fault<'_> {
    Fault::new("the server was rolled back", 2, move |crew| {
        let lost_since = now_ns();
        let () = cmd("SAVE").query(&mut server.raw()).unwrap();
        crew.work(5);
        let struck = Struck::during(&[Trouble::Silent, Trouble::LostData], || {
            server.kill();
            let concerned = fault::concerned(crew).min(1);
            server.restart();
            concerned
        });
        struck.lost_since(lost_since)
    })
}

/// Waiters of this kind are granted the lock.
fn is_served(crew: &mut Crew, kind: &str) {
    let of_this_kind = |wait: &&Wait| wait.waiter.contains(kind) && wait.token.is_some();
    let served = (0..50).any(|_| {
        crew.work(5);
        crew.history().waits().iter().filter(of_this_kind).count() >= 5
    });
    assert!(served, "waiters of the kind {kind} are not granted the lock");
}

/// It says that it is ready, and nothing more.
#[test]
fn a_driver_that_hangs_is_named() {
    let server = RedisServer::builder().plain().start();
    let hangs = ["sh -c 'echo ready waits; exec sleep 1000'".to_owned()];
    let crew = Crew::at(&server).seed(1).processes(2).waiters(1).patience(Duration::from_secs(3));
    let crew = crew.every_other_is(&hangs).start();
    let is_called = || crew.history().waits().iter().any(|wait| wait.process == "p1");
    eventually("the driver is told to acquire", SOON, is_called);
    let panic = std::panic::catch_unwind(AssertUnwindSafe(|| drop(crew.finish()))).expect_err("it must fail");
    let said = panic.downcast_ref::<String>().expect("a message");
    let unfinished = "p1 has not ended, acquires without an end: [p1.1-driver0-waits]";
    let (evidence, found) = said.split_once("] ").unwrap();
    assert!(found.ends_with(unfinished), "{said}");
    let history = evidence.split_once("history ").unwrap().1;
    let remarks = std::fs::read_to_string(history).unwrap();
    std::fs::remove_file(history).unwrap();
    for remark in [unfinished, "p1: the driver has not answered for 200ms: held -"] {
        assert!(remarks.contains(remark), "{remarks}");
    }
}
