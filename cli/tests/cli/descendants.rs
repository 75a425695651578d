//! All descendants of the command end with its lease, including those that left its process group. When the command
//! exits by itself, its descendants may go on.

use std::process::Command;

use crate::shared::{
    Finished, Process, Redis, Signal, await_death, await_state, eventually, fairlock, lives, parent, signal, stat,
};

/// Prints its number, and cannot be ended by TERM.
const LEAF: &str = "sh -c 'trap \"\" TERM; echo $$; while :; do sleep 1; done'";

/// Processes that leave the group: a job of `timeout`, one in a session of its own, an orphan, and one of a shell with
/// job control.
fn leaves() -> String {
    let job_control = LEAF.replace('$', "\\$").replace('"', "\\\"");
    format!(
        "timeout 1h {LEAF} & setsid {LEAF} & (setsid timeout 1h {LEAF} &); bash -c \"set -m; {job_control} & wait\" & \
         echo $$; wait; wait; wait; sleep 1000"
    )
}

/// A holder, its command, and four descendants that left the command's group.
struct Job {
    holder: Option<Process>,
    command: u32,
    leaves: Vec<u32>,
}

impl Job {
    fn start(redis: &Redis, options: &[&str]) -> Self {
        let holder = redis.run("x", options, &leaves());
        let numbers: Vec<u32> = (0..5).map(|_| holder.number()).collect();
        // The command is the one whose parent is the shim.
        let is_command = |pid: &u32| stat(*pid).unwrap()[2] == pid.to_string() && shim_of(*pid, &holder);
        let command = *numbers.iter().find(|pid| is_command(pid)).unwrap();
        let leaves: Vec<u32> = numbers.into_iter().filter(|pid| *pid != command).collect();
        for leaf in &leaves {
            assert_ne!(stat(*leaf).unwrap()[2], command.to_string(), "it left the group");
        }
        Self { holder: Some(holder), command, leaves }
    }

    fn holder(&self) -> &Process {
        self.holder.as_ref().unwrap()
    }

    fn shim(&self) -> u32 {
        self.holder().shim(self.command)
    }

    fn finish(mut self) -> Finished {
        self.holder.take().unwrap().finish()
    }

    #[track_caller]
    fn await_deaths(&self) {
        await_death(self.command);
        for &leaf in &self.leaves {
            await_death(leaf);
        }
    }
}

/// The processes are killed even if the test fails because they are still alive.
impl Drop for Job {
    fn drop(&mut self) {
        for pid in self.leaves.iter().chain([&self.command]).filter(|pid| lives(**pid)) {
            signal(*pid, Signal::KILL);
        }
    }
}

fn shim_of(command: u32, holder: &Process) -> bool {
    let shim: u32 = stat(command).unwrap()[1].parse().unwrap();
    stat(shim).is_some_and(|stat| stat[1] == holder.id().to_string())
}

fn name(pid: u32) -> String {
    std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap().trim().to_owned()
}

#[test]
fn descendants_end_when_the_lease_is_lost() {
    let redis = Redis::start();
    let job = Job::start(&redis, &["--lease", "9s"]);
    redis.stop();
    job.await_deaths();
    assert_eq!(job.finish().code, 123);
}

#[test]
fn descendants_get_term_before_they_are_killed() {
    let redis = Redis::start();
    // No lease ends within the patience of the test.
    let script = "setsid sh -c 'trap \"echo asked; exit\" TERM; echo; sleep 1000 & wait' & wait; sleep 1000";
    let holder = redis.run("x", &["--lease", "10m", "--kill-after", "190s"], script);
    holder.line();
    holder.signal(Signal::KILL);
    assert_eq!(holder.line(), "asked");
}

/// This is what `killall -9 fairlock`, `pkill -9 fairlock` and `pkill -9 -f 'fairlock run'` do.
#[test]
fn descendants_end_when_all_processes_named_fairlock_are_killed() {
    let redis = Redis::start();
    let job = Job::start(&redis, &["--kill-after", "100ms"]);
    let shim = job.shim();
    assert_eq!(name(job.holder().id()), "fairlock");
    assert_eq!(name(shim), "lease-shim");
    let words = std::fs::read_to_string(format!("/proc/{shim}/cmdline")).unwrap();
    assert!(!words.contains("fairlock"), "{words:?}");
    for pid in [job.holder().id(), shim].into_iter().filter(|pid| name(*pid).contains("fairlock")) {
        signal(pid, Signal::KILL);
    }
    job.await_deaths();
}

#[test]
fn descendants_end_when_the_shim_is_killed() {
    let redis = Redis::start();
    let job = Job::start(&redis, &[]);
    signal(job.shim(), Signal::KILL);
    job.await_deaths();
    assert_eq!(job.finish().code, 125);
}

/// The run is within another one, whose shim adopts the stopped shim. If no process of the session adopted that, the
/// kernel would continue it in any case, as it does with every process group that becomes orphaned.
#[test]
fn descendants_end_when_the_shim_is_stopped_and_fairlock_killed() {
    let redis = Redis::start();
    let script = format!("$F run y --kill-after 100ms -- {LEAF}; echo killed; exec sleep 1000");
    let mut run = redis.fairlock();
    run.env("F", env!("CARGO_BIN_EXE_fairlock")).args(["run", "x", "--", "sh", "-c", &script]);
    let outer = Process::spawn(&mut run);
    let command = outer.number();
    let shim = parent(command);
    let fairlock = parent(shim);
    assert_ne!(fairlock, outer.id());
    signal(shim, Signal::STOP);
    await_state(shim, "T");
    signal(fairlock, Signal::KILL);
    assert_eq!(outer.line(), "killed");
    await_death(command);
}

