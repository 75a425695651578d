//! `fairlock run` and `fairlock status`: exit codes, the queue, and the environment of the command.

use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::shared::{Process, Redis, Signal, fairlock, temporary};
use testkit::RedisServer;

#[test]
fn the_command_gets_name_and_token_and_its_exit_code_is_passed_on() {
    let redis = Redis::start();
    let script = "echo \"$FAIRLOCK_NAME\"; echo \"$FAIRLOCK_TOKEN\"; exit 7";
    let [first, second] = [(); 2].map(|()| redis.run("a name", &[], script).finish());
    let token = |output: &str| output.lines().nth(1).unwrap().parse::<u64>().unwrap();
    assert_eq!((first.code, second.code), (7, 7));
    assert!(first.stdout.starts_with("a name\n"));
    assert!(token(&first.stdout) < token(&second.stdout), "tokens rise: {first:?} {second:?}");
    assert_eq!(first.stderr, "", "a lock that is free is not worth a word");
    assert_eq!(redis.state("a name")["holders"][0], serde_json::Value::Null, "the lock was given back");
}

#[test]
fn a_command_that_died_by_a_signal_is_reported_as_shells_do() {
    let redis = Redis::start();
    for (signal, code) in [("KILL", 137), ("TERM", 143), ("SEGV", 139)] {
        assert_eq!(redis.run("x", &[], &format!("ulimit -c 0; kill -{signal} $$")).finish().code, code);
    }
}

/// The server of this test may evict any key of a lock.
#[test]
fn warnings_of_the_library_appear_on_stderr() {
    let server = RedisServer::builder().config("maxmemory 100mb").config("maxmemory-policy allkeys-lru").start();
    let ended = Redis::of(server).run("x", &[], "true").finish();
    assert_eq!((ended.code, ended.stderr.lines().count()), (0, 1), "{ended:?}");
    assert!(ended.stderr.starts_with("fairlock: the server may evict keys of locks"), "{ended:?}");
}

/// A server that cannot be reached would be tried again and again if it were asked first.
#[test]
fn impossible_options_are_refused_before_a_server_is_asked() {
    for (arguments, says) in [
        (&["run", "", "--", "true"][..], "the lock's name is empty"),
        (&["status", ""], "the lock's name is empty"),
        (&["run", "}a", "--", "true"], "begins with `}`"),
        (&["run", "x", "--lease", "1ns", "--", "true"], "must be between 50ms and 30 days"),
        (
            &["run", "x", "--lease", "10000y", "--", "true"],
            "the lease is 3652500 days: it must be between 50ms and 30 days",
        ),
        (&["run", "x", "--timeout", "10000000y", "--", "true"], "must be at most 366 days"),
        (&["run", "x", "--timeout", "367d", "--", "true"], "must be at most 366 days"),
    ] {
        let ended =
            Process::spawn(fairlock().args(["--redis", "unix:///nonexistent/redis.sock"]).args(arguments)).finish();
        assert_eq!(ended.code, 125, "{ended:?}");
        assert!(ended.stderr.contains(says) && !ended.stderr.contains("trying again"), "{arguments:?}: {ended:?}");
    }
    let redis = Redis::start();
    assert_eq!(redis.run("x", &["--timeout", "366d"], "true").finish().code, 0);
}

/// A server that cannot be reached would make each of these wait for ever if it were asked first.
#[test]
fn the_command_is_looked_up_before_anything_else() {
    let folder = tempfile::tempdir().unwrap();
    let plain = folder.path().join("plain");
    std::fs::write(&plain, "no program").unwrap();
    let run = |command: &str| {
        let mut run = fairlock();
        run.env("REDIS_URL", "unix:///nonexistent/redis.sock").env("PATH", folder.path());
        Process::spawn(run.args(["run", "x", "--", command])).finish().code
    };
    assert_eq!(run("no-such-command"), 127);
    assert_eq!(run("/nonexistent/command"), 127);
    assert_eq!(run(""), 127);
    assert_eq!(run("plain"), 126, "found in PATH, not executable");
    assert_eq!(run(plain.to_str().unwrap()), 126);
    assert_eq!(run(folder.path().to_str().unwrap()), 126, "a folder");
}

#[test]
fn an_interpreter_that_is_missing_is_reported_as_env_does() {
    let redis = Redis::start();
    let (_folder, script) = temporary("script");
    std::fs::write(&script, "#!/nonexistent/interpreter\n").unwrap();
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    let ours = Process::spawn(redis.fairlock().args(["run", "x", "--"]).arg(&script)).finish();
    let env = Process::spawn(Command::new("env").arg(&script)).finish();
    assert_eq!(ours.code, env.code, "{ours:?}");
}

