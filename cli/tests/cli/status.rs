//! `fairlock status` and `fairlock run --no-wait` report every state of a lock, and agree.

use std::fs::File;
use std::process::Stdio;

use crate::shared::{Redis, Signal};
use fairlock::{Client, LockOptions};
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
fn status_tells_a_free_lock_from_a_held_one() {
    let redis = Redis::start();
    let state = redis.state("x");
    assert_eq!((&state["state"], &state["recovering_for_ms"]), (&"free".into(), &serde_json::Value::Null), "{state}");
    let holder = redis.run("x", &["--label", "the holder"], "echo; exec sleep 1000");
    holder.line();
    let (state, text, busy) = told(&redis, "x");
    assert_eq!((&state["state"], &state["holder"]["broken"]), (&"held".into(), &false.into()), "{state}");
    assert!(text.contains(" by the holder\n") && text.contains("if the holder dies"), "{text}");
    assert!(busy.contains("x is held ") && busy.contains(" by the holder"), "{busy}");
}

#[test]
fn a_recovery_is_told_with_its_reason_and_its_length() {
    let redis = Redis::start();
    // The holder hangs, so that it cannot end the recovery, which lasts as long as its lease could have lasted.
    let holder = redis.run("x", &["--lease", "1h"], "echo; exec sleep 1000");
    holder.line();
    let waiter = redis.run("x", &["--label", "the waiter"], "true");
    assert!(waiter.complaint().contains("1st of 1, held "));
    holder.signal(Signal::STOP);
    redis.flush();
    // The waiter is back.
    redis.await_waiting("x", 1);
    let (state, text, busy) = told(&redis, "x");
    assert_eq!((&state["state"], &state["holder"]), (&"recovering".into(), &serde_json::Value::Null), "{state}");
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
    assert_eq!((&state["state"], &state["holder"]["broken"]), (&"breaking".into(), &true.into()), "{state}");
    assert!(text.contains(" by the holder\n") && text.contains("was broken") && !text.contains("dies"), "{text}");
    assert!(busy.contains("x is held ") && busy.contains("by the holder"), "{busy}");
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

#[test]
fn runs_with_another_prefix_use_other_locks() {
    let redis = Redis::start();
    let holder = redis.run("x", &["--prefix", "other"], "echo; exec sleep 1000");
    holder.line();
    assert_eq!(redis.state("x")["state"], "free");
    let output = redis.fairlock().args(["status", "x", "--json", "--prefix", "other"]).output().unwrap();
    let state: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(state["state"], "held");
}
