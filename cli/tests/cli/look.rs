//! `break`, and the JSON of locks: an operator acts without knowing keys.

use serde_json::Value;
use std::collections::BTreeSet;

use crate::pty::Terminal;
use crate::shared::{Finished, Process, Redis, Signal, hold};

pub(crate) fn call(redis: &Redis, words: &[&str]) -> Finished {
    Process::spawn(redis.fairlock().args(words)).finish()
}

pub(crate) fn objects(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The names in the first column of a table of the page, by the heading of that column.
fn documented(table: &str) -> BTreeSet<String> {
    let page = std::fs::read_to_string(testkit::root().join("docs/command-line.md")).unwrap();
    let rows = page.split(&format!("| {table} |")).nth(1).unwrap().split("\n\n").next().unwrap();
    let cells = rows.lines().skip(2).map(|row| row.split('|').nth(1).unwrap().to_owned());
    cells
        .flat_map(|cell| cell.split(',').map(|name| name.trim().trim_matches('`').to_owned()).collect::<Vec<_>>())
        .collect()
}

#[track_caller]
fn has_fields(object: &Value, table: &str) {
    let fields: BTreeSet<String> = object.as_object().unwrap().keys().cloned().collect();
    assert_eq!(fields, documented(table), "{object}");
}

#[test]
fn json_has_the_documented_fields() {
    let (redis, _holder) = Redis::held("the holder");
    let _waiter = redis.waiter("x", &[], "true");
    let state = redis.state("x");
    has_fields(&state, "field of a lock");
    has_fields(&state["holders"][0], "field of a holder");
    has_fields(&state["queue"][0], "field of a waiter");
    has_fields(&redis.state("free"), "field of a lock");
    for number in [&state["holders"][0]["token"], &state["queue"][0]["ticket"]] {
        assert!(number.as_u64().unwrap() < 1 << 53, "a number that JavaScript reads exactly: {number}");
    }
    // The same moment in two forms.
    let ms = |text: &Value| {
        let time = humantime::parse_rfc3339(text.as_str().unwrap()).unwrap();
        u64::try_from(time.duration_since(std::time::UNIX_EPOCH).unwrap().as_millis()).unwrap()
    };
    let (at, holder) = (state["at_ms"].as_u64().unwrap(), &state["holders"][0]);
    assert_eq!(ms(&state["at"]), at);
    let close = |one: u64, other: u64| assert!(one.abs_diff(other) <= 1, "{state}");
    close(ms(&holder["held_since"]), at - holder["held_for_ms"].as_u64().unwrap());
    close(ms(&holder["ends_at"]), at + holder["remaining_ms"].as_u64().unwrap());
    close(ms(&state["queue"][0]["queued_at"]), at - state["queue"][0]["waited_ms"].as_u64().unwrap());
    let broken = call(&redis, &["break", "x", "--force", "--json"]);
    let document = &objects(&broken.stdout)[0];
    has_fields(document, "field of a break");
    has_fields(&document["before"], "field of a lock");
    assert_eq!(document["outcome"], "ended");
}

#[test]
fn break_names_its_lease_or_is_forced_where_it_cannot_ask() {
    let redis = Redis::start();
    let nothing = call(&redis, &["break", "x"]);
    assert!(nothing.code == 1 && nothing.stderr.contains("x is free: there is nothing to break"), "{nothing:?}");
    let holder = hold(&redis, "x", "the holder");
    let token = redis.state("x")["holders"][0]["token"].to_string();
    let unnamed = call(&redis, &["break", "x"]);
    assert_eq!(unnamed.code, 125, "{unnamed:?}");
    assert!(unnamed.stderr.contains(&format!("with --token {token}, or use --force")), "{unnamed:?}");
    let other = call(&redis, &["break", "x", "--token", "7"]);
    assert!(other.code == 1 && other.stderr.contains("no lease with that token"), "{other:?}");
    assert_eq!(redis.state("x")["holders"][0]["token"].to_string(), token, "no other lease is touched");
    let broken = call(&redis, &["break", "x", "--token", &token]);
    assert_eq!(broken.code, 0, "{broken:?}");
    assert!(broken.stderr.ends_with("the holder let go; x is free\n"), "{broken:?}");
    let ended = holder.finish();
    assert!(ended.code == 123 && ended.stderr.contains("an operator broke it"), "{ended:?}");
}

/// The holder's command takes a second to end, and the break as long.
#[test]
fn the_lock_before_a_break_is_told_as_it_was_then() {
    let redis = Redis::start();
    let holder = redis.run("x", &[], "trap 'sleep 1; exit' TERM; echo; while :; do sleep 0.1; done");
    holder.line();
    let status = redis.state("x");
    let token = status["holders"][0]["token"].to_string();
    let broken = call(&redis, &["break", "x", "--token", &token, "--json"]);
    let document = &objects(&broken.stdout)[0];
    assert_eq!((broken.code, &document["outcome"]), (0, &"released".into()), "{broken:?}");
    let ms = |lock: &Value| lock["at_ms"].as_u64().unwrap();
    let (before, after) = (&document["before"], &document["after"]);
    assert!(ms(after) - ms(before) >= 1000, "{document}");
    let since = |lock: &Value| ms(lock) - lock["holders"][0]["held_for_ms"].as_u64().unwrap();
    assert!(since(before).abs_diff(since(&status)) < 500, "the same grant: {document} {status}");
    holder.finish();
}

#[test]
fn a_holder_that_does_not_answer_keeps_its_lease_to_the_end_unless_it_is_forced() {
    let redis = Redis::start();
    for (lease, force, outcome) in [("12s", &[][..], "expired"), ("1h", &["--force"], "ended")] {
        let holder = redis.hold("x", &["--lease", lease]);
        let token = redis.state("x")["holders"][0]["token"].to_string();
        let next = redis.waiter("x", &[], "echo granted");
        holder.signal(Signal::STOP);
        let broken = call(&redis, &[&["break", "x", "--json", "--token", &token], force].concat());
        let document = &objects(&broken.stdout)[0];
        assert_eq!((broken.code, &document["outcome"]), (0, &outcome.into()), "{broken:?}");
        assert_eq!(document["before"]["holders"][0]["token"].to_string(), token);
        assert_eq!(next.line(), "granted");
        holder.signal(Signal::KILL);
    }
}

#[test]
fn a_forced_break_ends_a_recovery() {
    let redis = Redis::start();
    let holder = redis.hold("x", &["--lease", "1h"]);
    let waiter = redis.waiter("x", &[], "echo granted");
    holder.signal(Signal::STOP);
    redis.flush();
    redis.await_waiting("x", 1);
    let asked = call(&redis, &["break", "x"]);
    assert!(asked.code == 1 && asked.stderr.contains("--force ends the wait for the former one"), "{asked:?}");
    let named = call(&redis, &["break", "x", "--force", "--token", "1"]);
    assert!(named.code == 1 && named.stderr.contains("--force without --token ends the wait"), "{named:?}");
    let forced = call(&redis, &["break", "x", "--force"]);
    assert_eq!(forced.code, 0, "{forced:?}");
    assert_eq!(waiter.line(), "granted");
    holder.signal(Signal::KILL);
}

#[test]
fn at_a_terminal_break_shows_the_holder_and_asks() {
    let (redis, holder) = Redis::held("ops@db1:14380 deploy.sh");
    let mut terminal = Terminal::open(&[("REDIS_URL", &redis.url())]);
    for answer in ["", "n", "no"] {
        let screen = terminal.enter_and_await("clear; $F break x; echo code $?", |screen| screen.contains("[y/N]"));
        assert!(
            screen.starts_with("x is held ") && screen.contains("Break the lease of ops@db1:14380 deploy.sh"),
            "{screen}"
        );
        terminal.enter(answer);
        assert_eq!(terminal.number_after("code "), 1, "{answer:?}");
        assert_eq!(redis.state("x")["state"], "held");
        terminal.expect("PROMPT> ");
    }
    terminal.enter_and_expect("$F break x; echo code $?", "[y/N] ");
    terminal.enter_and_expect("y", "let go; x is free");
    assert_eq!(terminal.number_after("code "), 0);
    assert_eq!(holder.finish().code, 123);
}
