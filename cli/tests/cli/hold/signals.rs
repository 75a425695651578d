//! Signals to a script and to its stand-in, and by whose number others know the holder.

use super::{Script, is_free, stand_in};
use crate::shared::{Redis, Signal, await_death, signal};

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
        std::thread::sleep(std::time::Duration::from_millis(500));
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
