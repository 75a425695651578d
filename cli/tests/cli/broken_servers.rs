//! Each subcommand against servers that do not serve, with each combination of the options that say what a busy lock
//! is: a broken server is never a busy lock, and never passed over in silence.

use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::thread;

use crate::shared::{PATIENCE, Process, Redis, Signal, eventually, hold};
use testkit::RedisServer;

/// How many calls run at once. Most of them sleep.
const AT_ONCE: usize = 16;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Server {
    /// Nothing listens there.
    Down,
    /// It accepts connections, and never answers.
    Hung,
    /// Its memory is full, so it takes no writes.
    Full,
    /// It is a replica, so it takes no writes.
    ReadOnly,
    /// Its name does not resolve.
    Nameless,
    /// Its memory is full, and another one holds the lock: the server gives nobody a place in its queue.
    FullAndHeld,
    /// It serves, and another one holds the lock.
    Busy,
}

#[derive(Debug, Clone)]
struct Call {
    server: Server,
    words: Vec<String>,
    code: i32,
    /// Whether stderr has a message.
    says: bool,
}

struct Ended {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

/// The time limit is for calls that hang.
fn call(url: &str, words: &[String]) -> Ended {
    let mut command = Command::new("timeout");
    command.arg(PATIENCE.as_secs().to_string()).arg(env!("CARGO_BIN_EXE_fairlock")).args(["--redis", url]).args(words);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // A hold needs a stdin that does not end.
    let _stdin = child.stdin.take();
    let output = child.wait_with_output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Ended { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
}

/// All combinations of the options in which the call ends by itself.
fn combinations(wait: &'static str) -> Vec<Vec<&'static str>> {
    let mut all = Vec::new();
    for bits in 0..16 {
        let options = [&["-q"][..], &["-n"], &["-w", wait], &["-E", "0"]];
        let chosen: Vec<_> =
            (0..4).filter(|bit| bits & (1 << bit) != 0).flat_map(|bit| options[bit]).copied().collect();
        // Both together are refused, and without one of them it waits for ever.
        if chosen.contains(&"-n") != chosen.contains(&"-w") {
            all.push(chosen);
        }
    }
    all
}

fn words(first: &[&str], options: &[&str], last: &[&str]) -> Vec<String> {
    [first, options, last].concat().into_iter().map(str::to_owned).collect()
}

/// Those that wait for locks.
fn waits(server: Server) -> Vec<Call> {
    let mut calls = Vec::new();
    // Where the lock is held, the call has to get its place in time, on a busy machine too.
    for options in combinations(if server == Server::Busy { "3s" } else { "300ms" }) {
        let has = |option| options.contains(&option);
        let (code, says) = match server {
            Server::Busy if has("-E") => (0, !has("-q")),
            Server::Busy if has("-w") => (124, !has("-q")),
            Server::Busy => (122, !has("-q")),
            _ => (125, true),
        };
        for (first, last) in [
            (&["run"][..], &["x", "--", "echo", "it ran"][..]),
            (&["run", "-a", "y"], &["x", "--", "echo", "it ran"]),
            (&["hold"], &["x"]),
        ] {
            calls.push(Call { server, words: words(first, &options, last), code, says });
        }
    }
    calls
}

/// Those that only look, and those that change what is there.
fn looks(server: Server) -> Vec<Call> {
    let reads = matches!(server, Server::Full | Server::Busy);
    let call = |words: &[&str], code: i32, says| Call {
        server,
        words: words.iter().map(|word| (*word).to_owned()).collect(),
        code: if reads { code } else { 125 },
        says: says || !reads,
    };
    let free = i32::from(server != Server::Busy);
    let mut calls = vec![
        call(&["status", "x"], free, false),
        call(&["history", "x"], 1, true),
        call(&["break", "x", "--token", "1"], 1, true),
    ];
    for options in [&[][..], &["-q"]] {
        let code = if server == Server::Busy { 124 } else { 0 };
        calls.push(call(&[&["wait", "-t", "300ms"], options, &["x"]].concat(), code, server == Server::Busy));
    }
    // Lists and metrics of a replica are old, and true as such.
    if server != Server::ReadOnly {
        calls.push(call(&["status"], 0, server != Server::Busy));
        calls.push(call(&["exporter", "--once"], 0, false));
    }
    if server != Server::Busy {
        calls.push(call(&["break", "x", "--force"], 1, true));
        calls.push(call(&["history", "x", "on"], 125, true));
        // It finds the fault, and tells of it on stdout.
        let doctor = call(&["doctor"], 2, false);
        calls.push(Call { code: 2, says: false, ..doctor });
    }
    calls.push(Call { code: 125, says: true, ..call(&["watch"], 125, true) });
    calls
}

#[test]
fn a_server_that_does_not_serve_is_a_failure_with_a_message() {
    let (full, held, replica, busy) = (Redis::start(), Redis::start(), Redis::alone(), Redis::start());
    let _holders = [hold(&held, "x", "holder"), hold(&busy, "x", "holder")];
    tell(&full, &["CONFIG", "SET", "maxmemory", "1"]);
    tell(&held, &["CONFIG", "SET", "maxmemory", "1"]);
    tell(&replica, &["REPLICAOF", "127.0.0.1", "1"]);
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let hung = format!("redis://{}/", silent.local_addr().unwrap());
    thread::spawn(move || silent.incoming().collect::<Vec<_>>());
    let url = |server| match server {
        // A server of this test would be found there only if it had no socket.
        Server::Down => "unix:///nonexistent/redis.sock".to_owned(),
        Server::Hung => hung.clone(),
        Server::Full => full.url(),
        Server::FullAndHeld => held.url(),
        Server::ReadOnly => replica.url(),
        Server::Nameless => "redis://nowhere.invalid/".to_owned(),
        Server::Busy => busy.url(),
    };
    // Those that take longest begin.
    let servers = [Server::Hung, Server::Down, Server::Full, Server::ReadOnly, Server::Nameless, Server::Busy];
    let mut calls = waits(Server::FullAndHeld);
    calls.extend(servers.into_iter().flat_map(|server| [looks(server), waits(server)].concat()));
    let count = calls.len();
    let (calls, wrong) = (Mutex::new(calls.into_iter()), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                loop {
                    let Some(expected) = calls.lock().unwrap().next() else { break };
                    let once = || call(&url(expected.server), &expected.words);
                    let mut ended = once();
                    // A server that stands still, for two seconds or for the time of a wait, does not serve. Then it is
                    // asked again.
                    if expected.code != 125 && ended.code == Some(125) {
                        ended = once();
                    }
                    let Ended { code, stdout, stderr } = ended;
                    let right = code == Some(expected.code)
                        && expected.says != stderr.is_empty()
                        && (expected.words[0] != "doctor" || stdout.contains("fault"))
                        && !stdout.contains("it ran");
                    if !right {
                        wrong.lock().unwrap().push(format!("{expected:?}: {code:?} {stderr}"));
                    }
                }
            });
        }
    });
    let wrong = wrong.into_inner().unwrap();
    assert!(wrong.is_empty(), "{} of {count}:\n{}", wrong.len(), wrong.join("\n"));
}

