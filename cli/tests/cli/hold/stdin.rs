//! The stdin of a hold without `--fd`: it holds until that ends, and reads nothing.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::Stdio;

use super::is_free;
use crate::shared::{Process, Redis, Signal, eventually};

/// As behind `&` in a script. The lock would be given back as soon as it is granted.
#[test]
fn a_hold_whose_stdin_has_ended_is_refused_before_it_queues() {
    let (redis, holder) = Redis::held("the holder");
    let refused = Process::spawn(redis.fairlock().args(["hold", "x"])).finish();
    assert!(refused.code == 125 && refused.stderr.contains("use --fd N in scripts"), "{refused:?}");
    assert_eq!(redis.state("x")["state"], "held", "it has not waited for the holder");
    // It may end while the hold waits.
    let (mut stdin, open) = std::io::pipe().unwrap();
    let mut hold = redis.fairlock();
    let hold = hold.args(["hold", "x"]).stdin(stdin.try_clone().unwrap()).stdout(Stdio::null());
    let mut waiter = hold.spawn().unwrap();
    redis.await_waiting("x", 1);
    drop(open);
    // A process that another test starts has the other end, too, until it is executed.
    assert_eq!(stdin.read(&mut [0]).unwrap(), 0);
    holder.signal(Signal::TERM);
    assert_eq!(waiter.wait().unwrap().code(), Some(125));
    is_free(&redis, "x");
}

/// As in a script that forgot `--fd`, and in a loop over the lines of a file.
#[test]
fn a_hold_without_a_descriptor_takes_no_data_from_other_commands() {
    let (redis, folder) = (Redis::start(), tempfile::tempdir().unwrap());
    let list = folder.path().join("list");
    std::fs::write(&list, "one\ntwo\n").unwrap();
    let refused = |stdin: Stdio| {
        let hold = redis.fairlock().args(["hold", "x"]).stdin(stdin).output().unwrap();
        let said = String::from_utf8(hold.stderr).unwrap();
        let is_refused = hold.status.code() == Some(125) && said.contains("stdin has data, which");
        assert!(is_refused && said.contains("use --fd N in scripts"), "{said}");
        assert_eq!(redis.state("x")["state"], "free");
        String::from_utf8(hold.stdout).unwrap()
    };
    assert_eq!(refused(std::fs::File::open(&list).unwrap().into()), "", "before the grant");
    let (mut rest, mut feed) = std::io::pipe().unwrap();
    feed.write_all(b"data").unwrap();
    assert_eq!(refused(rest.try_clone().unwrap().into()), "");
    drop(feed);
    let mut left = String::new();
    rest.read_to_string(&mut left).unwrap();
    assert_eq!(left, "data");
    // It comes when the lock is held.
    let (stdin, mut feed) = std::io::pipe().unwrap();
    let slow = std::thread::scope(|scope| {
        scope.spawn(|| {
            eventually("it is held", || (redis.state("x")["state"] == "held").then_some(()));
            feed.write_all(b"data").unwrap();
        });
        refused(stdin.into())
    });
    assert_ne!(slow, "");
}

#[test]
fn a_hold_whose_stdin_ends_says_that_the_lock_is_given_back() {
    let redis = Redis::start();
    for (option, says) in [("-v", "\nfairlock: x given back: stdin ended\n"), ("-q", "")] {
        let mut hold = redis.fairlock();
        hold.args(["hold", "x", option, "--print", "token"]);
        let mut child = hold.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        // It prints when it has looked at stdin for the last time.
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut String::new()).unwrap();
        drop(child.stdin.take());
        let ended = child.wait_with_output().unwrap();
        let said = String::from_utf8(ended.stderr).unwrap();
        assert!(ended.status.success() && said.contains(says) && (option == "-v" || said.is_empty()), "{said}");
    }
}
