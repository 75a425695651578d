//! What is left of a command that a signal has ended keeps the lock; a daemon does not. `signals.rs` has the ways to
//! signal a run.

use crate::shared::{Process, Redis, STUBBORN, Signal, await_death, await_state, eventually, lives, signal, stat};

/// No test waits that long, so a grant is not due to the end of the lease.
const LONG: [&str; 2] = ["--lease", "10h"];

/// A run whose command, a shell, dies of TERM at once, and whose step prints its number and lives on. `setsid` or
/// nothing comes before the step.
fn start(redis: &Redis, options: &[&str], before: &str) -> (Process, u32) {
    let holder = redis.run("x", options, &format!("{before} sh -c \"{}\"; :", STUBBORN.replace('$', "\\$")));
    let step = holder.number();
    (holder, step)
}

/// The same after TERM to fairlock, which has said for what it keeps the lock.
fn left(redis: &Redis, options: &[&str], before: &str) -> (Process, u32) {
    let (holder, step) = start(redis, options, before);
    holder.signal(Signal::TERM);
    await_kept(&holder, step);
    (holder, step)
}

#[track_caller]
fn await_kept(holder: &Process, step: u32) {
    // A shell tells of its children that were ended.
    let told = "the command has ended; x stays held until this has ended, too: ";
    let said = std::iter::repeat_with(|| holder.complaint()).find(|line| line.contains(told)).unwrap();
    assert!(said.contains(&format!("{step} (sh)")), "{said}");
}

fn holder_of(redis: &Redis) -> serde_json::Value {
    redis.state("x")["holders"][0]["token"].clone()
}

#[test]
fn the_lock_is_renewed_until_the_rest_has_ended_and_the_exit_code_is_the_commands() {
    let redis = Redis::start();
    let (holder, step) = left(&redis, &["--lease", "6s"], "");
    let token = holder_of(&redis);
    // Longer than the lease, which is renewed meanwhile.
    std::thread::sleep(std::time::Duration::from_secs(8));
    assert_eq!(holder_of(&redis), token);
    assert!(lives(step));
    signal(step, Signal::KILL);
    assert_eq!(holder.finish().code, 143);
    assert_eq!(holder_of(&redis), serde_json::Value::Null);
}

#[test]
fn a_command_that_exits_after_a_signal_leaves_the_lock_to_its_rest_too() {
    let redis = Redis::start();
    let step = STUBBORN.replace('$', "\\$");
    let script = format!("trap 'exit 6' TERM; setsid sh -c \"{step}\" & while :; do wait; done");
    let holder = redis.run("x", &LONG, &script);
    let step = holder.number();
    holder.signal(Signal::TERM);
    await_kept(&holder, step);
    signal(step, Signal::KILL);
    assert_eq!(holder.finish().code, 6);
}

/// As if the service manager had signalled all processes, and the shim had heard of the command's end first.
#[test]
fn a_signal_that_comes_with_the_end_of_the_command_counts() {
    let redis = Redis::start();
    let step = STUBBORN.replace('$', "\\$");
    let script = format!("trap 'exit 6' TERM; setsid sh -c \"{step}\" & echo $$; while :; do wait; done");
    let holder = redis.run("x", &LONG, &script);
    let [one, other] = [(); 2].map(|()| holder.number());
    // The step leads its session.
    let (command, step) = if stat(one).unwrap()[3] == one.to_string() { (other, one) } else { (one, other) };
    let shim = holder.shim(command);
    signal(shim, Signal::STOP);
    await_state(shim, "T");
    signal(command, Signal::TERM);
    await_death(command);
    holder.signal(Signal::TERM);
    eventually("fairlock has heard the signal", || {
        let status = std::fs::read_to_string(format!("/proc/{}/status", holder.id())).unwrap();
        let pending = status.lines().find_map(|line| line.strip_prefix("ShdPnd:")).unwrap().trim().to_owned();
        (u64::from_str_radix(&pending, 16).unwrap() == 0).then_some(())
    });
    signal(shim, Signal::CONT);
    await_kept(&holder, step);
    signal(step, Signal::KILL);
    assert_eq!(holder.finish().code, 6);
}

#[test]
fn a_further_signal_goes_to_what_is_left() {
    for before in ["", "setsid", "timeout 1h"] {
        let redis = Redis::start();
        let step = "trap '' TERM; trap 'echo heard; exit' INT; echo \\$\\$; while :; do sleep 0.02; done";
        let holder = redis.run("x", &LONG, &format!("{before} sh -c \"{step}\"; :"));
        let step = holder.number();
        holder.signal(Signal::TERM);
        await_kept(&holder, step);
        holder.signal(Signal::INT);
        assert_eq!(holder.line(), "heard", "{before}");
        assert_eq!(holder.finish().code, 143, "{before}");
    }
}

#[test]
fn a_signal_continues_what_is_stopped() {
    for before in ["", "setsid"] {
        let redis = Redis::start();
        let step = "trap 'echo heard; exit' TERM; echo \\$\\$; while :; do sleep 0.02; done";
        let holder = redis.run("x", &LONG, &format!("{before} sh -c \"{step}\"; :"));
        let step = holder.number();
        signal(step, Signal::STOP);
        await_state(step, "T");
        holder.signal(Signal::TERM);
        assert_eq!(holder.line(), "heard", "{before}");
    }
}

