//! The command's descendants, including those that left its process group as `timeout`, `setsid` and the jobs of `set
//! -m` do.
//!
//! When a process dies, its children get a new parent: the nearest ancestor that has asked for orphans. The shim asks
//! for them, and so does fairlock in case the shim is killed. So a descendant of the command stays a descendant of one
//! of the two, whatever it does to its session and its group.
//!
//! To kill all descendants, the shim kills its children, then the processes that become its children by that, until
//! none is left. A child's number is not reused before its parent collects it, so no stranger is killed instead.

use std::io;
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use rustix::process::{WaitId, WaitIdOptions, waitid};

use super::table::{self, Process, own_pid};

/// The children that `std::process` collects. The mutex keeps a child from being collected between the look at its
/// number and the signal to it.
static OWN: Mutex<Vec<Own>> = Mutex::new(Vec::new());

struct Own {
    pid: i32,
    /// The private server: not part of the command, which it outlives.
    apart: bool,
}

/// Which children are left after a signal.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Left {
    /// At least one is alive and was signalled.
    pub(crate) alive: bool,
    /// This child may not be signalled, because it runs as another user.
    pub(crate) foreign: Option<Pid>,
}

/// Makes this process the parent of every descendant that loses its own.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(crate) fn adopt() -> io::Result<()> {
    Ok(rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?)
}

/// Other kernels cannot do that. There a process that left the command's group cannot be found.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(crate) fn adopt() -> io::Result<()> {
    Ok(())
}

/// Starts a child that the caller collects, not [`collect`].
pub(crate) fn spawn(command: &mut Command) -> io::Result<Child> {
    start(command, false)
}

/// The same for a child that [`signal_children`] does not signal either.
pub(crate) fn spawn_apart(command: &mut Command) -> io::Result<Child> {
    start(command, true)
}

fn start(command: &mut Command, apart: bool) -> io::Result<Child> {
    let mut own = own();
    let child = command.spawn()?;
    own.push(Own { pid: child.id().cast_signed(), apart });
    Ok(child)
}

/// Runs a child like that to its end, and returns what it printed.
pub(crate) fn output(command: &mut Command) -> io::Result<Output> {
    let child = spawn_apart(command.stdout(Stdio::piped()).stderr(Stdio::piped()))?;
    let pid = child.id();
    let output = child.wait_with_output();
    forget(pid);
    output
}

/// The caller has collected this child, so its number may be reused.
pub(crate) fn collected(child: &Child) {
    forget(child.id());
}

fn forget(pid: u32) {
    own().retain(|own| own.pid != pid.cast_signed());
}

/// Collects the children that have exited, except those from [`spawn`], [`spawn_apart`] and [`output`].
pub(crate) fn collect() {
    collect_of(children());
}

/// The same in a process whose other threads neither start nor collect children.
pub(crate) fn collect_adopted() {
    collect_of(table::children_of_main_thread());
}

fn collect_of(children: impl IntoIterator<Item = Process>) {
    let own = own();
    let is_own = |child: &Process| own.iter().any(|own| own.pid == child.pid);
    for child in children.into_iter().filter(|child| child.dead && !is_own(child)) {
        if let Some(pid) = rustix::process::Pid::from_raw(child.pid) {
            let _ = waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOHANG);
        }
    }
}

/// The process ids of all current children.
pub(crate) fn present() -> Vec<i32> {
    children().map(|child| child.pid).collect()
}

/// Signals the children, except these. Without a signal it only checks which of them are alive.
pub(crate) fn signal_children(signal: Option<Signal>, except: &[i32]) -> Left {
    let own = own();
    let is_apart = |child: &Process| own.iter().any(|own| own.apart && own.pid == child.pid);
    let mut left = Left::default();
    for child in children().filter(|child| !child.dead && !except.contains(&child.pid) && !is_apart(child)) {
        let pid = Pid::from_raw(child.pid);
        match kill(pid, signal) {
            Ok(()) => left.alive = true,
            Err(nix::Error::EPERM) => left.foreign = Some(pid),
            // It has just exited.
            Err(_) => {}
        }
    }
    left
}

/// The living descendants of this process among `all`, except those that are `apart` and those below them.
pub(crate) fn among(all: &[Process], apart: impl Fn(&Process) -> bool) -> Vec<Process> {
    let mut parents = vec![own_pid()];
    let mut found = Vec::new();
    while let Some(parent) = parents.pop() {
        let is_child = |process: &&Process| process.parent == parent && process.pid != own_pid();
        for process in all.iter().filter(is_child).filter(|process| !apart(process)) {
            parents.push(process.pid);
            found.extend((!process.dead).then(|| process.clone()));
        }
    }
    found
}

fn children() -> impl Iterator<Item = Process> {
    // Usually there are none, which the kernel says without a look at /proc.
    let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    let none = matches!(waitid(WaitId::All, look), Err(rustix::io::Errno::CHILD));
    let all = if none { Vec::new() } else { table::all() };
    all.into_iter().filter(|process| process.parent == own_pid())
}

fn own() -> MutexGuard<'static, Vec<Own>> {
    OWN.lock().unwrap_or_else(PoisonError::into_inner)
}
