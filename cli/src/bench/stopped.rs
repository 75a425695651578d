//! Why a measurement ended early.

use std::fmt::Display;

use nix::sys::signal::Signal;

/// Why it ended early.
pub(super) enum Stopped {
    Signal(Signal),
    Failed(String),
}

impl Stopped {
    pub(super) fn because(error: impl Display) -> Self {
        Stopped::Failed(error.to_string())
    }
}
