//! `fairlock hold`: a lock without a command, and `--fd` for scripts that lock in the middle.

use std::process::{Command, Stdio};

use fairlock::Client;

use crate::pty::Terminal;
use crate::shared::{Process, Redis, Signal, await_death, eventually, signal};

fn is_free(redis: &Redis, name: &str) {
    eventually("the lock is free", || (redis.state(name)["state"] == "free").then_some(()));
}

fn token(redis: &Redis, name: &str) -> String {
    redis.state(name)["holder"]["token"].to_string()
}

/// A script that knows fairlock as `$F` and a file of its own as `$L`, and waits for a line at each `step`.
struct Script {
    folder: tempfile::TempDir,
    process: Process,
}

impl Script {
    fn start(redis: &Redis, text: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self::start_in(folder, redis, text)
    }

    fn start_in(folder: tempfile::TempDir, redis: &Redis, text: &str) -> Self {
        let mut sh = Command::new("sh");
        sh.env("F", env!("CARGO_BIN_EXE_fairlock")).env("REDIS_URL", redis.url()).env("L", folder.path().join("lock"));
        let pipe = folder.path().join("steps");
        assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let text = format!("exec 8<>'{}'; step() {{ echo \"$@\"; read -r _ <&8; }}; {text}", pipe.display());
        Self { folder, process: Process::spawn(sh.args(["-c", &text])) }
    }

    fn step(&self) {
        std::fs::write(self.folder.path().join("steps"), "\n").unwrap();
    }
}

