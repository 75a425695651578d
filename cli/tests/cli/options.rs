//! The options of `fairlock run` that `flock` has too, and the variables that stand for options.

use std::time::{Duration, Instant};

use crate::pty::Terminal;
use crate::shared::{Finished, Process, Redis, Signal, hold, temporary, with_time_to_queue};
use testkit::RedisServer;

/// `fairlock run x WORDS…`
fn run(redis: &Redis, words: &[&str]) -> Finished {
    with(redis, &[], words)
}

/// The same with these variables.
fn with(redis: &Redis, variables: &[(&str, &str)], words: &[&str]) -> Finished {
    Process::spawn(redis.fairlock().envs(variables.iter().copied()).args(["run", "x"]).args(words)).finish()
}

fn held() -> (Redis, Process) {
    let (redis, holder) = Redis::held("the holder");
    (redis, holder)
}

#[test]
fn a_command_needs_no_dashes_and_keeps_its_own_options() {
    let redis = Redis::start();
    for words in [&["printf", "%s|", "-n", "--", "-v"][..], &["-n", "--", "printf", "%s|", "-n", "--", "-v"]] {
        let ended = run(&redis, words);
        assert_eq!((ended.code, ended.stdout.as_str()), (0, "-n|--|-v|\n"), "{ended:?}");
    }
    let line = run(&redis, &["-c", "echo a | tr a b && echo \"$FAIRLOCK_NAME\""]);
    assert_eq!(line.stdout, "b\nx\n", "{line:?}");
    let waited = run(&redis, &["sh", "-c", "echo $FAIRLOCK_WAITED_MS"]).stdout;
    assert!(waited.trim().parse::<u64>().is_ok(), "{waited}");
}

#[test]
fn times_are_seconds_or_have_a_unit_and_zero_does_not_wait() {
    let (redis, _holder) = held();
    for option in ["-t", "-w", "--timeout", "--wait"] {
        for time in ["0", "0s"] {
            let ended = run(&redis, &[option, time, "true"]);
            assert_eq!(ended.code, 122, "{option} {time}: {ended:?}");
        }
        for unit in ["", "s"] {
            let ended = with_time_to_queue(|seconds| run(&redis, &[option, &format!("{seconds}{unit}"), "true"]));
            assert_eq!(ended.code, 124, "{option} {unit}: {ended:?}");
        }
    }
}

#[test]
fn a_conflict_has_the_exit_code_that_was_asked_for() {
    let (redis, _holder) = held();
    for (words, code) in [
        (&["-n", "true"][..], 122),
        (&["-n", "-E", "0", "true"], 0),
        (&["--nonblock", "--conflict-exit-code", "75", "true"], 75),
        (&["-E", "256", "true"], 125),
        // Another failure keeps its code.
        (&["-n", "-E", "0", "no-such-command"], 127),
    ] {
        assert_eq!(run(&redis, words).code, code, "{words:?}");
    }
    let late = with_time_to_queue(|seconds| run(&redis, &["-w", &seconds.to_string(), "-E", "1", "true"]));
    assert_eq!(late.code, 1, "{late:?}");
}

/// Cron mails whatever is printed.
#[test]
fn a_quiet_run_says_nothing_of_waits_and_busy_locks() {
    let (redis, holder) = held();
    let late = with_time_to_queue(|seconds| run(&redis, &["-q", "-w", &seconds.to_string(), "true"]));
    for ended in [run(&redis, &["-qn", "true"]), late] {
        assert!(matches!(ended.code, 122 | 124) && ended.stderr.is_empty(), "{ended:?}");
    }
    let waiter = redis.waiter("x", &["-q"], "echo ran");
    // Longer than a wait that is not reported.
    std::thread::sleep(std::time::Duration::from_millis(500));
    holder.signal(Signal::TERM);
    let ended = waiter.finish();
    assert_eq!((ended.code, ended.stdout.as_str(), ended.stderr.as_str()), (0, "ran\n", ""));
    assert!(!run(&redis, &["-q", "no-such-command"]).stderr.is_empty(), "a failure is no wait");
    // Not at a terminal either.
    let _holder = redis.hold("x", &[]);
    let mut terminal = Terminal::open(&[("REDIS_URL", &redis.url())]);
    let said = terminal.command("$F run -q -t 5 x true; echo code $?");
    assert_eq!(said.trim(), "code 124");
}

