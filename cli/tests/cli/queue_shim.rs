//! A fairlock that is killed while it waits leaves the queue: its queue shim does that.

use std::os::unix::process::CommandExt as _;
use std::time::Instant;

use crate::shared::{
    PATIENCE, Process, Redis, STUBBORN, Signal, await_death, await_state, children, eventually, fairlock, lives, signal,
};
use testkit::{Cluster, SOON};

const SHIM: &str = "queue-shim";

/// A run that waits in the queue, in a process group of its own, and its shim.
fn waiter(redis: &Redis, options: &[&str], behind: u64) -> (Process, u32) {
    let mut run = redis.fairlock();
    run.args(["run", "x"]).args(options).args(["--", "echo", "granted"]).process_group(0);
    let waiter = Process::spawn(&mut run);
    redis.await_waiting("x", behind + 1);
    let shim = eventually("its shim runs", || children(waiter.id(), SHIM).first().copied());
    knows_its_place(&waiter);
    (waiter, shim)
}

/// It says so after its shim was told.
fn knows_its_place(waiter: &Process) {
    while !waiter.complaint().contains("waiting for ") {}
}

fn kill_group(pid: u32) {
    let group = rustix::process::Pid::from_raw(pid.cast_signed()).unwrap();
    rustix::process::kill_process_group(group, Signal::KILL).unwrap();
}

#[test]
fn waiters_that_are_killed_leave_the_queue() {
    let (redis, holder) = Redis::held("holder");
    let (first, first_shim) = waiter(&redis, &[], 0);
    let (second, _) = waiter(&redis, &["-a", "y"], 1);
    let (third, _) = waiter(&redis, &[], 2);
    let next = redis.waiter("x", &[], "echo granted");
    first.signal(Signal::KILL);
    // A waiter that nobody takes out stays until its turn comes, and the holder stays for ever.
    redis.await_waiting("x", 3);
    await_death(first_shim);
    // As with Ctrl-Z and `kill -9 %1`.
    second.signal(Signal::STOP);
    await_state(second.id(), "T");
    second.signal(Signal::KILL);
    redis.await_waiting("x", 2);
    kill_group(third.id());
    redis.await_waiting("x", 1);
    let released = Instant::now();
    holder.signal(Signal::TERM);
    assert_eq!(next.line(), "granted");
    println!("granted {:?} after the release", released.elapsed());
}

/// A run with several locks has some of them while it waits for others.
#[test]
fn locks_that_a_killed_waiter_holds_already_are_given_back() {
    let (redis, _holder) = Redis::held("holder");
    let (waiter, _) = waiter(&redis, &["-a", "a", "--lease", "10h"], 0);
    assert_eq!(redis.state("a")["state"], "held");
    waiter.signal(Signal::KILL);
    redis.await_waiting("x", 0);
    eventually("the other lock is free", || (redis.state("a")["state"] == "free").then_some(()));
}

/// The other masters have nothing to do with the lock.
#[test]
fn a_killed_waiter_leaves_the_queue_in_a_cluster_of_which_other_masters_are_down() {
    // So long do the others not count as dead: a minority refuses everything.
    let cluster = Cluster::builder().node_timeout(100 * SOON).start();
    // The master that is asked last has the lock.
    let last = cluster.nodes().iter().map(|node| node.port()).max().unwrap();
    let mut names = (0..).map(|number| format!("x{number}"));
    let name = &names.find(|name| cluster.owner(cluster.slot(name)).port() == last).unwrap();
    let call = |words: &[&str]| {
        let mut call = fairlock();
        call.env("REDIS_URL", cluster.url()).args(words);
        call
    };
    let await_waiting = |waiting: u64| {
        eventually("that many wait", || {
            let output = call(&["status", name, "--json"]).output().unwrap();
            let state = serde_json::from_slice::<serde_json::Value>(&output.stdout).ok()?;
            (state["waiting"] == waiting).then_some(())
        });
    };
    let holder = Process::spawn(&mut call(&["run", name, "--", "sh", "-c", "echo; exec sleep 1000"]));
    holder.line();
    let waiter = Process::spawn(&mut call(&["run", name, "--", "true"]));
    await_waiting(1);
    eventually("its shim runs", || children(waiter.id(), SHIM).first().copied());
    knows_its_place(&waiter);
    cluster.nodes().iter().filter(|node| node.port() != last).for_each(|node| node.kill());
    waiter.signal(Signal::KILL);
    // Nobody else takes it out while the holder stays.
    await_waiting(0);
}

/// Without it the place is purged when its liveness has ended.
#[test]
fn a_waiter_that_is_killed_with_its_shim_delays_the_next_by_its_liveness() {
    let (redis, holder) = Redis::held("holder");
    let (waiter, shim) = waiter(&redis, &[], 0);
    signal(shim, Signal::KILL);
    waiter.signal(Signal::KILL);
    let next = redis.waiter("x", &[], "echo granted");
    holder.signal(Signal::TERM);
    assert_eq!(next.line(), "granted");
}

/// Whichever of its two shims it has at that moment.
#[test]
fn a_waiter_that_is_killed_as_it_is_granted_the_lock_gives_it_back() {
    for _ in 0..5 {
        let (redis, holder) = Redis::held("holder");
        let waiter = redis.waiter("x", &["--lease", "10h"], "exec sleep 1000");
        let shim = eventually("its shim runs", || children(waiter.id(), SHIM).first().copied());
        knows_its_place(&waiter);
        holder.signal(Signal::TERM);
        let released = Instant::now();
        // The moment at which nobody leaves the queue for it any more is short.
        while lives(shim) {
            assert!(released.elapsed() < PATIENCE, "the shim does not end");
        }
        waiter.signal(Signal::KILL);
        eventually("the lock is free", || (redis.state("x")["state"] == "free").then_some(()));
    }
}

/// It would give up the lease of the command.
#[test]
fn the_shim_of_a_waiter_is_gone_when_its_command_starts() {
    let (redis, holder) = Redis::held("holder");
    let run = redis.waiter("x", &["--lease", "10h"], STUBBORN);
    let shim = eventually("its shim runs", || children(run.id(), SHIM).first().copied());
    holder.signal(Signal::TERM);
    let command = run.number();
    await_death(shim);
    let next = crate::shared::witness(&redis, "x", command);
    run.signal(Signal::KILL);
    assert_eq!(next.line(), "dead");
}

#[test]
fn a_run_that_does_not_wait_has_no_shim_for_it() {
    let (_redis, run) = Redis::held("the holder");
    assert!(children(run.id(), SHIM).is_empty());
}

/// The URL may have a password; and whoever reads the output of a killed run need not wait for the shim.
#[test]
fn the_shim_shows_no_url_and_keeps_no_output_open() {
    let (redis, _holder) = Redis::held("holder");
    let (waiter, shim) = waiter(&redis, &[], 0);
    let line = std::fs::read_to_string(format!("/proc/{shim}/cmdline")).unwrap();
    assert_eq!(line.split('\0').collect::<Vec<_>>(), [SHIM, "__queue", ""]);
    for descriptor in [1, 2] {
        let output = std::fs::read_link(format!("/proc/{shim}/fd/{descriptor}")).unwrap();
        assert_eq!(output.to_str(), Some("/dev/null"));
    }
    waiter.signal(Signal::TERM);
    assert_eq!(waiter.finish().code, 143);
    await_death(shim);
    redis.await_waiting("x", 0);
}
