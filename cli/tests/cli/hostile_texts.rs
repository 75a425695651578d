//! Hostile texts on the command line: refused with a clear error or carried faithfully, and never passed to a terminal.
//! `hostile/names.rs` has the same for the library.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::process::{Command, Output};

use crate::pty::Terminal;
use crate::shared::{Process, Redis, fairlock, with_time_to_queue};
use testkit::texts::HOSTILE;

/// A text that is not UTF-8, although it begins like one.
const INVALID: &[u8] = b"a\xff\xfe\xc3(";

/// The hostile texts that can be arguments: a NUL would end them.
fn arguments() -> Vec<&'static str> {
    HOSTILE.iter().copied().filter(|text| !text.contains('\0')).collect()
}

/// The hostile texts that can be names on the command line: a dash would begin an option.
fn names() -> Vec<&'static str> {
    arguments().into_iter().filter(|text| !text.starts_with('-')).collect()
}

/// Nothing controls a terminal, is invisible, or changes the order of the text.
#[track_caller]
fn harmless(output: &[u8]) {
    let text = std::str::from_utf8(output).expect("what is printed is UTF-8");
    let known = "\u{ad}\u{61c}\u{200b}\u{200d}\u{2028}\u{2029}\u{202e}\u{2066}\u{206a}\u{feff}\u{fff9}\u{e0041}";
    let bad = text.chars().find(|&c| c != '\n' && c.is_control() || known.contains(c));
    assert!(bad.is_none(), "{bad:?} in {text:?}");
}

fn run(command: &mut Command) -> Output {
    let output = command.output().unwrap();
    harmless(&output.stderr);
    output
}

