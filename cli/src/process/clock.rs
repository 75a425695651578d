//! The clock of every deadline in the command line. It counts suspended time: the lease of a laptop that sleeps ends.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

#[cfg(any(target_os = "linux", target_os = "android"))]
const CLOCK: ClockId = ClockId::Boottime;
/// On macOS this one counts suspended time as well.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const CLOCK: ClockId = ClockId::Monotonic;

/// Nanoseconds on this clock, which all processes of a machine share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Moment(pub(crate) u64);

impl Moment {
    pub(crate) fn now() -> Self {
        let now = clock_gettime(CLOCK);
        Self(u64::try_from(now.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(now.tv_nsec).unwrap_or(0))
    }

    pub(crate) fn after(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)))
    }

    /// What has passed since an earlier moment; nothing since a later one.
    pub(crate) fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    pub(crate) fn before(self, duration: Duration) -> Self {
        Self(self.0.saturating_sub(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)))
    }
}

/// Wakes its waiter at a moment that may be changed while it waits.
pub(crate) use alarm::Alarm;

#[cfg(any(target_os = "linux", target_os = "android"))]
mod alarm {
    use std::os::fd::OwnedFd;

    use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec};
    use rustix::time::{timerfd_create, timerfd_settime};

    use super::Moment;

    /// A kernel timer on the clock that counts suspended time. If the machine wakes up too late it rings at once.
    #[derive(Debug)]
    pub(crate) struct Alarm(OwnedFd);

    impl Alarm {
        pub(crate) fn new() -> std::io::Result<Self> {
            Ok(Self(timerfd_create(TimerfdClockId::Boottime, TimerfdFlags::CLOEXEC)?))
        }

        pub(crate) fn set(&self, at: Moment) -> std::io::Result<()> {
            // Zero would disarm the timer.
            let at = at.0.max(1);
            let value = Timespec { tv_sec: (at / 1_000_000_000) as _, tv_nsec: (at % 1_000_000_000) as _ };
            let once = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value: value };
            timerfd_settime(&self.0, TimerfdTimerFlags::ABSTIME, &once)?;
            Ok(())
        }

        /// Waits until the alarm rings.
        pub(crate) fn wait(&self) -> std::io::Result<()> {
            let mut count = [0; 8];
            rustix::io::retry_on_intr(|| rustix::io::read(&self.0, &mut count))?;
            Ok(())
        }
    }
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
mod alarm {
    use super::Moment;

    /// Where the kernel has no such timer the alarm rings often, and its user checks the clock.
    #[derive(Debug)]
    pub(crate) struct Alarm;

    impl Alarm {
        pub(crate) fn new() -> std::io::Result<Self> {
            Ok(Self)
        }

        pub(crate) fn set(&self, _at: Moment) -> std::io::Result<()> {
            Ok(())
        }

        pub(crate) fn wait(&self) -> std::io::Result<()> {
            std::thread::sleep(std::time::Duration::from_millis(20));
            Ok(())
        }
    }
}
