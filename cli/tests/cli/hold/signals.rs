//! Signals to a script and to its stand-in, and by whose number others know the holder.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;
use std::time::{Duration, Instant};

use super::{Script, is_free, stand_in};
use crate::shared::{Process, Redis, Signal, await_death, lives, signal};

/// A script that needs some time to stop: it is told so by a line, and ends at the next step.
const CLEANS_UP: &str = "trap 'trap \"\" TERM INT HUP; step told; echo cleaned up; exit 7' TERM INT HUP; exec 9>$L; \
                         $F hold x --fd 9 || exit; echo ready; while :; do sleep .1; done";

#[test]
fn the_label_names_the_script_and_not_its_stand_in() {
    let redis = Redis::start();
    let script =
        Script::start(&redis, "exec 9>$L; fairlock() { $F \"$@\"; }; fairlock hold x --fd 9 || exit; step ready");
    assert_eq!(script.process.line(), "ready");
    let label = redis.state("x")["holders"][0]["label"].as_str().unwrap().to_owned();
    assert!(label.contains(&format!(":{} ", script.process.id())), "{label}");
    // What `operating.md` says to do.
    script.process.signal(Signal::TERM);
    is_free(&redis, "x");
}

/// The signal may come to the stand-in alone, or to all processes of a unit that systemd stops.
#[test]
fn a_script_that_is_told_to_end_cleans_up_before_the_next_holder() {
    let redis = Redis::start();
    for (end, both) in [(Signal::TERM, false), (Signal::INT, false), (Signal::HUP, false), (Signal::TERM, true)] {
        let script = Script::start(&redis, CLEANS_UP);
        assert_eq!(script.process.line(), "ready");
        let next = redis.waiter("x", &[], "echo granted");
        signal(stand_in(script.process.id()), end);
        if both {
            script.process.signal(end);
        }
        assert_eq!(script.process.line(), "told");
        // A stand-in that releases at once has done so by now.
        std::thread::sleep(Duration::from_millis(500));
        assert_eq!(redis.state("x")["waiting"], 1, "the script is at work");
        script.step();
        assert_eq!(script.process.line(), "cleaned up");
        assert_eq!(next.line(), "granted");
        next.finish();
        let ended = script.process.finish();
        assert_eq!(ended.code, 7, "{end:?}: {ended:?}");
    }
}

#[test]
fn a_script_that_is_killed_while_it_waits_leaves_the_queue() {
    let (redis, _holder) = Redis::held("the holder");
    let script = Script::start(&redis, "echo; exec 9>$L; $F hold x --fd 9");
    script.process.line();
    redis.await_waiting("x", 1);
    let stand_in = stand_in(script.process.id());
    script.process.signal(Signal::KILL);
    redis.await_waiting("x", 0);
    await_death(stand_in);
}

/// `$(…)` with more than one command in it and `timeout` are processes of their own, which are gone after the grant.
#[test]
fn the_script_is_told_whatever_stands_between_it_and_hold() {
    let redis = Redis::start();
    for hold in
        ["token=$($F hold x --fd 9 --print token || echo)", "timeout 1h $F hold x --fd 9", "($F hold x --fd 9; true)"]
    {
        let text = format!("trap 'step told; exit 7' TERM; exec 9>$L; {hold}; echo ready; while :; do sleep .1; done");
        let script = Script::start(&redis, &text);
        assert_eq!(script.process.line(), "ready");
        let holder = redis.state("x")["holders"][0].clone();
        let label = holder["label"].as_str().unwrap();
        assert!(label.contains(&format!(":{} ", script.process.id())), "{hold}: {label}");
        let token = holder["token"].to_string();
        let _break = Process::spawn(redis.fairlock().args(["break", "x", "--token", &token]));
        assert_eq!(script.process.line(), "told", "{hold}");
        script.step();
        assert_eq!(script.process.finish().code, 7, "{hold}");
        is_free(&redis, "x");
    }
}

/// As when the script of a unit has ended, and systemd ends what is left of the unit.
#[test]
fn a_signal_does_not_keep_a_stand_in_from_giving_back_the_lock() {
    let redis = Redis::start();
    let in_time = (0..5).any(|_| {
        let script = Script::start(&redis, "exec 9>$L; $F hold x --fd 9 --lease 10m || exit; step ready");
        assert_eq!(script.process.line(), "ready");
        let stand_in = stand_in(script.process.id());
        redis.stop();
        let stopped = Instant::now();
        script.step();
        await_death(script.process.id());
        // By now it has seen that the descriptor is closed, and waits for the server's answer.
        std::thread::sleep(Duration::from_millis(300));
        signal(stand_in, Signal::TERM);
        std::thread::sleep(Duration::from_millis(300));
        let waits = lives(stand_in);
        // It does not wait for ever.
        let in_time = stopped.elapsed() < Duration::from_secs(3);
        redis.cont();
        assert!(waits || !in_time, "it was ended by the signal");
        await_death(stand_in);
        in_time
    });
    assert!(in_time);
    is_free(&redis, "x");
}

/// No process is left that could give the lock back, as for a script.
#[test]
fn a_hold_without_a_script_that_is_killed_keeps_the_lock_for_the_rest_of_its_lease_and_no_longer() {
    const LEASE: Duration = Duration::from_secs(9);
    let redis = Redis::start();
    let mut hold = redis.fairlock();
    let hold = hold.args(["hold", "x", "--lease", "9s"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = hold.spawn().unwrap();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut String::new()).unwrap();
    let next = redis.waiter("x", &[], "echo granted");
    child.kill().unwrap();
    child.wait().unwrap();
    let asked = Instant::now();
    let left = Duration::from_millis(redis.state("x")["holders"][0]["remaining_ms"].as_u64().unwrap());
    assert_eq!(next.line(), "granted");
    let waited = asked.elapsed();
    // The server has answered after it was asked. Another lease is time enough for a busy machine.
    assert!(left <= LEASE && (left..left + LEASE).contains(&waited), "{waited:?} of {left:?}");
}