/// As an argument that may be a pattern.
fn exact(name: &str) -> String {
    if !name.contains(['*', '?', '[']) {
        return name.to_owned();
    }
    ["\\", "*", "?", "["].iter().fold(name.to_owned(), |name, mark| name.replace(mark, &format!("\\{mark}")))
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn names_and_labels_reach_the_server_and_the_command_as_they_are() {
    let redis = Redis::start();
    let labels = arguments();
    let holders: Vec<(&str, &str, Process)> = names()
        .into_iter()
        .enumerate()
        .map(|(index, name)| {
            let label = labels[(index + 1) % labels.len()];
            let script = "printf %s \"$FAIRLOCK_NAME\" | od -An -v -tx1 | tr -d ' \\n'; echo; exec sleep 1000";
            (name, label, redis.run(name, &[&format!("--label={label}")], script))
        })
        .collect();
    for (name, label, process) in &holders {
        let seen = process.line();
        assert_eq!(seen, name.bytes().map(|byte| format!("{byte:02x}")).collect::<String>());
        // All of them are held at once.
        let json = redis.fairlock().args(["status", "--json", &exact(name)]).output().unwrap();
        harmless(&json.stdout);
        let state: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
        assert_eq!((&state["name"], &state["holders"][0]["label"]), (&(*name).into(), &(*label).into()));
        let shown = run(redis.fairlock().args(["status", &exact(name)]));
        harmless(&shown.stdout);
        let shown = String::from_utf8(shown.stdout).unwrap();
        assert_eq!(shown.lines().count(), 2, "{shown:?}");
        // A busy lock is reported in one line, and so is the wait.
        let busy = run(redis.fairlock().args(["run", "--no-wait", name, "--", "true"]));
        assert_eq!((busy.status.code(), stderr(&busy).lines().count()), (Some(122), 1), "{busy:?}");
    }
}

#[test]
fn the_line_of_a_wait_has_no_harmful_characters() {
    let redis = Redis::start();
    // The texts are short enough for one line of a terminal.
    let (name, label) = ("\u{1b}]0;", "\u{1b}[2J\r\ngone");
    let holder = redis.run(name, &["--label", label], "echo ready; exec sleep 1000");
    assert_eq!(holder.line(), "ready");
    // This run writes to a log.
    let waiter = redis.run(name, &["--label", label], "true");
    let said = waiter.complaint();
    harmless(said.as_bytes());
    assert!(said.contains(" by \\u{1b}[2J\\r\\ngone"), "{said:?}");
    let timed_out =
        with_time_to_queue(|seconds| redis.run(name, &["--timeout", &seconds.to_string()], "true").finish());
    assert_eq!(timed_out.code, 124, "{timed_out:?}");
    harmless(timed_out.stderr.as_bytes());
    // At a terminal there is no control sequence but the one that rewrites the line.
    let mut terminal = Terminal::open(&[("REDIS_URL", &redis.url()), ("NAME", name)]);
    let before = terminal.enter_and_expect("$F run \"$NAME\" -- true", " by \\u{1b}[2J\\r\\ngone");
    harmless(before.replace("\r\u{1b}[K", "").replace("\r\n", "\n").as_bytes());
    terminal.keys_and_expect("\x03", "PROMPT> ");
    let metrics = redis.fairlock().args(["exporter", "--once"]).output().unwrap();
    assert!(String::from_utf8(metrics.stdout).unwrap().contains(name), "a file has the name itself");
    harmless(terminal.command("$F exporter --once").replace("\r\n", "\n").as_bytes());
}

#[test]
fn the_error_of_a_wrong_call_has_no_harmful_characters_at_a_terminal() {
    let redis = Redis::start();
    let escape = "\u{1b}]0;title\u{7}\u{1b}[31mred\u{9b}2J";
    let mut terminal = Terminal::open(&[("REDIS_URL", &redis.url()), ("E", escape)]);
    for call in [
        "run x --timeout \"$E\" -- true",
        "run x --label \"$E\" --\"$E\" -- true",
        "\"$E\"",
        // The bracket would make it a pattern.
        "wait \"}${E%%[*}\"",
        "status x --redis \"$E\"",
        "status x --redis \"unix:///$E\"",
        "run x -- \"$E\"",
        "run x -- \"/$E\"",
        "--local --redis \"$E\" status x",
    ] {
        let said = terminal.command(&format!("$F {call}; echo code $?"));
        harmless(said.replace("\r\n", "\n").as_bytes());
        let code = if call.ends_with("-- \"$E\"") || call.ends_with("-- \"/$E\"") { "code 127" } else { "code 125" };
        assert!(said.contains(code), "{call}: {said:?}");
    }
}

#[test]
fn names_that_are_not_utf8_are_refused_and_arguments_of_the_command_are_not() {
    let redis = Redis::start();
    let invalid = OsStr::from_bytes(INVALID);
    let calls: [&[&OsStr]; 4] = [
        &["status".as_ref(), invalid],
        &["run".as_ref(), invalid, "--".as_ref(), "true".as_ref()],
        &["run".as_ref(), "x".as_ref(), "--label".as_ref(), invalid, "--".as_ref(), "true".as_ref()],
        &["status".as_ref(), "x".as_ref(), "--redis".as_ref(), invalid],
    ];
    for call in calls {
        let refused = run(redis.fairlock().args(call));
        assert_eq!(refused.status.code(), Some(125), "{refused:?}");
        assert!(stderr(&refused).contains("UTF-8"), "{refused:?}");
    }
    let refused = run(fairlock().args(["status", "x"]).env("REDIS_URL", invalid));
    assert!(refused.status.code() == Some(125) && stderr(&refused).contains("UTF-8"), "{refused:?}");
    let carried = run(redis.fairlock().args(["run", "x", "--", "printf", "%s"]).arg(invalid));
    assert_eq!((carried.status.code(), &*carried.stdout), (Some(0), INVALID));
    // A command with such a name has a label with the printable part of it.
    let missing = run(redis.fairlock().args(["run", "x", "--"]).arg(invalid));
    assert_eq!(missing.status.code(), Some(127), "{missing:?}");
}