#[test]
fn the_connection_the_label_and_the_lease_may_come_from_the_environment() {
    let (redis, _holder) = held();
    let code = |variables: &[(&str, &str)], words: &[&str]| with(&redis, variables, words).code;
    assert_eq!(code(&[("FAIRLOCK_LEASE", ""), ("FAIRLOCK_LOCAL", "")], &["-n", "true"]), 122, "a crontab cannot unset");
    assert_eq!(code(&[("FAIRLOCK_PREFIX", "other")], &["true"]), 0, "another prefix, another lock");
    // The command line counts more.
    assert_eq!(code(&[("FAIRLOCK_LEASE", "soon")], &["-n", "--lease", "1s", "true"]), 122);
    let here = redis.url();
    assert_eq!(
        code(&[("FAIRLOCK_LOCAL", "1"), ("FAIRLOCK_LOCAL_DIR", "/nowhere")], &["-n", "--redis", &here, "true"]),
        122
    );
    // These say what is locked and what runs, and what they are set to comes from the run outside.
    let inherited =
        [("FAIRLOCK_NAME", "y"), ("FAIRLOCK_TOKEN", "7"), ("FAIRLOCK_WAITED_MS", "7"), ("FAIRLOCK_SHELL", "1")];
    assert_eq!(code(&inherited, &["-n", "true"]), 122);
    let wrong = with(&redis, &[("FAIRLOCK_LEASE", "soon")], &["true"]);
    assert_eq!(wrong.code, 125);
    assert!(wrong.stderr.contains("the value comes from the variable FAIRLOCK_LEASE"), "{wrong:?}");
    let wrong = with(&redis, &[("FAIRLOCK_TIMEOUT", "soon")], &["-w", "soon", "true"]);
    assert!(wrong.code == 125 && !wrong.stderr.contains("FAIRLOCK_TIMEOUT"), "not a variable: {wrong:?}");
}

/// A job that runs another one does not decide for it whether it waits, what it is called and what its failure counts.
#[test]
fn a_job_does_not_inherit_the_options_of_the_run_around_it() {
    let redis = Redis::start();
    let held = hold(&redis, "inner", "the holder");
    let run = |variables: &[(&str, &str)], line: &str| {
        let mut run = redis.fairlock();
        run.env("F", env!("CARGO_BIN_EXE_fairlock")).envs(variables.iter().copied());
        Process::spawn(run.args(["run", "x", "-c", line]))
    };
    // These are no variables of fairlock any more: it would leave the job out, silently.
    let options = [("FAIRLOCK_NO_WAIT", "1"), ("FAIRLOCK_CONFLICT_EXIT_CODE", "0"), ("FAIRLOCK_QUIET", "1")];
    let job = run(&options, "$F run inner echo it ran");
    assert!(job.complaint().contains("waiting for inner"));
    held.signal(Signal::TERM);
    assert_eq!(job.line(), "it ran");
    let mine = [("FAIRLOCK_LABEL", "mine"), ("FAIRLOCK_LEASE", "1h")];
    let line = "$F status x; $F run inner -- $F status inner; env";
    let seen = run(&mine, line).finish().stdout;
    assert!(seen.contains("by mine") && seen.matches("by mine").count() == 1, "{seen}");
    assert!(!seen.contains("FAIRLOCK_LABEL=") && !seen.contains("FAIRLOCK_LEASE="), "{seen}");
    assert!(seen.contains("FAIRLOCK_NAME=x") && seen.contains("REDIS_URL="), "{seen}");
}

/// The job was not disturbed, so cron needs no mail.
#[test]
fn a_quiet_run_says_nothing_of_an_outage_that_it_survived() {
    let server = RedisServer::builder().plain().appendonly().config("maxmemory-policy allkeys-lru").start();
    let redis = Redis::of(server);
    for (options, is_told) in [(&["-q"][..], false), (&[], true)] {
        let lease = ["--lease", "20s"];
        let (_folder, fifo) = temporary("fifo");
        assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
        let script = format!("echo; read line < {}; echo done", fifo.display());
        let job = redis.run("x", &[options, &lease].concat(), &script);
        job.line();
        redis.kill();
        redis.restart();
        let remaining = || Some(Duration::from_millis(redis.state("x")["holders"][0]["remaining_ms"].as_u64()?));
        // The server answers before the clock is read here, and below after it: only a renewal moves the end.
        let before = remaining().unwrap_or_default();
        let ends = Instant::now() + before;
        testkit::eventually("the lease is renewed again", testkit::SOON, || {
            let now = Instant::now();
            remaining().is_some_and(|remaining| now + remaining > ends)
        });
        std::fs::write(&fifo, "go on\n").unwrap();
        let ended = job.finish();
        assert_eq!((ended.code, ended.stdout.as_str()), (0, "done\n"), "{ended:?}");
        assert_eq!(ended.stderr.contains("maxmemory-policy") || ended.stderr.contains("connect"), is_told, "{ended:?}");
        assert!(is_told || ended.stderr.is_empty(), "{ended:?}");
    }
}

