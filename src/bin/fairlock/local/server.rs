//! The process of the private server: how it begins, and how it is found when its folder does not lead to it any more.

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
use crate::text::printable;

/// `fairlock __server FOLDER PROGRAM` becomes the private server.
pub(crate) const WORD: &str = "__server";
/// The exit code of a server-to-be that found another in its place.
pub(crate) const TAKEN: u8 = 75;

/// What a server does that is started by a job, and outlives it.
pub(crate) fn main(mut arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let mut word = || PathBuf::from(arguments.next().unwrap_or_default());
    let (folder, program) = (Folder::at(word()), word());
    // Its own session: neither Ctrl-C nor a hang-up of the terminal that happened to start it reaches it.
    let failure = match rustix::process::setsid() {
        Err(error) => Failure::because("cannot begin a session", error),
        Ok(_) => {
            close_inherited();
            // A running job that starts it blocks signals.
            let _ = SigSet::empty().thread_set_mask();
            become_server(&folder, &program, Place::IfFree)
        }
    };
    say(&failure.message);
    ExitCode::from(failure.code)
}

/// What a server does whose place is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// It gives up.
    IfFree,
    /// It waits until the other has ended. Its log goes to stdout.
    InTurn,
}

/// Becomes the server of this folder. Returns why it did not.
pub(crate) fn become_server(folder: &Folder, program: &Path, place: Place) -> Failure {
    let kept = match take_place(folder, place) {
        Ok(kept) => kept,
        Err(failure) => return failure,
    };
    let mut server = Command::new(program);
    // A socket in a folder that is ours alone, and no port.
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

/// Makes sure that this is the only server of the folder. The server keeps what is returned, by inheriting it.
fn take_place(folder: &Folder, place: Place) -> Result<[Option<OwnedFd>; 2], Failure> {
    let failed = |error: std::io::Error| Failure::because(&printable(&folder.server_lock().to_string_lossy()), error);
    let taken = || Failure::new(TAKEN, format!("another private server has {}", folder.shown()));
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
    // The lock shows nothing of a server whose folder was removed or moved. First this one shows itself, and then it
    // looks for others: so of two that start at the same time one at least sees the other.
    let shown = proc::show(folder);
    if proc::servers_of(folder).iter().any(|server| server.pid != rustix::process::getpid()) {
        return Err(taken());
    }
    Ok([Some(lock.into()), shown])
}

/// Closes whatever was inherited besides stdin, stdout and stderr. A server that outlives its caller must hold neither
/// the caller's pipes, whose readers would wait for ever, nor its file locks.
fn close_inherited() {
    // The listing's own descriptor is among them, so it has to be read to its end first.
    let open: Vec<i32> = std::fs::read_dir("/dev/fd").map_or_else(
        |_| (3..256).collect(),
        |entries| entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect(),
    );
    for descriptor in open.into_iter().filter(|descriptor| *descriptor > 2) {
        let _ = nix::unistd::close(descriptor);
    }
}

/// A private server that was found among the processes.
#[cfg_attr(not(any(target_os = "linux", target_os = "android")), allow(dead_code))]
#[derive(Debug, Clone, Copy)]
pub(crate) struct Server {
    pub(crate) pid: Pid,
    /// The one on which it listens, and one for each client.
    sockets: usize,
}

impl Server {
    pub(crate) fn has_clients(self) -> bool {
        self.sockets > 1
    }

    /// It listens, and nobody is connected.
    pub(crate) fn is_idle(self) -> bool {
        self.sockets == 1
    }

    pub(crate) fn end(self) {
        let _ = rustix::process::kill_process(self.pid, Signal::TERM);
    }
}

/// Finds the servers of a folder without a look at the folder.
pub(crate) use proc::servers_of;

#[cfg(any(target_os = "linux", target_os = "android"))]
mod proc {
    use std::ffi::OsString;
    use std::os::fd::OwnedFd;
    use std::os::unix::fs::MetadataExt as _;
    use std::path::{Path, PathBuf};

    use rustix::fs::{MemfdFlags, memfd_create};
    use rustix::process::{Pid, geteuid};

    use super::{Folder, Server};

    /// Opens a file without content in memory, whose name tells in `/proc` whose server this is, whatever becomes of the
    /// folder. Without it the server works as well; it is only not found.
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

    pub(crate) fn servers_of(folder: &Folder) -> Vec<Server> {
        let mut shown = OsString::from("/memfd:");
        shown.push(name_of(folder));
        shown.push(" (deleted)");
        let shown = PathBuf::from(shown);
        let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        processes.filter_map(|process| look(&process.path(), &shown)).collect()
    }

    fn look(process: &Path, shown: &Path) -> Option<Server> {
        let pid = Pid::from_raw(process.file_name()?.to_str()?.parse().ok()?)?;
        // In a container the same path is another folder.
        if process.metadata().ok()?.uid() != geteuid().as_raw() || !same(&process.join("root"), Path::new("/")) {
            return None;
        }
        let open = std::fs::read_dir(process.join("fd")).ok()?.flatten();
        let open: Vec<PathBuf> = open.filter_map(|descriptor| descriptor.path().read_link().ok()).collect();
        let is_socket = |link: &&PathBuf| link.to_str().is_some_and(|link| link.starts_with("socket:"));
        open.iter().any(|link| link == shown).then(|| Server { pid, sockets: open.iter().filter(is_socket).count() })
    }

    fn same(one: &Path, other: &Path) -> bool {
        let id = |path: &Path| path.metadata().ok().map(|about| (about.dev(), about.ino()));
        id(one).is_some_and(|one| Some(one) == id(other))
    }
}

/// Elsewhere there is no such list: a server whose folder was removed is not found.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
mod proc {
    use std::os::fd::OwnedFd;

    use super::{Folder, Server};

    pub(super) fn show(_: &Folder) -> Option<OwnedFd> {
        None
    }

    pub(crate) fn servers_of(_: &Folder) -> Vec<Server> {
        Vec::new()
    }
}
