//! The local clock: it counts the time that the machine was suspended.
//!
//! `std::time::Instant` is `CLOCK_MONOTONIC` on Linux and stands still while a laptop sleeps. A lease judged by it
//! would seem alive long after the server granted the lock to another process.

#![cfg_attr(not(feature = "operator"), allow(unreachable_pub))]

use std::time::Duration;

/// A moment on the local clock, in nanoseconds since boot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(pub u64);

#[cfg(any(target_os = "linux", target_os = "android"))]
const CLOCK: rustix::time::ClockId = rustix::time::ClockId::Boottime;
// On macOS the monotonic clock goes on during sleep.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const CLOCK: rustix::time::ClockId = rustix::time::ClockId::Monotonic;

impl Time {
    /// This moment.
    pub fn now() -> Self {
        let now = rustix::time::clock_gettime(CLOCK);
        Time(now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64)
    }

    /// The time since `earlier`, or zero if that lies in the future.
    pub fn since(self, earlier: Time) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl std::ops::Add<Duration> for Time {
    type Output = Time;
    fn add(self, span: Duration) -> Time {
        Time(self.0.saturating_add(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)))
    }
}

impl std::ops::Sub<Duration> for Time {
    type Output = Time;
    fn sub(self, span: Duration) -> Time {
        Time(self.0.saturating_sub(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_do_not_wrap_around() {
        let (early, late) = (Time(5), Time(7_000_000_005));
        assert_eq!((late.since(early), early.since(late)), (Duration::from_secs(7), Duration::ZERO));
        assert_eq!((early + Duration::from_secs(7), late - Duration::from_secs(7)), (late, early));
        assert_eq!((late + Duration::MAX, early - Duration::MAX), (Time(u64::MAX), Time(0)));
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn the_clock_counts_suspended_time() {
        let boot = || {
            let t = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
            t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
        };
        let before = boot();
        let now = Time::now().0;
        assert!(before <= now && now <= boot());
    }
}