/// The server answers, and refuses: that is no silence.
#[test]
fn a_full_server_is_said_to_be_full_with_what_to_do() {
    let server = RedisServer::builder().plain().start();
    let mut operator = server.raw();
    let redis = Redis::of(server);
    let mut allow = |bytes| redis::cmd("CONFIG").arg("SET").arg("maxmemory").arg(bytes).exec(&mut operator).unwrap();
    allow("1");
    let full = "the server's memory is full, so it refuses new locks: raise its maxmemory, or remove other data";
    // The end of a wait does not hide what the server said: the client then leaves a queue in which it never was. The
    // answer to that comes early in some of these calls.
    let calls: Vec<Process> = (0..8)
        .flat_map(|_| [&["-n"][..], &["-q", "-w", "15s"]])
        .map(|options| redis.run("x", options, "echo it ran"))
        .collect();
    for call in calls {
        let ended = call.finish();
        assert_eq!(ended.code, 125);
        assert!(ended.stderr.trim_end().ends_with(full) && ended.stderr.lines().count() == 1, "{ended:?}");
    }
    let waits = redis.run("x", &["-w", "1h"], "echo it ran");
    assert_eq!(waits.complaint(), format!("fairlock: {full}; trying again"));
    allow("0");
    assert_eq!(waits.line(), "it ran");
}

/// It answers, and refuses. The client connects anew, but no connection was lost.
#[test]
fn a_server_without_its_replicas_is_said_to_lack_them_and_nothing_else() {
    let redis = Redis::of(RedisServer::builder().plain().config("min-replicas-to-write 1").start());
    let why = "the server has too few replicas to take changes (min-replicas-to-write): start them again";
    let asked = Instant::now();
    let ended = run(&redis, &["-n", "-w", "1h", "true"]);
    let took = asked.elapsed();
    assert_eq!((ended.code, ended.stderr), (125, format!("fairlock: {why}\n")));
    // Five seconds, and as long again for a slow machine.
    assert!(took < Duration::from_secs(10), "{took:?}");
    let waits = redis.run("x", &["-w", "1h"], "true");
    assert_eq!(waits.complaint(), format!("fairlock: {why}; trying again"));
}

#[test]
fn a_wrong_call_is_told_what_to_do_instead() {
    let redis = Redis::start();
    for (words, code, tip) in [
        (&["run", "x", "echo a | cat"][..], 127, "tip: a shell line needs --shell, or: -- sh -c '…'"),
        (&["run", "x"], 125, "tip: to hold a lock without a command: fairlock hold NAME"),
        (&["run", "x", "-Z", "true"], 125, "unexpected argument '-Z' found\n\nUsage"),
        (&["run", "x", "--permits", "4", "true"], 125, "tip: --slots N lets up to N jobs hold the lock"),
        (&["run", "--count", "4", "x", "true"], 125, "tip: --slots N lets"),
        (&["run", "-j", "4", "x", "true"], 125, "tip: --slots N lets"),
        (&["hold", "x", "-j4", "--fd", "9"], 125, "tip: --slots N lets"),
        (&["run", "x", "-n", "4", "true"], 127, "tip: -n is --no-wait; --slots 4 lets up to 4 jobs hold the lock"),
        (&["run", "-n", "4", "x", "true"], 127, "tip: -n is --no-wait; --slots 4 lets up to 4 jobs hold the lock"),
        (&["run", "x", "--read", "true"], 125, "tip: --shared is for a reader, and without it the job is a writer"),
        (&["run", "--write", "x", "true"], 125, "tip: --shared is for a reader"),
        (&["wait", "--reader", "x"], 125, "tip: --shared is for a reader"),
        (
            &["status", "--slots", "2"],
            125,
            "tip: --slots is for run, hold and wait; status shows how many may hold a lock",
        ),
        (&["history", "-s", "x"], 125, "tip: -s is for run, hold and wait"),
        (&["break", "x", "--slots", "2"], 125, "tip: a similar argument exists: '--slot'"),
        (&["--slots", "2", "x", "true"], 125, "fairlock run --slots … NAME COMMAND"),
        (
            &["run", "x", "-t", "soon", "true"],
            125,
            "invalid value 'soon' for '--timeout <TIME>': no time: give seconds",
        ),
        (&["run", "x", "-w", "-5", "true"], 125, "unexpected argument '-5' found\n\nUsage"),
        (&["run", "x", "-w", "inf", "true"], 125, "must be at most 366 days; without the option it waits for ever"),
        (&["run", "x", "-w", "400d", "true"], 125, "must be at most 366 days; without the option it waits for ever"),
        (&["run", "x", "-w", "nan", "true"], 125, "no time: give seconds"),
        (&["run", "x", "--lease", "1e99", "true"], 125, "longer than can be counted"),
        (&["run", "x", "--local", "--redis", "redis://127.0.0.1/", "true"], 125, "cannot be used with '--local'"),
        (&["run", "x", "--local", "--user", "me", "true"], 125, "'--user' cannot be used with '--local'"),
        (&["status", "--local", "--password-file", "f"], 125, "'--password-file' cannot be used with '--local'"),
        (&["satus"], 125, "tip: a similar subcommand is status; to run a command under the lock satus"),
        (&["list"], 125, "tip: fairlock status shows which locks there are"),
        (&["x", "true"], 125, "to run a command under the lock x: fairlock run x COMMAND"),
        (&["-n", "sync", "crit"], 125, "tip: options of run come behind it, as in: fairlock run -n … NAME COMMAND"),
        (&["-w", "10", "f", "cmd"], 125, "fairlock run -w … NAME COMMAND"),
        (&["--json", "status"], 125, "tip: 'status --json' exists"),
        (&["--foo", "status"], 125, "unexpected argument '--foo' found\n\nUsage"),
        (&["local", "foo"], 125, "unrecognized subcommand 'foo'\n\nUsage"),
        (&["--prefx", "x", "status"], 125, "tip: a similar argument exists: '--prefix'"),
        (&["unlock", "x"], 125, "tip: a lock is released when its command or script ends"),
        (&["downgrade", "x"], 125, "tip: no command makes a reader of a writer"),
        (&["upgrade", "x"], 125, "or a writer of a reader: end it, and start the other one"),
        (&["--redis", "localhost:6379", "status"], 125, "tip: did you mean redis://localhost:6379?"),
        (&["--redis", "::1", "status"], 125, "tip: did you mean redis://[::1]?"),
        (&["--redis", "unix:/run/s", "status"], 125, "tip: did you mean unix:///run/s?"),
    ] {
        let ended = Process::spawn(redis.fairlock().args(words)).finish();
        assert_eq!((ended.code, ended.stdout.as_str()), (code, ""), "{words:?}: {ended:?}");
        assert!(ended.stderr.contains(tip) && !ended.stderr.contains("as a value, use '--"), "{words:?}: {ended:?}");
        let tips = ended.stderr.matches("tip:").count();
        assert!(tips <= 1, "{words:?}: {ended:?}");
    }
}

