//! Local deadlines count the time that the machine was suspended (I4).
//!
//! No test can suspend the machine, but a time namespace has the same effect on clocks: its `CLOCK_BOOTTIME` is a day
//! ahead of `CLOCK_MONOTONIC`, as after a day of sleep. So it shows which of the two the library uses for its
//! deadlines.

use std::{
    process::{Command, Stdio},
    time::Duration,
};

use fairlock::{Client, LockOptions, error::LostReason};
use rustix::time::{ClockId, clock_gettime};
use testkit::{Child, RedisServer, SOON, child, keys_left};

const DAY: u64 = 86_400;
const SLEPT_A_DAY: [&str; 4] = ["unshare", "--time", "--boottime", "86400"];

/// The helper processes of this file.
#[test]
fn child() {
    child::main(|role, args| match (role, args) {
        ("after a day of sleep", [url]) => after_a_day_of_sleep(url),
        other => panic!("no role {other:?}"),
    });
}

fn read(clock: ClockId) -> u64 {
    let now = clock_gettime(clock);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

#[tokio::main(flavor = "current_thread")]
async fn after_a_day_of_sleep(url: &str) {
    let (awake, before) = (read(ClockId::Monotonic), read(ClockId::Boottime));
    assert!(before - awake >= DAY * 1_000_000_000, "this is no namespace with a clock of its own");
    let ours = fairlock::__hooks::local_clock_ns();
    assert!((before..=read(ClockId::Boottime)).contains(&ours), "{ours} is not between {before} and now");

    // Deadlines that were set by one clock and compared with the other would be a day off.
    let lease = Duration::from_secs(9);
    let client = Client::connect(url).await.unwrap();
    let kept = client.lock_with("kept", LockOptions::new().lease(lease)).unwrap().acquire().await.unwrap();
    let options = LockOptions::new().lease(lease).manual_renewal();
    let guard = client.lock_with("lost", options).unwrap().acquire().await.unwrap();
    assert!(!guard.remaining().is_zero() && guard.remaining() <= lease);
    let lost = guard.lost().await;
    assert!(matches!(lost.reason, LostReason::NotRenewed { cause: None, .. }), "{lost}");
    kept.check().unwrap();
    assert!(!kept.remaining().is_zero() && kept.remaining() <= lease);
    kept.release().await.unwrap();
}

#[test]
fn deadlines_are_kept_by_a_clock_that_counts_sleep() {
    let [unshare, arguments @ ..] = SLEPT_A_DAY;
    let tried = Command::new(unshare).args(arguments).arg("true").stdout(Stdio::null()).stderr(Stdio::piped()).output();
    match tried {
        Ok(output) if output.status.success() => {}
        other => {
            testkit::say(format_args!("SKIPPED: no time namespace can be made here (Linux, as root): {other:?}"));
            return;
        }
    }
    let server = RedisServer::start();
    let mut sleeper = Child::spawn_under(&SLEPT_A_DAY, "after a day of sleep", &[&server.url()]);
    assert!(sleeper.wait(SOON).success());
    keys_left(&server);
}
