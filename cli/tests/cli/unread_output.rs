//! stderr without a reader: a full pipe, a closed one, or a stopped terminal. fairlock does its work in time all the
//! same.

use std::io::{PipeReader, Read as _, Write as _, pipe};
use std::process::{Command, Stdio};

use crate::pty::Terminal;
use crate::shared::{Process, Redis, STUBBORN, Signal, await_death, parent, signal, witness};

/// The kinds of stderr without a reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unheard {
    /// A pipe that is full.
    Full,
    /// A pipe without a reader.
    Broken,
    /// There is no stderr.
    Closed,
}

const ALL: [Unheard; 3] = [Unheard::Full, Unheard::Broken, Unheard::Closed];

/// `fairlock run x OPTIONS -- sh -c SCRIPT` with such a stderr. A pipe stays full while its reader is kept.
fn run(unheard: Unheard, redis: &Redis, name: &str, options: &[&str], script: &str) -> (Process, Option<PipeReader>) {
    run_by(&mut Command::new("sh"), unheard, redis, name, options, script)
}

/// The same with this shell.
fn run_by(
    command: &mut Command,
    unheard: Unheard,
    redis: &Redis,
    name: &str,
    options: &[&str],
    script: &str,
) -> (Process, Option<PipeReader>) {
    let close = if unheard == Unheard::Closed { "exec \"$@\" 2>&-" } else { "exec \"$@\"" };
    command.env("REDIS_URL", redis.url()).args(["-c", close, "sh", env!("CARGO_BIN_EXE_fairlock"), "run", name]);
    command.args(options).args(["--", "sh", "-c", script]);
    let (reader, mut writer) = pipe().unwrap();
    rustix::io::ioctl_fionbio(&writer, true).unwrap();
    while writer.write(&[b'.'; 4096]).is_ok() {}
    rustix::io::ioctl_fionbio(&writer, false).unwrap();
    let process = Process::spawn_speaking_to(Stdio::from(writer), command);
    (process, (unheard == Unheard::Full).then_some(reader))
}

#[test]
fn when_fairlock_is_killed_its_command_is_dead_before_the_next_grant() {
    let redis = Redis::start();
    let all = ALL.map(|unheard| {
        let name = format!("{unheard:?}");
        // The lease is so long that a slow machine has half a second for the kill.
        let (holder, pipe) = run(unheard, &redis, &name, &["--lease", "10s", "--kill-after", "1h"], STUBBORN);
        let command = holder.number();
        let witness = witness(&redis, &name, command);
        holder.signal(Signal::KILL);
        (name, witness, holder, pipe)
    });
    for (name, witness, ..) in all {
        assert_eq!(witness.line(), "dead", "{name}");
    }
}

#[test]
fn a_lost_lease_ends_the_command_and_fairlock() {
    let redis = Redis::start();
    let all = ALL.map(|unheard| {
        let (holder, pipe) = run(unheard, &redis, &format!("{unheard:?}"), &["--lease", "9s"], STUBBORN);
        (unheard, holder.number(), holder, pipe)
    });
    redis.stop();
    for (unheard, command, holder, _pipe) in all {
        await_death(command);
        assert_eq!(holder.finish().code, 123, "{unheard:?}");
    }
}

#[test]
fn a_waiter_whose_stderr_nobody_reads_takes_its_turn() {
    let redis = Redis::start();
    for unheard in ALL {
        let holder = redis.hold("x", &[]);
        let (waiter, _pipe) = run(unheard, &redis, "x", &[], "echo granted");
        redis.await_waiting("x", 1);
        // The wait is so long that it is reported.
        std::thread::sleep(std::time::Duration::from_secs(1));
        holder.signal(Signal::TERM);
        assert_eq!(waiter.line(), "granted", "{unheard:?}");
        assert_eq!(waiter.finish().code, 0, "{unheard:?}");
    }
}

#[test]
fn output_is_kept_for_a_reader_that_comes_late() {
    let redis = Redis::start();
    // The shell would report that the sleep was terminated, and wait for a reader.
    let script = "exec 2> /dev/null; trap 'echo term' TERM; echo; while :; do sleep 0.1; done";
    let (holder, pipe) = run(Unheard::Full, &redis, "x", &["--lease", "10s"], script);
    holder.line();
    redis.stop();
    assert_eq!(holder.line(), "term");
    let mut said = String::new();
    pipe.unwrap().read_to_string(&mut said).unwrap();
    // Other messages may follow.
    let lost = "\nfairlock: the lease on x is lost: it was not renewed in time; ending the command\n";
    assert!(said.contains(".fairlock: ") && said.contains(lost), "{:?}", said.trim_matches('.'));
    assert_eq!(holder.finish().code, 123);
}

/// Runs a command that fills a terminal, lets the terminal get stuck, by Ctrl-S or because nobody reads what it shows, and
/// passes the process id of fairlock to `fault`: the command is dead before the next one is granted the lock.
fn at_a_stuck_terminal(fault: impl Fn(&Redis, u32) + Sync) {
    let at = &|by_ctrl_s: bool| {
        let redis = Redis::start();
        let mut terminal = Terminal::open(&[("REDIS_URL", &redis.url())]);
        let fill = "trap \"\" TERM INT; echo pid $$; while :; do echo; done";
        let command = terminal.enter_for("pid ", &format!("$F run x --lease 10s --kill-after 1h -- sh -c '{fill}'"));
        let fairlock = parent(parent(command));
        let _stopped = by_ctrl_s.then(|| terminal.stop_output());
        let _closed = (!by_ctrl_s).then(|| terminal.close_eyes());
        terminal.await_stuck();
        let witness = witness(&redis, "x", command);
        fault(&redis, fairlock);
        assert_eq!(witness.line(), "dead", "by Ctrl-S: {by_ctrl_s}");
        await_death(command);
        await_death(fairlock);
    };
    std::thread::scope(|scope| drop([true, false].map(|by_ctrl_s| scope.spawn(move || at(by_ctrl_s)))));
}

#[test]
fn at_a_stuck_terminal_the_command_of_a_killed_fairlock_is_dead_before_the_next_grant() {
    at_a_stuck_terminal(|_, fairlock| signal(fairlock, Signal::KILL));
}

#[test]
fn at_a_stuck_terminal_the_command_is_dead_before_the_next_grant_when_its_lease_is_lost() {
    at_a_stuck_terminal(|redis, fairlock| {
        redis.stop();
        await_death(fairlock);
        redis.cont();
    });
}

/// As where a container allows few threads.
#[test]
fn without_a_thread_that_writes_a_failure_is_told_all_the_same() {
    let redis = Redis::start();
    // No thread can have a stack of this size.
    let (variable, size) = ("RUST_MIN_STACK", (1_u64 << 50).to_string());
    for words in [&["run", "x", "true"][..], &["hold", "x"], &["run", "x", "no-such-command"]] {
        let ended = Process::spawn(redis.fairlock().env(variable, &size).args(words)).finish();
        assert!(matches!(ended.code, 125 | 127) && ended.stderr.starts_with("fairlock: "), "{words:?}: {ended:?}");
    }
    // But never at the price of waiting for a reader.
    for unheard in ALL {
        let (process, _pipe) = run_by(Command::new("sh").env(variable, &size), unheard, &redis, "x", &[], "true");
        assert_eq!(process.finish().code, 125, "{unheard:?}");
    }
}