#[test]
fn a_timeout_that_is_too_short_to_ask_is_no_fault_of_the_server() {
    let redis = Redis::start();
    let ended = run(&redis, &["-w", "0.0001", "true"]);
    // A server that is quicker grants it.
    let late = "fairlock: x was not granted within 100us: the time was over before it had a place in the queue\n";
    assert!(ended.code == 0 || (ended.code, ended.stderr.as_str()) == (125, late), "{ended:?}");
}

#[test]
fn an_argument_that_is_not_utf_8_is_named_and_those_of_the_command_are_passed_on() {
    use std::{ffi::OsStr, os::unix::ffi::OsStrExt as _};
    let redis = Redis::start();
    let odd = OsStr::from_bytes(b"caf\xe9");
    let words = |line: &'static str| {
        line.split(' ').map(|word| match word.strip_suffix("ODD") {
            Some(before) => [before.as_ref(), odd].join(OsStr::new("")),
            None => word.into(),
        })
    };
    let own = "not valid UTF-8: names, labels and options must be";
    for (line, says) in [
        ("run ODD true", "the argument 'caf\u{fffd}' is"),
        ("run x -l ODD printf ODD", "the argument 'caf\u{fffd}' is"),
        ("--password-file ODD run x --label=ODD true", "the argument '--label=caf\u{fffd}' is"),
        ("status ODD", "the argument 'caf\u{fffd}' is"),
    ] {
        let ended = Process::spawn(redis.fairlock().args(words(line))).finish();
        assert!(ended.code == 125 && ended.stderr.contains(&format!("{says} {own}")), "{line}: {ended:?}");
    }
    let ended = Process::spawn(redis.fairlock().env("FAIRLOCK_LABEL", odd).args(words("run x true"))).finish();
    assert!(ended.code == 125 && ended.stderr.contains(&format!("the variable FAIRLOCK_LABEL is {own}")), "{ended:?}");
    let mut run = redis.fairlock();
    let run = run.env("ODD", odd).args(words("run x sh -c")).arg("printf %s:%s \"$0\" \"$ODD\" | od -An -tx1").arg(odd);
    assert_eq!(Process::spawn(run).finish().stdout.trim(), "63 61 66 e9 3a 63 61 66 e9");
}
