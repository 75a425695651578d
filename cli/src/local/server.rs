//! The process of the private server: how it starts, and how it is found when its folder was removed.

use std::ffi::OsString;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use nix::sys::signal::SigSet;
use rustix::fs::{FlockOperation, flock};
use rustix::io::{Errno, retry_on_intr};
use rustix::process::{Pid, Signal};

use super::folder::Folder;
use crate::exit::{Failure, say};
use crate::process::descriptors;
use crate::text::printable;

/// `fairlock __server FOLDER PROGRAM` becomes the private server.
pub(crate) const WORD: &str = "__server";
/// The exit code of a process that found another server when it was to become one.
pub(crate) const TAKEN: u8 = 75;

/// The main function of a server that a job starts and that outlives the job.
pub(crate) fn main(mut arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let mut word = || PathBuf::from(arguments.next().unwrap_or_default());
    let (folder, program) = (Folder::at(word()), word());
    // In a session of its own, neither Ctrl-C nor a hang-up of the job's terminal reaches the server.
    let failure = match rustix::process::setsid() {
        Err(error) => Failure::because("cannot begin a session", error),
        Ok(_) => {
            // A server that outlives its caller must hold neither the caller's pipes, whose readers would wait for ever,
            // nor its file locks.
            descriptors::close_inherited(None);
            // A running job that starts the server has signals blocked.
            let _ = SigSet::empty().thread_set_mask();
            become_server(&folder, &program, Place::IfFree)
        }
    };
    say(&failure.message);
    ExitCode::from(failure.code)
}

/// What to do if another server runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// Give up.
    IfFree,
    /// Wait until the other server has ended. The log goes to stdout.
    InTurn,
}

/// Becomes the server of this folder. Returns only if that failed.
pub(crate) fn become_server(folder: &Folder, program: &Path, place: Place) -> Failure {
    let kept = match take_place(folder, place) {
        Ok(kept) => kept,
        Err(failure) => return failure,
    };
    let mut server = Command::new(program);
    // A socket in a folder that only this user can reach, and no port.
    server.args(["--port", "0", "--unixsocketperm", "600", "--unixsocket"]).arg(folder.socket());
    server.arg("--dir").arg(folder.path());
    server.arg("--logfile").arg(if place == Place::InTurn { PathBuf::new() } else { folder.log() });
    // Tickets and tokens survive a restart; nothing is ever evicted.
    server.args(["--appendonly", "yes", "--appendfsync", "everysec", "--save", "", "--maxmemory-policy", "noeviction"]);
    server.args(["--daemonize", "no", "--supervised", "no"]);
    let error = server.exec();
    drop(kept);
    Failure::because(&printable(&program.to_string_lossy()), error)
}

/// Makes sure that this is the only server of the folder. The server inherits the returned descriptors and keeps them
/// open.
fn take_place(folder: &Folder, place: Place) -> Result<[Option<OwnedFd>; 2], Failure> {
    let failed = |error: std::io::Error| Failure::because(&printable(&folder.server_lock().to_string_lossy()), error);
    let taken = || Failure::new(TAKEN, format!("another private server uses {}", folder.shown()));
    let lock = File::options().create(true).truncate(false).write(true).open(folder.server_lock()).map_err(failed)?;
    let operation = match place {
        Place::IfFree => FlockOperation::NonBlockingLockExclusive,
        Place::InTurn => FlockOperation::LockExclusive,
    };
    match retry_on_intr(|| flock(&lock, operation)) {
        Err(Errno::WOULDBLOCK) => return Err(taken()),
        locked => locked.map_err(|error| failed(error.into()))?,
    }
    rustix::io::fcntl_setfd(&lock, rustix::io::FdFlags::empty()).map_err(|error| failed(error.into()))?;
    // The lock does not show a server whose folder was removed or moved. This process shows itself first and looks for
    // others then, so of two that start at the same time at least one sees the other.
    let shown = proc::show(folder);
    if proc::servers_of(folder).iter().any(|server| server.pid != rustix::process::getpid()) {
        return Err(taken());
    }
    Ok([Some(lock.into()), shown])
}

