//! Locks that another version of fairlock keeps: each subcommand says so, and what to do; and shows all other locks.

use testkit::another_layout;

use crate::look::{call, objects};
use crate::pty::Terminal;
use crate::shared::{Finished, Redis, hold};

fn theirs(redis: &Redis, name: &str) {
    another_layout::write(&mut redis.raw(), name, another_layout::STATE);
}

/// It says what was found, and each way out.
#[track_caller]
fn tells_the_ways_out(said: &str, name: &str) {
    let keys = ["lock", "waiters"].map(|key| format!("\"fairlock:{{{name}}}:{key}\""));
    let found = format!("the lock \"{name}\" is used by another version of fairlock");
    let layouts = another_layout::FOUND;
    let parts = [&found, layouts, "upgrade together", "another name or prefix", "delete the keys", &keys[0], &keys[1]];
    assert!(parts.iter().all(|part| said.contains(part)), "{said}");
}

#[track_caller]
fn is_refused(finished: &Finished, name: &str) {
    assert_eq!((finished.code, finished.stdout.as_str()), (125, ""), "{finished:?}");
    assert_eq!(finished.stderr.lines().count(), 1, "{finished:?}");
    tells_the_ways_out(&finished.stderr, name);
}

#[test]
fn every_subcommand_refuses_a_lock_of_another_layout_with_the_ways_out() {
    let redis = Redis::start();
    theirs(&redis, "x");
    let found = another_layout::dump(&mut redis.raw(), "x");
    for words in [
        "run x -- true",
        "run x --timeout 1h -- true",
        "run x --no-wait -- true",
        "run x --quiet --conflict-exit-code 0 -- true",
        "status",
        "status x",
        "status x* --json",
        "wait x",
        "wait x --timeout 1h",
        "wait x*",
        "history x",
        "history x on",
        "history x off",
        "break x",
        "break x --token 1",
        "break x --force --json",
    ] {
        is_refused(&call(&redis, &words.split(' ').collect::<Vec<_>>()), "x");
    }
    let held = redis.fairlock().args(["hold", "x"]).stdin(std::io::pipe().unwrap().0).output().unwrap();
    assert_eq!(held.status.code(), Some(125), "{held:?}");
    tells_the_ways_out(&String::from_utf8(held.stderr).unwrap(), "x");
    let checked = call(&redis, &["status", "--check", "x"]);
    assert_eq!((checked.code, checked.stdout.lines().count()), (3, 1), "{checked:?}");
    assert!(checked.stdout.starts_with("UNKNOWN - "), "{checked:?}");
    tells_the_ways_out(&checked.stdout, "x");
    assert_eq!(another_layout::dump(&mut redis.raw(), "x"), found, "it was written over");
    another_layout::delete(&mut redis.raw(), "x");
    assert_eq!(redis.run("x", &[], "true").finish().code, 0, "the lock begins anew");
}

#[test]
fn a_lock_of_another_layout_among_a_thousand_is_told_and_hides_no_other() {
    let redis = Redis::start();
    assert_eq!(redis.run("idle", &[], "true").finish().code, 0);
    let [idle, _] = another_layout::dump(&mut redis.raw(), "idle");
    let mut copies = redis::pipe();
    for nth in 0..997 {
        copies.cmd("RESTORE").arg(format!("fairlock:{{idle{nth}}}:lock")).arg(0).arg(&idle).ignore();
    }
    let () = copies.query(&mut redis.raw()).unwrap();
    let _holder = hold(&redis, "held", "the holder");
    theirs(&redis, "x");

    let all = call(&redis, &["status", "--all"]);
    assert_eq!((all.code, all.stdout.lines().count()), (125, 1 + 999), "{all:?}");
    assert!(all.stdout.contains("the holder"), "{all:?}");
    tells_the_ways_out(&all.stderr, "x");
    let all = call(&redis, &["status", "--all", "--json"]);
    assert_eq!((all.code, objects(&all.stdout).len()), (125, 999));
    let named = call(&redis, &["status", "x", "held"]);
    assert!(named.code == 125 && named.stdout.starts_with("held  held "), "{named:?}");
    tells_the_ways_out(&named.stderr, "x");

    // Monitors hear of both, and the exit code is that of the worse one.
    let checked = call(&redis, &["status", "--check"]);
    assert_eq!(checked.code, 3, "{checked:?}");
    assert!(checked.stdout.starts_with("UNKNOWN - ") && checked.stdout.contains("\nOK - held: "), "{checked:?}");
    let checked = call(&redis, &["status", "--check", "--max-held", "1ms"]);
    assert_eq!(checked.code, 2, "{checked:?}");
    assert!(checked.stdout.starts_with("UNKNOWN - ") && checked.stdout.contains("\nCRITICAL - held: "), "{checked:?}");

    let once = call(&redis, &["exporter", "--once"]);
    assert_eq!(once.code, 0, "{}", once.stderr);
    for (metric, value) in [("up", 1), ("locks", 999), ("unreadable_locks", 1)] {
        assert!(once.stdout.contains(&format!("\nfairlock_{metric} {value}\n")), "{metric}: {}", once.stderr);
    }
    tells_the_ways_out(&once.stderr, "x");

    // Who waits until all are free must not be told that they are.
    assert_eq!(call(&redis, &["wait", "idle*"]).code, 0);
    is_refused(&call(&redis, &["wait", "*"]), "x");

    theirs(&redis, "y");
    let two = call(&redis, &["status", "[xy]"]);
    assert_eq!((two.code, two.stdout.as_str()), (125, ""), "{two:?}");
    assert!(two.stderr.starts_with("fairlock: 2 locks cannot be read; the first: the lock \"x\" "), "{two:?}");
    let doctor = call(&redis, &["doctor"]);
    assert!(doctor.stdout.contains("trial: a lock was granted in "), "{doctor:?}");
}

#[test]
fn a_key_of_another_type_is_told_and_hides_no_lock() {
    let redis = Redis::start();
    let _holder = hold(&redis, "held", "the holder");
    let () = redis::cmd("SET").arg("fairlock:{x}:lock").arg("somebody's").query(&mut redis.raw()).unwrap();
    for words in [&["status"][..], &["status", "x", "held"]] {
        let told = call(&redis, words);
        assert!(told.code == 125 && told.stdout.contains("the holder"), "{told:?}");
        let says = "\"fairlock:{x}:lock\" or \"fairlock:{x}:waiters\", a key of the lock \"x\", holds another type";
        assert!(told.stderr.contains(says), "{told:?}");
    }
}

#[test]
fn watch_counts_the_locks_that_it_cannot_show() {
    let redis = Redis::start();
    theirs(&redis, "x");
    let mut terminal = Terminal::open_with(80, &[("REDIS_URL", &redis.url())]);
    terminal.enter("$F watch; echo code $?");
    let screen = terminal.await_screen(|screen| screen.contains("1 unreadable"));
    assert!(screen.contains("layout 99") && screen.contains("delete the keys"), "{screen}");
    let _holder = hold(&redis, "held", "the holder");
    terminal.await_screen(|screen| {
        screen.contains("the holder") && screen.starts_with("1 lock, 1 held, 0 waiting, 1 unreadable")
    });
    terminal.keys("q");
    assert_eq!(terminal.number_after("code "), 0);
}
