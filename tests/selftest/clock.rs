//! The wall clock that a test steps, tested: a step is exact and affects no other clock.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use redis::{Commands as _, cmd};
use testkit::{Child, RedisServer, SOON, child, eventually, vclock::WallClock};

const HOUR: Duration = Duration::from_secs(3600);

/// The helper process of this file.
#[test]
fn child() {
    child::main(|role, _| match role {
        "time a jump" => {
            let (wall_start, start) = (wall(), Instant::now());
            child::say("ready");
            while wall() < wall_start + HOUR / 2 {
                std::thread::sleep(Duration::from_millis(1));
            }
            child::say(format!("jumped {}", start.elapsed().as_secs()));
        }
        other => panic!("no role {other}"),
    });
}

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

#[test]
fn servers_with_one_clock_step_together_and_others_do_not() {
    let clock = WallClock::on_time();
    let servers = [(); 2].map(|()| clock.given_to(RedisServer::builder()).start());
    let other = RedisServer::start();
    clock.step_forwards(HOUR);
    servers.iter().for_each(|server| is_now(server, |time| time + HOUR));
    is_now(&other, |time| time);
}

#[test]
fn a_restarted_server_finds_the_clock_as_it_is() {
    let clock = WallClock::on_time();
    let server = clock.given_to(RedisServer::builder()).start();
    clock.step_back(HOUR);
    server.restart();
    is_now(&server, |time| time - HOUR);
}

#[test]
fn only_the_wall_clock_is_stepped() {
    let clock = WallClock::on_time();
    let variables = clock.variables().map(|(name, value)| format!("{name}={}", value.display()));
    let mut helper = Child::spawn_under(&["env", &variables[0], &variables[1]], "time a jump", &[]);
    helper.wait_line("ready", SOON);
    clock.step_forwards(HOUR);
    let jumped = helper.wait_line("jumped ", SOON);
    let took: u64 = jumped["jumped ".len()..].parse().unwrap();
    assert!(took < HOUR.as_secs() / 2, "{took} s");
}
