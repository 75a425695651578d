//! `fairlock status`: one lock and many, in every state, for people, programs and monitors; `fairlock run --no-wait`
//! agrees with it.

use std::fs::File;
use std::process::Stdio;
use std::time::Duration;

use crate::look::{call, objects};
use crate::shared::{Process, RIGHTS_TO_LOOK, Redis, Signal, await_state, eventually, fairlock, hold};
use fairlock::{Client, LockOptions};
use serde_json::Value;
use testkit::{RedisServer, soon};

/// Everything that is reported about a lock: JSON and text of `status`, and the message of a `run --no-wait` that found
/// it taken.
fn told(redis: &Redis, name: &str) -> (serde_json::Value, String, String) {
    let text = redis.fairlock().args(["status", name]).output().unwrap();
    let busy = redis.fairlock().args(["run", name, "--no-wait", "--", "true"]).output().unwrap();
    assert_eq!(busy.status.code(), Some(122), "{busy:?}");
    (redis.state(name), String::from_utf8(text.stdout).unwrap(), String::from_utf8(busy.stderr).unwrap())
}

#[test]
fn a_recovery_is_told_with_its_reason_and_its_length() {
    let redis = Redis::start();
    // The holder hangs, so that it cannot end the recovery, which lasts as long as its lease could have lasted.
    let holder = redis.hold("x", &["--lease", "1h"]);
    let waiter = redis.run("x", &["--label", "the waiter"], "true");
    assert!(waiter.complaint().contains("1st of 1, held "));
    holder.signal(Signal::STOP);
    redis.flush();
    // The waiter is back.
    redis.await_waiting("x", 1);
    let (state, text, busy) = told(&redis, "x");
    assert_eq!((&state["state"], &state["holders"][0]), (&"recovering".into(), &serde_json::Value::Null), "{state}");
    assert!(state["recovering_for_ms"].as_u64().is_some_and(|left| left > 600_000), "{state}");
    assert!(text.starts_with("x  recovering: the server lost data, and grants nothing for up to "), "{text}");
    assert!(busy.contains("x is recovering: the server lost data, and grants nothing for up to "), "{busy}");
    assert!(text.contains("1.  waits ") && text.contains("  the waiter") && busy.contains("1 waiting"), "{text}{busy}");
    assert_eq!(
        waiter.complaint(),
        "fairlock: waiting for x: 1st of 1; nothing is granted yet, because the server lost data"
    );
}

#[tokio::test]
async fn a_lease_that_is_being_broken_is_told() {
    let server = RedisServer::start();
    let client = Client::connect(&server.url()).await.unwrap();
    let lock = client.lock_with("x", LockOptions::new().lease(100 * testkit::SOON)).unwrap();
    let guard = lock.acquire().label("the holder").await.unwrap();
    lock.break_lease(guard.token()).await.unwrap();
    soon(guard.lost()).await;
    // The holder is told, and does not release.
    let redis = Redis::of(server);
    let (state, text, busy) = told(&redis, "x");
    assert_eq!((&state["state"], &state["holders"][0]["broken"]), (&"breaking".into(), &true.into()), "{state}");
    assert!(text.contains(" by the holder\n") && text.contains("was broken") && !text.contains("dies"), "{text}");
    assert!(busy.contains("x is being broken, held ") && busy.contains("by the holder"), "{busy}");
}

#[test]
fn output_that_cannot_be_written_is_a_failure_and_a_closed_pipe_is_not() {
    let redis = Redis::start();
    for options in [&["status", "x"][..], &["status", "x", "--json"]] {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let full = redis.fairlock().args(options).stdout(full).stderr(Stdio::piped()).output().unwrap();
        assert_eq!(full.status.code(), Some(125), "{full:?}");
        assert!(String::from_utf8(full.stderr).unwrap().contains("cannot write to stdout: No space left"));
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let closed = redis.fairlock().args(options).stdout(writer).stderr(Stdio::piped()).output().unwrap();
        assert_eq!((closed.status.code(), closed.stderr.as_slice()), (Some(1), &b""[..]), "it is free: {closed:?}");
    }
}

fn names(objects: &[Value]) -> Vec<&str> {
    objects.iter().map(|object| object["name"].as_str().unwrap()).collect()
}

