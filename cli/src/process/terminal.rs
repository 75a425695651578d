//! The terminal: which process group is in its foreground, and its modes.

use std::fs::File;
use std::io::IsTerminal as _;

use rustix::io::Errno;
use rustix::process::{Pid, getpid, test_kill_process_group};
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetpgrp, tcsetattr, tcsetpgrp};

/// The controlling terminal, seen from fairlock's process group.
///
/// The command has its own process group, so that it can be signalled as a whole. As a shell does, fairlock hands the
/// terminal over to that group and takes it back.
pub(crate) struct Terminal {
    tty: File,
    own: Pid,
    modes: Option<Termios>,
    /// The command's group is in the foreground.
    pub(crate) handed_over: bool,
}

impl Terminal {
    /// None if there is no controlling terminal.
    pub(crate) fn open() -> Option<Self> {
        Self::of(None)
    }

    /// The terminal as seen from the parent, which may hand it over: for the shim.
    pub(crate) fn of_parent() -> Option<Self> {
        Some(Self { handed_over: true, ..Self::of(Some(nix::unistd::getppid()))? })
    }

    fn of(process: Option<nix::unistd::Pid>) -> Option<Self> {
        let tty = File::options().read(true).write(true).open("/dev/tty").ok()?;
        let modes = tcgetattr(&tty).ok();
        // It is 0 for a group outside of this PID namespace.
        let own = Pid::from_raw(nix::unistd::getpgid(process).ok()?.as_raw())?;
        Some(Self { tty, own, modes, handed_over: false })
    }

    pub(crate) fn own_group(&self) -> Pid {
        self.own
    }

    /// Whether fairlock's own process group is in the foreground.
    pub(crate) fn is_ours(&self) -> bool {
        tcgetpgrp(&self.tty).is_ok_and(|group| group == self.own)
    }

    /// Whether the command starts in the foreground: only at a plain terminal. In a pipeline another process may need
    /// the terminal, such as the pager in `fairlock run … | less`. There the command gets it on demand: SIGTTIN or
    /// SIGTTOU stops it when it uses the terminal.
    pub(crate) fn is_for_command(&self) -> bool {
        std::io::stdin().is_terminal() && std::io::stdout().is_terminal() && self.is_ours()
    }

    /// Hands the terminal to the command's group if fairlock's group has it.
    pub(crate) fn hand_over(&mut self, group: Pid) -> bool {
        let handed = self.is_ours() && tcsetpgrp(&self.tty, group).is_ok();
        self.handed_over |= handed;
        handed
    }

    /// Takes the terminal back if it was handed over, and nobody else has taken it since: a shell does while fairlock
    /// is stopped.
    pub(crate) fn take_back(&mut self, from: Option<Pid>) -> bool {
        let handed_over = std::mem::take(&mut self.handed_over);
        let Ok(front) = tcgetpgrp(&self.tty) else { return false };
        let is_free = || test_kill_process_group(front) == Err(Errno::SRCH);
        let take = handed_over && front != self.own && (Some(front) == from || is_free());
        if take {
            let _ = tcsetpgrp(&self.tty, self.own);
        }
        take
    }

    /// Restores the modes that a killed command could not restore, such as an editor's raw mode.
    pub(crate) fn restore_modes(&self) {
        if let Some(modes) = &self.modes {
            let _ = tcsetattr(&self.tty, OptionalActions::Now, modes);
        }
    }
}

/// Puts the calling process's own group into the foreground if `group` is still there. For the stage, which has SIGTTOU
/// blocked, so that this works from the background.
pub(crate) fn come_to_foreground(group: Pid) {
    if let Ok(tty) = File::options().read(true).write(true).open("/dev/tty")
        && tcgetpgrp(&tty).is_ok_and(|now| now == group)
    {
        let _ = tcsetpgrp(&tty, getpid());
    }
}
