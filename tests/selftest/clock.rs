//! The wall clock that a test steps, tested: a step is exact, and keys expire by it.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use redis::{Commands as _, cmd};
use testkit::{RedisServer, SOON, eventually, vclock::WallClock};

const HOUR: Duration = Duration::from_secs(3600);

fn wall() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap()
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
    let clock = WallClock::on_time();
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
    let clock = WallClock::on_time();
    let server = clock.given_to(RedisServer::builder()).start();
    let mut raw = server.raw();
    let () = raw.set_ex("short", 1, 60).unwrap();
    let () = raw.set_ex("long", 1, 7200).unwrap();
    clock.step_forwards(HOUR);
    eventually("the short-lived key is gone", SOON, || !raw.exists::<_, bool>("short").unwrap());
    let left: u64 = raw.ttl("long").unwrap();
    assert!(left <= 3600 && left > 3600 - SOON.as_secs(), "{left}");
}