#[test]
fn locks_are_listed_with_the_oldest_hold_first() {
    let redis = Redis::start();
    assert_eq!(redis.run("over", &[], "true").finish().code, 0);
    let none = call(&redis, &["status"]);
    assert_eq!((none.code, none.stdout.as_str()), (0, ""), "{none:?}");
    assert!(none.stderr.contains("no lock is held or waited for"), "{none:?}");

    let _holders: Vec<Process> = ["z", "ci:b", "ci:a*"].iter().map(|name| hold(&redis, name, "the holder")).collect();
    let _waiter = redis.waiter("z", &[], "true");
    let listed = |words: &[&str]| {
        let ended = call(&redis, &[&["status", "--json"], words].concat());
        let found = objects(&ended.stdout);
        assert_eq!(ended.code, i32::from(found.is_empty() && words.len() == 1), "{ended:?}");
        found
    };
    assert_eq!(names(&listed(&[])), ["z", "ci:b", "ci:a*"]);
    assert_eq!(names(&listed(&["--all"])), ["z", "ci:b", "ci:a*", "over"]);
    // A pattern is for whole names, and shows what is in use.
    for (pattern, found) in [
        ("*i:*", &["ci:b", "ci:a*"][..]),
        ("ci:*", &["ci:b", "ci:a*"]),
        ("?", &["z"]),
        ("i:*", &[]),
        (r"ci:a\*", &["ci:a*"]),
        (r"?i:a\*", &["ci:a*"]),
        ("[xyz]", &["z"]),
        ("over*", &[]),
    ] {
        assert_eq!(names(&listed(&[pattern])), found, "{pattern}");
    }
    assert_eq!(
        names(&listed(&["*", "over", "z"])),
        ["over", "z", "ci:b", "ci:a*"],
        "names as they were given, and once"
    );
    assert_eq!(listed(&["?"])[0]["waiting"], 1);
    assert_eq!(listed(&["--prefix", "other"]), [Value::Null; 0]);
    let text = call(&redis, &["status"]).stdout;
    let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows[0], ["NAME", "STATE", "WAITING", "HOLDER"]);
    assert_eq!(
        (rows[1][0], rows[1][1], rows[1][3], &rows[1][4..]),
        ("z", "held", "1", &["the", "holder"][..]),
        "{text}"
    );
}

#[test]
fn the_exit_code_of_status_tells_held_from_free() {
    let (redis, _holder) = Redis::held("the holder");
    for (names, code) in
        [(&["x"][..], 0), (&["free"], 1), (&["free", "x"], 0), (&["free", "too"], 1), (&["?"], 0), (&["fre?"], 1)]
    {
        for option in [&[][..], &["--json"]] {
            let ended = call(&redis, &[&["status"], names, option].concat());
            assert_eq!(ended.code, code, "{ended:?}");
            assert!(names.iter().all(|name| name.contains('?') || ended.stdout.contains(name)), "{ended:?}");
        }
    }
    let other = call(&redis, &["status", "fre?", "f[aeiou]*"]);
    assert_eq!(other.stderr, "fairlock: no lock that matches fre? f[aeiou]* is held or waited for\n");
    let nowhere = Process::spawn(fairlock().args(["--redis", "unix:///none.sock", "status", "x"])).finish();
    assert_eq!(nowhere.code, 125, "{nowhere:?}");
}

#[test]
fn a_monitor_gets_one_line_and_its_own_exit_codes() {
    let (redis, holder) = Redis::held("the | holder");
    let waiter = redis.waiter("x", &[], "true");
    std::thread::sleep(Duration::from_millis(100));
    for (options, code, says) in [
        (&[][..], 0, "OK - x: held "),
        (&["--max-held", "1h", "--max-wait", "1h", "--max-waiting", "1"], 0, "OK - x: held "),
        (&["--max-held", "50ms"], 2, "CRITICAL - x: held Ns, more than Ns | held="),
        (&["--max-wait", "50ms"], 2, "CRITICAL - x: longest wait Ns, more than Ns |"),
        (&["--max-waiting", "0"], 2, "CRITICAL - x: N waiting, more than N |"),
    ] {
        let ended = call(&redis, &[&["status", "--check", "x", "free"], options].concat());
        assert_eq!(ended.code, code, "{options:?}: {ended:?}");
        let lines: Vec<&str> = ended.stdout.lines().collect();
        assert_eq!((lines.len(), lines[1]), (2, "OK - free: free | held=0s wait=0s waiting=0"));
        // However long the machine takes.
        let line = lines[0].split(|c: char| c.is_ascii_digit()).filter(|part| !part.is_empty());
        let line = line.collect::<Vec<_>>().join("N");
        assert!(line.starts_with(says) && line.matches('|').count() == 1, "{line}");
    }
    for (pattern, says) in [("x*", "OK - x: held "), ("y*", "OK - no lock that matches y* is held or waited for\n")] {
        let ended = call(&redis, &["status", "--check", pattern]);
        assert!(ended.code == 0 && ended.stdout.starts_with(says), "{ended:?}");
    }
    // The holder cannot end the recovery.
    holder.signal(Signal::STOP);
    redis.flush();
    redis.await_waiting("x", 1);
    let recovers = call(&redis, &["status", "--check", "x"]);
    assert_eq!(recovers.code, 1, "{recovers:?}");
    assert!(recovers.stdout.starts_with("WARNING - x: recovering for "), "{recovers:?}");
    drop((holder, waiter));
    let list = call(&redis, &["status", "--check"]);
    assert!(list.stdout.starts_with("WARNING - x: recovering for "), "without a name all locks in use: {list:?}");
    let nowhere = Process::spawn(fairlock().args(["--redis", "unix:///none.sock", "status", "--check", "x"])).finish();
    assert!(nowhere.code == 3 && nowhere.stdout.starts_with("UNKNOWN - no Redis server"), "{nowhere:?}");
}

