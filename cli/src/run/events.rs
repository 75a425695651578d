//! The events that `fairlock run` waits for.

use nix::sys::signal::Signal;

use crate::shim::protocol::Report;

/// An event from outside, while fairlock waits and while it holds the lock.
pub(crate) enum Event {
    Signal(Signal),
    Shim(Report),
    ShimGone,
    /// `hold`: its stdin has ended, or the script has closed the descriptor.
    Closed,
}
