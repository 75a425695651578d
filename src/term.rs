//! The term of a lease, as its holder counts it.

use std::time::Duration;

use crate::clock::Time;

/// The time that is left of a lease, counted from before its request was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Term {
    pub(crate) sent: Time,
    pub(crate) span: Duration,
}

impl Term {
    /// What a reply says of a lease for which so much was asked. A claim may last longer, so that its waiter has the time
    /// to confirm it. But no other client knows of a lease as long, so its holder does not count on that.
    pub(crate) fn told(sent: Time, left: Duration, asked: Duration) -> Self {
        Self { sent, span: left.min(asked) }
    }

    /// When it certainly ends, by the local clock.
    pub(crate) fn deadline(self) -> Time {
        self.sent + self.span - margin(self.span)
    }

    /// Whether it is a full lease, and so no claim.
    pub(crate) fn is_whole(self, lease: Duration) -> bool {
        self.span + margin(self.span) >= lease
    }

    /// How long before its deadline a holder is told. A term that is shorter than a lease has a proportionally shorter
    /// notice.
    pub(crate) fn notice(self, lease: Duration, notice: Duration) -> Duration {
        if self.span >= lease { notice } else { notice.mul_f64(self.span.as_secs_f64() / lease.as_secs_f64()) }
    }
}

/// The span of a term that has its deadline after this time: the inverse of [`Term::deadline`]. It is rounded up,
/// because the server counts in microseconds.
pub(crate) fn span_until(deadline: Duration) -> Duration {
    (deadline + Duration::from_millis(1)) * 200 / 199 + Duration::from_micros(1)
}

/// How far clocks may drift apart during a lease, and a minimum.
pub(crate) fn margin(span: Duration) -> Duration {
    span / 200 + Duration::from_millis(1)
}
