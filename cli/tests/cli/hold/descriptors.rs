//! Which descriptors a script may name, and which of them its stand-in keeps open.

use std::path::Path;

use super::{Script, is_free, stand_in};
use crate::pty::Terminal;
use crate::shared::{Redis, Signal, signal};

fn script(shell: &[&str], redis: &Redis, text: &str) -> Script {
    Script::start_by(shell, tempfile::tempdir().unwrap(), redis, text)
}

/// What a process has open, as `/proc` shows it, but for /dev/null and this file.
fn open_files(pid: u32, but: &Path) -> Vec<String> {
    let all = std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().flatten();
    let all = all.filter_map(|entry| entry.path().read_link().ok());
    let all = all.filter(|link| link != Path::new("/dev/null") && link != but);
    all.map(|link| link.display().to_string()).collect()
}

/// A shell such as dash, whose own redirections know one digit, inherits the others.
#[test]
fn a_descriptor_may_have_any_number_in_any_shell() {
    let redis = Redis::start();
    for shell in ["sh", "bash"] {
        for number in [9, 10, 99, 200] {
            let open = format!("exec {number}>\"$L\"; exec {shell} -c \"$0\"");
            let text = format!("$F hold x --fd {number} || exit; step held");
            let script = script(&["bash", "-c", &open], &redis, &text);
            assert_eq!(script.process.line(), "held", "{number} in {shell}");
            assert_eq!(redis.state("x")["state"], "held", "{number} in {shell}");
            script.step();
            is_free(&redis, "x");
        }
    }
    let text = "exec {fd}>$L; $F hold x --fd $fd || exit; step held; exec {fd}>&-; step closed";
    let script = script(&["bash", "-c"], &redis, text);
    assert_eq!(script.process.line(), "held");
    script.step();
    assert_eq!(script.process.line(), "closed");
    is_free(&redis, "x");
}

/// A stand-in with a copy of the other's descriptor would wait for it, and the other for this one.
#[test]
fn each_of_two_locks_is_given_back_when_its_own_descriptor_is_closed() {
    let redis = Redis::start();
    let text = "exec 7>$L.a 9>$L.b; $F hold a --fd 7 && $F hold b --fd 9 || exit; step both; exec 7>&-; step one";
    let script = Script::start(&redis, text);
    assert_eq!(script.process.line(), "both");
    script.step();
    assert_eq!(script.process.line(), "one");
    is_free(&redis, "a");
    assert_eq!(redis.state("b")["state"], "held");
    script.step();
    is_free(&redis, "b");
}

/// Whoever reads a pipe of the script, or waits for a lock on one of its files, waits for the script alone.
#[test]
fn a_stand_in_has_nothing_open_that_its_script_has_open() {
    let redis = Redis::start();
    let script = Script::start(&redis, "exec 3>&1 4>$L.log 9>$L; $F hold x --fd 9 || exit; step held");
    assert_eq!(script.process.line(), "held");
    let lock = script.folder.path().join("lock");
    let of_script = open_files(script.process.id(), &lock);
    let of_stand_in = open_files(stand_in(script.process.id()), &lock);
    assert!(of_script.len() >= 5, "{of_script:?}");
    assert!(of_stand_in.iter().all(|file| !of_script.contains(file)), "{of_script:?} {of_stand_in:?}");
    script.step();
    is_free(&redis, "x");
    let mut terminal = Terminal::open(&[("REDIS_URL", &redis.url())]);
    let shell = terminal.enter_for("shell ", &format!("exec 9>{}; echo shell $$", lock.display()));
    terminal.expect("PROMPT> ");
    assert_eq!(terminal.command("$F hold x --fd 9").trim(), "");
    let of_stand_in = open_files(stand_in(shell), &lock);
    assert!(of_stand_in.iter().all(|file| !file.starts_with("/dev/")), "{of_stand_in:?}");
}

/// Its first line is not taken for the grant.
#[test]
fn events_on_stdout_are_not_the_grant() {
    let (redis, holder) = Redis::held("the holder");
    let script = Script::start(&redis, "exec 9>$L; $F hold x --fd 9 --events 1 || exit; step got it");
    assert!(script.process.line().contains("\"event\":\"queued\""));
    redis.await_waiting("x", 1);
    holder.signal(Signal::TERM);
    // The events are written by a thread, and may come later.
    let mut missing = vec!["got it", "\"event\":\"granted\""];
    while !missing.is_empty() {
        let line = script.process.line();
        assert!(line != "got it" || redis.state("x")["waiting"] == 0);
        missing.retain(|part| !line.contains(part));
    }
    signal(script.process.id(), Signal::KILL);
    is_free(&redis, "x");
}

/// bash opens it for this command alone. (dash opens it itself, and closes it when the command has ended.)
#[test]
fn a_descriptor_that_only_the_hold_itself_has_open_is_refused() {
    let redis = Redis::start();
    for line in [
        "$F hold x --fd 9 9>$L",
        "bash -c '$F hold x --fd 9 9>$L; exit $?'",
        // Another open file of the script has the number.
        "exec 9>$L; $F hold x --fd 9 9>$L",
        "exec 7>$L 9>$L; $F hold x --fd 9 9<$L",
        "(exec 9>$L; exec $F hold x --fd 9)",
    ] {
        let script = script(&["bash", "-c"], &redis, &format!("{line}; step code $?"));
        assert_eq!(script.process.line(), "code 125", "{line}");
        let said = script.process.complaint();
        let tip = "only this command has descriptor 9 open, so nothing would be held: write `exec 9>my.lock` on a line";
        assert!(said.contains(tip), "{line}: {said}");
    }
    for line in [
        "exec 7>$L; $F hold a --fd 9 9>&7",
        "{ $F hold b --fd 9; step code $?; } 9>$L",
        "(exec 9>$L; sleep 1000 & exec $F hold c --fd 9)",
        "exec 9>$L; timeout 1h $F hold d --fd 9",
    ] {
        let script = script(&["bash", "-c"], &redis, &format!("{line}; step code $?"));
        assert_eq!(script.process.line(), "code 0", "{line}");
        let name = line.split("hold ").nth(1).unwrap();
        assert_eq!(redis.state(&name[..1])["state"], "held", "{line}");
    }
}
