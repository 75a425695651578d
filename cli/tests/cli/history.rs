//! `fairlock history`: the grants of a lock as a timeline, a page and JSON.

use std::process::Output;

use crate::shared::{Redis, Signal, temporary};

fn history(redis: &Redis, words: &[&str]) -> Output {
    redis.fairlock().arg("history").args(words).output().unwrap()
}

#[track_caller]
fn printed(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// A lock that is recorded: released once, then expired, then waited for and released, then held.
fn eventful() -> (Redis, crate::shared::Process) {
    let redis = Redis::start();
    let on = history(&redis, &["deploy <1>", "on"]);
    assert_eq!(on.stderr, b"fairlock: the grants of deploy <1> are recorded from now on\n");
    assert_eq!(redis.run("deploy <1>", &["--label", "first & \"quick\""], "true").finish().code, 0);
    let dead = redis.hold("deploy <1>", &["--label", "日本 \u{1b}[2J", "--lease", "12s"]);
    let waiter = redis.run("deploy <1>", &["--label", "<script>alert(1)</script>"], "true");
    redis.await_waiting("deploy <1>", 1);
    dead.signal(Signal::STOP);
    assert_eq!(waiter.finish().code, 0);
    dead.signal(Signal::CONT);
    let holder = redis.hold("deploy <1>", &["--label", "the present"]);
    (redis, holder)
}

#[test]
fn timeline_page_and_json_show_the_same_grants() {
    if testkit::run::lacks("a history", (6, 2)) {
        return;
    }
    let (redis, _holder) = eventful();
    let text = printed(&history(&redis, &["deploy <1>"]));
    let rows: Vec<&str> = text.lines().skip(5).take(4).collect();
    assert!(text.starts_with("deploy <1>: 4 grants in ") && text.contains("GRANTED  LABEL"), "{text}");
    for (row, (label, end)) in rows.iter().zip([
        ("first & \"quick\"", " released "),
        (r"日本 \u{1b}[2J", " expired "),
        ("<script>alert(1)</sc", " released "),
        ("the present", " held "),
    ]) {
        assert!(row.contains(label) && row.contains(end) && row.contains('█'), "{text}");
    }
    assert!(rows[2].contains('░'), "it waited for the second: {text}");

    let document: serde_json::Value =
        serde_json::from_str(&printed(&history(&redis, &["deploy <1>", "--json"]))).unwrap();
    let grants = document["grants"].as_array().unwrap();
    let ends: Vec<&str> = grants.iter().map(|grant| grant["end"].as_str().unwrap()).collect();
    assert_eq!(
        (ends, &document["recorded"]),
        (vec!["held", "released", "expired", "released"], &true.into()),
        "{document:#}"
    );
    let tokens: Vec<u64> = grants.iter().map(|grant| grant["token"].as_u64().unwrap()).collect();
    assert!(tokens.is_sorted_by(|later, earlier| later > earlier), "the latest first: {document:#}");
    assert!(grants[0]["granted_at"].as_str().unwrap().ends_with('Z'), "{document:#}");
    assert!(grants[2]["held_ms"].as_u64() >= Some(500), "{document:#}");
    assert!(grants[0]["waited_ms"].is_null() && grants[1]["waited_ms"].is_u64(), "nobody knows of the present one");
    let two = history(&redis, &["deploy <1>", "--json", "--count", "2"]);
    let two: serde_json::Value = serde_json::from_str(&printed(&two)).unwrap();
    let latest: Vec<u64> = two["grants"].as_array().unwrap().iter().map(|one| one["token"].as_u64().unwrap()).collect();
    assert_eq!(latest[..], tokens[..2], "the present one is one of two");

    let (_folder, path) = temporary("deploy.html");
    printed(&history(&redis, &["deploy <1>", "--out", path.to_str().unwrap()]));
    let page = std::fs::read_to_string(&path).unwrap();
    assert!(page.contains("<h1>deploy &lt;1&gt;</h1>") && page.contains("first &amp; &quot;quick&quot;"), "{page}");
    assert!(page.contains("prefers-color-scheme: dark") && page.matches("<g><title>").count() == 4, "{page}");
    assert!(page.contains("&lt;script&gt;alert(1)&lt;/script&gt;") && !page.contains("<script"), "{page}");
    assert!(!page.contains("http") && !page.contains("src="), "it needs nothing else: {page}");
    assert_eq!(printed(&history(&redis, &["deploy <1>", "--out", "-", "--count", "1"])).matches("<g>").count(), 1);
}

#[test]
fn a_lock_without_records_says_how_to_switch_them_on() {
    if testkit::run::lacks("a history", (6, 2)) {
        return;
    }
    let redis = Redis::start();
    let none = history(&redis, &["x"]);
    assert_eq!(none.status.code(), Some(1));
    let said = "fairlock: no grants of x are recorded; to record them: fairlock history x on\n";
    assert_eq!(String::from_utf8(none.stderr).unwrap(), said);
    let json = history(&redis, &["x", "--json"]);
    assert_eq!(json.status.code(), Some(1));
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!((&json["recorded"], json["grants"].as_array().unwrap().len()), (&false.into(), 0));
    printed(&history(&redis, &["x", "on"]));
    let empty = history(&redis, &["x"]);
    assert!(empty.status.success() && String::from_utf8(empty.stderr).unwrap().contains("was not granted"));
    assert_eq!(redis.run("x", &[], "true").finish().code, 0);
    assert!(printed(&history(&redis, &["x"])).starts_with("x: 1 grant in "));
    printed(&history(&redis, &["x", "off"]));
    assert_eq!(history(&redis, &["x"]).status.code(), Some(1));
    let full = history(&redis, &["x", "on", "--json"]);
    assert_eq!(full.status.code(), Some(125));
}
