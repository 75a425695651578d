//! `status`, `wait` and `break`: an operator acts without knowing keys.

use std::collections::BTreeSet;
use std::time::Duration;

use fairlock::{Client, LockOptions};
use serde_json::Value;

use crate::pty::Terminal;
use crate::shared::{Finished, Process, RIGHTS_TO_LOOK, Redis, Signal, eventually, fairlock, hold};

fn call(redis: &Redis, words: &[&str]) -> Finished {
    Process::spawn(redis.fairlock().args(words)).finish()
}

fn objects(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
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
    let _waiter = redis.run("z", &[], "true");
    redis.await_waiting("z", 1);
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
    let text = call(&redis, &["list"]).stdout;
    assert_eq!(call(&redis, &["status"]).stdout.lines().count(), text.lines().count(), "list is another word for it");
    let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows[0], ["NAME", "STATE", "WAITING", "HOLDER"]);
    assert_eq!(
        (rows[1][0], rows[1][1], rows[1][3], &rows[1][4..]),
        ("z", "held", "1", &["the", "holder"][..]),
        "{text}"
    );
}

#[test]
fn all_nodes_of_a_cluster_are_listed() {
    let cluster = testkit::Cluster::builder().each(|node| node.more_rights(RIGHTS_TO_LOOK)).start();
    let client = Client::connect(&cluster.url()).blocking().unwrap();
    let names: Vec<String> = (0..20).map(|n| format!("lock {n}")).collect();
    let hold = |name: &String| {
        std::thread::sleep(Duration::from_millis(50));
        client.lock(name).unwrap().acquire().blocking().unwrap()
    };
    let _guards: Vec<_> = names.iter().map(hold).collect();
    eventually("the oldest first, whichever node has it", || {
        let ended = Process::spawn(fairlock().args(["--redis", &cluster.url(), "status", "--json"])).finish();
        let listed: Vec<String> =
            objects(&ended.stdout).iter().map(|lock| lock["name"].as_str().unwrap().to_owned()).collect();
        assert_eq!(listed.iter().collect::<BTreeSet<_>>(), names.iter().collect(), "each of them once: {listed:?}");
        // The nodes are looked at one after the other, so locks of nearly one age may change places, and on a machine
        // that stands still meanwhile more of them.
        let place = |name: &String| listed.iter().position(|listed| listed == name);
        names.iter().zip(&names[10..]).all(|(old, new)| place(old) < place(new)).then_some(())
    });
}

