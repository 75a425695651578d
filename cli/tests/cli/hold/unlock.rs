//! `hold NAME -u`: the end of a hold that a script waits for, as `flock -u` is; and a hold inside of a hold.

use std::path::Path;
use std::process::Command;

use super::{Script, is_free};
use crate::shared::{Process, Redis, Signal, children, signal};

#[test]
fn a_script_that_unlocks_goes_on_when_the_lock_is_given_back() {
    let redis = Redis::start();
    for open in ["9>$L", "9<\"$0\"", "9</"] {
        // A program in the background has the descriptor, too.
        let text = format!(
            "exec {open}; $F hold x --fd 9 --lease 10m || exit; sleep 1000 & $F hold x -u; echo code $?; \
             $F status x; $F hold x --fd 9 && $F status x | grep -o held; exec 9>&-; echo $!"
        );
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("script");
        std::fs::write(&file, text).unwrap();
        let run = format!("exec sh '{}'", file.display());
        let script = Script::start(&redis, &run);
        for line in ["code 0", "x  free", "held"] {
            assert_eq!(script.process.line(), line, "{open}");
        }
        signal(script.process.number(), Signal::TERM);
        is_free(&redis, "x");
    }
}

#[test]
fn to_unlock_one_lock_leaves_the_others() {
    let redis = Redis::start();
    let text = "exec 9>$L; $F hold a --fd 9 && $F hold b --fd 9 || exit; $F hold a -u; step one; \
                exec 9>&-; $F hold b -u; step none";
    let script = Script::start(&redis, text);
    assert_eq!(script.process.line(), "one");
    assert_eq!((&redis.state("a")["state"], &redis.state("b")["state"]), (&"free".into(), &"held".into()));
    script.step();
    // It may have ended before it was awaited.
    assert_eq!(script.process.line(), "none");
    is_free(&redis, "b");
    script.step();
    // The shell becomes the last command of its script.
    let last = Script::start(&redis, "exec 9>$L; $F hold x --fd 9; exec $F hold x -u").process.finish();
    assert_eq!((last.code, last.stderr.as_str(), &redis.state("x")["state"]), (0, "", &"free".into()));
    let ended = Script::start(&redis, "exec 9>$L; $F hold x --fd 9; $F hold y -u").process.finish();
    assert!(ended.code == 125 && ended.stderr.contains("no script around this process holds y"), "{ended:?}");
}

#[test]
fn to_unlock_one_of_several_locks_that_were_taken_together_says_which_others_are_given_back() {
    let redis = Redis::start();
    for (option, says) in [("", "fairlock: also gave back a, c, which was taken with b\n"), ("-q", "")] {
        let text = format!("exec 9>$L; $F hold a -a b -a c --fd 9 && $F hold b -u {option}; exit $?");
        let ended = Script::start(&redis, &text).process.finish();
        assert_eq!((ended.code, ended.stderr.as_str()), (0, says));
        assert_eq!(redis.state("a")["state"], "free");
    }
}

/// `flock -u 9` names the descriptor.
#[test]
fn to_unlock_a_number_is_told_that_it_takes_a_name() {
    let redis = Redis::start();
    let ended = Script::start(&redis, "exec 9>$L; $F hold x --fd 9; $F hold -u 9").process.finish();
    assert!(ended.code == 125 && ended.stderr.contains("tip: 9 is a descriptor? give the lock's NAME"), "{ended:?}");
}

/// A script that is the first process of a container and holds x; None where that is not allowed.
fn process_1(redis: &Redis, folder: &Path, rest: &str) -> Option<Process> {
    let namespace = ["--pid", "--fork", "--mount-proc", "--kill-child"];
    let allowed = Command::new("unshare").args(namespace).arg("true").output();
    if !allowed.as_ref().is_ok_and(|output| output.status.success()) {
        testkit::say(format_args!("SKIPPED: may not make a PID namespace: {allowed:?}"));
        return None;
    }
    let text = format!("exec 9<$D; $F hold x --fd 9 --lease 10m || exit; trap '$F hold x -u' EXIT; {rest}");
    let mut unshare = Command::new("unshare");
    unshare.env("REDIS_URL", redis.url()).env("F", env!("CARGO_BIN_EXE_fairlock")).env("D", folder);
    Some(Process::spawn(unshare.args(namespace).args(["env", "--default-signal", "sh", "-c", &text])))
}

/// The kernel ends all processes of a container with its first one: a stand-in, too, before it has told the server.
#[test]
fn the_first_process_of_a_container_gives_its_lock_back() {
    let (redis, folder) = (Redis::start(), tempfile::tempdir().unwrap());
    for _ in 0..5 {
        let Some(script) = process_1(&redis, folder.path(), "exit 3") else { return };
        let ended = script.finish();
        assert!(ended.code == 3 && ended.stderr.contains("this script is process 1"), "{ended:?}");
        assert_eq!(redis.state("x")["state"], "free");
    }
}

/// The kernel keeps a signal from a first process that has no trap for it.
#[test]
fn a_container_that_is_stopped_gives_its_lock_back() {
    let page = std::fs::read_to_string(testkit::root().join("docs/command-line.md")).unwrap();
    let trap = "trap exit TERM INT";
    assert!(page.contains(trap));
    let (redis, folder) = (Redis::start(), tempfile::tempdir().unwrap());
    for end in [Signal::TERM, Signal::INT] {
        let rest = format!("{trap}; echo; sleep 1000 & wait");
        let Some(script) = process_1(&redis, folder.path(), &rest) else { return };
        script.line();
        assert_eq!(redis.state("x")["state"], "held");
        signal(children(script.id(), "sh")[0], end);
        let ended = script.finish();
        assert_eq!(ended.code, 128 + end.as_raw(), "{ended:?}");
        assert_eq!(redis.state("x")["state"], "free");
    }
}

/// It would wait for the end of its own script.
#[test]
fn a_script_that_asks_again_for_what_it_holds_is_refused() {
    let redis = Redis::start();
    let ask = |line: &str| {
        let text = format!("exec 8>$L.8 9>$L; $F hold a --fd 8 && $F hold x -a y --slots 2 --fd 9 || exit; {line}");
        Script::start(&redis, &text).process.finish()
    };
    for line in [
        "$F hold x --fd 9 -s",
        "$F hold y --fd 9",
        "$F hold x --slots 2 --fd 8",
        "$F run b -a y true",
        "$F run x -n true",
        "sh -c '$F run -c x true'",
        "exec $F run x true",
    ] {
        let ended = ask(line);
        assert!(
            ended.code == 125 && ended.stderr.contains("is already held by this job's script"),
            "{line}: {ended:?}"
        );
    }
    // This one does not keep it waiting.
    assert_eq!(ask("($F run x -n true) 9>&-").code, 122);
    assert_eq!(ask("$F run b true").code, 0);
    // A lock of another server.
    let other = Redis::start();
    assert_eq!(ask(&format!("$F --redis '{0}' run x true && REDIS_URL='{0}' $F hold x --fd 9", other.url())).code, 0);
}
