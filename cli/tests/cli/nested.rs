//! A job does not wait for a lock that it holds: `run` inside `run`.

use crate::shared::{Process, Redis, Signal, temporary, with_time_to_queue};

/// `fairlock run NAME -- sh -c SCRIPT`, where the script knows fairlock as `$F` and another server as `$OTHER`.
fn run(redis: &Redis, name: &str, script: &str) -> Process {
    let mut run = redis.fairlock();
    run.env("F", env!("CARGO_BIN_EXE_fairlock")).env("NAME", name);
    Process::spawn(run.args(["run", name, "--label", "the parent", "--", "sh", "-c", script]))
}

#[test]
fn a_run_inside_of_a_run_of_the_same_name_is_refused_with_the_reason() {
    let redis = Redis::start();
    for options in ["", "--timeout 1h", "--no-wait"] {
        let parent = run(&redis, "deploy", &format!("$F run deploy {options} -- echo it ran"));
        let pid = parent.id();
        let ended = parent.finish();
        assert_eq!((ended.code, ended.stdout.as_str()), (125, ""), "{ended:?}");
        let said = format!(
            "fairlock: deploy is already held by this job's parent (pid {pid}): the job would wait for itself\n"
        );
        assert_eq!(ended.stderr, said);
    }
}

#[test]
fn a_nested_run_knows_all_locks_held_above_it_at_any_depth() {
    let redis = Redis::start();
    // In the innermost run, the variables of the run above it name another lock.
    let inner = "$F run b -- sh -c \"$F run c -- sh -c \\\"$F run \\\\\\$LAST -- echo it ran\\\"\"";
    for last in ["a", "b", "c"] {
        let ended = run(&redis, "a", &format!("export LAST={last}; {inner}")).finish();
        assert_eq!((ended.code, ended.stdout.as_str()), (125, ""), "{ended:?}");
        assert!(ended.stderr.contains(&format!("{last} is already held by this job's parent")), "{ended:?}");
    }
    let ended = run(&redis, "a", &format!("export LAST=d; {inner}")).finish();
    assert_eq!((ended.code, ended.stdout.as_str()), (0, "it ran\n"), "{ended:?}");
}

#[test]
fn names_of_any_kind_reach_a_nested_run_unchanged() {
    let redis = Redis::start();
    for name in testkit::texts::HOSTILE.iter().filter(|name| !name.starts_with('-') && !name.contains('\0')) {
        let ended = run(&redis, name, "$F run \"$NAME\" -- echo it ran").finish();
        assert_eq!((ended.code, ended.stdout.as_str()), (125, ""), "{ended:?}");
        assert!(ended.stderr.contains("is already held by this job's parent"), "{name:?}: {ended:?}");
    }
}

/// It asks while it waits, too.
#[test]
fn a_nested_run_that_began_without_a_server_is_refused_when_the_server_is_back() {
    let redis = Redis::start();
    let (_folder, fifo) = temporary("fifo");
    assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let mut run = redis.fairlock();
    run.env("F", env!("CARGO_BIN_EXE_fairlock")).env("FIFO", &fifo).args(["run", "x", "--lease", "1h", "-c"]);
    let parent = Process::spawn(run.arg("echo; read line <\"$FIFO\"; $F run x -- echo it ran"));
    parent.line();
    redis.stop();
    std::fs::write(&fifo, "go on\n").unwrap();
    let said = parent.complaint();
    assert!(said.ends_with("; trying again"), "{said}");
    redis.cont();
    let ended = parent.finish();
    assert_eq!((ended.code, ended.stdout.as_str()), (125, ""), "{ended:?}");
    assert!(ended.stderr.contains("x is already held by this job's parent"), "{ended:?}");
}

#[test]
fn the_same_name_at_another_server_is_another_lock() {
    let [redis, other] = [Redis::start(), Redis::start()];
    let ended = run(&redis, "x", &format!("$F --redis '{}' run x -- echo it ran", other.url())).finish();
    assert_eq!((ended.code, ended.stdout.as_str()), (0, "it ran\n"), "{ended:?}");
    // Also if that lock is held.
    let holder = other.hold("x", &[]);
    let parent = run(&redis, "x", &format!("$F --redis '{}' run x -- echo it ran", other.url()));
    assert!(parent.complaint().contains("waiting for x: 1st of 1"));
    holder.signal(Signal::TERM);
    assert_eq!(parent.line(), "it ran");
}

/// As in the environment of a daemon that was started by a run which has ended since.
#[test]
fn a_run_that_inherits_an_ended_lease_waits_for_the_present_holder() {
    let redis = Redis::start();
    let over = run(&redis, "x", "echo \"$FAIRLOCK_HELD\"").finish().stdout;
    let of_today = redis.hold("x", &[]);
    for told in [over.trim(), "", "[", "{\"name\":\"x\"}", "[{\"name\":\"x\",\"token\":1}]"] {
        let ended = with_time_to_queue(|seconds| {
            let mut run = redis.fairlock();
            run.env("FAIRLOCK_HELD", told).args(["run", "x", "--timeout", &seconds.to_string(), "--", "true"]);
            Process::spawn(&mut run).finish()
        });
        assert_eq!(ended.code, 124, "{told}: {ended:?}");
    }
    let mut run = redis.fairlock();
    let waiter = Process::spawn(run.env("FAIRLOCK_HELD", over.trim()).args(["run", "x", "--", "echo", "it ran"]));
    assert!(waiter.complaint().contains("waiting for x: 1st of 1"));
    of_today.signal(Signal::TERM);
    assert_eq!(waiter.line(), "it ran");
}
