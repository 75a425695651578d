//! The command's descendants, also those that left its process group: what `timeout`, `setsid` and the jobs of `set -m`
//! do.
//!
//! A process whose parent dies gets another one: the nearest ancestor that asked for it. The shim asks for it, and so
//! does fairlock, in case that the shim is killed. So a descendant of the command stays a descendant of one of them,
//! whatever it does to its session and its group.
//!
//! To kill them all, the children are killed, then those that became children by that, until none is left. A child's
//! number is its own until its parent collects it, so no stranger can be killed in its place.

use std::io;
use std::process::{Child, Command};
use std::sync::{Mutex, MutexGuard, PoisonError};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use rustix::process::{WaitId, WaitIdOptions, waitid};

/// The children that `std::process` collects. The lock keeps a child from being collected between the look at its number
/// and the signal to it.
static OWN: Mutex<Vec<Own>> = Mutex::new(Vec::new());

struct Own {
    pid: i32,
    /// It is nothing of the command's, and outlives it: the private server.
    apart: bool,
}

/// A process, as /proc shows it.
#[derive(Debug, Clone, Copy)]
struct Process {
    pid: i32,
    parent: i32,
    group: i32,
    /// It only waits to be collected.
    dead: bool,
}

/// What is left of some children after a signal.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Left {
    /// Some live, and heard the signal.
    pub(crate) alive: bool,
    /// This one may not be signalled: it runs as another user.
    pub(crate) foreign: Option<Pid>,
}

/// Becomes the parent of every descendant that loses its own.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(crate) fn adopt() -> io::Result<()> {
    Ok(rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?)
}

/// Other kernels cannot do it. There a process that left the command's group is out of reach.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(crate) fn adopt() -> io::Result<()> {
    Ok(())
}

/// Starts a child that `collect` leaves to the caller.
pub(crate) fn spawn(command: &mut Command) -> io::Result<Child> {
    start(command, false)
}

/// The same for a child that `signal_children` leaves alone as well.
pub(crate) fn spawn_apart(command: &mut Command) -> io::Result<Child> {
    start(command, true)
}

fn start(command: &mut Command, apart: bool) -> io::Result<Child> {
    let mut own = own();
    let child = command.spawn()?;
    own.push(Own { pid: child.id().cast_signed(), apart });
    Ok(child)
}

/// The caller has collected this child: its number may soon be another's.
pub(crate) fn collected(child: &Child) {
    own().retain(|own| own.pid != child.id().cast_signed());
}

/// Collects the children that have ended, except for those from `spawn`.
pub(crate) fn collect() {
    let own = own();
    for child in children().filter(|child| child.dead && own.iter().all(|own| own.pid != child.pid)) {
        if let Some(pid) = rustix::process::Pid::from_raw(child.pid) {
            let _ = waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOHANG);
        }
    }
}

/// The numbers of the children there are.
pub(crate) fn present() -> Vec<i32> {
    children().map(|child| child.pid).collect()
}

/// Signals the children, except for these; without a signal it only looks whether they live.
pub(crate) fn signal_children(signal: Option<Signal>, except: &[i32]) -> Left {
    let own = own();
    let is_apart = |child: &Process| own.iter().any(|own| own.apart && own.pid == child.pid);
    let mut left = Left::default();
    for child in children().filter(|child| !child.dead && !except.contains(&child.pid) && !is_apart(child)) {
        let pid = Pid::from_raw(child.pid);
        match kill(pid, signal) {
            Ok(()) => left.alive = true,
            Err(nix::Error::EPERM) => left.foreign = Some(pid),
            // It has just ended.
            Err(_) => {}
        }
    }
    left
}

/// All living descendants that are not in this process group.
pub(crate) fn outside(group: Pid) -> Vec<Pid> {
    let all = processes();
    let mut found = vec![own_pid()];
    let mut next = 0;
    while let Some(&parent) = found.get(next) {
        found.extend(all.iter().filter(|process| process.parent == parent).map(|process| process.pid));
        next += 1;
    }
    all.iter()
        .filter(|process| process.pid != own_pid() && found.contains(&process.pid))
        .filter(|process| process.group != group.as_raw() && !process.dead)
        .map(|process| Pid::from_raw(process.pid))
        .collect()
}

fn children() -> impl Iterator<Item = Process> {
    // The kernel tells without a look at /proc that there are none, which is the usual case.
    let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    let none = matches!(waitid(WaitId::All, look), Err(rustix::io::Errno::CHILD));
    let all = if none { Vec::new() } else { processes() };
    all.into_iter().filter(|process| process.parent == own_pid())
}

/// All processes; none where there is no /proc.
fn processes() -> Vec<Process> {
    // The numbers in the /proc of another PID namespace are those of strangers here.
    let itself = std::fs::read_link("/proc/self").ok();
    if itself.and_then(|own| own.to_str()?.parse().ok()) != Some(own_pid()) {
        return Vec::new();
    }
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    numbers.filter_map(|pid| parse(pid, &std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)).collect()
}

/// `PID (NAME) STATE PARENT GROUP …`, where the name may contain anything.
fn parse(pid: i32, stat: &str) -> Option<Process> {
    let mut words = stat.rsplit_once(") ")?.1.split(' ');
    let dead = matches!(words.next()?, "Z" | "X");
    Some(Process { pid, parent: words.next()?.parse().ok()?, group: words.next()?.parse().ok()?, dead })
}

fn own_pid() -> i32 {
    std::process::id().cast_signed()
}

fn own() -> MutexGuard<'static, Vec<Own>> {
    OWN.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_cannot_pass_for_the_fields_behind_it() {
        let process = parse(7, "7 (a) Z 1 1 (b) S 40 41 42 0").unwrap();
        assert_eq!((process.parent, process.group, process.dead), (40, 41, false));
        assert!(parse(7, "7 (a) Z 40 41 42 0").unwrap().dead);
        assert!(parse(7, "").is_none());
    }
}
