//! What fairlock needs from the operating system: its clock with alarms, its signals, its terminal, its descriptors, its
//! table of processes.

pub(crate) mod alarm;
pub(crate) mod descendants;
pub(crate) mod descriptors;
pub(crate) mod lookup;
pub(crate) mod open_file;
pub(crate) mod signals;
pub(crate) mod table;
pub(crate) mod terminal;

use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Command;

/// A command that runs this same binary, even if its file was replaced or deleted during a long wait.
pub(crate) fn this_binary() -> Command {
    let running = PathBuf::from("/proc/self/exe");
    let path = if running.exists() { running } else { own_path().unwrap_or_else(|_| "fairlock".into()) };
    let mut command = Command::new(path);
    command.arg0("fairlock");
    command
}

/// The file of this program. Where /proc does not show it, as in a chroot, it is as the kernel was told it.
pub(crate) fn own_path() -> io::Result<PathBuf> {
    std::env::current_exe().or_else(|error| told().ok_or(error))
}

#[cfg(target_os = "linux")]
fn told() -> Option<PathBuf> {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt as _;
    let path = PathBuf::from(OsStr::from_bytes(rustix::param::linux_execfn().to_bytes()));
    Some(path).filter(|path| path.exists())
}

#[cfg(not(target_os = "linux"))]
fn told() -> Option<PathBuf> {
    None
}
