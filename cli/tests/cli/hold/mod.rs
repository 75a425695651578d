//! `fairlock hold`: a lock without a command, and `--fd` for scripts that lock in the middle.

mod descriptors;
mod one_file;
mod output;
mod signals;
mod stdin;
mod unlock;

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use fairlock::Client;

use crate::pty::Terminal;
use crate::shared::{Process, Redis, Signal, await_death, eventually, signal, with_time_to_queue};

fn is_free(redis: &Redis, name: &str) {
    eventually("the lock is free", || (redis.state(name)["state"] == "free").then_some(()));
}

fn token(redis: &Redis, name: &str) -> String {
    redis.state(name)["holders"][0]["token"].to_string()
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
        Self::start_by(&["sh", "-c"], folder, redis, text)
    }

    /// The words of the shell come before the text.
    fn start_by(shell: &[&str], folder: tempfile::TempDir, redis: &Redis, text: &str) -> Self {
        // No shell can trap a signal that was ignored when it began.
        let mut sh = Command::new("env");
        sh.arg("--default-signal").args(shell);
        sh.env("F", env!("CARGO_BIN_EXE_fairlock")).env("REDIS_URL", redis.url()).env("L", folder.path().join("lock"));
        let pipe = folder.path().join("steps");
        assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let text = format!("exec 8<>'{}'; step() {{ echo \"$@\"; read -r _ <&8; }}; {text}", pipe.display());
        Self { folder, process: Process::spawn(sh.arg(&text)) }
    }

    fn step(&self) {
        std::fs::write(self.folder.path().join("steps"), "\n").unwrap();
    }
}

/// The process that holds a lock for this script.
fn stand_in(script: u32) -> u32 {
    let words = format!("\0__hold\0{script}\0");
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    let mut all = all.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let words_of = |pid: u32| std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    all.find(|pid| words_of(*pid).contains(&words)).expect("a stand-in")
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
}

/// `flock 9` means a descriptor.
#[test]
fn the_number_of_an_open_descriptor_is_no_name() {
    let redis = Redis::start();
    let ask = |line: &str| Script::start(&redis, &format!("exec 9>$L; {line}; exit $?")).process.finish();
    let ended = ask("$F hold 9");
    let tip = "fairlock: 9 is an open descriptor: `fairlock hold NAME --fd 9`\n";
    assert_eq!((ended.code, ended.stderr.as_str(), ended.stdout.as_str()), (125, tip, ""));
    for line in ["$F hold 9 --fd 9 && $F hold 9 -u", "sleep 1 | $F hold 7"] {
        assert_eq!(ask(line).code, 0, "{line}");
    }
}

#[tokio::test]
async fn hold_ends_when_its_lease_is_lost() {
    let redis = Redis::start();
    let mut hold = redis.fairlock();
    hold.args(["hold", "x", "--lease", "12s"]).stdin(Stdio::piped()).stderr(Stdio::piped());
    let mut child = hold.spawn().unwrap();
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
        "exec 9>$L; token=$($F hold x --fd 9 --print token) || exit; step $token; exec 9>&-; step closed; \
         exec 9>$L; $F hold x --fd 9 --print token || exit; step again",
    );
    assert_eq!(script.process.line(), token(&redis, "x"));
    let label = redis.state("x")["holders"][0]["label"].as_str().unwrap().to_owned();
    let next = redis.waiter("x", &[], "echo granted");
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
    let script = Script::start(&redis, "exec 9>$L; $F hold x --fd 9 || exit; sleep 1000 & echo $!");
    let child = script.process.number();
    await_death(script.process.id());
    assert_eq!(redis.state("x")["state"], "held");
    signal(child, Signal::TERM);
    is_free(&redis, "x");
}

