//! What tests conclude from a private server, tested: what is left there, what ran there, what outlives its process.
//! A server or a helper that does not work fails the tests that use it.

use std::{
    net::TcpStream,
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
    time::Duration,
};

use redis::{Commands as _, cmd};
use testkit::{Child, Monitor, RedisServer, SOON, calls, child, eventually, keys_left_within, watch::Counter};

/// The helper processes of this file.
#[test]
fn child() {
    child::main(|role, args| match role {
        "own a server" => {
            let server = RedisServer::builder().tcp().start();
            if args[0] == "stopped" {
                server.stop();
            }
            child::say(format!("serving {} {}", server.port(), server.dir().display()));
            loop {
                std::thread::park();
            }
        }
        other => panic!("no role {other}"),
    });
}

#[track_caller]
fn panics(work: impl FnOnce()) -> String {
    let panic = catch_unwind(AssertUnwindSafe(work)).expect_err("this must panic");
    panic.downcast::<String>().map_or_else(|_| "a panic without a formatted message".to_owned(), |message| *message)
}

/// Whether a server that is no child of this process has ended: nothing listens at its port, not even a stopped
/// process.
fn nobody_listens(port: u16) -> bool {
    TcpStream::connect_timeout(&([127, 0, 0, 1], port).into(), Duration::from_secs(1)).is_err()
}

#[test]
fn a_server_is_gone_after_its_test_process_was_killed() {
    for state in ["running", "stopped"] {
        let mut owner = Child::spawn("own a server", &[state]);
        let line = owner.wait_line("serving ", SOON);
        let [_, port, dir] = line.split(' ').collect::<Vec<_>>()[..] else { panic!("{line}") };
        let port: u16 = port.parse().unwrap();
        assert!(!nobody_listens(port), "{state}");
        owner.kill();
        eventually("its server is gone", SOON, || nobody_listens(port));
        eventually("its folder is gone", SOON, || !Path::new(dir).exists());
    }
}

#[test]
fn keys_left_names_what_is_left() {
    let server = RedisServer::start();
    let mut raw = server.raw();
    let () = raw.zadd("fairlock:{a}:waiters", "waiter-7", 12).unwrap();
    let message = panics(|| keys_left_within(&server, Duration::from_millis(50)));
    assert!(message.contains("fairlock:{a}:waiters (zset") && message.contains("waiter-7"), "{message}");

    // A TTL excuses only the state, and the state needs one.
    let () = raw.pexpire("fairlock:{a}:waiters", 60_000).unwrap();
    panics(|| keys_left_within(&server, Duration::from_millis(50)));
    let () = raw.del("fairlock:{a}:waiters").unwrap();
    let () = raw.hset("fairlock:{a}:lock", "", "state").unwrap();
    let message = panics(|| keys_left_within(&server, Duration::from_millis(50)));
    assert!(message.contains("fairlock:{a}:lock (hash, ttl -1 ms)"), "{message}");
}

#[test]
fn calls_counts_what_ran_in_between_and_nothing_else() {
    let server = RedisServer::start();
    let mut raw = server.raw();
    let () = raw.set("before", 1).unwrap();
    let (counted, ()) = calls(&server, || {
        for _ in 0..3 {
            let () = raw.set("within", 1).unwrap();
        }
        let () = cmd("EVAL").arg("return redis.call('GET', KEYS[1])").arg(1).arg("within").query(&mut raw).unwrap();
    });
    let () = raw.set("after", 1).unwrap();
    assert_eq!(counted, [("eval", 1), ("get", 1), ("set", 3)].map(|(name, count)| (name.to_owned(), count)).into());

    let mut counter = Counter::start(&server);
    assert!(counter.so_far().is_empty());
    assert!(counter.so_far().is_empty());
    let () = cmd("INFO").query::<String>(&mut raw).map(|_| ()).unwrap();
    assert_eq!(counter.so_far(), [("info".to_owned(), 1)].into());
}

#[test]
fn monitor_shows_everything_that_ran_since() {
    let server = RedisServer::start();
    let mut raw = server.raw();
    let () = raw.set("before", 1).unwrap();
    let mut monitor = Monitor::start(&server);
    assert!(monitor.lines().is_empty());
    let () = cmd("EVAL").arg("redis.call('SET', KEYS[1], 1)").arg(1).arg("within").query(&mut raw).unwrap();
    let lines = monitor.lines();
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert!(lines[0].contains("\"EVAL\"") && lines[1].contains("lua] \"SET\" \"within\""), "{lines:?}");
}

#[test]
fn a_server_keeps_its_data_over_a_restart_only_if_it_writes_them_down() {
    for (server, keeps) in [(RedisServer::builder().appendonly().start(), true), (RedisServer::start(), false)] {
        let () = server.raw().set("key", 1).unwrap();
        server.kill();
        server.restart();
        assert_eq!(server.raw().exists::<_, bool>("key").unwrap(), keeps);
        // A server that is stopped (SIGSTOP) can be restarted, too.
        server.stop();
        server.restart();
        assert_eq!(server.raw().exists::<_, bool>("key").unwrap(), keeps);
    }
}

#[test]
fn eventually_asks_again_and_gives_up() {
    let mut asked = 0;
    eventually("the third time", SOON, || {
        asked += 1;
        asked == 3
    });
    let message = panics(|| eventually("pigs fly", Duration::from_millis(20), || false));
    assert_eq!(message, "not within 20ms: pigs fly");
}
