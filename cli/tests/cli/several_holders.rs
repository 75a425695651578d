//! What operators see and do where several hold a lock: `status`, `break`, `watch`, `history`, `exporter`, events.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::look::{call, objects};
use crate::pty::Terminal;
use crate::shared::{Process, Redis, Signal, eventually, temporary, with_time_to_queue};

const STAYS: &str = "echo; exec sleep 1000";

fn hold(redis: &Redis, name: &str, label: &str, options: &[&str]) -> Process {
    redis.hold(name, &[&["--label", label], options].concat())
}

/// Two holders of a semaphore with four slots, `a` in slot 0 and `b` in slot 1.
fn two_of_four() -> (Redis, [Process; 2]) {
    let redis = Redis::start();
    let holders = ["a", "b"].map(|label| hold(&redis, "gpu", label, &["--slots", "4"]));
    (redis, holders)
}

fn token(redis: &Redis, at: usize) -> String {
    redis.state("gpu")["holders"][at]["token"].to_string()
}

/// The slots that are held.
fn slots(redis: &Redis) -> Vec<u64> {
    let state = redis.state("gpu");
    state["holders"].as_array().unwrap().iter().map(|holder| holder["slot"].as_u64().unwrap()).collect()
}

#[test]
fn status_shows_each_holder_with_its_slot_and_who_said_another_number() {
    let (redis, _holders) = two_of_four();
    let _five = hold(&redis, "gpu", "c", &["--slots", "5"]);
    let _alone = redis.waiter("gpu", &["--label", "d"], STAYS);
    let _next = redis.waiter("gpu", &["--label", "e", "--slots", "4"], STAYS);
    let text = call(&redis, &["status", "gpu"]).stdout;
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "gpu  held by 3 of 4", "{text}");
    for (slot, label, differs) in [(0, "a", false), (1, "b", false), (2, "c", true)] {
        let [holder, lease] = [lines[1 + 2 * slot], lines[2 + 2 * slot]];
        assert!(
            holder.starts_with(&format!("  slot  {slot}  held ")) && holder.ends_with(&format!(" by {label}")),
            "{text}"
        );
        assert!(lease.starts_with(&format!("    token {}; ", token(&redis, slot))), "{text}");
        assert_eq!(lease.contains("; slots 5; "), differs, "{text}");
    }
    assert!(lines[7].contains(" 1.  waits ") && lines[7].ends_with("  d  exclusive"), "{text}");
    assert!(lines[8].contains(" 2.  waits ") && lines[8].ends_with("  e"), "{text}");
    let state = redis.state("gpu");
    let numbers =
        |of: &Value| of.as_array().unwrap().iter().map(|one| one["slots"].as_u64().unwrap()).collect::<Vec<_>>();
    assert_eq!(
        (slots(&redis), numbers(&state["holders"]), numbers(&state["queue"])),
        (vec![0, 1, 2], vec![4, 4, 5], vec![1, 4])
    );
    let table = call(&redis, &["status"]).stdout;
    assert!(table.contains("  a, and 2 others (3 of 4)\n"), "{table}");
    let busy = redis.run("gpu", &["-n", "--slots", "4"], "true").finish();
    assert!(busy.stderr.contains("by a, and 2 others (3 of 4); 2 waiting"), "{busy:?}");
}

#[test]
fn a_thousand_readers_are_all_told() {
    let redis = Redis::start();
    let client = fairlock::Client::connect(&redis.url()).blocking().unwrap();
    let index = client.rw_lock("index").unwrap();
    let readers: Vec<_> = (0..1000).map(|_| index.read().blocking().unwrap()).collect();
    let _waiters = [0, 1].map(|_| redis.waiter("index", &[], STAYS));
    let state = redis.state("index");
    let told: BTreeSet<u64> =
        state["holders"].as_array().unwrap().iter().map(|holder| holder["token"].as_u64().unwrap()).collect();
    assert_eq!(told, readers.iter().map(|reader| reader.token()).collect());
    assert_eq!((&state["waiting"], state["queue"].as_array().unwrap().len()), (&2.into(), 2), "they are told once");
    let busy = redis.run("index", &["-n"], "true").finish();
    assert!(busy.stderr.contains(" and 999 others (1000 readers); 2 waiting"), "{busy:?}");
}