#[tokio::test]
async fn a_script_is_sent_a_signal_when_its_lease_is_lost() {
    let redis = Redis::start();
    let client = Client::connect(&redis.url()).await.unwrap();
    for (options, code) in [("", 143), ("--signal USR1", 7)] {
        let text = format!(
            "trap 'exit 7' USR1; exec 9>$L; $F hold x --fd 9 {options} || exit; echo ready; while :; do sleep .1; done"
        );
        let script = Script::start(&redis, &text);
        assert_eq!(script.process.line(), "ready", "flock prints nothing either");
        client.lock("x").unwrap().break_lease(token(&redis, "x").parse().unwrap()).await.unwrap();
        let ended = script.process.finish();
        assert!(ended.code == code && ended.stderr.contains("the lease on x is lost"), "{options}: {ended:?}");
        is_free(&redis, "x");
    }
}

/// Ends the lease politely, when another one waits for the lock.
fn break_politely(redis: &Redis) -> (Process, Process) {
    let next = redis.waiter("x", &[], "echo granted");
    let ending = Process::spawn(redis.fairlock().args(["break", "x", "--token", &token(redis, "x")]));
    (next, ending)
}

#[test]
fn after_a_polite_break_the_next_holder_comes_when_the_script_is_done() {
    let redis = Redis::start();
    let text = "trap 'step told; exit' TERM; exec 9>$L; $F hold x --fd 9 --lease 10m || exit; echo ready; \
                while :; do sleep .1; done";
    let script = Script::start(&redis, text);
    assert_eq!(script.process.line(), "ready");
    let (next, ending) = break_politely(&redis);
    assert_eq!(script.process.line(), "told");
    // A stand-in that releases at once has done so by now.
    std::thread::sleep(Duration::from_millis(500));
    let state = redis.state("x");
    assert!(state["holders"][0]["broken"] == true && state["waiting"] == 1, "the script is at work: {state}");
    script.step();
    assert_eq!(next.line(), "granted");
    let ended = ending.finish();
    assert!(ended.code == 0 && ended.stderr.contains("let go"), "{ended:?}");
}

/// The lock is free because its lease has ended, and not because the script is done.
#[test]
fn a_script_that_ignores_a_polite_break_has_not_let_go() {
    let redis = Redis::start();
    for _ in 0..3 {
        let script = Script::start(
            &redis,
            "trap '' TERM; exec 9>$L; $F hold x --fd 9 --lease 3s || exit; while :; do step at work; done",
        );
        assert_eq!(script.process.line(), "at work");
        let (next, ending) = break_politely(&redis);
        assert_eq!(next.line(), "granted");
        let ended = ending.finish();
        assert!(ended.code == 0 && ended.stderr.contains("did not answer, and its lease has ended"), "{ended:?}");
        next.finish();
        is_free(&redis, "x");
        script.step();
        assert_eq!(script.process.line(), "at work");
    }
}

#[test]
fn after_a_polite_break_the_next_holder_comes_when_stdin_ends() {
    let redis = Redis::start();
    let mut hold = redis.fairlock();
    hold.args(["hold", "x", "--lease", "10m"]).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = hold.spawn().unwrap();
    eventually("it is held", || (redis.state("x")["state"] == "held").then_some(()));
    let (next, _ending) = break_politely(&redis);
    let mut said = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(child.stderr.take().unwrap()), &mut said).unwrap();
    assert!(said.contains("the lease on x is lost: an operator broke it"), "{said}");
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(redis.state("x")["waiting"], 1, "the script is at work");
    drop(child.stdin.take());
    assert_eq!(child.wait().unwrap().code(), Some(123));
    assert_eq!(next.line(), "granted");
}

/// A loss is told five seconds before the lease ends at the server, which may come back in between.
#[test]
fn a_server_that_comes_back_after_a_loss_has_no_next_holder_while_the_script_works() {
    let redis = Redis::start();
    let client = Client::builder().url(&redis.url()).connect().blocking().unwrap();
    let holder = || client.lock("x").unwrap().inspect().blocking().unwrap().holders.pop();
    let text = "trap 'step told; exit' TERM; exec 9>$L; $F hold x --fd 9 --lease 20s || exit; echo ready; \
                while :; do sleep .1; done";
    let in_time = (0..5).any(|_| {
        let script = Script::start(&redis, text);
        assert_eq!(script.process.line(), "ready");
        redis.stop();
        assert_eq!(script.process.line(), "told");
        let told = Instant::now();
        redis.cont();
        // A stand-in that has released the lease when it was lost is heard now.
        std::thread::sleep(Duration::from_millis(500));
        let held = holder().is_some();
        // Otherwise the lease may have ended by itself.
        let in_time = told.elapsed() < Duration::from_secs(2);
        assert!(held || !in_time, "the lease goes on to its end");
        script.step();
        is_free(&redis, "x");
        in_time
    });
    assert!(in_time);
}

