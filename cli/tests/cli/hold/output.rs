//! The output of a script whose stand-in goes on: its readers, and where messages about its lock go.

use super::{Script, is_free, token};
use crate::shared::{Redis, Signal, signal};

#[test]
fn readers_of_a_script_see_its_end_although_a_child_keeps_the_lock() {
    let redis = Redis::start();
    let script = Script::start(&redis, "exec 9>$L; $F hold x --fd 9 || exit; sleep 1000 >/dev/null 2>&1 & echo $!");
    let child = script.process.number();
    // Both outputs end.
    assert_eq!(script.process.finish().code, 0);
    assert_eq!(redis.state("x")["state"], "held");
    signal(child, Signal::TERM);
    is_free(&redis, "x");
}

/// A file has no reader who waits for its end. Opened once more it would have a position of its own.
#[test]
fn messages_to_a_file_stand_between_those_of_the_script() {
    let redis = Redis::start();
    let text = "exec 2>$L.log 9>$L; trap 'echo after >&2; exit' TERM; echo before >&2; $F hold x --fd 9 || exit; \
                echo held; while :; do sleep .1; done";
    let script = Script::start(&redis, text);
    assert_eq!(script.process.line(), "held");
    let held = token(&redis, "x");
    let broken = redis.fairlock().args(["break", "x", "--token", &held]).output().unwrap();
    assert!(broken.status.success(), "{broken:?}");
    is_free(&redis, "x");
    let log = std::fs::read_to_string(script.folder.path().join("lock.log")).unwrap();
    let lines: Vec<&str> = log.lines().collect();
    assert!(matches!(lines[..], ["before", lost, "after"] if lost.contains("the lease on x is lost")), "{log}");
}

/// Its stderr may be another one by then.
#[test]
fn a_loss_is_told_where_the_script_complains() {
    let redis = Redis::start();
    let text = "exec 9>$L; $F hold x --fd 9 --signal USR1 || exit; exec 3>&2 2>$L.log; trap 'exit 5' USR1; echo held; \
                while :; do sleep .1; done";
    let script = Script::start(&redis, text);
    assert_eq!(script.process.line(), "held");
    let held = token(&redis, "x");
    let broken = redis.fairlock().args(["break", "x", "--token", &held]).output().unwrap();
    assert!(broken.status.success(), "{broken:?}");
    let log = script.folder.path().join("lock.log");
    assert_eq!(script.process.finish().code, 5);
    let log = std::fs::read_to_string(log).unwrap();
    assert!(log.contains("the lease on x is lost"), "{log}");
}