#[test]
fn readers_are_shown_with_the_writer_that_waits() {
    let redis = Redis::start();
    let [_a, _b] = ["a", "b"].map(|label| hold(&redis, "index", label, &["-s"]));
    let _writer = redis.waiter("index", &["--label", "the writer"], STAYS);
    let text = call(&redis, &["status", "index"]).stdout;
    assert!(text.starts_with("index  held by 2 readers\n") && text.ends_with("  the writer  exclusive\n"), "{text}");
    let check = call(&redis, &["status", "--check", "index"]);
    assert!(check.code == 0 && check.stdout.contains("by a, and another (2 readers), 1 waiting | held="), "{check:?}");
}

#[test]
fn monitors_hear_of_the_oldest_hold_whichever_slot_it_has() {
    let (redis, [first, _old]) = two_of_four();
    first.signal(Signal::TERM);
    first.finish();
    let held = |at: usize| redis.state("gpu")["holders"][at]["held_for_ms"].as_u64().unwrap();
    eventually("slot 1 is held for a while", || (held(0) > 2000).then_some(()));
    let _young = hold(&redis, "gpu", "young", &["--slots", "4"]);
    assert_eq!(slots(&redis), [0, 1]);
    // As the young one becomes as old, the old one is older still.
    let oldest = held(1) / 1000;
    let check = call(&redis, &["status", "--check", "--max-held", "2s", "gpu"]);
    let figure: u64 = check.stdout.split("held=").nth(1).unwrap().split('s').next().unwrap().parse().unwrap();
    assert!(check.code == 2 && figure >= oldest, "{check:?}");
    let table = call(&redis, &["status", "*"]).stdout;
    assert!(table.contains("b, and another (2 of 4)"), "{table}");
}

#[test]
fn break_is_told_which_of_several_holders_is_meant() {
    let (redis, [a, b]) = two_of_four();
    for options in [&[][..], &["--force"]] {
        let refused = call(&redis, &[&["break", "gpu"], options].concat());
        assert_eq!(refused.code, 125, "{refused:?}");
        let told = "name the one that is meant with --slot or --token, as `fairlock status gpu --json` shows";
        assert!(refused.stderr.contains(told), "{refused:?}");
    }
    assert_eq!(slots(&redis), [0, 1], "no lease is touched");
    let unknown = call(&redis, &["break", "gpu", "--token", "7"]);
    assert!(
        unknown.code == 1 && unknown.stderr.contains("no lease with that token is alive: gpu is held"),
        "{unknown:?}"
    );
    let unknown = call(&redis, &["break", "gpu", "--slot", "7"]);
    assert!(unknown.code == 1 && unknown.stderr.contains("nobody holds slot 7: gpu is held"), "{unknown:?}");
    let broken = call(&redis, &["break", "gpu", "--slot", "1"]);
    assert!(
        broken.code == 0 && broken.stderr.contains("b let go; gpu is held ") && broken.stderr.ends_with("a (1 of 4)\n"),
        "{broken:?}"
    );
    assert_eq!((b.finish().code, slots(&redis)), (123, vec![0]));
    // The token is that of the holder, and not of the waiter behind it.
    let _waiter = redis.waiter("gpu", &[], STAYS);
    let unknown = call(&redis, &["break", "gpu", "--token", "7"]);
    let told = format!(" by a (1 of 4) with token {}, 1 waiting\n", token(&redis, 0));
    assert!(unknown.stderr.ends_with(&told), "{unknown:?}");
    // Of one holder nobody needs to say which.
    let forced = call(&redis, &["break", "gpu", "--slot", "0", "--force"]);
    assert!(forced.code == 0 && forced.stderr.contains("the lease of a was ended"), "{forced:?}");
    assert_eq!(a.finish().code, 123);
}

#[test]
fn at_a_terminal_break_asks_for_the_slot() {
    let (redis, [a, b]) = two_of_four();
    let mut terminal = Terminal::open(&[("REDIS_URL", &redis.url())]);
    for answer in ["", "7", "y"] {
        let screen = terminal.enter_and_await("clear; $F break gpu; echo code $?", |screen| screen.contains("[none]"));
        for (slot, label) in ["a", "b"].iter().enumerate() {
            assert!(screen.contains(&format!("slot {slot}: held ")), "{screen}");
            assert!(screen.contains(&format!("by {label}, token {}", token(&redis, slot))), "{screen}");
        }
        terminal.enter(answer);
        assert_eq!(terminal.number_after("code "), 1, "{answer:?}");
        assert_eq!(slots(&redis), [0, 1]);
        terminal.expect("PROMPT> ");
    }
    terminal.enter_and_expect("$F break gpu; echo code $?", "[none] ");
    terminal.enter_and_expect("0", "a let go; gpu is held");
    assert_eq!(terminal.number_after("code "), 0);
    assert_eq!((a.finish().code, slots(&redis)), (123, vec![1]));
    drop(b);
}

