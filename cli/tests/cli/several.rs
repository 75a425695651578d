//! `fairlock run NAME -a NAME2`: several locks for one command.

use std::time::{Duration, Instant};

use crate::shared::{Process, Redis, Signal};
use serde_json::Value;

#[test]
fn the_command_holds_all_locks_and_knows_the_first() {
    let redis = Redis::start();
    let script = "echo \"$FAIRLOCK_NAME\"; echo \"$FAIRLOCK_TOKEN\"; echo \"$FAIRLOCK_HELD\"; exec sleep 1000";
    let holder = redis.run("m", &["-a", "z", "--and", "a", "-a", "m"], script);
    assert_eq!(holder.line(), "m");
    let token: u64 = holder.line().parse().unwrap();
    let held: Value = serde_json::from_str(&holder.line()).unwrap();
    let names: Vec<&Value> = held.as_array().unwrap().iter().map(|held| &held["name"]).collect();
    assert_eq!(names, ["a", "m", "z"], "each once, in the order in which all runs take them");
    assert_eq!((&held[1]["token"], &held[1]["slot"]), (&token.into(), &0.into()));
    for name in ["a", "m", "z"] {
        assert_eq!(redis.state(name)["state"], "held", "{name}");
    }
    holder.signal(Signal::TERM);
    holder.finish();
    for name in ["a", "m", "z"] {
        assert_eq!(redis.state(name)["state"], "free", "{name}");
    }
}

/// Two runs that took their locks in the order of their command lines would wait for each other sooner or later.
#[test]
fn runs_that_name_the_same_locks_in_any_order_do_not_wait_for_each_other() {
    let redis = Redis::start();
    let script = "i=0; while [ $i -lt 15 ]; do i=$((i+1)); $F run $A -a $B -t 80 -- true || exit; done";
    let runs: Vec<Process> = [("a", "b"), ("b", "a"), ("a", "b"), ("b", "a")]
        .iter()
        .map(|(one, other)| {
            let mut run = std::process::Command::new("sh");
            run.envs([("A", *one), ("B", *other), ("F", env!("CARGO_BIN_EXE_fairlock")), ("REDIS_URL", &redis.url())]);
            Process::spawn(run.args(["-c", script]))
        })
        .collect();
    for run in runs {
        let ended = run.finish();
        assert_eq!(ended.code, 0, "{ended:?}");
    }
}

#[test]
fn a_run_takes_all_its_locks_or_none() {
    let redis = Redis::start();
    let _holder = redis.hold("b", &[]);
    for (options, code) in [(&[&["-n"][..]][..], 122), (&[&["-t", "500ms"], &["-t", "5s"], &["-t", "30s"]], 124)] {
        let run = |options: &&[&str]| {
            let ended = redis.run("a", &[&["-a", "b", "-a", "c"], *options].concat(), "echo it ran").finish();
            assert_eq!(ended.stdout, "", "{ended:?}");
            ended
        };
        // On a slow machine half a second may be over before the first lock is granted. That is the server's failure.
        let mut runs = options.iter().map(run);
        assert!(runs.any(|ended| ended.code == code && ended.stderr.contains("b ")), "it says which of them was held");
        // By then the run has given back the locks that it had taken before.
        for name in ["a", "c"] {
            assert_eq!(redis.state(name)["state"], "free", "{name}");
        }
    }
    // A signal ends the wait for the second, and gives the first back.
    let waiter = redis.run("a", &["-a", "b"], "true");
    redis.await_waiting("b", 1);
    assert_eq!(redis.state("a")["state"], "held");
    waiter.signal(Signal::TERM);
    assert_eq!(waiter.finish().code, 143);
    assert_eq!((&redis.state("a")["state"], &redis.state("b")["waiting"]), (&"free".into(), &0.into()));

    // It awaits the server's answer to that, for a second.
    let waiter = redis.run("a", &["-a", "b"], "true");
    redis.await_waiting("b", 1);
    redis.stop();
    let told = Instant::now();
    waiter.signal(Signal::TERM);
    assert_eq!(waiter.finish().code, 143);
    assert!(told.elapsed() >= Duration::from_millis(900), "{:?}", told.elapsed());
    redis.cont();
}

#[tokio::test]
async fn the_command_ends_with_the_first_lease_that_is_lost() {
    let redis = Redis::start();
    let client = fairlock::Client::connect(&redis.url()).await.unwrap();
    for lost in ["a", "b"] {
        // The lease is so long that its end cannot end the command.
        let holder = redis.hold("a", &["-a", "b", "--lease", "10h"]);
        let token = redis.state(lost)["holders"][0]["token"].as_u64().unwrap();
        client.lock(lost).unwrap().break_lease(token).await.unwrap();
        let ended = holder.finish();
        assert_eq!(ended.code, 123, "{ended:?}");
        assert!(ended.stderr.contains(&format!("the lease on {lost} is lost: an operator broke it")), "{ended:?}");
        for name in ["a", "b"] {
            assert_eq!(redis.state(name)["state"], "free", "{name}");
        }
    }
}
