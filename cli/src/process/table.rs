//! The table of processes, as /proc shows it. Elsewhere it is empty.

use std::path::PathBuf;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// What names a process and no later one: its number and its start.
pub(crate) type Id = (i32, u64);

#[derive(Debug, Clone)]
pub(crate) struct Process {
    pub(crate) pid: i32,
    /// As `ps` shows it.
    pub(crate) name: String,
    pub(crate) parent: i32,
    pub(crate) group: i32,
    pub(crate) session: i32,
    /// Whether it has exited and waits to be collected.
    pub(crate) dead: bool,
    started: u64,
}

impl Process {
    pub(crate) fn look(pid: i32) -> Option<Self> {
        parse(pid, &std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
    }

    /// A process group of which no process is known.
    pub(crate) fn group(group: i32) -> Self {
        let name = "its process group".to_owned();
        Self { pid: group, name, parent: 0, group, session: 0, dead: false, started: 0 }
    }

    pub(crate) fn id(&self) -> Id {
        (self.pid, self.started)
    }

    /// Signals this process, and no other one that has its number by now.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    pub(crate) fn signal(&self, signal: Signal) -> nix::Result<()> {
        use rustix::process::{PidfdFlags, pidfd_open, pidfd_send_signal};
        let handle = rustix::process::Pid::from_raw(self.pid).map(|pid| pidfd_open(pid, PidfdFlags::empty()));
        if Self::look(self.pid).is_none_or(|now| now.id() != self.id()) {
            return Err(nix::Error::ESRCH);
        }
        let number = rustix::process::Signal::from_named_raw(signal as i32);
        match (handle, number) {
            // The number was not reused after the handle was opened, so the handle means this process.
            (Some(Ok(handle)), Some(number)) => {
                pidfd_send_signal(handle, number).map_err(|error| nix::Error::from_raw(error.raw_os_error()))
            }
            // The kernel is older than 5.3, or a sandbox does not permit it.
            _ => kill(Pid::from_raw(self.pid), signal),
        }
    }

    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    pub(crate) fn signal(&self, signal: Signal) -> nix::Result<()> {
        kill(Pid::from_raw(self.pid), signal)
    }

    /// Whether it is the private server of `--local`, which serves other jobs as well. It has a session of its own, and
    /// shows itself by a file in memory (`local/server.rs`).
    pub(crate) fn is_private_server(&self) -> bool {
        let shows = |file: PathBuf| file.to_str().is_some_and(|file| file.starts_with("/memfd:fairlock:"));
        let files = || std::fs::read_dir(format!("/proc/{}/fd", self.pid)).into_iter().flatten().flatten();
        self.session == self.pid && files().filter_map(|file| file.path().read_link().ok()).any(shows)
    }
}

/// Whether this process sees itself in /proc. In the /proc of another PID namespace the same numbers are other
/// processes.
pub(crate) fn is_shown() -> bool {
    let itself = std::fs::read_link("/proc/self").ok();
    itself.and_then(|own| own.to_str()?.parse().ok()) == Some(own_pid())
}

pub(crate) fn all() -> Vec<Process> {
    numbers().filter_map(Process::look).collect()
}

/// The numbers of all processes.
pub(crate) fn numbers() -> impl Iterator<Item = i32> {
    let entries = is_shown().then(|| std::fs::read_dir("/proc").into_iter().flatten().flatten());
    entries.into_iter().flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// The parent of this process, its parent, and so on.
pub(crate) fn ancestors() -> impl Iterator<Item = i32> {
    let parent = rustix::process::getppid().map(|pid| pid.as_raw_nonzero().get());
    std::iter::successors(parent, |pid| Process::look(*pid).map(|process| process.parent))
}

/// The children of the main thread, among them all that this process has adopted. The kernel lists them without a look
/// at all processes, and leaves none out, provided that none is collected meanwhile.
pub(crate) fn children_of_main_thread() -> Vec<Process> {
    let own = own_pid();
    match std::fs::read_to_string(format!("/proc/self/task/{own}/children")) {
        Ok(listed) if is_shown() => {
            listed.split_whitespace().filter_map(|pid| Process::look(pid.parse().ok()?)).collect()
        }
        // The kernel was built without this list.
        _ => all().into_iter().filter(|process| process.parent == own).collect(),
    }
}

pub(crate) fn own_pid() -> i32 {
    std::process::id().cast_signed()
}

/// `PID (NAME) STATE PARENT GROUP SESSION …`, where the name may contain anything.
fn parse(pid: i32, stat: &str) -> Option<Process> {
    let (head, rest) = stat.rsplit_once(") ")?;
    let name = head.split_once('(')?.1.to_owned();
    let words: Vec<&str> = rest.split(' ').collect();
    let number = |at: usize| words.get(at)?.parse().ok();
    // The threads of a process can outlive its first one.
    let dead = matches!(*words.first()?, "Z" | "X") && number(17).is_none_or(|threads| threads < 2);
    let started = words.get(19).and_then(|word| word.parse().ok()).unwrap_or_default();
    Some(Process { pid, name, parent: number(1)?, group: number(2)?, session: number(3)?, dead, started })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_cannot_pass_for_the_fields_behind_it() {
        let process = parse(7, "7 (a) Z 1 1 (b) S 40 41 42 0").unwrap();
        assert_eq!((process.parent, process.group, process.session, process.dead), (40, 41, 42, false));
        assert_eq!(process.name, "a) Z 1 1 (b");
        assert!(parse(7, "7 (a) Z 40 41 42 0").unwrap().dead);
        assert!(parse(7, "").is_none());
    }

    #[test]
    fn a_process_with_a_number_that_was_reused_is_not_signalled() {
        let Some(mut own) = Process::look(own_pid()) else { return };
        assert_eq!(own.signal(Signal::SIGCONT), Ok(()));
        own.started += 1;
        assert_eq!(own.signal(Signal::SIGCONT), Err(nix::Error::ESRCH));
    }
}
