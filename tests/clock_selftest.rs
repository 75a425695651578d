//! The wall clock that a test steps, tested: a step is exact, and no other clock takes it.

#![allow(clippy::expect_used, clippy::unwrap_used)]
#![cfg(target_os = "linux")]

mod support;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use redis::{Commands as _, cmd};
use rustix::time::{ClockId, clock_gettime};
use support::{Child, RedisServer, SOON, child, eventually, vclock::WallClock};

const HOUR: Duration = Duration::from_secs(3600);

/// The helper process of this file.
#[test]
fn child() {
    child::main(|role, _| match role {
        "read the clocks" => child::say(format!("{} {}", wall().as_micros(), monotonic().as_micros())),
        other => panic!("no role {other}"),
    });
}

fn wall() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap()
}

fn monotonic() -> Duration {
    clock_gettime(ClockId::Monotonic).try_into().unwrap()
}

fn time_of(server: &RedisServer) -> Duration {
    let (seconds, micros): (u64, u32) = cmd("TIME").query(&mut server.raw()).unwrap();
    Duration::new(seconds, micros * 1000)
}

/// Whether the server's time is now the machine's, with this done to it.
#[track_caller]
fn is_now(server: &RedisServer, shifted: impl Fn(Duration) -> Duration) {
    // Some servers look at the clock a few times in a hundredth of a second only.
    eventually("the server's time is as far off as it should be", SOON, || {
        let before = wall();
        let time = time_of(server);
        // An exact step leaves it between two readings of the machine's own clock, in whole microseconds.
        shifted(before) <= time + Duration::from_micros(1) && time <= shifted(wall())
    });
}

#[test]
fn the_servers_time_moves_by_exactly_the_step() {
    let clock = WallClock::new();
    let server = clock.given_to(RedisServer::builder()).start();
    is_now(&server, |time| time);
    clock.step_forwards(HOUR);
    is_now(&server, |time| time + HOUR);
    clock.step_back(2 * HOUR);
    is_now(&server, |time| time - HOUR);
    clock.step_forwards(HOUR);
    is_now(&server, |time| time);
}

#[test]
fn keys_expire_by_the_stepped_clock() {
    let clock = WallClock::new();
    let server = clock.given_to(RedisServer::builder()).start();
    let mut raw = server.raw();
    let () = raw.set_ex("short", 1, 60).unwrap();
    let () = raw.set_ex("long", 1, 7200).unwrap();
    clock.step_forwards(HOUR);
    eventually("the short-lived key is gone", SOON, || !raw.exists::<_, bool>("short").unwrap());
    let left: u64 = raw.ttl("long").unwrap();
    assert!(left <= 3600 && left > 3600 - SOON.as_secs(), "{left}");
}

#[test]
fn servers_with_one_clock_step_together_and_others_do_not() {
    let clock = WallClock::new();
    let servers = [(); 2].map(|()| clock.given_to(RedisServer::builder()).start());
    let other = RedisServer::start();
    clock.step_forwards(HOUR);
    servers.iter().for_each(|server| is_now(server, |time| time + HOUR));
    is_now(&other, |time| time);
}

#[test]
fn a_restarted_server_finds_the_clock_as_it_is() {
    let clock = WallClock::new();
    let server = clock.given_to(RedisServer::builder()).start();
    clock.step_back(HOUR);
    server.restart();
    is_now(&server, |time| time - HOUR);
}

#[test]
fn only_the_wall_clock_is_stepped() {
    let clock = WallClock::new();
    clock.step_forwards(HOUR);
    let before = (wall(), monotonic());
    let variables = clock.variables().map(|(name, value)| format!("{name}={}", value.display()));
    let mut helper = Child::spawn_under(&["env", &variables[0], &variables[1]], "read the clocks", &[]);
    let read = helper.wait_line(" ", SOON);
    let after = (wall(), monotonic());
    let read: Vec<Duration> = read.split(' ').map(|micros| Duration::from_micros(micros.parse().unwrap())).collect();
    let step = read[0] - before.0;
    assert!(step >= HOUR - Duration::from_micros(1) && read[0] <= after.0 + HOUR, "{read:?} {before:?} {after:?}");
    assert!(read[1] + Duration::from_micros(1) >= before.1 && read[1] <= after.1, "{read:?} {before:?} {after:?}");
}
