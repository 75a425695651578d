//! A grant after a wait gives `fairlock run` a whole lease, even if it comes late.

use std::time::Duration;

use crate::shared::{Redis, Signal, await_state};

/// The lock `x` is held, and this run waits for it.
fn waiting(redis: &Redis, options: &[&str], script: &str) -> (crate::shared::Process, crate::shared::Process) {
    let holder = redis.run("x", &[], "echo held; exec sleep 1000");
    assert_eq!(holder.line(), "held");
    let waiter = redis.waiter("x", options, script);
    (holder, waiter)
}

// A claim is as long as the liveness, 10 s. That is too short for a command that may need longer to end.
#[test]
fn a_waiter_with_a_long_kill_after_gets_the_lock_in_its_turn() {
    let redis = Redis::start();
    for (lease, kill_after) in [("10m", "1m"), ("30s", "10s"), ("1h", "20m")] {
        let options = ["--lease", lease, "--kill-after", kill_after];
        let (holder, waiter) = waiting(&redis, &options, "echo ran");
        holder.signal(Signal::TERM);
        let finished = waiter.finish();
        assert_eq!((finished.code, finished.stdout.as_str()), (0, "ran\n"), "{options:?}: {}", finished.stderr);
        // It does not get the lock in a second try either, behind a waiter that queued meanwhile.
        let said = &finished.stderr;
        assert!(!said.contains("lost") && !said.contains("too late"), "{said}");
    }
}

#[test]
fn a_command_that_waited_begins_with_a_whole_lease() {
    let redis = Redis::start();
    let (holder, waiter) = waiting(&redis, &["--lease", "10m"], "echo begun; exec sleep 1000");
    holder.signal(Signal::TERM);
    assert_eq!(waiter.line(), "begun");
    let left = redis.state("x")["holders"][0]["remaining_ms"].as_u64().unwrap();
    // A claim would have 10 s left.
    assert!(left > 5 * 60_000, "{left} ms");
    waiter.signal(Signal::TERM);
}

// Most of a claim, or all of it, may be over when the waiter runs again: then it waits on in its old place.
#[test]
fn a_waiter_that_was_stopped_runs_its_command_when_it_continues() {
    let redis = Redis::start();
    for stopped in [6, 12].map(Duration::from_secs) {
        let (holder, waiter) = waiting(&redis, &[], "echo ran");
        waiter.signal(Signal::STOP);
        await_state(waiter.id(), "T");
        holder.signal(Signal::TERM);
        assert_eq!(holder.finish().code, 143);
        // A claim lasts 10 s.
        std::thread::sleep(stopped);
        waiter.signal(Signal::CONT);
        let finished = waiter.finish();
        assert_eq!((finished.code, finished.stdout.as_str()), (0, "ran\n"), "{stopped:?}: {}", finished.stderr);
    }
}
