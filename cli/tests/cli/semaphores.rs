//! Semaphores and read-write locks: `--slots`, `--shared`, `--exclusive`.

use std::process::Command;

use crate::look::call;
use crate::shared::{Process, Redis, Signal, eventually, with_time_to_queue};

/// A command that prints its slot when it starts, and stays.
const TELL: &str = "echo \"$FAIRLOCK_SLOT\"; exec sleep 1000";

fn holder(redis: &Redis, name: &str, options: &[&str]) -> (Process, u32) {
    let holder = redis.run(name, options, TELL);
    let slot = holder.number();
    (holder, slot)
}

fn end(holder: Process) {
    holder.signal(Signal::TERM);
    holder.finish();
}

#[test]
fn each_holder_of_a_semaphore_has_a_slot_of_its_own_and_waiters_come_in_their_order() {
    let redis = Redis::start();
    let slots = ["--slots", "3"];
    let mut holders: Vec<_> = (0..3).map(|_| holder(&redis, "gpu", &slots)).collect();
    assert_eq!(holders.iter().map(|(_, slot)| *slot).collect::<Vec<_>>(), [0, 1, 2]);
    let waiters: Vec<_> = (0..4).map(|_| redis.waiter("gpu", &slots, TELL)).collect();
    for (waiter, freed) in waiters.into_iter().zip([1, 0, 2, 1]) {
        let at = holders.iter().position(|(_, slot)| *slot == freed).unwrap();
        end(holders.remove(at).0);
        assert_eq!(waiter.number(), freed, "the first waiter has the slot that is free");
        holders.push((waiter, freed));
    }
}

#[test]
fn a_plain_lock_has_slot_0() {
    let redis = Redis::start();
    for options in [&[][..], &["-x"], &["--slots", "1"], &["--slots", "1", "-e"]] {
        assert_eq!(redis.run("x", options, "echo $FAIRLOCK_SLOT").finish().stdout, "0\n", "{options:?}");
    }
}

#[test]
fn readers_hold_a_lock_together_and_a_writer_alone_and_both_in_their_order() {
    let redis = Redis::start();
    let (first, _) = holder(&redis, "index", &["-s"]);
    let (second, _) = holder(&redis, "index", &["--shared"]);
    let writer = redis.waiter("index", &["--exclusive"], TELL);
    // While it waits, no reader overtakes it.
    let refused = redis.run("index", &["-s", "-n"], "true").finish();
    assert_eq!(refused.code, 122, "{refused:?}");
    let late = redis.waiter("index", &["-s"], TELL);
    end(first);
    assert_eq!(redis.state("index")["waiting"], 2, "a reader is left");
    end(second);
    writer.number();
    assert_eq!(redis.state("index")["waiting"], 1, "the writer is alone");
    // Who says nothing is a writer, too.
    assert_eq!(redis.run("index", &["-n"], "true").finish().code, 122);
    end(writer);
    late.number();
    holder(&redis, "index", &["-s"]);
}

#[test]
fn of_programs_that_disagree_each_has_no_more_beside_it_than_it_said() {
    let redis = Redis::start();
    let (three, _) = holder(&redis, "gpu", &["--slots", "3"]);
    let (five, _) = holder(&redis, "gpu", &["--slots", "5"]);
    // As a plain lock, from a job that was forgotten.
    let alone = redis.waiter("gpu", &[], TELL);
    let next = redis.waiter("gpu", &["--slots", "3"], TELL);
    end(three);
    assert_eq!(redis.state("gpu")["waiting"], 2, "the one that wants to be alone stops those behind it");
    end(five);
    assert_eq!(alone.number(), 0);
    end(alone);
    next.number();
    // A deployment, from 3 to 5, and its way back.
    let mut fives: Vec<_> = (0..2).map(|_| holder(&redis, "gpu", &["--slots", "5"]).0).collect();
    assert_eq!(redis.run("gpu", &["--slots", "5", "-n"], "true").finish().code, 122, "three hold it, and one said 3");
    end(next);
    fives.extend([0, 3, 4].map(|free| {
        let (five, slot) = holder(&redis, "gpu", &["--slots", "5"]);
        assert_eq!(slot, free, "the lowest slot that is free");
        five
    }));
    let three = redis.waiter("gpu", &["--slots", "3"], TELL);
    for left in [4, 3] {
        end(fives.remove(0));
        let state = redis.state("gpu");
        assert_eq!((state["holders"].as_array().unwrap().len(), &state["waiting"]), (left, &1.into()), "{state}");
    }
    end(fives.remove(0));
    assert!(three.number() < 3, "a slot below its own number");
}

#[test]
fn holders_of_a_semaphore_keep_their_slots_over_a_loss_of_data() {
    let redis = Redis::start();
    let options = ["--slots", "3", "--lease", "12s"];
    let mut holders: Vec<_> = (0..3).map(|_| holder(&redis, "gpu", &options).0).collect();
    let waiter = redis.waiter("gpu", &options, TELL);
    let leases = || {
        let state = redis.state("gpu");
        let held = state["holders"].as_array().unwrap().iter().map(|one| (one["slot"].clone(), one["token"].clone()));
        (held.collect::<Vec<_>>(), state["waiting"].clone())
    };
    let before = leases();
    redis.flush();
    eventually("all are back", || (leases() == before).then_some(()));
    end(holders.remove(1));
    assert_eq!(waiter.number(), 1);
    assert_eq!(leases().0.len(), 3);
}