fn tell(server: &RedisServer, words: &[&str]) {
    let () = redis::cmd(words[0]).arg(&words[1..]).query(&mut server.raw()).unwrap();
}

/// The call has a place in the queue when its server goes away.
#[test]
fn a_server_that_goes_away_during_the_wait_is_a_failure_with_a_message() {
    type Away = fn(&RedisServer);
    let read_only = |server: &RedisServer| tell(server, &["REPLICAOF", "127.0.0.1", "1"]);
    let away: [(_, Away); 3] =
        [("killed", |redis| redis.kill()), ("hung", |redis| redis.stop()), ("read-only", read_only)];
    let servers = away.map(|(what, away)| {
        let redis = if what == "read-only" { Redis::alone() } else { Redis::start() };
        let holder = hold(&redis, "x", "holder");
        let run = |options: &[&str]| redis.run("x", options, "echo it ran");
        // Long enough for what is set up here, on a busy machine too.
        let waiters = [run(&["-q", "-w", "15s", "-E", "0"]), run(&["-w", "15s", "-a", "y"])];
        redis.await_waiting("x", 2);
        let before = redis.newest_connection();
        let looker = Process::spawn(redis.fairlock().args(["wait", "-q", "-t", "15s", "x"]));
        // A client that is still connecting is told of a replica instead.
        eventually("it has looked", || {
            let newest = redis.newest_connection();
            let clients: String = redis::cmd("CLIENT").arg("LIST").query(&mut redis.raw()).unwrap();
            let mut its = clients.lines().filter(|client| client.starts_with(&format!("id={newest} ")));
            (newest > before && its.any(|client| client.contains(" cmd=evalsha"))).then_some(())
        });
        away(&redis);
        (what, redis, holder, waiters, looker)
    });
    for (what, redis, _holder, waiters, looker) in servers {
        // A replica still shows who holds the lock.
        let code = if what == "read-only" { 124 } else { 125 };
        let looked = looker.finish();
        assert!(looked.code == code && !looked.stderr.is_empty(), "{what}: {looked:?}");
        for waiter in waiters {
            let ended = waiter.finish();
            let told = ended.stderr.contains("x was not granted within 15s") && ended.stderr.contains("does not serve");
            assert!(ended.code == 125 && told && ended.stdout.is_empty(), "{what}: {ended:?}");
        }
        drop(redis);
    }
}

/// Without a timeout it waits for the server, and a signal ends that.
#[test]
fn a_wait_without_a_limit_outlasts_a_server_that_is_down() {
    let run = |options: &[&str]| {
        let mut run = crate::shared::fairlock();
        run.args(["--redis", "unix:///nonexistent/redis.sock", "run"]).args(options).args(["x", "true"]);
        Process::spawn(&mut run)
    };
    let (quiet, loud) = (run(&["-q", "-E", "0"]), run(&["-E", "0"]));
    assert!(loud.complaint().contains("trying again"));
    for waiter in [quiet, loud] {
        waiter.signal(Signal::TERM);
        let ended = waiter.finish();
        assert_eq!(ended.code, 143, "{ended:?}");
    }
}
