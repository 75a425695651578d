//! The terminal: who is in its foreground, and its modes.

use std::fs::File;
use std::io::IsTerminal as _;

use rustix::process::{Pid, getpgrp, getpid};
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetpgrp, tcsetattr, tcsetpgrp};

/// The controlling terminal, seen from fairlock's process group.
///
/// The command has a process group of its own, so that it can be signalled as a whole. To be usable by it, the terminal
/// has to be handed over like a shell does, and taken back.
pub(crate) struct Terminal {
    tty: File,
    own: Pid,
    modes: Option<Termios>,
    /// The command's group has the terminal.
    pub(crate) handed_over: bool,
}

impl Terminal {
    /// None if there is no controlling terminal.
    pub(crate) fn open() -> Option<Self> {
        let tty = File::options().read(true).write(true).open("/dev/tty").ok()?;
        let modes = tcgetattr(&tty).ok();
        Some(Self { tty, own: getpgrp(), modes, handed_over: false })
    }

    pub(crate) fn own_group(&self) -> Pid {
        self.own
    }

    /// Is fairlock's own process group in the foreground?
    pub(crate) fn is_ours(&self) -> bool {
        tcgetpgrp(&self.tty).is_ok_and(|group| group == self.own)
    }

    /// Should the command begin in the foreground? Only at a plain terminal. In a pipeline somebody else may need the
    /// terminal, as the pager in `fairlock run … | less` does: there the command gets it when it asks for it, which it
    /// does by being stopped with SIGTTIN or SIGTTOU.
    pub(crate) fn is_for_command(&self) -> bool {
        std::io::stdin().is_terminal() && std::io::stdout().is_terminal() && self.is_ours()
    }

    /// Hands the terminal to the command's group, if it is ours to give.
    pub(crate) fn hand_over(&mut self, group: Pid) -> bool {
        let handed = self.is_ours() && tcsetpgrp(&self.tty, group).is_ok();
        self.handed_over |= handed;
        handed
    }

    /// Takes the terminal back, if it was handed over.
    pub(crate) fn take_back(&mut self) -> bool {
        let had = std::mem::take(&mut self.handed_over);
        if had {
            let _ = tcsetpgrp(&self.tty, self.own);
        }
        had
    }

    /// Undoes what a command that was killed could not undo, such as an editor's raw mode.
    pub(crate) fn restore_modes(&self) {
        if let Some(modes) = &self.modes {
            let _ = tcsetattr(&self.tty, OptionalActions::Now, modes);
        }
    }
}

/// Puts the calling process's own group into the foreground, if `group` still has it. For the stage, where SIGTTOU is
/// blocked, so that this works from the background.
pub(crate) fn come_to_foreground(group: Pid) {
    if let Ok(tty) = File::options().read(true).write(true).open("/dev/tty")
        && tcgetpgrp(&tty).is_ok_and(|now| now == group)
    {
        let _ = tcsetpgrp(&tty, getpid());
    }
}
