//! Which processes do the command's work. They are signalled with it; and if a signal ended it, the lock is kept until
//! they have ended, too.
//!
//! A process belongs to the work while its living parents lead to the command. An orphan belongs to it as well, unless
//! it has left the command's session: that is a daemon, which outlives the command on purpose.
//!
//! When the command ends, its children become orphans at once, and nothing shows which processes were orphans before.
//! So the shim looks every second while the command lives: a daemon is what two looks have found. A younger one is
//! taken for work, so that no work is taken for a daemon.
//!
//! Where there is no /proc, the command's process group takes the place of all this.

use std::collections::HashSet;

use nix::sys::signal::killpg;
use nix::unistd::Pid;

use super::{protocol, queue};
use crate::process::descendants;
use crate::process::table::{self, Id, Process, own_pid};

pub(super) struct Rest {
    command: i32,
    session: Option<i32>,
    /// The orphans in other sessions, as the latest look has found them.
    orphans: HashSet<Id>,
    daemons: HashSet<Id>,
    /// What belonged to the work when a signal was passed on. It stays work if it loses its parents by the signal.
    signalled: HashSet<Id>,
}

impl Rest {
    pub(super) fn of(command: Pid) -> Self {
        // The command is in the session of the shim and cannot leave it, since it leads its group.
        let session = nix::unistd::getsid(None).ok().map(Pid::as_raw);
        let [orphans, daemons, signalled] = [(); 3].map(|()| HashSet::new());
        Self { command: command.as_raw(), session, orphans, daemons, signalled }
    }

    /// Looks for daemons: to be called every second while the command lives, and not more often.
    pub(super) fn look(&mut self) {
        let children = table::children_of_main_thread();
        let left = children.iter().filter(|child| self.has_left(child)).map(Process::id);
        let orphans: HashSet<Id> = left.filter(|id| !self.signalled.contains(id)).collect();
        self.daemons = orphans.intersection(&self.orphans).copied().collect();
        self.orphans = orphans;
    }

    /// The processes outside of the command's group that a signal to the command is for.
    pub(super) fn addressees(&mut self, command_lives: bool) -> Vec<Process> {
        let all = table::all();
        let is_apart = |process: &Process| {
            // While the command lives, its orphans can be told from its children.
            let orphan = self.has_left(process) && command_lives && !self.signalled.contains(&process.id());
            orphan || self.is_daemon(process)
        };
        let work: Vec<Id> = descendants::among(&all, is_apart).iter().map(Process::id).collect();
        // Another fairlock passes its signals on by itself.
        let of_another = |process: &Process| [protocol::SHIM_NAME, queue::NAME].contains(&process.name.as_str());
        let mut addressees = descendants::among(&all, |process| is_apart(process) || of_another(process));
        addressees.retain(|process| process.group != self.command && process.pid != self.command);
        self.signalled.extend(work);
        addressees
    }

    /// What is left of a command that has ended: its work, or all of its descendants.
    pub(super) fn left(&self, with_daemons: bool) -> Vec<Process> {
        if !table::is_shown() {
            let gone = killpg(Pid::from_raw(self.command), None) == Err(nix::Error::ESRCH);
            return if gone { Vec::new() } else { vec![Process::group(self.command)] };
        }
        // What has lost its parents is a child of the shim.
        if table::children_of_main_thread().iter().all(|child| child.dead) {
            return Vec::new();
        }
        let look = || descendants::among(&table::all(), |process| !with_daemons && self.is_daemon(process));
        // What passes by the first look because it starts another process and ends does not pass by the second.
        let first = look();
        if first.is_empty() { look() } else { first }
    }

    /// The children of the shim that are not part of the work.
    pub(super) fn daemons(&self) -> Vec<i32> {
        let children = table::children_of_main_thread();
        children.iter().filter(|child| self.is_daemon(child)).map(|child| child.pid).collect()
    }

    fn is_daemon(&self, process: &Process) -> bool {
        self.daemons.contains(&process.id()) || process.is_private_server()
    }

    /// Whether it is an orphan in another session than the command's.
    fn has_left(&self, process: &Process) -> bool {
        process.parent == own_pid() && process.pid != self.command && Some(process.session) != self.session
    }
}
