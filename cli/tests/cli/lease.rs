//! The command never outlives its lease, whichever process dies, hangs or is stopped.

use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::process::Stdio;

use crate::shared::{
    Process, Redis, STUBBORN, Signal, await_death, await_state, eventually, fairlock, lives, parent, signal, stat,
    temporary, witness,
};
use testkit::{Act, Proxy, RedisServer, Target};

#[test]
fn when_fairlock_is_killed_its_command_ends_with_its_group() {
    let redis = Redis::start();
    let holder =
        redis.run("x", &[], "trap 'echo term; exit' TERM; sleep 1000 & echo $$; echo $!; while :; do wait; done");
    let (command, child) = (holder.number(), holder.number());
    holder.signal(Signal::KILL);
    assert_eq!(holder.line(), "term", "it is asked first");
    await_death(command);
    await_death(child);
}

#[test]
fn when_fairlock_is_killed_the_command_is_dead_before_the_next_grant() {
    let redis = Redis::start();
    // Only the end of the lease can be the reason for its death.
    let holder = redis.run("x", &["--lease", "10s", "--kill-after", "1h"], STUBBORN);
    let command = holder.number();
    let witness = witness(&redis, "x", command);
    holder.signal(Signal::KILL);
    assert_eq!(witness.line(), "dead");
}

#[test]
fn when_the_command_is_ended_what_is_left_of_its_group_is_too() {
    let redis = Redis::start();
    let script =
        "(trap '' TERM; echo; sleep 1000 & wait; sleep 1000) & child=$!; read line; echo $child; exec sleep 1000";
    let script = format!(
        "mkfifo $D/ready; exec 3<>$D/ready; {}",
        script.replace("echo;", "echo >&3;").replace("read line", "read line <&3")
    );
    let folder = tempfile::tempdir().unwrap();
    let mut run = redis.fairlock();
    run.env("D", folder.path()).args(["run", "x", "--kill-after", "300ms", "--", "sh", "-c", &script]);
    let holder = Process::spawn(&mut run);
    let child = holder.number();
    assert!(lives(child));
    holder.signal(Signal::KILL);
    await_death(child);
}

#[test]
fn when_fairlock_is_stopped_the_command_is_dead_before_the_next_grant() {
    let redis = Redis::start();
    // The lease is so long that a slow machine has half a second for the kill.
    let holder = redis.run("x", &["--lease", "10s"], STUBBORN);
    let command = holder.number();
    let witness = witness(&redis, "x", command);
    holder.signal(Signal::STOP);
    assert_eq!(witness.line(), "dead");
    holder.signal(Signal::CONT);
    let finished = holder.finish();
    assert_eq!(finished.code, 123);
    assert!(finished.stderr.contains("the lease on x is lost"), "{finished:?}");
}

/// What a shim reports that is to run `echo it ran`, started behind these words.
fn reports_of_shim(before: &[&str], kill_after: &str, term_at: &str, kill_at: &str) -> (Vec<String>, String) {
    use std::io::{BufRead as _, BufReader, Write as _};
    let (mut near, far) = std::os::unix::net::UnixStream::pair().unwrap();
    let mut shim = std::process::Command::new("env");
    shim.args(before).arg(env!("CARGO_BIN_EXE_fairlock"));
    // There is no terminal to be in the foreground of.
    shim.args(["__shim", kill_after, term_at, kill_at, "0", "", "/bin/echo", "echo", "it ran"]);
    shim.stdin(Stdio::from(OwnedFd::from(far))).stdout(Stdio::piped());
    let child = shim.spawn().unwrap();
    // It has the other end as well.
    drop(shim);
    near.write_all(b"keep {}\n").unwrap();
    let mut reports = BufReader::new(near.try_clone().unwrap()).lines().map(Result::unwrap);
    assert_eq!(reports.next().as_deref(), Some("ready"));
    send_descriptor(&near, std::io::stdin().as_fd());
    let is_last = |report: &String| ["too late", "done"].contains(&report.as_str()) || report.starts_with("failed");
    let mut all = Vec::new();
    while !all.last().is_some_and(is_last) {
        all.push(reports.next().unwrap());
    }
    // A shim whose command has run waits for this.
    drop((near, reports));
    (all, String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap())
}

/// The shim starts late, as if fairlock had been stopped between the grant and the start.
#[test]
fn when_the_lease_is_over_the_shim_starts_no_command() {
    assert_eq!(reports_of_shim(&[], "0", "0", "0"), (vec!["too late".to_owned()], String::new()));
}