/// At a boot the server may be slower than cron.
#[test]
fn a_server_that_starts_late_is_waited_for_and_that_is_said_once() {
    let server = RedisServer::builder().alone().start();
    server.kill();
    let redis = Redis::of(server);
    let waiter = redis.run("x", &["--timeout", "10m"], "echo it ran");
    let first = waiter.complaint();
    assert!(first.contains("trying again"), "{first}");
    // The server is away for longer than a call without a timeout waits for an answer.
    std::thread::sleep(Duration::from_secs(6));
    redis.restart();
    let finished = waiter.finish();
    assert_eq!((finished.code, finished.stdout.as_str()), (0, "it ran\n"));
    // On a slow machine the server may be there for a while before it answers, which is another message.
    let mut said: Vec<&str> = [first.as_str()].into_iter().chain(finished.stderr.lines()).collect();
    assert!(said.pop().is_some_and(|last| last.starts_with("fairlock: got x after ")), "{finished:?}");
    let different: std::collections::BTreeSet<&str> = said.iter().copied().collect();
    assert!(said.len() == different.len() && said.len() <= 2, "{said:?}");
}

#[test]
fn a_server_that_will_never_serve_is_not_waited_for() {
    let server = RedisServer::builder().plain().tcp().start();
    let url = format!("{}99", server.tcp_url());
    for options in [&[][..], &["--no-wait"]] {
        let mut run = fairlock();
        run.args(["--redis", &url, "run", "x"]).args(options).args(["--", "echo", "it ran"]);
        let ended = Process::spawn(&mut run).finish();
        assert_eq!((ended.code, ended.stdout.as_str()), (125, ""), "{ended:?}");
        assert!(ended.stderr.contains("DB index is out of range") && ended.stderr.lines().count() == 1, "{ended:?}");
    }
}

#[test]
fn runs_are_served_in_order_and_status_shows_the_queue() {
    let redis = Redis::start();
    let (_folder, log) = temporary("log");
    let holder = redis.hold("x", &["--label", "zero"]);
    let waiter = |n| redis.waiter("x", &["--label", &format!("waiter {n}")], &format!("echo {n} >> {}", log.display()));
    let waiters: Vec<Process> = (1..=3).map(waiter).collect();
    let state = redis.state("x");
    assert_eq!(state["holders"][0]["label"], "zero");
    let labels: Vec<_> =
        state["queue"].as_array().unwrap().iter().map(|waiter| waiter["label"].as_str().unwrap()).collect();
    assert_eq!(labels, ["waiter 1", "waiter 2", "waiter 3"]);
    let text = String::from_utf8(redis.fairlock().args(["status", "x"]).output().unwrap().stdout).unwrap();
    assert!(text.contains(" by zero\n") && text.contains("2.  waits ") && text.contains("  waiter 2\n"), "{text}");

    holder.signal(Signal::TERM);
    for waiter in waiters {
        assert_eq!(waiter.finish().code, 0);
    }
    assert_eq!(std::fs::read_to_string(log).unwrap(), "1\n2\n3\n");
}

#[test]
fn a_signal_ends_the_wait_and_leaves_the_queue() {
    let (redis, _holder) = Redis::held("the holder");
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143), (Signal::HUP, 129), (Signal::QUIT, 131)] {
        let waiter = redis.waiter("x", &[], "echo never");
        waiter.signal(signal);
        let finished = waiter.finish();
        assert_eq!((finished.code, finished.stdout.as_str()), (code, ""));
        // The place is given up before fairlock ends, and not some time later.
        assert_eq!(redis.state("x")["waiting"], 0);
    }
}

#[test]
fn a_signal_that_the_caller_ignores_does_not_end_the_wait() {
    let (redis, holder) = Redis::held("the holder");
    let mut nohup = Command::new("sh");
    nohup.env("REDIS_URL", redis.url()).env("F", env!("CARGO_BIN_EXE_fairlock"));
    let waiter =
        Process::spawn(nohup.args(["-c", "trap '' HUP; exec $F run x -- sh -c 'kill -HUP $$; echo survived'"]));
    redis.await_waiting("x", 1);
    waiter.signal(Signal::HUP);
    holder.signal(Signal::TERM);
    assert_eq!(waiter.finish().stdout, "survived\n", "and the command ignores it as well");
}

/// The line without the time for which the lock has been held.
fn shortened(said: &str) -> String {
    let (before, label) = said.split_once(" by ").unwrap_or((said, ""));
    format!("{} by {label}", before.split(", held").next().unwrap_or_default())
}

