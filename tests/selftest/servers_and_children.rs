//! Private servers and helper processes, tested: a test is worth no more than its certainty about them.

use std::{
    net::TcpStream,
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use redis::{Commands as _, cmd};
use testkit::{
    Child, Monitor, RedisServer, SOON, calls, child, eventually, eventually_async, keys_left, keys_left_within,
    watch::Counter,
};

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
        "repeat" => args.iter().for_each(child::say),
        "wait" => loop {
            child::say("waiting");
            std::thread::sleep(Duration::from_millis(20));
        },
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
fn a_server_answers_on_its_socket_and_its_port() {
    let server = RedisServer::builder().tcp().start();
    for url in [server.url(), server.tcp_url()] {
        let mut connection = redis::Client::open(url).unwrap().get_connection().unwrap();
        assert_eq!(cmd("PING").query::<String>(&mut connection).unwrap(), "PONG");
    }
    assert!(server.socket().exists());
    let pid: u32 =
        cmd("INFO").arg("server").query::<redis::InfoDict>(&mut server.raw()).unwrap().get("process_id").unwrap();
    assert_eq!(pid, server.pid());
}

#[test]
fn servers_do_not_disturb_each_other() {
    let servers: Vec<RedisServer> = (0..4).map(|_| RedisServer::builder().tcp().start()).collect();
    for (number, server) in servers.iter().enumerate() {
        let () = server.raw().set("who", number).unwrap();
    }
    for (number, server) in servers.iter().enumerate() {
        assert_eq!(server.raw().get::<_, usize>("who").unwrap(), number);
    }
}

#[test]
fn passwords_users_and_config_lines_reach_the_server() {
    let server = RedisServer::builder()
        .tcp()
        .password("p@ss/word?")
        .user("worker", "on >secret&1 ~fairlock:* +@all")
        .config("maxmemory 11mb")
        .start();
    let mut raw = server.raw();
    let (_, limit): (String, u64) = cmd("CONFIG").arg("GET").arg("maxmemory").query(&mut raw).unwrap();
    assert_eq!(limit, 11 << 20);

    for (url, name) in [(server.tcp_url(), "default"), (server.url_as("worker", "secret&1"), "worker")] {
        let mut connection = redis::Client::open(url).unwrap().get_connection().unwrap();
        assert_eq!(cmd("ACL").arg("WHOAMI").query::<String>(&mut connection).unwrap(), name);
    }
    let nobody = format!("redis+unix://{}", server.socket().display());
    assert!(redis::Client::open(nobody).unwrap().get_connection().unwrap().get::<_, String>("x").is_err());
}

#[test]
fn a_bad_config_fails_with_the_reason() {
    let message = panics(|| drop(RedisServer::builder().config("no-such-option 1").start()));
    assert!(message.contains("no-such-option"), "{message}");
}

#[test]
fn a_stopped_server_is_silent_until_it_continues() {
    let server = RedisServer::start();
    let raw = server.raw();
    raw.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    let mut raw = raw;
    server.stop();
    server.stop();
    assert!(cmd("PING").query::<String>(&mut raw).is_err());
    server.cont();
    assert_eq!(cmd("PING").query::<String>(&mut server.raw()).unwrap(), "PONG");
}

#[test]
fn an_appendonly_server_keeps_its_data_over_kill_and_restart() {
    let server = RedisServer::builder().tcp().appendonly().start();
    let (url, port) = (server.url(), server.port());
    let mut open_connection = redis::Client::open(server.tcp_url()).unwrap().get_connection().unwrap();
    let () = open_connection.set("kept", 1).unwrap();

    server.kill();
    assert!(redis::Client::open(url.clone()).unwrap().get_connection().is_err());
    server.restart();
    assert_eq!((server.url(), server.port()), (url, port));
    assert_eq!(server.raw().get::<_, u32>("kept").unwrap(), 1);

    server.stop();
    server.shutdown();
    server.restart();
    assert_eq!(server.raw().get::<_, u32>("kept").unwrap(), 1);
    // A server that is stopped (SIGSTOP) can be restarted, too.
    server.stop();
    server.restart();
    assert_eq!(server.raw().get::<_, u32>("kept").unwrap(), 1);
}

#[test]
fn a_plain_server_forgets_everything() {
    let server = RedisServer::start();
    let () = server.raw().set("forgotten", 1).unwrap();
    server.restart();
    assert!(!server.raw().exists::<_, bool>("forgotten").unwrap());
}

#[test]
fn a_server_is_gone_after_drop_even_if_stopped_or_in_a_panic() {
    for end in ["drop", "stop", "panic"] {
        let mut left = None;
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            let server = RedisServer::builder().tcp().start();
            left = Some((server.port(), server.dir().to_owned()));
            match end {
                "stop" => server.stop(),
                "panic" => std::panic::resume_unwind(Box::new("a failed assertion")),
                _ => {}
            }
        }));
        assert_eq!(outcome.is_err(), end == "panic");
        let (port, dir): (u16, PathBuf) = left.unwrap();
        assert!(nobody_listens(port), "{end}");
        assert!(!dir.exists(), "{end}");
    }
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
fn keys_left_accepts_idle_state_alone() {
    let server = RedisServer::start();
    keys_left(&server);
    let () = server.raw().hset("fairlock:{a}:lock", "", "state").unwrap();
    let () = server.raw().pexpire("fairlock:{a}:lock", 3_600_000).unwrap();
    keys_left(&server);
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
fn keys_left_waits_for_what_is_on_its_way() {
    let server = RedisServer::start();
    // Begun before the key is there, so that a machine that stands still in between makes it longer.
    let start = Instant::now();
    let () = server.raw().pset_ex("fairlock:{a}:waiters", 1, 300).unwrap();
    keys_left(&server);
    assert!(start.elapsed() >= Duration::from_millis(300));
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
    for password in [None, Some("secret")] {
        let server = match password {
            Some(password) => RedisServer::builder().password(password).start(),
            None => RedisServer::start(),
        };
        let mut raw = server.raw();
        let () = raw.set("before", 1).unwrap();
        let mut monitor = Monitor::start(&server);
        assert!(monitor.lines().is_empty());
        let () = cmd("EVAL").arg("redis.call('SET', KEYS[1], 1)").arg(1).arg("within").query(&mut raw).unwrap();
        let lines = monitor.lines();
        assert_eq!(lines.len(), 2, "{lines:?}");
        assert!(lines[0].contains("\"EVAL\"") && lines[1].contains("lua] \"SET\" \"within\""), "{lines:?}");
    }
}

#[test]
fn helpers_tell_their_events_in_order() {
    let mut helper = Child::spawn("repeat", &["one", "", "two words", "three"]);
    assert_eq!(helper.wait_line("two", SOON), "two words");
    assert!(helper.wait(SOON).success());
    eventually("all was read", SOON, || helper.lines().len() == 4);
    assert_eq!(helper.lines(), ["one", "", "two words", "three"]);
}

#[test]
fn waiting_for_a_helper_that_ended_or_says_something_else_fails() {
    let message = panics(|| drop(Child::spawn("repeat", &["one"]).wait_line("two", SOON)));
    assert!(message.contains("ended") && message.contains("one"), "{message}");
    let message = panics(|| drop(Child::spawn("wait", &[]).wait_line("two", Duration::from_millis(50))));
    assert!(message.contains("within 50ms"), "{message}");
}

#[test]
fn a_stopped_helper_is_silent_until_it_continues() {
    let mut helper = Child::spawn("wait", &[]);
    helper.wait_line("waiting", SOON);
    helper.stop();
    // What it had written may still be on its way through the pipe.
    eventually("it says nothing for as long as five of its lines take", SOON, || {
        let before = helper.lines().len();
        std::thread::sleep(Duration::from_millis(100));
        helper.lines().len() == before
    });
    helper.cont();
    helper.wait_line("waiting", SOON);
    helper.kill();
    assert!(!helper.wait(SOON).success());
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

#[tokio::test]
async fn eventually_async_lets_the_tests_own_tasks_go_on() {
    let work = tokio::spawn(async { tokio::time::sleep(Duration::from_millis(20)).await });
    eventually_async("the task ends", SOON, async || work.is_finished()).await;
}