/// As in a container that may have few threads.
#[test]
fn a_shim_that_cannot_start_its_threads_starts_no_command() {
    let later = u64::MAX.to_string();
    let (reports, output) = reports_of_shim(&[], "0", &later, &later);
    assert!(reports.contains(&"exited 0 false".to_owned()) && output == "it ran\n", "{reports:?} {output}");
    // The limit does not hold for root.
    let user: &[&str] = match rustix::process::geteuid().is_root() {
        true => &["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"],
        false => &[],
    };
    let limited = [user, &["prlimit", "--nproc=1"]].concat();
    let probe = std::process::Command::new("env").args(&limited).args([env!("CARGO_BIN_EXE_fairlock"), "-V"]).output();
    if !probe.as_ref().is_ok_and(|probe| probe.status.success()) {
        testkit::say(format_args!("SKIPPED: cannot be limited to one thread: {probe:?}"));
        return;
    }
    let (reports, output) = reports_of_shim(&limited, "0", &later, &later);
    assert!(reports[0].starts_with("failed its shim cannot start a thread: "), "{reports:?}");
    assert_eq!((reports.len(), output.as_str()), (1, ""), "{reports:?}");
}

fn send_descriptor(socket: &std::os::unix::net::UnixStream, descriptor: BorrowedFd<'_>) {
    use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    let descriptors = [descriptor];
    assert!(ancillary.push(SendAncillaryMessage::ScmRights(&descriptors)));
    sendmsg(socket, &[std::io::IoSlice::new(b"F")], &mut ancillary, SendFlags::empty()).unwrap();
}

/// Only the holder is cut off. The server goes on, and grants the lock to another as soon as the lease is over.
#[test]
fn when_fairlock_is_cut_off_the_command_is_dead_before_the_next_grant() {
    let server = RedisServer::builder().alone().start();
    let proxy = Proxy::start(&server);
    let mut run = fairlock();
    run.env("REDIS_URL", proxy.url());
    run.args("run x --lease 10s --kill-after 1h -- sh -c".split(' ')).arg(STUBBORN);
    let holder = Process::spawn(&mut run);
    let command = holder.number();
    let redis = Redis::of(server);
    let witness = witness(&redis, "x", command);
    proxy.fault(Target::request(""), Act::Hold).await_struck();
    assert_eq!(witness.line(), "dead");
    let finished = holder.finish();
    assert_eq!(finished.code, 123);
    assert!(finished.stderr.contains("is lost"), "{finished:?}");
}

#[test]
fn a_stopped_command_is_continued_and_ended_when_its_lease_is_lost() {
    let redis = Redis::start();
    let holder = redis.run("x", &["--lease", "18s"], "trap 'echo cleaned up; exit 0' TERM; echo $$; sleep 1000 & wait");
    let command = holder.number();
    signal(command, Signal::STOP);
    await_state(command, "T");
    redis.stop();
    let finished = holder.finish();
    assert_eq!(
        (finished.code, finished.stdout.as_str()),
        (123, "cleaned up\n"),
        "it is continued, so that it can act on TERM"
    );
}

#[test]
fn a_paused_command_keeps_its_lease() {
    let redis = Redis::start();
    let holder = redis.run("x", &["--lease", "9s", "--kill-after", "0s"], "echo $$; exec sleep 1000");
    let command = holder.number();
    signal(command, Signal::STOP);
    await_state(command, "T");
    // Without job control no shell would continue fairlock, so it must not stop. The pause is longer than a lease.
    std::thread::sleep(std::time::Duration::from_secs(10));
    assert_ne!(stat(holder.id()).unwrap()[0], "T");
    assert_eq!(stat(command).unwrap()[0], "T");
    signal(command, Signal::CONT);
    holder.signal(Signal::TERM);
    assert_eq!(holder.finish().code, 143);
}

#[test]
fn when_the_shim_is_killed_the_command_dies_before_the_lock_is_given_back() {
    let redis = Redis::start();
    let holder = redis.run("x", &[], "sleep 1000 & echo $$; echo $!; wait");
    let (command, child) = (holder.number(), holder.number());
    let [witness, of_child] = [command, child].map(|pid| witness(&redis, "x", pid));
    signal(parent(command), Signal::KILL);
    assert_eq!((witness.line().as_str(), of_child.line().as_str()), ("dead", "dead"));
    let finished = holder.finish();
    assert_eq!(finished.code, 125);
    assert!(finished.stderr.contains("shim"), "{finished:?}");
}

#[test]
fn when_fairlock_and_shim_are_killed_at_once_the_command_dies() {
    let redis = Redis::start();
    let holder = redis.run("x", &[], STUBBORN);
    let command = holder.number();
    let shim = parent(command);
    // Both are stopped first, so that neither can act on the other's death.
    signal(shim, Signal::STOP);
    holder.signal(Signal::STOP);
    holder.signal(Signal::KILL);
    signal(shim, Signal::KILL);
    await_death(command);
}

