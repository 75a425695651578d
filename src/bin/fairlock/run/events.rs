//! The events that a run waits for.

use nix::sys::signal::Signal;

use crate::shim::protocol::Report;

/// What fairlock hears from outside while it waits and while it holds.
pub(crate) enum Event {
    Signal(Signal),
    Shim(Report),
    ShimGone,
}
