//! How the command's deadlines follow from the lease's.

use std::time::Duration;

use fairlock::AllGuard;
use fairlock::operator::Time;

/// Computed once from `--lease` and `--kill-after`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Timing {
    /// How long before its end the lease counts as lost. The command is sent TERM then.
    pub(crate) notice: Duration,
    /// How long before the lease's end the command is sent KILL: the time that the kernel may need to end it.
    pub(crate) margin: Duration,
    /// What is left of the lease when the user is warned: more than one renewal has failed then.
    pub(crate) warning: Duration,
    /// How long the supervisor waits before it repeats what the shim did not take.
    pub(crate) retry: Duration,
}

impl Timing {
    pub(crate) fn new(lease: Duration, kill_after: Duration) -> Self {
        let margin = (lease / 20).clamp(Duration::from_millis(25), Duration::from_millis(500)).min(lease / 6);
        // All of --kill-after, unless that would leave too little of the lease for renewals.
        let notice = kill_after.saturating_add(margin).min(lease / 3);
        Self {
            notice,
            margin,
            warning: lease / 2,
            retry: (lease / 20).clamp(Duration::from_millis(10), Duration::from_secs(1)),
        }
    }

    /// When the command is sent TERM and when KILL, unless the lease is renewed.
    pub(crate) fn of(&self, guards: &AllGuard) -> (Time, Time) {
        // The clock is read first, so that a delay in between makes the deadlines earlier and not later.
        let now = Time::now();
        let end = now + guards.remaining();
        (end - self.notice, end - self.margin)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notice_and_margin_leave_room_for_renewals() {
        for lease in [100, 300, 1_000, 3_000, 30_000, 86_400_000].map(Duration::from_millis) {
            for kill_after in [0, 50, 5_000, u64::MAX].map(Duration::from_millis) {
                let timing = Timing::new(lease, kill_after);
                assert!(timing.notice + lease / 3 < lease, "{lease:?} {timing:?}");
                assert!(timing.margin <= timing.notice && !timing.margin.is_zero(), "{lease:?} {timing:?}");
                assert!(timing.retry < lease / 4, "{lease:?} {timing:?}");
            }
        }
        assert_eq!(Timing::new(Duration::from_secs(30), Duration::from_secs(5)).notice, Duration::from_millis(5_500));
    }
}