#[test]
fn a_log_gets_a_line_when_the_wait_begins_and_one_at_the_grant() {
    let (redis, holder) = Redis::held("one");
    let second = redis.run("x", &["--label", "two"], "echo; exec sleep 1000");
    assert_eq!(shortened(&second.complaint()), "fairlock: waiting for x: 1st of 1 by one");
    let third = redis.run("x", &["--label", "three"], "true");
    assert_eq!(shortened(&third.complaint()), "fairlock: waiting for x: 2nd of 2 by one");
    let fourth = redis.run("x", &["-v"], "true");
    assert_eq!(shortened(&fourth.complaint()), "fairlock: waiting for x: 3rd of 3 by one");
    // The pause is long enough for several looks at a queue that does not change.
    std::thread::sleep(std::time::Duration::from_millis(2500));
    holder.signal(Signal::TERM);
    second.line();
    // A verbose run tells of each place.
    assert_eq!(shortened(&fourth.complaint()), "fairlock: waiting for x: 2nd of 2 by two");
    second.signal(Signal::TERM);
    let third = third.finish();
    assert_eq!((third.code, third.stderr.lines().count()), (0, 1), "{third:?}");
    assert!(third.stderr.starts_with("fairlock: got x after "), "{third:?}");
    let fourth = fourth.finish();
    let last = fourth.stderr.lines().last().unwrap();
    assert!(last.starts_with("fairlock: released x: waited ") && last.contains(" behind one, two"), "{fourth:?}");
}

#[test]
fn stdin_belongs_to_the_command() {
    let redis = Redis::start();
    let mut cat =
        redis.fairlock().args(["run", "x", "--", "cat"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    cat.stdin.take().unwrap().write_all(b"through\n").unwrap();
    assert_eq!(cat.wait_with_output().unwrap().stdout, b"through\n");
}

/// Descriptors, signal mask and dispositions are as without fairlock, except SIGPIPE, which std resets. There is no
/// shell between, since a shell may clear its mask.
#[test]
fn the_command_starts_as_if_fairlock_were_not_there() {
    let redis = Redis::start();
    for command in [
        &["grep", "-E", "^(Sig(Blk|Ign|Cgt)|Umask)", "/proc/self/status"][..],
        &["ls", "/proc/self/fd"],
        &["readlink", "/proc/self/cwd"],
    ] {
        // A caller that blocks USR1, and one that does not.
        for before in ["", "use POSIX; sigprocmask(SIG_BLOCK, POSIX::SigSet->new(SIGUSR1)); "] {
            let start = |words: &[&str]| {
                let mut caller = Command::new("perl");
                caller.env("REDIS_URL", redis.url());
                caller.args(["-e", &format!("{before}exec @ARGV"), "--"]);
                Process::spawn(caller.args(words).args(command)).finish()
            };
            let ours = start(&[env!("CARGO_BIN_EXE_fairlock"), "run", "x", "--"]);
            let env = start(&["env"]);
            assert_eq!(ours.stdout, env.stdout, "{ours:?}");
            assert!(!env.stdout.is_empty());
        }
    }
}

#[test]
fn a_caller_that_ignores_sigchld_still_gets_the_exit_code() {
    let redis = Redis::start();
    let script = "trap '' CHLD; exec $F run x -- sh -c 'exit 9'";
    let mut caller = Command::new("bash");
    caller.env("REDIS_URL", redis.url()).env("F", env!("CARGO_BIN_EXE_fairlock")).args(["-c", script]);
    let finished = Process::spawn(&mut caller).finish();
    assert_eq!(finished.code, 9, "{finished:?}");
}

#[test]
fn the_advice_to_name_a_server_is_given_once() {
    if std::net::TcpStream::connect("127.0.0.1:6379").is_ok() {
        testkit::say("SKIPPED: there is a server at the default address");
        return;
    }
    for quiet in [&["-q"][..], &[]] {
        let mut run = fairlock();
        let ended = Process::spawn(run.args(["run", "x", "-w", "3"]).args(quiet).args(["--", "true"])).finish();
        assert_eq!(ended.code, 125, "{ended:?}");
        assert_eq!(ended.stderr.matches("tip: this address is the default").count(), 1, "{ended:?}");
    }
}

/// `sudo` and `su` may drop the variable that names it.
#[test]
fn a_verbose_run_names_the_server_without_its_password() {
    let server = RedisServer::builder().plain().tcp().config("requirepass secret").start();
    let place = format!("127.0.0.1:{}", server.port());
    let url = format!("redis://:secret@{place}/");
    let ended = Process::spawn(fairlock().args(["--redis", &url, "run", "-v", "x", "true"])).finish();
    assert!(ended.code == 0 && ended.stderr.starts_with(&format!("fairlock: got x at {place} after ")), "{ended:?}");
    assert!(!ended.stderr.contains("secret"), "{ended:?}");
}
