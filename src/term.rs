//! How long a lease lasts, as its holder counts it.

use std::time::Duration;

use crate::clock::Time;

/// What is left of a lease after a request was sent, whenever its reply comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Term {
    pub(crate) sent: Time,
    pub(crate) span: Duration,
}

impl Term {
    /// When it ends for sure by the local clock.
    pub(crate) fn deadline(self) -> Time {
        self.sent + self.span - margin(self.span)
    }

    /// Whether it is as long as a lease, and so no claim.
    pub(crate) fn is_whole(self, lease: Duration) -> bool {
        self.span + margin(self.span) >= lease
    }

    /// How long before its deadline a holder is told. A term that is shorter than a lease has a notice that is shorter in proportion.
    pub(crate) fn notice(self, lease: Duration, notice: Duration) -> Duration {
        if self.span >= lease { notice } else { notice.mul_f64(self.span.as_secs_f64() / lease.as_secs_f64()) }
    }
}

/// What clocks may drift apart during a lease, and the least that is worth having.
pub(crate) fn margin(span: Duration) -> Duration {
    span / 200 + Duration::from_millis(1)
}
