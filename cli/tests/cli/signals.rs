//! No signal gives the lock away while the work goes on: each way to signal a run, with each kind of command.
//!
//! In each cell of this matrix the command has a step that handles signals and ends only when the test lets it. The next
//! holder must start after the last line of the step.

use std::fs::File;
use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;
use std::thread;

use crate::pty::Terminal;
use crate::shared::{Process, Redis, Signal, children, eventually, lives, signal, stat};

/// Writes a line when it has started, for each signal that it hears, and at its end.
const STEP: &str = r#"
open(LOG, '>>', "$ENV{D}/log");
open(GO, '+<', "$ENV{D}/go");
for my $name (qw(INT TERM HUP QUIT)) { $SIG{$name} = sub { syswrite(LOG, "heard\n") } }
syswrite(LOG, "started\n");
1 until sysread(GO, my $byte, 1);
syswrite(LOG, "done\n");
"#;

struct Kind {
    name: &'static str,
    /// The program that must be there.
    needs: &'static str,
    command: &'static str,
    /// It passes a signal on to its step, which fairlock signals as well.
    passes_on: bool,
    /// A key of the terminal reaches the step.
    in_front: bool,
}

const KINDS: [Kind; 8] = [
    kind("bash", "bash", "bash -c 'perl $D/step; :'"),
    kind("dash", "dash", "dash -c 'perl $D/step; :'"),
    kind(
        "python",
        "python3",
        "python3 -c 'import os, subprocess; subprocess.Popen([\"perl\", os.environ[\"D\"] + \"/step\"]).wait()'",
    ),
    Kind { passes_on: true, ..kind("make", "make", "make -sf $D/Makefile") },
    Kind { in_front: false, ..kind("setsid", "setsid", "sh -c 'setsid perl $D/step; :'") },
    Kind { passes_on: true, in_front: false, ..kind("timeout", "timeout", "sh -c 'timeout 1h perl $D/step; :'") },
    Kind { in_front: false, ..kind("set -m", "bash", "bash -c 'set -m; perl $D/step; :'") },
    kind("nested", "sh", "sh -c '$F run $NAME-inner -- sh -c \"perl $D/step; :\"; :'"),
];

const fn kind(name: &'static str, needs: &'static str, command: &'static str) -> Kind {
    Kind { name, needs, command, passes_on: false, in_front: true }
}

/// A run of this kind of command, and the next waiter for its lock.
struct Cell<'a> {
    redis: &'a Redis,
    kind: &'a Kind,
    folder: tempfile::TempDir,
}

impl Cell<'_> {
    fn read(&self, file: &str) -> String {
        std::fs::read_to_string(self.folder.path().join(file)).unwrap_or_default()
    }

    fn count(&self, line: &str) -> usize {
        self.read("log").lines().filter(|found| *found == line).count()
    }

    #[track_caller]
    fn await_lines(&self, count: usize, line: &str) {
        let what = format!("{}: {line:?} is written: {}{}", self.kind.name, self.read("log"), self.read("stderr"));
        eventually(&what, || (self.count(line) >= count).then_some(()));
    }

    /// The process of fairlock.
    fn fairlock(&self) -> u32 {
        self.read("pid").trim().parse().unwrap()
    }

    fn command(&self, fairlock: u32) -> u32 {
        let shim = children(fairlock, "lease-shim")[0];
        let found =
            descendants(shim).into_iter().find(|pid| stat(*pid).is_some_and(|stat| stat[1] == shim.to_string()));
        found.expect("a command")
    }
}

/// A process with all of its descendants.
fn descendants(of: u32) -> Vec<u32> {
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    let all: Vec<u32> = all.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    let mut found = vec![of];
    let mut next = 0;
    while let Some(parent) = found.get(next).map(u32::to_string) {
        found.extend(all.iter().copied().filter(|pid| stat(*pid).is_some_and(|stat| stat[1] == parent)));
        next += 1;
    }
    found.split_off(1)
}

/// How the run is started.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Start {
    Alone,
    /// By these words before its own.
    Behind(&'static [&'static str]),
    AtTerminal,
}

enum Holder {
    Process(Process),
    Terminal(Box<Terminal>),
}