#[test]
fn hold_keeps_the_lock_until_stdin_ends_or_a_signal_comes() {
    let redis = Redis::start();
    for (end, code) in [(None, 0), (Some(Signal::INT), 0), (Some(Signal::TERM), 143)] {
        let mut hold = redis.fairlock();
        let mut child = hold.args(["hold", "x"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut said = String::new();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(child.stdout.take().unwrap()), &mut said).unwrap();
        assert_eq!(said.trim(), token(&redis, "x"));
        // Otherwise `wait` would close the pipe.
        let stdin = child.stdin.take();
        match end {
            None => drop(stdin),
            Some(number) => signal(child.id(), number),
        }
        assert_eq!(child.wait().unwrap().code(), Some(code));
        assert_eq!(redis.state("x")["state"], "free", "{end:?}");
    }
    let ended = Process::spawn(redis.fairlock().args(["hold", "x"])).finish();
    assert!(ended.code == 0 && ended.stderr.contains("stdin was at its end already"), "{ended:?}");
}

#[test]
fn hold_takes_the_options_of_run() {
    let redis = Redis::start();
    let _holder = redis.run("x", &[], "echo; exec sleep 1000");
    _holder.line();
    let code = |words: &[&str]| Process::spawn(redis.fairlock().args(["hold"]).args(words)).finish().code;
    assert_eq!(code(&["-n", "x"]), 122);
    assert_eq!(code(&["-n", "-E", "0", "a", "-a", "x"]), 0);
    assert_eq!(code(&["-t", "200ms", "x"]), 124);
    assert_eq!(redis.state("a")["state"], "free", "all or none");
}

#[tokio::test]
async fn hold_ends_when_its_lease_is_lost() {
    let redis = Redis::start();
    let mut hold = redis.fairlock();
    let mut child = hold.args(["hold", "x"]).stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    eventually("it is held", || (redis.state("x")["state"] == "held").then_some(()));
    let client = Client::connect(&redis.url()).await.unwrap();
    client.lock("x").unwrap().break_lease(token(&redis, "x").parse().unwrap()).await.unwrap();
    let _stdin = child.stdin.take();
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(
        output.status.code() == Some(123) && said.contains("the lease on x is lost: an operator broke it"),
        "{said}"
    );
}

#[test]
fn a_script_holds_the_lock_until_it_closes_its_descriptor() {
    let redis = Redis::start();
    let script = Script::start(
        &redis,
        "exec 9>$L; token=$($F hold x --fd 9) || exit; step $token; exec 9>&-; step closed; \
         exec 9>$L; $F hold x --fd 9 || exit; step again",
    );
    assert_eq!(script.process.line(), token(&redis, "x"));
    let label = redis.state("x")["holder"]["label"].as_str().unwrap().to_owned();
    let next = redis.run("x", &[], "echo granted");
    redis.await_waiting("x", 1);
    script.step();
    assert_eq!(script.process.line(), "closed");
    assert_eq!(next.line(), "granted");
    next.finish();
    script.step();
    let second = script.process.line();
    assert_eq!(second, token(&redis, "x"), "{label}");
    assert_eq!(script.process.line(), "again");
    // The lock is given back however the script ends.
    script.process.signal(Signal::KILL);
    is_free(&redis, "x");
}

#[test]
fn a_program_that_inherited_the_descriptor_keeps_the_lock() {
    let redis = Redis::start();
    let script = Script::start(&redis, "exec 9>$L; $F hold x --fd 9 >/dev/null || exit; sleep 1000 & echo $!");
    let child = script.process.number();
    await_death(script.process.id());
    assert_eq!(redis.state("x")["state"], "held");
    signal(child, Signal::TERM);
    is_free(&redis, "x");
}

/// The scripts may also use the same file, as those that were written for flock do.
#[test]
fn scripts_that_hold_the_same_lock_take_turns() {
    let redis = Redis::start();
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let text = format!(
        "for i in 1 2 3; do exec 9>'{0}.lock'; $F hold x --fd 9 -q >/dev/null || exit; \
         echo in >>'{0}'; sleep .05; echo out >>'{0}'; exec 9>&-; done",
        log.display()
    );
    let scripts: Vec<Script> = (0..3).map(|_| Script::start(&redis, &text)).collect();
    for script in scripts {
        assert_eq!(script.process.finish().code, 0);
    }
    let log = std::fs::read_to_string(&log).unwrap();
    assert_eq!(log, "in\nout\n".repeat(9));
}

#[tokio::test]
async fn a_script_is_sent_a_signal_when_its_lease_is_lost() {
    let redis = Redis::start();
    let client = Client::connect(&redis.url()).await.unwrap();
    for (options, code) in [("", 143), ("--signal USR1", 7)] {
        let text = format!(
            "trap 'exit 7' USR1; exec 9>$L; $F hold x --fd 9 {options} >/dev/null || exit; echo; while :; do sleep .1; done"
        );
        let script = Script::start(&redis, &text);
        script.process.line();
        client.lock("x").unwrap().break_lease(token(&redis, "x").parse().unwrap()).await.unwrap();
        let ended = script.process.finish();
        assert!(ended.code == code && ended.stderr.contains("the lease on x is lost"), "{options}: {ended:?}");
        is_free(&redis, "x");
    }
}

#[test]
fn a_hold_that_is_ended_while_it_waits_leaves_the_queue() {
    let redis = Redis::start();
    let holder = redis.run("x", &[], "echo; exec sleep 1000");
    holder.line();
    let script = Script::start(&redis, "exec 9>$L; $F hold x --fd 9 & echo $!; wait $!; echo code $?");
    let hold = script.process.number();
    redis.await_waiting("x", 1);
    signal(hold, Signal::KILL);
    redis.await_waiting("x", 0);
    assert_eq!(script.process.line(), "code 137");

    let mut terminal = Terminal::open(&[("REDIS_URL", &redis.url())]);
    terminal.command(&format!("exec 9>{}", script.folder.path().join("lock").display()));
    terminal.enter("$F hold x --fd 9; echo code $?");
    terminal.expect("1st of 1 for x");
    terminal.keys("\x03");
    terminal.expect("PROMPT> ");
    redis.await_waiting("x", 0);
    // Once the stand-in holds the lock, the keys of the terminal do not reach it.
    holder.signal(Signal::TERM);
    terminal.enter("$F hold x --fd 9; echo code $?");
    assert_eq!(terminal.number_after("code "), 0);
    terminal.expect("PROMPT> ");
    terminal.enter("sh -c 'echo ready; exec sleep 1000'");
    terminal.expect("ready");
    terminal.keys("\x03");
    terminal.expect("PROMPT> ");
    assert_eq!(redis.state("x")["state"], "held");
    terminal.command("exec 9>&-");
    is_free(&redis, "x");
}

/// A script without job control and its stand-in would share a process group, to which Ctrl-C is sent.
#[test]
fn ctrl_c_in_a_script_leaves_it_its_lock() {
    let redis = Redis::start();
    let mut terminal = Terminal::open(&[("REDIS_URL", &redis.url())]);
    let file = tempfile::NamedTempFile::new().unwrap();
    // The terminal repeats what is typed, so the words to wait for are not in it.
    terminal.command("export F READY=ready STRUCK=interrupted");
    let script = "trap \"echo $STRUCK\" INT; $F hold x --fd 9; echo $READY; while :; do sleep .1; done";
    terminal.enter(&format!("sh -c '{script}' 9>{}", file.path().display()));
    terminal.expect("ready");
    terminal.keys("\x03");
    terminal.expect("interrupted");
    // Whoever comes now would be granted the lock at once if the stand-in had ended.
    let other = redis.run("x", &["--timeout", "2s"], "true").finish();
    assert!(other.code == 124 && redis.state("x")["state"] == "held", "{other:?}");
    // SIGQUIT, for which it has no trap.
    terminal.keys("\x1c");
    terminal.expect("PROMPT> ");
    is_free(&redis, "x");
}

#[test]
fn a_descriptor_that_cannot_be_watched_is_refused() {
    let redis = Redis::start();
    for (text, says) in [
        ("$F hold x --fd 9", "descriptor 9: No such file or directory (os error 2); open a file first"),
        ("$F hold x --fd 8", "descriptor 8 is no file"),
    ] {
        let ended = Script::start(&redis, text).process.finish();
        assert!(ended.code == 125 && ended.stderr.contains(says), "{ended:?}");
    }
}