#[test]
fn a_broken_lease_is_shown_among_others() {
    let (redis, _holders) = two_of_four();
    // It does not hear that its lease is broken.
    let stopped = hold(&redis, "gpu", "c", &["--slots", "4", "--lease", "1h"]);
    stopped.signal(Signal::STOP);
    let client = fairlock::Client::connect(&redis.url()).blocking().unwrap();
    let token = token(&redis, 2).parse().unwrap();
    client.lock("gpu").unwrap().break_lease(token).blocking().unwrap();
    assert_eq!(redis.state("gpu")["state"], "breaking");
    assert_eq!(call(&redis, &["status", "--check", "gpu"]).code, 1, "a warning");
    stopped.signal(Signal::KILL);
}

#[test]
fn watch_shows_the_slots_and_breaks_the_one_that_is_chosen() {
    let (redis, [a, b]) = two_of_four();
    let _alone = redis.waiter("gpu", &["--label", "c"], STAYS);
    let mut terminal = Terminal::open_with(100, &[("REDIS_URL", &redis.url())]);
    terminal.enter("$F watch; echo code $?");
    terminal.await_screen(|screen| screen.contains("a, and another (2 of 4)"));
    terminal.keys_and_await("\r", |screen| {
        screen.contains("held by 2 of 4") && screen.contains("   0 a ") && screen.contains("   1 b ")
    });
    terminal.await_screen(|screen| screen.contains("1.  c") && screen.contains("exclusive"));
    terminal.keys_and_await("b", |screen| screen.contains("a in slot 0") && screen.contains("↑↓"));
    terminal.keys_and_await("\x1b[B", |screen| screen.contains("b in slot 1"));
    terminal.keys_and_await("y", |screen| screen.contains("held by 1 of 4"));
    assert_eq!((b.finish().code, slots(&redis)), (123, vec![0]));
    // With one holder an arrow is no answer.
    terminal.keys_and_await("b", |screen| screen.contains("y: break it") && !screen.contains("↑↓: another"));
    terminal.keys_and_await("j", |screen| !screen.contains("y: break it"));
    terminal.keys("q");
    assert_eq!(terminal.number_after("code "), 0);
    drop(a);
}

#[test]
fn history_shows_a_lane_for_each_slot() {
    if testkit::run::lacks("a history", (6, 2)) {
        return;
    }
    let redis = Redis::start();
    assert_eq!(call(&redis, &["history", "gpu", "on"]).code, 0);
    let [_a, b] = ["a", "b"].map(|label| hold(&redis, "gpu", label, &["--slots", "4"]));
    b.signal(Signal::TERM);
    b.finish();
    let _c = hold(&redis, "gpu", "c", &["--slots", "4"]);
    let document = &objects(&call(&redis, &["history", "gpu", "--json"]).stdout)[0];
    let told: Vec<_> = document["grants"].as_array().unwrap().iter().map(|one| (&one["label"], &one["slot"])).collect();
    let told: Vec<_> = told.iter().map(|(label, slot)| (label.as_str().unwrap(), slot.as_u64().unwrap())).collect();
    assert_eq!(told, [("c", 1), ("b", 1), ("a", 0)], "both present holders are there");
    let text = call(&redis, &["history", "gpu"]).stdout;
    let lanes: Vec<&str> = text.lines().filter(|line| line.starts_with("slot ")).collect();
    assert!(lanes.len() == 2 && lanes.iter().all(|lane| lane.contains('█')), "{text}");
    assert!(text.contains("held 100 % of the time") && text.contains("GRANTED  SLOT LABEL"), "{text}");
    let page = call(&redis, &["history", "gpu", "--out", "-"]).stdout;
    assert!(
        page.contains(">slot 0</text>") && page.contains(">slot 1</text>") && page.contains(">slot</th>"),
        "{page}"
    );
}