/// Renewals go on, and the stopped shim does not read of them.
#[test]
fn a_stopped_shim_does_not_hold_the_lock_after_the_end_of_its_command() {
    let redis = Redis::start();
    let holder = redis.run("x", &["--lease", "10s"], "echo $$; exec sleep 1000");
    let command = holder.number();
    signal(parent(command), Signal::STOP);
    signal(command, Signal::KILL);
    let ended = holder.finish();
    assert!(ended.code == 125 && ended.stderr.contains("the command's shim was stopped"), "{ended:?}");
    assert_eq!(redis.state("x")["state"], "free");
}

/// A service manager that stops a service signals all its processes, the shim included.
#[test]
fn signals_do_not_end_the_shim() {
    let redis = Redis::start();
    let holder = redis.run("x", &[], "echo $$; exec sleep 1000");
    let command = holder.number();
    let shim = parent(command);
    assert_ne!(shim, holder.id());
    for number in [
        Signal::TERM,
        Signal::INT,
        Signal::HUP,
        Signal::QUIT,
        Signal::USR1,
        Signal::PIPE,
        Signal::ALARM,
        Signal::VTALARM,
        Signal::PROF,
        Signal::TSTP,
    ] {
        signal(shim, number);
    }
    holder.signal(Signal::TERM);
    assert_eq!(holder.finish().code, 143, "the shim lived to tell");
}

#[test]
fn signals_to_fairlock_reach_the_command() {
    let redis = Redis::start();
    // The command is no shell: bash counts an INT as handled by its child if the child has just exited.
    let script = "$| = 1; for (qw(INT TERM HUP QUIT USR1 USR2 ALRM WINCH)) { $SIG{$_} = sub { print qq($_[0]\\n) } } \
                  print qq(ready\\n); sleep 1000 while 1;";
    let mut run = redis.fairlock();
    let holder = Process::spawn(run.args(["run", "x", "--", "perl", "-e", script]));
    holder.line();
    let signals = [
        (Signal::INT, "INT"),
        (Signal::TERM, "TERM"),
        (Signal::HUP, "HUP"),
        (Signal::QUIT, "QUIT"),
        (Signal::USR1, "USR1"),
        (Signal::USR2, "USR2"),
        (Signal::ALARM, "ALRM"),
        (Signal::WINCH, "WINCH"),
    ];
    for (number, name) in signals {
        holder.signal(number);
        assert_eq!(holder.line(), name);
    }
}

#[test]
fn term_goes_to_the_whole_group_and_usr1_to_the_command() {
    let redis = Redis::start();
    // The child would die of USR1.
    let script = "trap 'echo usr1' USR1; sleep 1000 & child=$!; echo $child; while :; do wait $child && exit; kill -0 $child || exit; done";
    let holder = redis.run("x", &[], script);
    let child = holder.number();
    holder.signal(Signal::USR1);
    assert_eq!(holder.line(), "usr1");
    assert!(lives(child));
    holder.signal(Signal::TERM);
    await_death(child);
    assert_eq!(holder.finish().code, 143);
}

#[test]
fn a_command_that_ignores_a_forwarded_term_keeps_the_lock() {
    let redis = Redis::start();
    let holder = redis.run("x", &["--kill-after", "0s"], "trap 'echo no' TERM; echo $$; while :; do sleep 0.02; done");
    let command = holder.number();
    holder.signal(Signal::TERM);
    assert_eq!(holder.line(), "no");
    assert_ne!(redis.state("x")["holders"][0], serde_json::Value::Null);
    holder.signal(Signal::TERM);
    assert_eq!(holder.line(), "no", "it lives: somebody's wish is not the loss of the lease");
    signal(command, Signal::KILL);
    assert_eq!(holder.finish().code, 137);
}

/// An upgrade during a long wait must not leave a fairlock that cannot start its shim.
#[test]
fn a_run_that_waits_outlives_its_deleted_binary() {
    let redis = Redis::start();
    let (_folder, copy) = temporary("fairlock");
    std::fs::copy(env!("CARGO_BIN_EXE_fairlock"), &copy).unwrap();
    let holder = redis.hold("x", &[]);
    // A fork of another test may have the copy open for writing at this instant.
    let waiter = eventually("the copy can be executed", || {
        let mut command = std::process::Command::new(&copy);
        command.env("REDIS_URL", redis.url()).args(["run", "x", "--", "echo", "granted"]);
        let probe = std::process::Command::new(&copy).arg("--version").output();
        probe.is_ok().then(|| Process::spawn(&mut command))
    });
    redis.await_waiting("x", 1);
    std::fs::remove_file(&copy).unwrap();
    holder.signal(Signal::TERM);
    let finished = waiter.finish();
    assert_eq!((finished.code, finished.stdout.as_str()), (0, "granted\n"), "{finished:?}");
}