#[test]
fn a_server_of_another_kind_than_the_url_says_is_named() {
    let server = testkit::RedisServer::builder().plain().tcp().start();
    let port = server.port();
    for (url, said) in [
        (format!("redis+sentinel://127.0.0.1:{port}/main"), "not a sentinel"),
        (format!("redis+cluster://127.0.0.1:{port}"), "not a node of a cluster"),
    ] {
        let ended = Process::spawn(fairlock().args(["--redis", &url, "status"])).finish();
        assert!(ended.code == 125 && ended.stderr.contains(said), "{url}: {ended:?}");
    }
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
    let redis = Redis::start();
    let _holder = hold(&redis, "x", "the holder");
    let _waiter = redis.run("x", &[], "true");
    redis.await_waiting("x", 1);
    let state = redis.state("x");
    has_fields(&state, "field of a lock");
    has_fields(&state["holder"], "field of a holder");
    has_fields(&state["queue"][0], "field of a waiter");
    has_fields(&redis.state("free"), "field of a lock");
    for number in [&state["holder"]["token"], &state["queue"][0]["ticket"]] {
        assert!(number.as_u64().unwrap() < 1 << 53, "a number that JavaScript reads exactly: {number}");
    }
    // The same moment in two forms.
    let ms = |text: &Value| {
        let time = humantime::parse_rfc3339(text.as_str().unwrap()).unwrap();
        u64::try_from(time.duration_since(std::time::UNIX_EPOCH).unwrap().as_millis()).unwrap()
    };
    let (at, holder) = (state["at_ms"].as_u64().unwrap(), &state["holder"]);
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
fn the_exit_code_of_status_tells_held_from_free() {
    let redis = Redis::start();
    let _holder = hold(&redis, "x", "the holder");
    for (names, code) in
        [(&["x"][..], 0), (&["free"], 1), (&["free", "x"], 0), (&["free", "too"], 1), (&["?"], 0), (&["fre?"], 1)]
    {
        for option in [&[][..], &["--json"]] {
            let ended = call(&redis, &[&["status"], names, option].concat());
            assert_eq!(ended.code, code, "{ended:?}");
            assert!(names.iter().all(|name| name.contains('?') || ended.stdout.contains(name)), "{ended:?}");
        }
    }
    let nowhere = Process::spawn(fairlock().args(["--redis", "unix:///none.sock", "status", "x"])).finish();
    assert_eq!(nowhere.code, 125, "{nowhere:?}");
}

#[test]
fn a_monitor_gets_one_line_and_its_own_exit_codes() {
    let redis = Redis::start();
    let holder = hold(&redis, "x", "the | holder");
    let waiter = redis.run("x", &[], "true");
    redis.await_waiting("x", 1);
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
    for (pattern, says) in [("x*", "OK - x: held "), ("y*", "OK - no lock is held or waited for\n")] {
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
    let nowhere = Process::spawn(fairlock().args(["--redis", "unix:///none.sock", "status", "--check", "x"])).finish();
    assert!(nowhere.code == 3 && nowhere.stdout.starts_with("UNKNOWN - no Redis server"), "{nowhere:?}");
}

#[test]
fn wait_ends_when_the_lock_is_free_and_takes_nothing() {
    let redis = Redis::start();
    assert_eq!(call(&redis, &["wait", "x"]).code, 0);
    let holder = hold(&redis, "x", "the holder");
    let late = call(&redis, &["wait", "x", "-t", "0.3"]);
    assert!(late.code == 124 && late.stderr.contains("x is held ") && late.stderr.contains("the holder"), "{late:?}");
    let token = redis.state("x")["holder"]["token"].to_string();
    let next = redis.run("x", &[], "echo; exec sleep 1000");
    redis.await_waiting("x", 1);
    let of_this = Process::spawn(redis.fairlock().args(["wait", "x", "--token", &token]));
    let of_all = Process::spawn(redis.fairlock().args(["wait", "x", "--json"]));
    holder.signal(Signal::TERM);
    next.line();
    assert_eq!(of_this.finish().code, 0, "that lease is over");
    assert_eq!(redis.state("x")["waiting"], 0, "nobody who waits so stands in the queue");
    next.signal(Signal::TERM);
    let ended = of_all.finish();
    assert_eq!((ended.code, &objects(&ended.stdout)[0]["state"]), (0, &"free".into()), "{ended:?}");
}

#[test]
fn break_names_its_lease_or_is_forced_where_it_cannot_ask() {
    let redis = Redis::start();
    let nothing = call(&redis, &["break", "x"]);
    assert!(nothing.code == 1 && nothing.stderr.contains("x is free: there is nothing to break"), "{nothing:?}");
    let holder = hold(&redis, "x", "the holder");
    let token = redis.state("x")["holder"]["token"].to_string();
    let unnamed = call(&redis, &["break", "x"]);
    assert_eq!(unnamed.code, 125, "{unnamed:?}");
    assert!(unnamed.stderr.contains(&format!("with --token {token}, or use --force")), "{unnamed:?}");
    let other = call(&redis, &["break", "x", "--token", "7"]);
    assert!(other.code == 1 && other.stderr.contains("no lease with that token"), "{other:?}");
    assert_eq!(redis.state("x")["holder"]["token"].to_string(), token, "no other lease is touched");
    let broken = call(&redis, &["break", "x", "--token", &token]);
    assert_eq!(broken.code, 0, "{broken:?}");
    assert!(broken.stderr.ends_with("the holder let go; x is free\n"), "{broken:?}");
    let ended = holder.finish();
    assert!(ended.code == 123 && ended.stderr.contains("an operator broke it"), "{ended:?}");
}

#[test]
fn a_holder_that_does_not_answer_keeps_its_lease_to_the_end_unless_it_is_forced() {
    let redis = Redis::start();
    for (lease, force, outcome) in [("5s", &[][..], "expired"), ("1h", &["--force"], "ended")] {
        let holder = redis.run("x", &["--lease", lease], "echo; exec sleep 1000");
        holder.line();
        let token = redis.state("x")["holder"]["token"].to_string();
        let next = redis.run("x", &[], "echo granted");
        redis.await_waiting("x", 1);
        holder.signal(Signal::STOP);
        let broken = call(&redis, &[&["break", "x", "--json", "--token", &token], force].concat());
        let document = &objects(&broken.stdout)[0];
        assert_eq!((broken.code, &document["outcome"]), (0, &outcome.into()), "{broken:?}");
        assert_eq!(document["before"]["holder"]["token"].to_string(), token);
        assert_eq!(next.line(), "granted");
        holder.signal(Signal::KILL);
    }
}

#[test]
fn a_forced_break_ends_a_recovery() {
    let redis = Redis::start();
    let holder = redis.run("x", &["--lease", "1h"], "echo; exec sleep 1000");
    holder.line();
    let waiter = redis.run("x", &[], "echo granted");
    redis.await_waiting("x", 1);
    holder.signal(Signal::STOP);
    redis.flush();
    redis.await_waiting("x", 1);
    let asked = call(&redis, &["break", "x"]);
    assert!(asked.code == 1 && asked.stderr.contains("--force ends the wait for the former one"), "{asked:?}");
    let forced = call(&redis, &["break", "x", "--force"]);
    assert_eq!(forced.code, 0, "{forced:?}");
    assert_eq!(waiter.line(), "granted");
    holder.signal(Signal::KILL);
}

#[test]
fn at_a_terminal_break_shows_the_holder_and_asks() {
    let redis = Redis::start();
    let holder = hold(&redis, "x", "ops@db1:14380 deploy.sh");
    let mut terminal = Terminal::open(&[("REDIS_URL", &redis.url())]);
    for answer in ["", "n", "no"] {
        terminal.enter("clear; $F break x; echo code $?");
        let screen = terminal.await_screen(|screen| screen.contains("[y/N]"));
        assert!(
            screen.starts_with("x is held ") && screen.contains("Break the lease of ops@db1:14380 deploy.sh"),
            "{screen}"
        );
        terminal.enter(answer);
        assert_eq!(terminal.number_after("code "), 1, "{answer:?}");
        assert_eq!(redis.state("x")["state"], "held");
        terminal.expect("PROMPT> ");
    }
    terminal.enter("$F break x; echo code $?");
    terminal.expect("[y/N] ");
    terminal.enter("y");
    terminal.expect("let go; x is free");
    assert_eq!(terminal.number_after("code "), 0);
    assert_eq!(holder.finish().code, 123);
}

/// Names and labels are longer than the terminal is wide, and some of their characters take two columns.
#[test]
fn the_lines_of_status_never_wrap() {
    let redis = Redis::start();
    let names = ["prod:web:deploy", "日本語日本語日本語日本語日本語:日本語", &"n".repeat(200)];
    let _holders: Vec<Process> = names.iter().map(|name| hold(&redis, name, &"日本語 label ".repeat(60))).collect();
    let _waiter = redis.run(names[0], &["--label", &"é☎\u{fe0f}".repeat(60)], "true");
    redis.await_waiting(names[0], 1);
    // A heading, and a row for each lock and for each holder; or two rows for each.
    for (columns, heading, each) in [(80, 1, 1), (40, 0, 2)] {
        let mut terminal = Terminal::open_with(columns, &[("REDIS_URL", &redis.url())]);
        terminal.enter("clear; $F status; echo END");
        let screen = terminal.await_screen(|screen| screen.contains("END"));
        let rows: Vec<&str> = screen.lines().collect();
        let (locks, after) = rows[heading..].split_at(3 * each);
        assert!(after[0].starts_with("END"), "{screen}");
        for (lock, begin) in locks.chunks(each).map(<[&str]>::concat).zip(["prod:web:dep", "日本語", "nnn"]) {
            assert!(lock.starts_with(begin) && lock.contains("held ") && lock.contains("日本語 label"), "{screen}");
        }
        terminal.enter(&format!("clear; $F status {}; echo DONE", names[0]));
        let screen = terminal.await_screen(|screen| screen.contains("DONE"));
        let rows: Vec<&str> = screen.lines().collect();
        assert!(rows.len() >= 3 && rows[0].starts_with("prod:web:deploy  held"), "{screen}");
        let token = rows.iter().position(|row| row.contains("token ")).unwrap();
        assert_eq!(token, each, "{screen}");
        let lease = rows[token..].iter().take_while(|row| !row.contains("waits ")).copied().collect::<String>();
        // The terminal's own lines are joined where it had to wrap one.
        assert!(lease.contains("if the") && rows[token].chars().count() <= usize::from(columns), "{screen}");
        let end = rows.iter().position(|row| row.starts_with("DONE")).unwrap();
        assert!(rows[end - 1].contains("waits "), "the waiter takes one row:\n{screen}");
    }
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
    let redis = Redis::start();
    let holder = hold(&redis, "x", "the holder");
    assert_eq!(redis.state("x")["holder"]["confirmed"], true);
    let dead = redis.run("x", &["--label", "the dead"], "true");
    redis.await_waiting("x", 1);
    dead.signal(Signal::STOP);
    let next = redis.run("x", &["-v", "--label", "the next"], "echo; exec sleep 1000");
    redis.await_waiting("x", 2);
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
    assert_eq!(redis.state("x")["holder"]["confirmed"], false);
    let list = String::from_utf8(redis.fairlock().arg("status").output().unwrap().stdout).unwrap();
    assert!(list.contains("granted, "), "{list}");
    let busy = redis.run("x", &["-n"], "true").finish();
    assert!(busy.code == 122 && busy.stderr.contains("held by nobody yet: granted "), "{busy:?}");
    // The one behind it sees the same, and is granted the lock.
    testkit::eventually("it says so", testkit::SOON, || next.complaint().contains("s ago to the dead, which has not"));
    next.line();
    assert_eq!(redis.state("x")["holder"]["confirmed"], true);
    assert!(status().contains(" by the next\n"));
    dead.signal(Signal::CONT);
}