#[test]
fn with_other_locks_the_options_are_those_of_the_first() {
    let redis = Redis::start();
    let options = ["--slots", "2", "-a", "later"];
    let holder = redis.hold("gpu", &options);
    let waiter = redis.run("gpu", &options, TELL);
    redis.await_waiting("later", 1);
    assert_eq!(redis.run("gpu", &["--slots", "2", "-n"], "true").finish().code, 122, "both slots are taken");
    end(holder);
    assert_eq!(waiter.number(), 1, "the slot of the first name");
    end(waiter);
    // A name that is given twice counts once, with the smaller number.
    let _alone = redis.hold("gpu", &["--slots", "2", "-a", "gpu"]);
    assert_eq!(redis.run("gpu", &["--slots", "2", "-n"], "true").finish().code, 122);
}

#[test]
fn a_run_inside_of_a_run_is_refused_whichever_slot_the_outer_one_has() {
    let redis = Redis::start();
    let _other = holder(&redis, "gpu", &["--slots", "4"]);
    for options in ["--slots 4", "--slots 4 --no-wait", "--slots 2", "-s", "-x -n"] {
        let mut run = redis.fairlock();
        run.env("F", env!("CARGO_BIN_EXE_fairlock")).args(["run", "gpu", "--slots", "4", "--", "sh", "-c"]);
        let parent = Process::spawn(run.arg(format!("$F run gpu {options} -- echo it ran")));
        let pid = parent.id();
        let ended = parent.finish();
        assert_eq!((ended.code, ended.stdout.as_str()), (125, ""), "{options}: {ended:?}");
        assert!(ended.stderr.contains(&format!("already held by this job's parent (pid {pid})")), "{ended:?}");
    }
}

#[test]
fn a_script_is_told_its_slot_if_it_asks() {
    let redis = Redis::start();
    let _other = holder(&redis, "gpu", &["--slots", "4"]);
    let folder = tempfile::tempdir().unwrap();
    let hold = |options: &str| {
        let mut sh = redis.fairlock();
        sh.args(["run", "outer", "--", "sh", "-c"]).env("F", env!("CARGO_BIN_EXE_fairlock"));
        let file = folder.path().join("lock");
        let line = format!("exec 9>'{}'; $F hold gpu --slots 4 --fd 9 {options}", file.display());
        Process::spawn(sh.arg(line)).finish().stdout
    };
    assert_eq!(hold("--print slot"), "1\n");
    let both = hold("--print token,slot");
    assert!(both.split_once(' ').is_some_and(|(token, slot)| token.parse::<u64>().is_ok() && slot == "1\n"), "{both}");
    assert_eq!(hold(""), "");
    let mut hold = redis.fairlock();
    hold.args(["run", "outer", "-c", "sleep 1000 | $F hold gpu -q --slots 4 --print token,slot"]);
    let hold = Process::spawn(hold.env("F", env!("CARGO_BIN_EXE_fairlock")));
    assert!(hold.line().ends_with(" 1"), "behind the token");
}

#[test]
fn wait_ends_when_an_acquire_with_the_same_options_would_be_granted_at_once() {
    let redis = Redis::start();
    let wait = |options: &[&str]| Process::spawn(redis.fairlock().args(["wait", "gpu"]).args(options));
    let briefly = |options: &[&str]| {
        with_time_to_queue(|seconds| call(&redis, &[&["wait", "gpu", "-w", &seconds.to_string()], options].concat()))
    };
    let (first, _) = holder(&redis, "gpu", &["--slots", "2"]);
    for options in [&["--slots", "2"][..], &["-s"], &["--slots", "5"]] {
        assert_eq!(wait(options).finish().code, 0, "{options:?}");
    }
    assert_eq!(briefly(&["-x"]).code, 124);
    let (second, _) = holder(&redis, "gpu", &["--slots", "2"]);
    // Those who hold it let nobody else in, whatever the next one says.
    let ended = briefly(&["--slots", "5"]);
    assert_eq!(ended.code, 124, "{ended:?}");
    let [one, all] = [&["--slots", "2"][..], &[]].map(wait);
    end(first);
    assert_eq!(one.finish().code, 0, "a slot is free");
    let waiter = redis.waiter("gpu", &[], TELL);
    assert_eq!(briefly(&["--slots", "2"]).code, 124, "somebody waits, and would be the next");
    end(second);
    waiter.number();
    end(waiter);
    assert_eq!(all.finish().code, 0);
}

#[test]
fn options_that_contradict_each_other_are_refused_with_what_to_write() {
    let (redis, folder) = (Redis::start(), tempfile::tempdir().unwrap());
    for (options, says) in [
        (&["--slots", "0"][..], "invalid value '0' for '--slots <N>': give a whole number from 1 to 1000"),
        (&["--slots", "1001"], "invalid value '1001' for '--slots <N>': give a whole number from 1 to 1000"),
        (&["--slots", "4", "-s"], "write --slots N if up to N may hold the lock, or --shared"),
        (&["--slots", "4", "-x"], "write --slots 4 alone if up to 4 may"),
        (&["-s", "-x"], "--shared is for a reader, and --exclusive for a writer: write one of the two"),
        (&["-se"], "write one of the two"),
        (&["--slots", "-1"], "unexpected argument '-1' found"),
        (&["--slots", "many"], "invalid value 'many' for '--slots <N>': give a whole number from 1 to 1000"),
    ] {
        for words in [&["run", "x", "true"][..], &["wait", "x:*"], &["hold", "--fd", "9", "x"]] {
            let (command, rest) = words.split_first().unwrap();
            let mut sh = Command::new("sh");
            sh.args(["-c", "exec 9>\"$L\"; \"$@\"; exit $?", "-", env!("CARGO_BIN_EXE_fairlock"), command]);
            sh.env("L", folder.path().join("lock")).env("REDIS_URL", redis.url());
            let ended = Process::spawn(sh.args(options).args(rest)).finish();
            assert!(ended.code == 125 && ended.stderr.contains(says), "{command} {options:?}: {ended:?}");
        }
    }
}