/// Nothing is granted although the lock has a holder.
#[test]
fn a_monitor_hears_of_a_loss_of_data_also_where_the_holder_is_back() {
    let redis = Redis::of(RedisServer::builder().plain().more_rights(RIGHTS_TO_LOOK).start());
    let _holder = redis.hold("x", &["--lease", "1h", "--label", "the holder"]);
    redis.kill();
    redis.restart();
    let state = eventually("the holder is back", || Some(redis.state("x")).filter(|state| state["state"] == "held"));
    assert!(state["recovering_for_ms"].is_u64(), "{state}");
    let check = call(&redis, &["status", "--check", "x"]);
    assert_eq!(check.code, 1, "{check:?}");
    let said = &check.stdout;
    assert!(said.starts_with("WARNING - x: held ") && said.contains(" by the holder, recovering for "), "{said}");
}

#[tokio::test]
async fn a_long_queue_is_cut_for_people_and_whole_for_programs() {
    let redis = Redis::start();
    let client = Client::connect(&redis.url()).await.unwrap();
    let lock = client.lock_with("x", LockOptions::new()).unwrap();
    let _guard = lock.acquire().await.unwrap();
    let mut waiting = Vec::new();
    for _ in 0..150 {
        waiting.push(lock.enqueue().await.unwrap());
    }
    let text = call(&redis, &["status", "x"]).stdout;
    assert_eq!((text.lines().count(), text.lines().last().unwrap().trim()), (23, "and 130 more"));
    let length = |document: &Value| {
        (document["waiting"].as_u64(), document["shown"].as_u64(), document["queue"].as_array().map(Vec::len))
    };
    assert_eq!(length(&redis.state("x")), (Some(150), Some(150), Some(150)));
    assert_eq!(length(&objects(&call(&redis, &["status", "--json"]).stdout)[0]), (Some(150), Some(100), Some(100)));
}

/// As after a waiter was killed: the server grants it the lock, and it never hears of that.
#[test]
fn a_grant_that_is_not_answered_is_no_hold() {
    let (redis, holder) = Redis::held("the holder");
    assert_eq!(redis.state("x")["holders"][0]["confirmed"], true);
    let dead = redis.waiter("x", &["--label", "the dead"], "true");
    dead.signal(Signal::STOP);
    await_state(dead.id(), "T");
    let next = redis.waiter("x", &["-v", "--label", "the next"], "echo; exec sleep 1000");
    holder.signal(Signal::TERM);
    let status = || {
        let output = redis.fairlock().args(["status", "x"]).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let mut said = String::new();
    testkit::eventually("the dead one is asked", testkit::SOON, || {
        said = status();
        said.contains("x  granted ") && said.contains("s ago to the dead, which has not answered\n")
    });
    assert!(said.contains("; without an answer the next one is asked in "), "{said}");
    assert_eq!(redis.state("x")["holders"][0]["confirmed"], false);
    let list = String::from_utf8(redis.fairlock().arg("status").output().unwrap().stdout).unwrap();
    assert!(list.contains("granted, "), "{list}");
    let busy = redis.run("x", &["-n"], "true").finish();
    assert!(busy.code == 122 && busy.stderr.contains("held by nobody yet: granted "), "{busy:?}");
    // The one behind it sees the same, and is granted the lock.
    testkit::eventually("it says so", testkit::SOON, || next.complaint().contains("s ago to the dead, which has not"));
    next.line();
    assert_eq!(redis.state("x")["holders"][0]["confirmed"], true);
    assert!(status().contains(" by the next\n"));
    dead.signal(Signal::CONT);
}