#[test]
fn descendants_end_when_the_shim_is_stopped_and_the_lease_lost() {
    let redis = Redis::start();
    let job = Job::start(&redis, &["--lease", "9s"]);
    signal(job.shim(), Signal::STOP);
    redis.stop();
    job.await_deaths();
    let finished = job.finish();
    assert_eq!(finished.code, 123);
    assert!(finished.stderr.contains("the lease on x is lost"), "{finished:?}");
}

/// A shell that becomes fairlock by `exec` leaves its children to it.
#[test]
fn children_that_fairlock_inherits_by_exec_live_on() {
    let redis = Redis::start();
    let script = "sleep 1000 > /dev/null 2>&1 & echo $!; exec $F run x -- sh -c 'echo $$; exec sleep 1000'";
    let mut shell = Command::new("sh");
    let shell = Process::spawn(
        shell.env("REDIS_URL", redis.url()).env("F", env!("CARGO_BIN_EXE_fairlock")).args(["-c", script]),
    );
    let (other, command) = (shell.number(), shell.number());
    signal(shell.shim(command), Signal::KILL);
    assert_eq!(shell.finish().code, 125);
    assert!(!lives(command));
    assert!(lives(other));
    signal(other, Signal::KILL);
}

#[test]
fn descendants_of_a_command_that_exits_live_on_and_delay_nothing() {
    let redis = Redis::start();
    for start in ["sleep 1000", "setsid sleep 1000", "timeout 1h sleep 1000"] {
        let finished = redis.run("x", &[], &format!("{start} > /dev/null 2>&1 & echo $!")).finish();
        let left: u32 = finished.stdout.trim().parse().unwrap();
        assert_eq!(finished.code, 0);
        assert!(lives(left), "{start}");
        signal(left, Signal::TERM);
        await_death(left);
    }
}

/// The shim is the parent of all orphans, so it must collect them.
#[test]
fn orphans_are_collected_while_the_command_runs() {
    let redis = Redis::start();
    let holder = redis.run("x", &[], "(sh -c 'echo $$; read line < $0; exit' /dev/null &); echo $$; exec sleep 1000");
    for pid in [holder.number(), holder.number()] {
        let is_command = shim_of_or_gone(pid, &holder);
        if !is_command {
            eventually("the orphan is collected", || stat(pid).is_none().then_some(()));
        }
    }
}

fn shim_of_or_gone(pid: u32, holder: &Process) -> bool {
    stat(pid).is_some_and(|fields| fields[2] == pid.to_string()) && shim_of(pid, holder)
}

/// `unshare` gives fairlock the number 1, as a container does, and a /proc of its own.
#[test]
fn fairlock_can_be_the_first_process_of_a_container() {
    let namespace = ["--pid", "--fork", "--mount-proc", "--kill-child"];
    let allowed = Command::new("unshare").args(namespace).arg("true").output();
    if !allowed.as_ref().is_ok_and(|output| output.status.success()) {
        testkit::say(format_args!("SKIPPED: may not make a PID namespace: {allowed:?}"));
        return;
    }
    let redis = Redis::start();
    let start = |script: &str| {
        let mut unshare = Command::new("unshare");
        unshare.env("REDIS_URL", redis.url()).env("F", env!("CARGO_BIN_EXE_fairlock"));
        Process::spawn(unshare.args(namespace).args(["env", "--default-signal", "sh", "-c", script]))
    };
    // The first orphan is older than the command, belongs to fairlock, and ends while the command runs. The second is
    // the command's. What is not collected stays in /proc.
    let orphans = "mkfifo $D/go; (sh -c 'echo $$ > $D/first; read line < $D/go; exit' &); \
                   exec $F run x -- sh -c '(sh -c \"echo \\$\\$ > $D/second\" &); echo > $D/go; \
                   until [ -s $D/second ]; do sleep 0.02; done; \
                   for orphan in $(cat $D/first $D/second); do while [ -e /proc/$orphan ]; do sleep 0.02; done; done; \
                   echo $PPID none; exit 7'";
    let folder = tempfile::tempdir().unwrap();
    let finished = start(&orphans.replace("$D", folder.path().to_str().unwrap())).finish();
    assert_eq!(finished.code, 7, "{finished:?}");
    assert!(finished.stdout.ends_with(" none\n"), "{finished:?}");

    // No shell: one that starts a process at that moment may lose the signal to that.
    let holder = start(
        "exec $F run x -- perl -e '$| = 1; $SIG{TERM} = sub { print qq(heard\n); exit 6 }; print qq(\n); sleep 1 while 1'",
    );
    holder.line();
    let fairlock = eventually("unshare has a child", || {
        let children = std::fs::read_dir("/proc").unwrap().flatten();
        let mut numbers = children.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        numbers.find(|pid| stat(*pid).is_some_and(|stat| stat[1] == holder.id().to_string()))
    });
    signal(fairlock, Signal::TERM);
    assert_eq!(holder.line(), "heard");
    assert_eq!(holder.finish().code, 6);
}

/// The kernel kills a command with its shim from the moment at which the command has asked for that.
#[test]
fn a_command_whose_shim_died_before_does_not_start() {
    let stage = |parent: u32| {
        let parent = parent.to_string();
        Process::spawn(fairlock().args(["__command", &parent, "", "", "/bin/echo", "echo", "ran"])).finish()
    };
    let alive = stage(std::process::id());
    assert_eq!((alive.code, alive.stdout.as_str()), (0, "ran\n"), "{alive:?}");
    let orphaned = stage(u32::MAX);
    assert_eq!((orphaned.code, orphaned.stdout.as_str()), (125, ""), "{orphaned:?}");
}