/// Prometheus refuses a page on which a series is twice.
#[test]
fn the_exporter_counts_holders_and_names_no_series_twice() {
    let redis = Redis::start();
    let _holders = ["30s", "1h"].map(|lease| hold(&redis, "gpu", "alike", &["--slots", "4", "--lease", lease]));
    let state = redis.state("gpu");
    let text = call(&redis, &["exporter", "--once", "--holders"]).stdout;
    let series: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
    let names: BTreeSet<&str> = series.iter().filter_map(|line| Some(line.rsplit_once(' ')?.0)).collect();
    assert_eq!(names.len(), series.len(), "{text}");
    let value = |metric: &str| -> f64 {
        let name = format!("fairlock_lock_{metric}{{lock=\"gpu\"}} ");
        series.iter().find_map(|line| line.strip_prefix(name.as_str())).unwrap().parse().unwrap()
    };
    assert_eq!((value("held"), value("slots")), (2.0, 4.0));
    let oldest = state["holders"][0]["held_for_ms"].as_f64().unwrap() / 1000.0;
    assert!(value("hold_seconds") >= oldest, "{text}");
    assert!(value("lease_remaining_seconds") <= 30.0, "the lease that ends first: {text}");
    for slot in 0..2 {
        let holder =
            format!("fairlock_lock_holder_info{{lock=\"gpu\",slot=\"{slot}\",label=\"alike\",owner=\"\"}} 1\n");
        assert!(text.contains(&holder), "{text}");
    }
}

#[test]
fn a_run_that_waits_tells_who_holds_the_slots() {
    let (redis, _holders) = two_of_four();
    let (_folder, path) = temporary("events");
    let _alone = redis.waiter("gpu", &[], STAYS);
    let waiter = redis.run("gpu", &["--slots", "4", "-v", "--events", path.to_str().unwrap()], STAYS);
    let said = waiter.complaint();
    assert!(said.contains("waiting for gpu: 2nd of 2, held ") && said.ends_with("a, and another (2 of 4)"), "{said}");
    let event = eventually("the position", || {
        let text = std::fs::read_to_string(&path).ok()?;
        objects(&text).into_iter().find(|event| event["event"] == "position")
    });
    assert_eq!(event["held"], 2, "{event}");
    let of = |at: usize| (&event["holders"][at]["slot"], &event["holders"][at]["label"]);
    assert_eq!((of(0), of(1)), ((&0.into(), &"a".into()), (&1.into(), &"b".into())), "{event}");
}

/// Whether that is more or less than what the holders say, and wherever it is told.
#[test]
fn a_job_that_says_another_number_than_the_holders_is_told_so() {
    let (redis, _holders) = two_of_four();
    let _alone = redis.waiter("gpu", &[], STAYS);
    for (options, own) in [(&["--slots", "8"][..], "8"), (&["--slots", "2"], "2"), (&["-s"], "--shared")] {
        let why = format!("a, and another (2 of 4; this job says {own})");
        let run = |more: &[&str]| redis.run("gpu", &[options, more].concat(), STAYS);
        let said = run(&["-v"]).complaint();
        assert!(said.contains("waiting for gpu: ") && said.contains(", held ") && said.ends_with(&why), "{said}");
        let busy = run(&["-n"]).finish();
        assert!(busy.code == 122 && busy.stderr.contains(&format!("{why}; ")), "{busy:?}");
        let wait = Process::spawn(redis.fairlock().args(["wait", "gpu"]).args(options)).complaint();
        assert!(wait.contains("waiting for gpu: held ") && wait.contains(&why), "{wait}");
        let seconds = |seconds: f64| seconds.to_string();
        let quiet = with_time_to_queue(|time| run(&["-q", "-w", &seconds(time)]).finish());
        assert_eq!((quiet.code, &*quiet.stderr), (124, ""), "a quiet one says nothing");
        let late = with_time_to_queue(|time| run(&["-w", &seconds(time)]).finish());
        let last = late.stderr.lines().last().unwrap();
        assert!(last.contains(", at position ") && last.contains(": held ") && last.ends_with(&why), "{late:?}");
        let wait = with_time_to_queue(|time| call(&redis, &[&["wait", "gpu", "-w", &seconds(time)], options].concat()));
        assert!(wait.code == 124 && wait.stderr.contains(&why), "{wait:?}");
    }
    // One that wants it alone waits for all of them anyway.
    let busy = redis.run("gpu", &["-n"], STAYS).finish();
    assert!(busy.stderr.contains("a, and another (2 of 4); "), "{busy:?}");
}

