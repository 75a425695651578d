//! What a run tells while it waits and holds: the lines of a log, `--events`, systemd.

use std::io::{BufRead as _, BufReader};
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use crate::shared::{Process, Redis, Signal, await_state, eventually, signal, temporary};

fn events(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[track_caller]
fn names(events: &[Value]) -> Vec<&str> {
    events.iter().map(|event| event["event"].as_str().unwrap()).collect()
}

#[test]
fn the_events_of_a_run_are_lines_of_json() {
    let redis = Redis::start();
    let (_folder, path) = temporary("events");
    let holder = redis.hold("x", &["--label", "one \u{1b}[2J"]);
    let second = redis.waiter("x", &["--label", "two"], "echo; exec sleep 1000");
    let file = path.to_str().unwrap();
    // It ends when a renewal was told, however late that is.
    let script = format!("echo; sleep 2; until grep -q renewed {file}; do sleep 0.1; done; exit 3");
    let waiter = redis.run("x", &["--lease", "20s", "--events", file], &script);
    let seen = |wanted: &str| {
        eventually(wanted, || path.exists().then(|| events(&path)).filter(|all| names(all).contains(&wanted)))
    };
    seen("position");
    holder.signal(Signal::TERM);
    second.line();
    eventually("the next position", || (names(&events(&path)) == ["queued", "position", "position"]).then_some(()));
    second.signal(Signal::TERM);
    waiter.line();
    assert_eq!(waiter.finish().code, 3);

    let all = events(&path);
    for event in &all {
        let (at, at_ms) = (event["at"].as_str().unwrap(), event["at_ms"].as_u64().unwrap());
        let parsed = humantime::parse_rfc3339(at).unwrap().duration_since(std::time::UNIX_EPOCH).unwrap();
        assert_eq!(u128::from(at_ms), parsed.as_millis(), "the same moment twice: {event}");
        assert!(event["name"] == "x" && event["pid"].is_u64(), "{event}");
    }
    let [queued, first, next, granted, renewals @ .., released] = &all[..] else { panic!("{all:?}") };
    assert_eq!((&queued["event"], queued["ticket"].is_u64()), (&"queued".into(), true), "{queued}");
    assert_eq!((&first["position"], &first["waiting"]), (&2.into(), &2.into()), "{first}");
    assert_eq!(first["holders"][0]["label"], "one \\u{1b}[2J", "as status shows it: {first}");
    assert!(first["holders"][0]["token"].is_u64() && first["holders"][0]["held_for_ms"].is_u64(), "{first}");
    assert_eq!((&next["position"], &next["holders"][0]["label"]), (&1.into(), &"two".into()), "{next}");
    assert_eq!((&granted["event"], granted["waited_ms"].is_u64()), (&"granted".into(), true), "{granted}");
    assert!(!renewals.is_empty() && renewals.iter().all(|event| event["event"] == "renewed"), "{renewals:?}");
    assert!(renewals.iter().all(|event| event["remaining_ms"].is_u64() && event["token"] == granted["token"]));
    assert_eq!((&released["event"], &released["exit_code"]), (&"released".into(), &3.into()), "{released}");
    assert!(released["held_ms"].as_u64() >= Some(2000) && released["token"] == granted["token"], "{released}");
}

#[test]
fn events_go_to_a_descriptor_and_are_appended() {
    let redis = Redis::start();
    let (_folder, path) = temporary("events");
    std::fs::write(&path, "before\n").unwrap();
    let mut run = std::process::Command::new("sh");
    run.env("F", env!("CARGO_BIN_EXE_fairlock")).env("REDIS_URL", redis.url()).env("P", &path);
    let script = "$F run x --events 7 true 7>>$P; $F run x --events 1 true; $F run x --events /no/where true; echo $?";
    let ended = Process::spawn(run.args(["-c", script])).finish();
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(text.starts_with("before\n{") && text.lines().count() == 3, "{text}");
    assert!(ended.stdout.starts_with('{') && ended.stdout.ends_with("}\n125\n"), "{ended:?}");
    assert!(ended.stderr.contains("cannot write events to /no/where: No such file"), "{ended:?}");
}

/// There are more events than the pipe takes, and its reader does not read.
#[test]
fn events_that_nobody_reads_delay_neither_run_nor_command() {
    let redis = Redis::start();
    let (_folder, path) = temporary("events");
    assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
    // Opened for both, it waits for nobody.
    let reader = std::fs::File::options().read(true).write(true).open(&path).unwrap();
    // As small as a pipe can be.
    rustix::pipe::fcntl_setpipe_size(&reader, 4096).unwrap();
    // Each lock gives two events, and together they are more than are kept for a slow reader.
    let others: Vec<String> = (0..700).map(|n| format!("y{n}")).collect();
    let and: Vec<&str> = others.iter().flat_map(|name| ["-a", name]).collect();
    let mut run = redis.fairlock();
    run.args(["run", "y", "--lease", "10m", "--events"]).arg(&path).args(and).args(["--", "echo", "ran"]);
    let ended = Process::spawn(&mut run).finish();
    assert_eq!((ended.code, ended.stdout.as_str()), (0, "ran\n"), "{ended:?}");
    let first = BufReader::new(reader).lines().next().unwrap().unwrap();
    assert!(first.contains("\"event\":\"granted\""), "{first}");
}

/// A monitor that is not there yet is no reason not to run a job.
#[test]
fn a_pipe_without_a_reader_keeps_the_events_for_one_that_comes_later() {
    let redis = Redis::start();
    let (_folder, path) = temporary("events");
    assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
    let file = path.to_str().unwrap();
    let ended = redis.run("x", &["--events", file], "echo ran").finish();
    assert_eq!((ended.code, ended.stdout.as_str(), ended.stderr.as_str()), (0, "ran\n", ""), "{ended:?}");
    let job = redis.run("x", &["--events", file], "echo; exec sleep 1000");
    job.line();
    let reader = std::fs::File::open(&path).unwrap();
    job.signal(Signal::TERM);
    job.finish();
    let told: Vec<Value> =
        BufReader::new(reader).lines().map(|line| serde_json::from_str(&line.unwrap()).unwrap()).collect();
    assert_eq!((names(&told)[0], names(&told).last()), ("granted", Some(&"released")), "{told:?}");
}

#[test]
fn a_holder_warns_before_its_lease_is_lost_and_says_why_it_is() {
    let redis = Redis::start();
    let (_folder, path) = temporary("events");
    // Long, so that a busy machine renews it in time when the server goes on.
    let options = ["--lease", "20s", "--kill-after", "3s", "--events", path.to_str().unwrap()];
    let holder = redis.run("x", &options, "echo $$; exec sleep 1000");
    let command = holder.number();
    redis.stop();
    // The client says too that it connects again.
    let said = |what: &str| std::iter::repeat_with(|| holder.complaint()).find(|said| said.contains(what)).unwrap();
    let warned = || assert!(said("x is ours for ").ends_with(" more"));
    warned();
    // The server goes on before the lease is lost.
    redis.cont();
    said("Redis answers again; the lease on x goes on");
    redis.stop();
    warned();
    // The shim knows the end of the lease too, and must not be the first to end the command and to say why.
    let shim = holder.shim(command);
    signal(shim, Signal::STOP);
    await_state(shim, "T");
    let lost = said("the lease on x is lost: it was not renewed in time");
    assert!(lost.ends_with("; ending the command"), "{lost}");
    redis.cont();
    assert_eq!(holder.finish().code, 123);
    let all = events(&path);
    let mut told = names(&all);
    told.retain(|event| *event != "renewed");
    assert_eq!(told, ["granted", "warned", "warned", "lost"]);
    let warned = all.iter().find(|event| event["event"] == "warned").unwrap();
    assert!(warned["remaining_ms"].is_u64() && warned["cause"].is_string(), "{warned}");
    assert!(all.last().unwrap()["reason"].as_str().unwrap().contains("not renewed in time"), "{all:?}");
}

#[test]
fn systemd_is_told_of_the_wait_and_of_the_grant() {
    let redis = Redis::start();
    let (_folder, path) = temporary("notify");
    let manager = UnixDatagram::bind(&path).unwrap();
    manager.set_read_timeout(Some(Duration::from_secs(90))).unwrap();
    let hear = || {
        let mut message = [0; 4096];
        let length = manager.recv(&mut message).unwrap();
        String::from_utf8_lossy(&message[..length]).into_owned()
    };
    let holder = redis.hold("x", &[]);
    let mut run = redis.fairlock();
    let waiter = Process::spawn(run.env("NOTIFY_SOCKET", &path).args(["run", "x", "--", "sleep", "1000"]));
    // A start that may last longer than systemd waits is reported again and again. The first time the place may not be
    // known yet.
    let is_told = |waiting: &str| {
        assert!(waiting.starts_with("STATUS=waiting for x") && waiting.contains("\nEXTEND_TIMEOUT_USEC="), "{waiting}");
        waiting.starts_with("STATUS=waiting for x: 1st of 1, held ")
    };
    let told = (0..3).filter(|_| is_told(&hear())).count();
    assert!(told >= 2, "{told}");
    holder.signal(Signal::TERM);
    let granted = loop {
        match hear() {
            waiting if waiting.starts_with("STATUS=waiting") => {}
            other => break other,
        }
    };
    assert!(granted.starts_with("READY=1\nSTATUS=holds x (token "), "{granted}");
    waiter.signal(Signal::TERM);
    assert_eq!(hear(), "STOPPING=1");
}
