//! `fairlock wait`: for one lock, for several, for all that match a pattern; and for a server that is not there yet.

use std::net::TcpListener;
use std::process::Command;
use std::thread;

use crate::look::{call, objects};
use crate::shared::{Finished, Process, Redis, Signal, fairlock, hold, with_time_to_queue};

/// `fairlock wait WORDS` with a timeout in which it looks at the locks.
fn briefly(redis: &Redis, words: &[&str]) -> Finished {
    with_time_to_queue(|seconds| call(redis, &[&["wait", "-w", &seconds.to_string()], words].concat()))
}

#[test]
fn wait_ends_when_the_lock_is_free_and_takes_nothing() {
    let redis = Redis::start();
    assert_eq!(call(&redis, &["wait", "x"]).code, 0);
    let holder = hold(&redis, "x", "the holder");
    let late = briefly(&redis, &["x"]);
    assert!(late.code == 124 && late.stderr.contains("x is held ") && late.stderr.contains("the holder"), "{late:?}");
    let next = redis.waiter("x", &[], "echo; exec sleep 1000");
    let of_all = Process::spawn(redis.fairlock().args(["wait", "x", "--json"]));
    holder.signal(Signal::TERM);
    next.line();
    assert_eq!(redis.state("x")["waiting"], 0, "nobody who waits so stands in the queue");
    next.signal(Signal::TERM);
    let ended = of_all.finish();
    assert_eq!((ended.code, &objects(&ended.stdout)[0]["state"]), (0, &"free".into()), "{ended:?}");
}

#[test]
fn wait_for_a_pattern_ends_when_no_lock_that_matches_is_in_use() {
    let redis = Redis::start();
    assert_eq!(call(&redis, &["wait", "q:*"]).code, 0, "none is");
    let [a, b] = ["q:a", "q:b"].map(|name| hold(&redis, name, "the holder"));
    let _other = hold(&redis, "other", "the holder");
    let late = briefly(&redis, &["q:*", "--json"]);
    assert!(
        late.code == 124 && late.stderr.contains("is held ") && late.stderr.ends_with("; 1 more is not free\n"),
        "{late:?}"
    );
    assert_eq!(objects(&late.stdout).len(), 2, "{late:?}");
    let wait = Process::spawn(redis.fairlock().args(["wait", "q:*"]));
    assert!(wait.complaint().contains("waiting for q:"));
    // A lock that is taken meanwhile counts as well.
    let later = hold(&redis, "q:later", "the holder");
    for holder in [a, b] {
        holder.signal(Signal::TERM);
    }
    let mut said = String::new();
    while !said.contains("waiting for q:later: held ") {
        said = wait.complaint();
    }
    later.signal(Signal::TERM);
    assert_eq!(wait.finish().code, 0);
}

#[test]
fn wait_for_several_names_ends_when_all_are_free() {
    let redis = Redis::start();
    let [x, y] = ["x", "y"].map(|name| hold(&redis, name, "the holder"));
    let wait = Process::spawn(redis.fairlock().args(["wait", "free", "x", "y", "--json"]));
    assert!(wait.complaint().contains("waiting for x and 1 more: held "));
    x.signal(Signal::TERM);
    assert!(wait.complaint().contains("waiting for y: held "));
    y.signal(Signal::TERM);
    let ended = wait.finish();
    let documents = objects(&ended.stdout);
    assert_eq!(documents.iter().map(|one| &one["name"]).collect::<Vec<_>>(), ["free", "x", "y"], "{ended:?}");
    assert!(documents.iter().all(|one| one["state"] == "free") && ended.code == 0, "{ended:?}");
}

/// Taken for a name it would be a lock that nobody uses, and a break or a wait would be over at once.
#[test]
fn a_pattern_is_no_name_and_a_backslash_makes_it_one() {
    let redis = Redis::start();
    let _holder = hold(&redis, "job[1]*", "the holder");
    for words in [&["break", "--token", "7", "job[1]*"][..], &["history", "job?"], &["history", "job*", "on"]] {
        let refused = call(&redis, words);
        assert!(refused.code == 125 && refused.stdout.is_empty(), "{refused:?}");
        assert!(refused.stderr.contains("a pattern may match many locks"), "{refused:?}");
        assert!(refused.stderr.contains("write a backslash before each"), "{refused:?}");
    }
    assert_eq!(call(&redis, &["wait", "job[1]*"]).code, 0, "no lock matches: [1] is a 1");
    let name = r"job\[1]\*";
    assert_eq!(briefly(&redis, &[name]).code, 124);
    let other = call(&redis, &["break", "--token", "7", name]);
    assert!(other.code == 1 && other.stderr.contains("job[1]* is held "), "{other:?}");
    let none = call(&redis, &["history", name]);
    assert!(none.code == 1 && none.stderr.ends_with("fairlock history 'job\\[1]\\*' on\n"), "{none:?}");
}

#[test]
fn wait_waits_for_a_server_that_is_not_up_yet() {
    let redis = Redis::start();
    redis.kill();
    let [loud, quiet] =
        [&[][..], &["-q"]].map(|option| Process::spawn(redis.fairlock().args(["wait", "-w", "1h", "x"]).args(option)));
    let said = loud.complaint();
    assert!(said.contains("no Redis server answers") && said.ends_with("; trying again"), "{said}");
    redis.restart();
    assert_eq!(loud.finish().code, 0);
    let quiet = quiet.finish();
    assert_eq!((quiet.code, quiet.stderr.as_str()), (0, ""));
    // At the end of its timeout it says why it does not know.
    let nowhere = Process::spawn(fairlock().args(["--redis", "unix:///none.sock", "wait", "-q", "-w", "0.1", "x"]));
    let ended = nowhere.finish();
    assert!(ended.code == 125 && ended.stderr.contains("no Redis server answers at /none.sock"), "{ended:?}");
}

/// A server that accepts connections and never answers has five seconds to answer a call that does not wait.
#[test]
fn wait_ends_at_its_timeout_at_a_server_that_never_answers() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("redis://{}/", silent.local_addr().unwrap());
    thread::spawn(move || silent.incoming().collect::<Vec<_>>());
    let at_it = |words: &[&str]| {
        let mut call = Command::new(env!("CARGO_BIN_EXE_fairlock"));
        Process::spawn(call.args(["--redis", &url]).args(words))
    };
    // Two waits, one after the other, end before such a call, unless the machine is busy.
    testkit::eventually("the waits end first", crate::shared::PATIENCE, || {
        let look = at_it(&["status", "x"]);
        for _ in 0..2 {
            let ended = at_it(&["wait", "-w", "1", "x"]).finish();
            assert!(ended.code == 125 && ended.stderr.contains("no answer"), "{ended:?}");
        }
        crate::shared::lives(look.id())
    });
}