#[test]
fn a_hold_that_is_ended_while_it_waits_leaves_the_queue() {
    let (redis, holder) = Redis::held("the holder");
    // The script goes on: its end would end the wait as well.
    let script = Script::start(&redis, "exec 9>$L; $F hold x --fd 9 & echo $!; wait $!; step code $?");
    let hold = script.process.number();
    redis.await_waiting("x", 1);
    signal(hold, Signal::KILL);
    redis.await_waiting("x", 0);
    assert_eq!(script.process.line(), "code 137");

    let mut terminal = Terminal::open(&[("REDIS_URL", &redis.url())]);
    terminal.command(&format!("exec 9>{}", script.folder.path().join("lock").display()));
    terminal.enter_and_expect("$F hold x --fd 9; echo code $?", "1st of 1 for x");
    terminal.keys_and_expect("\x03", "PROMPT> ");
    redis.await_waiting("x", 0);
    // Once the stand-in holds the lock, the keys of the terminal do not reach it.
    holder.signal(Signal::TERM);
    assert_eq!(terminal.enter_for("code ", "$F hold x --fd 9; echo code $?"), 0);
    terminal.expect("PROMPT> ");
    terminal.enter_and_expect("sh -c 'echo ready; exec sleep 1000'", "ready");
    terminal.keys_and_expect("\x03", "PROMPT> ");
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
    terminal.enter_and_expect(&format!("sh -c '{script}' 9>{}", file.path().display()), "ready");
    terminal.keys_and_expect("\x03", "interrupted");
    // Whoever comes now would be granted the lock at once if the stand-in had ended.
    let other = with_time_to_queue(|seconds| redis.run("x", &["--timeout", &seconds.to_string()], "true").finish());
    assert!(other.code == 124 && redis.state("x")["state"] == "held", "{other:?}");
    // SIGQUIT, for which it has no trap.
    terminal.keys_and_expect("\x1c", "PROMPT> ");
    is_free(&redis, "x");
}

/// Nor is the stand-in stopped with it: nobody else would renew the lease.
#[test]
fn ctrl_z_in_a_script_leaves_it_its_lock() {
    let redis = Redis::start();
    let mut terminal = Terminal::open(&[("REDIS_URL", &redis.url())]);
    let file = tempfile::NamedTempFile::new().unwrap();
    terminal.command("export F READY=ready");
    let script = "$F hold x --lease 1s --fd 9; echo $READY; read LINE";
    terminal.enter_and_expect(&format!("sh -c '{script}' 9>{}", file.path().display()), "ready");
    terminal.keys_and_expect("\x1a", "PROMPT> ");
    let other = redis.run("x", &["--timeout", "3"], "true").finish();
    assert!(other.code == 124 && redis.state("x")["state"] == "held", "{other:?}");
    terminal.command("kill -KILL %1");
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

#[test]
fn a_hold_at_a_terminal_says_what_ends_it() {
    let redis = Redis::start();
    let mut terminal = Terminal::open(&[("REDIS_URL", &redis.url())]);
    terminal.enter_and_expect("$F hold x -a y", "x, y is held until Ctrl-D");
    assert_eq!(redis.state("y")["state"], "held");
    terminal.keys_and_expect("\x04", "PROMPT> ");
    assert_eq!(redis.state("x")["state"], "free");
    terminal.enter("$F hold x 2>&1 | cat; echo said");
    eventually("it is held", || (redis.state("x")["state"] == "held").then_some(()));
    assert!(!terminal.keys_and_expect("\x04", "said").contains("Ctrl-D"), "not to a program");
}
