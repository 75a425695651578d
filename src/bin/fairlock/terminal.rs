//! The terminal: who is in its foreground, and the line that is rewritten in place.

use std::fs::File;
use std::io::IsTerminal as _;

use rustix::process::{Pid, getpgrp, getpid};
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetpgrp, tcgetwinsize, tcsetattr, tcsetpgrp};

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

/// One line on stderr that tells how the wait goes: rewritten in place where somebody watches, and otherwise (in a log,
/// or in the background of a terminal) printed when it says something new.
pub(crate) struct ProgressLine {
    last: String,
    drawn: bool,
}

impl ProgressLine {
    pub(crate) fn new() -> Self {
        Self { last: String::new(), drawn: false }
    }

    /// `news` is what matters, `clock` what changes all the time.
    pub(crate) fn show(&mut self, terminal: Option<&Terminal>, news: &str, clock: &str) {
        let stderr = std::io::stderr();
        if stderr.is_terminal() && terminal.is_some_and(Terminal::is_ours) {
            // A terminal that does not know its size says zero.
            let width = tcgetwinsize(&stderr)
                .map(|size| usize::from(size.ws_col))
                .ok()
                .filter(|width| *width > 0)
                .unwrap_or(80);
            // A line that fills the last column may wrap, and could then not be rewritten.
            let line: String = format!("fairlock: {news} {clock}").chars().take(width.max(20) - 1).collect();
            crate::stderr::write_if_free(&format!("\r\x1b[K{line}"));
            self.drawn = true;
        } else if self.last != news {
            self.erase();
            crate::exit::say(news);
        }
        self.last = news.to_owned();
    }

    /// Leaves the terminal as if the line had never been there.
    pub(crate) fn erase(&mut self) {
        if std::mem::take(&mut self.drawn) {
            crate::stderr::write("\r\x1b[K");
            // The command may be the next to write there.
            crate::stderr::flush(crate::stderr::A_MOMENT);
        }
    }
}

impl Drop for ProgressLine {
    fn drop(&mut self) {
        self.erase();
    }
}
