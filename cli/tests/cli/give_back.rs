//! A fairlock that is killed costs the next waiter no lease: its shim gives the lock back.

use std::io::Read as _;
use std::process::Stdio;
use std::time::Instant;

use crate::shared::{Redis, STUBBORN, Signal, await_death, eventually, lives, signal, witness};
use testkit::RedisServer;

/// No test waits that long, so a grant is not due to the end of the lease.
const LONG: [&str; 2] = ["--lease", "10h"];
/// Everything is told, the events on stderr.
const TOLD: [&str; 3] = ["-v", "--events", "2"];

fn tells_of_release(stderr: impl AsRef<[u8]>) -> bool {
    let said = String::from_utf8_lossy(stderr.as_ref());
    said.contains("released x") || said.contains("\"event\":\"released\"")
}

#[test]
fn the_next_waiter_is_granted_the_lock_as_soon_as_the_command_is_dead() {
    let redis = Redis::start();
    // The command ignores TERM, so it lives on for a while after fairlock.
    let holder = redis.run("x", &[&LONG[..], &["--kill-after", "1s"]].concat(), STUBBORN);
    let command = holder.number();
    let witness = witness(&redis, "x", command);
    holder.signal(Signal::KILL);
    assert_eq!(witness.line(), "dead");

    // A command that ends at once costs milliseconds.
    let holder = redis.run("x", &LONG, "echo $$; exec sleep 1000");
    holder.number();
    let next = redis.waiter("x", &[], "echo granted");
    let killed = Instant::now();
    holder.signal(Signal::KILL);
    next.line();
    println!("granted {:?} after the kill", killed.elapsed());
}

#[test]
fn all_locks_of_a_run_are_given_back() {
    let redis = Redis::start();
    let holder = redis.hold("a", &[&LONG[..], &["-a", "b", "-a", "a name\u{1b}]0;"]].concat());
    holder.signal(Signal::KILL);
    for name in ["a", "b", "a name\u{1b}]0;"] {
        eventually("the lock is free", || (redis.state(name)["state"] == "free").then_some(()));
    }
}

/// An operator has ended the lease of a holder that hangs, and another process holds the lock now.
#[test]
fn the_shim_does_not_end_the_lease_of_another_holder() {
    let redis = Redis::start();
    let old = redis.run("x", &LONG, "echo $$; exec sleep 1000");
    let command = old.number();
    old.signal(Signal::STOP);
    let ended = redis.fairlock().args(["break", "x", "--force"]).output().unwrap();
    assert!(ended.status.success(), "{ended:?}");
    let new = redis.hold("x", &[]);
    let token = redis.state("x")["holders"][0]["token"].clone();
    let shim = old.shim(command);
    old.signal(Signal::KILL);
    await_death(command);
    await_death(shim);
    assert_eq!(redis.state("x")["holders"][0]["token"], token, "the new lease stands");
    assert!(lives(new.id()));
}

/// fairlock does not hear of the end of its command.
#[test]
fn a_command_that_ended_by_itself_before_fairlock_died_is_followed_by_the_next() {
    let redis = Redis::start();
    let holder = redis.run("x", &LONG, "echo $$; exec sleep 1000");
    let command = holder.number();
    let next = redis.waiter("x", &[], "echo granted");
    let token = redis.state("x")["holders"][0]["token"].clone();
    holder.signal(Signal::STOP);
    signal(command, Signal::TERM);
    await_death(command);
    // A shim that did not wait for fairlock would release the lock in this time.
    std::thread::sleep(std::time::Duration::from_millis(500));
    assert_eq!(redis.state("x")["holders"][0]["token"], token, "fairlock may go on, and its lease stands");
    holder.signal(Signal::KILL);
    assert_eq!(next.line(), "granted");
}

#[test]
fn a_shim_that_reaches_no_server_ends_with_the_lease() {
    let redis = Redis::start();
    let holder = redis.run("x", &["--lease", "6s"], "echo $$; exec sleep 1000");
    let command = holder.number();
    let shim = holder.shim(command);
    redis.stop();
    holder.signal(Signal::KILL);
    await_death(shim);
    redis.cont();
}

/// The lease ends by itself; whoever waits for the end of the run need not wait for that.
#[test]
fn fairlock_leaves_a_server_that_is_away_when_its_command_is_over() {
    for (away, interrupt) in
        [(RedisServer::kill as fn(&RedisServer), false), (RedisServer::stop, false), (RedisServer::stop, true)]
    {
        let redis = Redis::start();
        let holder = redis.run("x", &[&LONG[..], &TOLD].concat(), "echo $$; exec sleep 1000");
        let command = holder.number();
        let shim = holder.shim(command);
        away(&redis);
        let began = Instant::now();
        signal(command, Signal::TERM);
        await_death(shim);
        if interrupt {
            holder.signal(Signal::INT);
        }
        let ended = holder.finish();
        println!("left after {:?}", began.elapsed());
        assert_eq!(ended.code, 143, "{ended:?}");
        let why = if interrupt { "x could not be released (SIGINT)" } else { "x could not be released (" };
        assert!(ended.stderr.contains(why), "{ended:?}");
        assert!(ended.stderr.contains("the lease ends by itself, in 9h 5"), "{ended:?}");
        assert!(!tells_of_release(&ended.stderr), "{ended:?}");
    }
}

/// The server was emptied, and a stranger came before the holder's next renewal.
#[test]
fn a_run_whose_lease_had_ended_says_so_and_promises_nothing() {
    let redis = Redis::start();
    let holder = redis.run("x", &[&LONG[..], &TOLD].concat(), "echo $$; exec sleep 1000");
    let command = holder.number();
    redis.flush();
    let _stranger = crate::shared::hold(&redis, "x", "stranger");
    signal(command, Signal::TERM);
    let ended = holder.finish();
    assert!(!tells_of_release(&ended.stderr), "{ended:?}");
    assert_eq!(ended.code, 143, "{ended:?}");
    assert!(ended.stderr.contains("x was not held to the end: the lease of the lock \"x\""), "{ended:?}");
    assert!(ended.stderr.contains("another job may have run meanwhile"), "{ended:?}");
    assert!(!ended.stderr.contains("ends by itself"), "{ended:?}");
}

#[test]
fn a_hold_tells_of_its_release_only_if_the_server_has_confirmed_it() {
    for (away, tells) in [(false, true), (true, false)] {
        let redis = Redis::start();
        let mut hold = redis.fairlock();
        hold.args(["hold", "x"]).args(LONG).args(TOLD).stdin(Stdio::piped());
        let mut holder = hold.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        // Otherwise the end would close the pipe.
        let _stdin = holder.stdin.take();
        holder.stdout.as_mut().unwrap().read_exact(&mut [0]).expect("a token");
        if away {
            redis.kill();
        }
        signal(holder.id(), Signal::INT);
        let ended = holder.wait_with_output().unwrap();
        assert_eq!((ended.status.code(), tells_of_release(&ended.stderr)), (Some(0), tells), "{ended:?}");
    }
}