#[test]
fn a_lost_lease_ends_the_rest_and_the_exit_code_stays_the_commands() {
    for before in ["", "setsid"] {
        let redis = Redis::start();
        let (holder, step) = left(&redis, &["--lease", "6s"], before);
        let next = crate::shared::witness(&redis, "x", step);
        let ended = redis.fairlock().args(["break", "x", "--force"]).output().unwrap();
        assert!(ended.status.success(), "{ended:?}");
        await_death(step);
        let ended = holder.finish();
        assert_eq!(ended.code, 143, "{before}: {ended:?}");
        assert!(ended.stderr.contains("is lost: "), "{ended:?}");
        assert!(ended.stderr.contains("; ending what the command left behind"), "{ended:?}");
        assert!(!ended.stderr.contains("was not held to the end"), "told once: {ended:?}");
        drop(next);
    }
}

#[test]
fn the_rest_is_dead_before_the_lease_ends() {
    let redis = Redis::start();
    let (holder, step) = left(&redis, &["--lease", "10s", "--kill-after", "1h"], "setsid");
    let next = crate::shared::witness(&redis, "x", step);
    // The shim alone knows of the deadline.
    holder.signal(Signal::STOP);
    assert_eq!(next.line(), "dead");
    holder.signal(Signal::CONT);
    assert_eq!(holder.finish().code, 143);
}

#[test]
fn the_death_of_fairlock_ends_the_rest_and_gives_the_lock_back() {
    for before in ["", "setsid"] {
        let redis = Redis::start();
        let (holder, step) = left(&redis, &[&LONG[..], &["--kill-after", "300ms"]].concat(), before);
        let next = crate::shared::witness(&redis, "x", step);
        holder.signal(Signal::KILL);
        assert_eq!(next.line(), "dead", "{before}");
    }
}

/// The death of a process in between makes an orphan of the step, while the command goes on.
#[test]
fn a_step_that_loses_its_parent_by_the_signal_stays_part_of_the_work() {
    let redis = Redis::start();
    let step = "trap : TERM; echo \\$\\$; while :; do sleep 1; done";
    let script = format!(
        "trap : TERM; sh -c 'setsid sh -c \"{step}\" & wait' & while :; do wait; [ -e $0 ] && exit 6; sleep 0.02; done"
    );
    let folder = tempfile::tempdir().unwrap();
    let end = folder.path().join("end");
    let mut run = redis.fairlock();
    run.args(["run", "x"]).args(LONG).args(["--", "sh", "-c", &script]).arg(&end);
    let holder = Process::spawn(&mut run);
    let step = holder.number();
    let between = stat(step).unwrap()[1].parse().unwrap();
    holder.signal(Signal::TERM);
    await_death(between);
    // In that time the shim takes each other orphan for a daemon.
    std::thread::sleep(std::time::Duration::from_secs(4));
    std::fs::write(end, "").unwrap();
    await_kept(&holder, step);
    signal(step, Signal::KILL);
    assert_eq!(holder.finish().code, 6);
}

/// Starts a daemon, and then this script when the daemon has said its number.
fn with_daemon(redis: &Redis, script: &str) -> (Process, u32) {
    let daemon = "trap \"echo the daemon heard; exit\" TERM; echo $$; echo > $D/go; while :; do sleep 0.02; done";
    let folder = tempfile::tempdir().unwrap();
    let script = format!("mkfifo $D/go; (setsid sh -c '{daemon}' &); read line < $D/go; echo running; {script}");
    let mut run = redis.fairlock();
    let holder =
        Process::spawn(run.env("D", folder.path()).args(["run", "x"]).args(LONG).args(["--", "sh", "-c", &script]));
    let daemon = holder.number();
    assert_eq!(holder.line(), "running");
    (holder, daemon)
}

/// The shim must have looked twice to take it for a daemon. On a busy machine that may last: then it is given more time.
#[test]
fn a_daemon_of_the_command_neither_hears_the_signal_nor_keeps_the_lock() {
    for number in [Signal::TERM, Signal::KILL] {
        for seconds in [3, 6, 12, 24, 48] {
            let redis = Redis::start();
            let (holder, daemon) = with_daemon(&redis, "echo $$; exec sleep 1000");
            let command = holder.number();
            std::thread::sleep(std::time::Duration::from_secs(seconds));
            if number == Signal::KILL {
                signal(command, number)
            } else {
                holder.signal(number)
            }
            await_death(command);
            let is_free = || (holder_of(&redis) == serde_json::Value::Null).then_some(true);
            let is_kept = || holder.has_complained("stays held").then_some(false);
            let was_free = eventually("the lock is free or kept", || is_free().or_else(is_kept));
            assert!(lives(daemon), "{number:?}");
            signal(daemon, Signal::KILL);
            assert!(was_free || seconds < 48, "a daemon keeps the lock");
            if was_free {
                break;
            }
        }
    }
}

/// It is a daemon from its first moment on, as its parents show.
#[test]
fn a_young_daemon_does_not_hear_a_signal() {
    let redis = Redis::start();
    let (holder, daemon) = with_daemon(&redis, "trap 'echo heard' TERM; echo $$; while :; do sleep 0.02; done");
    let command = holder.number();
    holder.signal(Signal::TERM);
    assert_eq!(holder.line(), "heard");
    assert!(lives(daemon));
    signal(daemon, Signal::KILL);
    signal(command, Signal::KILL);
    let ended = holder.finish();
    assert_eq!((ended.code, ended.stdout.as_str()), (137, ""), "{ended:?}");
}