impl Holder {
    fn start(cell: &Cell<'_>, start: Start) -> Self {
        let (folder, url) = (cell.folder.path().to_str().unwrap(), cell.redis.url());
        let variables = [("D", folder), ("REDIS_URL", &url), ("NAME", cell.kind.name), ("PERL_SIGNALS", "unsafe")];
        let script = format!("sh {folder}/run");
        if start == Start::AtTerminal {
            let mut terminal = Terminal::open(&variables);
            terminal.command("ulimit -c 0");
            terminal.enter(&script);
            return Self::Terminal(terminal.into());
        }
        let before = if let Start::Behind(words) = start { words } else { &[] };
        let mut run = Command::new("env");
        run.arg("--default-signal").args(before).args(["sh", "-c", &format!("ulimit -c 0; exec {script}")]);
        run.env("F", env!("CARGO_BIN_EXE_fairlock")).envs(variables).process_group(0);
        Self::Process(Process::spawn(&mut run))
    }

    fn process(&self) -> &Process {
        let Self::Process(process) = self else { panic!("at a terminal") };
        process
    }

    fn terminal(&mut self) -> &mut Terminal {
        let Self::Terminal(terminal) = self else { panic!("not at a terminal") };
        terminal
    }
}

/// Strikes each kind of command, at once. The step must hear the number of signals that is within this range.
fn each_kind(start: Start, heard: std::ops::RangeInclusive<usize>, strike: impl Fn(&Cell<'_>, &mut Holder) + Sync) {
    let redis = Redis::start();
    let is_there = |program: &str| {
        let found = Command::new("sh").args(["-c", &format!("command -v {program}")]).output();
        found.is_ok_and(|found| found.status.success())
    };
    thread::scope(|scope| {
        for kind in &KINDS {
            if !is_there(kind.needs) {
                testkit::say(format_args!("SKIPPED: {}: no {}", kind.name, kind.needs));
                continue;
            }
            let (redis, heard, strike) = (&redis, &heard, &strike);
            scope.spawn(move || {
                let cell = Cell { redis, kind, folder: tempfile::tempdir().unwrap() };
                judge(&cell, start, heard, strike);
            });
        }
    });
}

fn judge(
    cell: &Cell<'_>,
    start: Start,
    heard: &std::ops::RangeInclusive<usize>,
    strike: &impl Fn(&Cell<'_>, &mut Holder),
) {
    let Cell { redis, kind, folder } = cell;
    let path = |file: &str| folder.path().join(file);
    let write = |file: &str, text: &str| std::fs::write(path(file), text).unwrap();
    write("step", STEP);
    write("Makefile", "all:\n\tperl $(D)/step\n");
    write("run", &format!("echo $$ > $D/pid\nexec \"$F\" run \"$NAME\" -- {} 2> $D/stderr\n", kind.command));
    make_fifo(&path("go"));
    let mut go = File::options().read(true).write(true).open(path("go")).unwrap();
    let mut holder = Holder::start(cell, start);
    cell.await_lines(1, "started");
    let fairlock = match start {
        Start::Behind(["unshare", ..]) => descendants(holder.process().id())[0],
        _ => cell.fairlock(),
    };
    let command = cell.command(fairlock);
    let mut next = redis.fairlock();
    let script = "echo next >> $D/log";
    let next = Process::spawn(next.env("D", folder.path()).args(["run", kind.name, "--", "sh", "-c", script]));
    while !next.complaint().contains("waiting for ") {}

    strike(cell, &mut holder);
    let reaches = kind.in_front || start != Start::AtTerminal;
    let least = if reaches { *heard.start() } else { 0 };
    eventually(&format!("{}: the step has heard of it", kind.name), || (cell.count("heard") >= least).then_some(()));
    // In that time a command that does not wait for its step ends, and a lock that is given away is granted.
    let other = format!("{}-other", kind.name);
    assert!(redis.fairlock().args(["run", &other, "--", "true"]).status().unwrap().success());
    if !lives(command) {
        let told = || cell.read("stderr").contains("stays held") || cell.count("next") > 0;
        eventually("the user is told that the lock is kept", || told().then_some(()));
    }
    go.write_all(b"\n").unwrap();
    cell.await_lines(1, "next");
    let (log, name) = (cell.read("log"), kind.name);
    assert!(log.ends_with("done\nnext\n"), "{name}: {log}{}", cell.read("stderr"));
    let most = if kind.passes_on { 2 * heard.end() } else { *heard.end() };
    assert!((least..=most).contains(&cell.count("heard")), "{name}: {log}");
}

fn make_fifo(path: &Path) {
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

/// This signal to fairlock alone.
fn to_fairlock(number: Signal) -> impl Fn(&Cell<'_>, &mut Holder) {
    move |cell, _| signal(cell.fairlock(), number)
}

#[test]
fn work_keeps_the_lock_after_term_to_fairlock() {
    each_kind(Start::Alone, 1..=1, to_fairlock(Signal::TERM));
}

#[test]
fn work_keeps_the_lock_after_hup_to_fairlock() {
    each_kind(Start::Alone, 1..=1, to_fairlock(Signal::HUP));
}

#[test]
fn work_keeps_the_lock_after_int_to_fairlock() {
    each_kind(Start::Alone, 1..=1, to_fairlock(Signal::INT));
}

#[test]
fn work_keeps_the_lock_after_quit_to_fairlock() {
    each_kind(Start::Alone, 1..=1, to_fairlock(Signal::QUIT));
}

#[test]
fn work_keeps_the_lock_after_term_to_the_group_of_fairlock() {
    each_kind(Start::Alone, 1..=1, |_, holder| {
        let group = rustix::process::Pid::from_raw(holder.process().id().cast_signed()).unwrap();
        rustix::process::kill_process_group(group, Signal::TERM).unwrap();
    });
}

/// Each hears it once from fairlock and once from elsewhere, or from both fairlocks.
#[test]
fn work_keeps_the_lock_after_term_to_all_processes_at_once_as_systemd_does() {
    each_kind(Start::Alone, 1..=4, |_, holder| {
        let fairlock = holder.process().id();
        for pid in [vec![fairlock], descendants(fairlock)].concat() {
            // It may have ended by now, because of the others.
            let _ =
                rustix::process::kill_process(rustix::process::Pid::from_raw(pid.cast_signed()).unwrap(), Signal::TERM);
        }
    });
}

#[test]
fn work_keeps_the_lock_after_term_twice() {
    each_kind(Start::Alone, 2..=2, |cell, holder| {
        holder.process().signal(Signal::TERM);
        cell.await_lines(1, "heard");
        holder.process().signal(Signal::TERM);
    });
}

/// It signals fairlock, then its own group, in which fairlock is.
#[test]
fn work_keeps_the_lock_after_a_timeout_around_fairlock() {
    // This signal says that the time is over.
    each_kind(Start::Behind(&["timeout", "1h"]), 1..=2, |_, holder| holder.process().signal(Signal::ALARM));
}

#[test]
fn work_keeps_the_lock_after_a_terminal_that_is_closed() {
    // The kernel and the shell send HUP, each to some of the processes.
    each_kind(Start::AtTerminal, 1..=3, |_, holder| holder.terminal().hang_up());
}

#[test]
fn work_keeps_the_lock_after_ctrl_c() {
    each_kind(Start::AtTerminal, 1..=1, |_, holder| holder.terminal().keys("\x03"));
}

#[test]
fn work_keeps_the_lock_after_ctrl_backslash() {
    each_kind(Start::AtTerminal, 1..=1, |_, holder| holder.terminal().keys("\x1c"));
}

#[test]
fn work_keeps_the_lock_after_term_to_fairlock_as_the_first_process_of_a_container() {
    const UNSHARE: &[&str] = &["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"];
    let allowed = Command::new(UNSHARE[0]).args(&UNSHARE[1..]).arg("true").output();
    if !allowed.as_ref().is_ok_and(|output| output.status.success()) {
        testkit::say(format_args!("SKIPPED: may not make a PID namespace: {allowed:?}"));
        return;
    }
    each_kind(Start::Behind(UNSHARE), 1..=1, |_, holder| {
        signal(descendants(holder.process().id())[0], Signal::TERM);
    });
}

/// As the kernel does when memory is short. The step hears nothing.
#[test]
fn work_keeps_the_lock_after_kill_of_the_command() {
    each_kind(Start::Alone, 0..=0, |cell, _| signal(cell.command(cell.fairlock()), Signal::KILL));
}