/// Who holds it is what a narrow terminal cuts.
#[test]
fn a_wait_shows_how_many_hold_the_lock_on_a_narrow_terminal() {
    let redis = Redis::start();
    let _holders = ["1", "2"]
        .map(|last| hold(&redis, "gpu", &"ops@vm7:4711 a-long-name.sh".repeat(2).replace('7', last), &["-s"]));
    let mut terminal = Terminal::open_with(40, &[("REDIS_URL", &redis.url())]);
    for words in ["run gpu true", "wait gpu"] {
        let screen = terminal.enter_and_await(&format!("clear; $F {words}"), |screen| screen.contains(" · 2 readers "));
        assert!(screen.contains("gpu · 2 readers "), "{screen}");
        terminal.keys_and_expect("\x03", "PROMPT> ");
    }
    let _waiter = redis.waiter("gpu", &["--label", "ops@vm8:4711 another-long-name.sh"], STAYS);
    let status = terminal.command("$F status gpu");
    let rows: Vec<&str> = status.lines().map(str::trim_end).collect();
    assert!(rows.iter().all(|row| row.chars().count() <= 40), "{status}");
    let at = rows.iter().position(|row| row.ends_with("exclusive")).unwrap();
    assert!(rows[at].contains("1.  waits ") && rows[at + 1].trim_start().starts_with("ops@vm8:"), "{status}");
}

#[test]
fn watch_shows_as_many_holders_as_there_is_room_for_and_cuts_their_labels_alone() {
    let redis = Redis::start();
    let client = fairlock::Client::connect(&redis.url()).blocking().unwrap();
    let index = client.rw_lock("index").unwrap();
    let label = |at: u32| format!("ops@vm{at}:4711 train.sh --epochs 30 --data /srv/imagenet --resume latest");
    let _readers: Vec<_> = (0..13).map(|at| index.read().label(label(at)).blocking().unwrap()).collect();
    let mut terminal = Terminal::open_with(80, &[("REDIS_URL", &redis.url())]);
    terminal.enter("$F watch; echo code $?");
    terminal.await_screen(|screen| screen.contains("(13 readers)"));
    let token = redis.state("index")["holders"][12]["token"].to_string();
    // The end of its row is drawn last.
    let is_shown = |row: &str| row.starts_with("  12 ops@vm12:") && row.trim_end().ends_with(&token);
    let screen = terminal.keys_and_await("\r", |screen| screen.lines().any(is_shown));
    let head = screen.lines().find(|row| row.starts_with("SLOT HOLDER ")).unwrap();
    assert!(["HELD", "LEASE", "TOKEN"].iter().all(|title| head.contains(title)), "{screen}");
    assert!(screen.lines().find(|row| is_shown(row)).unwrap().contains('…'), "{screen}");
    terminal.keys("q");
    assert_eq!(terminal.number_after("code "), 0);
}

#[test]
fn a_break_shows_the_oldest_of_many_holders_and_where_the_others_are_told() {
    let redis = Redis::start();
    let client = fairlock::Client::connect(&redis.url()).blocking().unwrap();
    let index = client.rw_lock("index").unwrap();
    let mut readers: Vec<_> =
        (0..40).map(|at| index.read().label(format!("reader {at}")).blocking().unwrap()).collect();
    // Slot 0 is that of the youngest.
    drop(readers.remove(0));
    eventually("it is given back", || (redis.state("index")["holders"].as_array().unwrap().len() == 39).then_some(()));
    readers.push(index.read().label("the youngest").blocking().unwrap());
    let refused = call(&redis, &["break", "index", "--force"]);
    assert!(refused.code == 125 && refused.stderr.contains("`fairlock status index --json` shows"), "{refused:?}");
    let mut terminal = Terminal::open_with(120, &[("REDIS_URL", &redis.url())]);
    let screen = terminal.enter_and_await("clear; $F break index; echo code $?", |screen| screen.contains("[none]"));
    assert!(screen.starts_with("index is held ") && screen.contains("by reader 1, token "), "{screen}");
    assert!(screen.contains("and 20 more") && !screen.contains("by the youngest"), "{screen}");
    // It may be named all the same.
    terminal.enter_and_expect("0", "the holder is told");
    assert_eq!(redis.state("index")["holders"][0]["broken"], true);
}
