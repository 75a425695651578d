//! The alarm of every deadline in the command line, on the clock that counts suspended time.

/// Wakes its waiter at a moment that may be changed while it waits.
pub(crate) use kernel::Alarm;

#[cfg(any(target_os = "linux", target_os = "android"))]
mod kernel {
    use std::os::fd::OwnedFd;

    use fairlock::operator::Time;
    use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec};
    use rustix::time::{timerfd_create, timerfd_settime};

    /// A kernel timer on the clock that counts suspended time. If the machine wakes up too late it rings at once.
    #[derive(Debug)]
    pub(crate) struct Alarm(OwnedFd);

    impl Alarm {
        pub(crate) fn new() -> std::io::Result<Self> {
            Ok(Self(timerfd_create(TimerfdClockId::Boottime, TimerfdFlags::CLOEXEC)?))
        }

        pub(crate) fn set(&self, at: Time) -> std::io::Result<()> {
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
mod kernel {
    use fairlock::operator::Time;

    /// Where the kernel has no such timer the alarm rings often, and its user checks the clock.
    #[derive(Debug)]
    pub(crate) struct Alarm;

    impl Alarm {
        pub(crate) fn new() -> std::io::Result<Self> {
            Ok(Self)
        }

        pub(crate) fn set(&self, _at: Time) -> std::io::Result<()> {
            Ok(())
        }

        pub(crate) fn wait(&self) -> std::io::Result<()> {
            std::thread::sleep(std::time::Duration::from_millis(20));
            Ok(())
        }
    }
}