/// A private server that was found among the processes.
#[cfg_attr(not(any(target_os = "linux", target_os = "android")), allow(dead_code))]
#[derive(Debug, Clone, Copy)]
pub(crate) struct FoundServer {
    pub(crate) pid: Pid,
    /// How many sockets it has open: one to listen, and one for each client.
    sockets: usize,
}

impl FoundServer {
    pub(crate) fn has_clients(self) -> bool {
        self.sockets > 1
    }

    /// Whether it listens and has no clients.
    pub(crate) fn is_idle(self) -> bool {
        self.sockets == 1
    }

    pub(crate) fn end(self) {
        let _ = rustix::process::kill_process(self.pid, Signal::TERM);
    }
}

/// Finds the servers of a folder by their processes, even if the folder was removed.
pub(crate) use proc::servers_of;

#[cfg(any(target_os = "linux", target_os = "android"))]
mod proc {
    use std::ffi::OsString;
    use std::os::fd::OwnedFd;
    use std::os::unix::fs::MetadataExt as _;
    use std::path::{Path, PathBuf};

    use rustix::fs::{MemfdFlags, memfd_create};
    use rustix::process::{Pid, geteuid};

    use super::{Folder, FoundServer};

    /// Opens an empty file in memory. Its name in `/proc` says which folder this server belongs to, even if the folder
    /// is removed. A server without it works, but is not found.
    pub(super) fn show(folder: &Folder) -> Option<OwnedFd> {
        let name = name_of(folder);
        // Newer kernels may insist on the flag, and older ones do not know it.
        let file = memfd_create(&name, MemfdFlags::NOEXEC_SEAL).or_else(|_| memfd_create(&name, MemfdFlags::empty()));
        file.ok()
    }

    fn name_of(folder: &Folder) -> OsString {
        let mut name = OsString::from("fairlock:");
        name.push(folder.path());
        name
    }

    pub(crate) fn servers_of(folder: &Folder) -> Vec<FoundServer> {
        let mut shown = OsString::from("/memfd:");
        shown.push(name_of(folder));
        shown.push(" (deleted)");
        let shown = PathBuf::from(shown);
        let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        processes.filter_map(|process| look(&process.path(), &shown)).collect()
    }

    fn look(process: &Path, shown: &Path) -> Option<FoundServer> {
        let pid = Pid::from_raw(process.file_name()?.to_str()?.parse().ok()?)?;
        // In a container the same path is another folder.
        if process.metadata().ok()?.uid() != geteuid().as_raw() || !same(&process.join("root"), Path::new("/")) {
            return None;
        }
        let open = std::fs::read_dir(process.join("fd")).ok()?.flatten();
        let open: Vec<PathBuf> = open.filter_map(|descriptor| descriptor.path().read_link().ok()).collect();
        let is_socket = |link: &&PathBuf| link.to_str().is_some_and(|link| link.starts_with("socket:"));
        open.iter()
            .any(|link| link == shown)
            .then(|| FoundServer { pid, sockets: open.iter().filter(is_socket).count() })
    }

    fn same(one: &Path, other: &Path) -> bool {
        let id = |path: &Path| path.metadata().ok().map(|about| (about.dev(), about.ino()));
        id(one).is_some_and(|one| Some(one) == id(other))
    }
}

/// Other systems have no such list: a server whose folder was removed is not found there.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
mod proc {
    use std::os::fd::OwnedFd;

    use super::{Folder, FoundServer};

    pub(super) fn show(_: &Folder) -> Option<OwnedFd> {
        None
    }

    pub(crate) fn servers_of(_: &Folder) -> Vec<FoundServer> {
        Vec::new()
    }
}
