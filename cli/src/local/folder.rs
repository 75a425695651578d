//! The folder of the private server: where it is, and the checks that only its user can reach into it.

use std::fs::{DirBuilder, Metadata};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use nix::unistd::{User, geteuid};

use crate::exit::Failure;
use crate::text::printable;

/// The variable that names another folder.
const OVERRIDE: &str = "FAIRLOCK_LOCAL_DIR";
/// The longest path that fits into a socket's address, which has 108 bytes on Linux and 104 elsewhere, one of them
/// zero.
const LONGEST_SOCKET_PATH: usize = if cfg!(any(target_os = "linux", target_os = "android")) { 107 } else { 103 };

/// A folder for the private server.
#[derive(Debug, Clone)]
pub(crate) struct Folder(PathBuf);

impl Folder {
    /// The folder of this user. All jobs of a user must meet there, so only the user's number counts, and not the
    /// environment, which differs between cron, a login, `su` and `sudo -E`: HOME may be another user's, and the folder
    /// of XDG_RUNTIME_DIR is removed at the last logout while jobs go on.
    pub(crate) fn find() -> Result<Self, Failure> {
        let path = match std::env::var_os(OVERRIDE).filter(|path| !path.is_empty()).map(PathBuf::from) {
            None => home()?.join(".local/state/fairlock"),
            Some(path) if path.is_absolute() => path,
            Some(path) => {
                return Err(Failure::own(format!(
                    "{OVERRIDE} is {}: it must be an absolute path, or jobs that start elsewhere would not meet",
                    printable(&path.to_string_lossy())
                )));
            }
        };
        Ok(Self(without_links_above(&path)))
    }

    /// A folder that was found by an earlier stage.
    pub(crate) fn at(path: PathBuf) -> Self {
        Self(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// The path for messages.
    pub(crate) fn shown(&self) -> String {
        printable(&self.0.to_string_lossy())
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.0.join("redis.sock")
    }

    pub(crate) fn log(&self) -> PathBuf {
        self.0.join("redis.log")
    }

    /// Locked while a job starts the server.
    pub(crate) fn start_lock(&self) -> PathBuf {
        self.0.join("start.lock")
    }

    /// Locked by the server as long as it lives.
    pub(crate) fn server_lock(&self) -> PathBuf {
        self.0.join("server.lock")
    }

    /// Exists after `fairlock local stop` until a new job needs the server. Running jobs do not start the server
    /// meanwhile.
    pub(crate) fn stop_mark(&self) -> PathBuf {
        self.0.join("stopped")
    }

    /// The URL of the server's socket.
    pub(crate) fn url(&self) -> String {
        let mut url = "unix://".to_owned();
        for &byte in self.socket().as_os_str().as_bytes() {
            if byte.is_ascii_alphanumeric() || b"/-_.~".contains(&byte) {
                url.push(char::from(byte));
            } else {
                url.push_str(&format!("%{byte:02X}"));
            }
        }
        url
    }

    /// Makes the folder if it is missing. Fails if other users could use it.
    pub(crate) fn prepare(&self) -> Result<(), Failure> {
        let shown = self.shown();
        if self.socket().as_os_str().len() > LONGEST_SOCKET_PATH {
            return Err(Failure::own(format!(
                "{shown}: too long for a unix socket's path ({LONGEST_SOCKET_PATH} bytes with the file name); \
                 set {OVERRIDE} to a shorter folder"
            )));
        }
        if self.0.symlink_metadata().is_err() {
            self.refuse_strange_place()?;
            DirBuilder::new().recursive(true).mode(0o700).create(&self.0).map_err(|error| {
                Failure::own(format!("cannot make the folder {shown}: {error}; {OVERRIDE} sets another"))
            })?;
        }
        self.check()
    }

    /// Refuses to make the folder within a folder of another user. That user could move it away, and a folder of root
    /// would be in that user's way.
    fn refuse_strange_place(&self) -> Result<(), Failure> {
        let above = self.0.ancestors().skip(1).find_map(|above| Some((above, above.metadata().ok()?)));
        match above {
            Some((above, about)) if about.uid() != 0 && !is_ours(&about) => Err(Failure::own(format!(
                "cannot make the folder {} for user {}: {} belongs to user {}; set {OVERRIDE} to a folder of your own",
                self.shown(),
                geteuid(),
                printable(&above.to_string_lossy()),
                about.uid()
            ))),
            _ => Ok(()),
        }
    }

    /// Refuses a folder that other users can reach. With the right to write they could replace the server, with the
    /// right to read they could connect to it.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        let shown = self.shown();
        let about = self.0.symlink_metadata().map_err(|error| Failure::own(format!("{shown}: {error}")))?;
        if !about.is_dir() {
            return Err(Failure::own(format!("{shown}: not a folder (a link is not followed)")));
        }
        if !is_ours(&about) {
            return Err(Failure::own(format!(
                "{shown}: belongs to user {}, not to you; {OVERRIDE} sets another folder",
                about.uid()
            )));
        }
        if about.mode() & 0o077 != 0 {
            return Err(Failure::own(format!(
                "{shown}: open to other users (mode {:o}); `chmod 700` it, or set {OVERRIDE} to another folder",
                about.mode() & 0o7777
            )));
        }
        Ok(())
    }
}

/// The home folder that the user database names.
fn home() -> Result<PathBuf, Failure> {
    let user = geteuid();
    let because = |why: &str| Failure::own(format!("{why}: set {OVERRIDE} to a folder for the private server"));
    match User::from_uid(user) {
        Ok(Some(entry)) if entry.dir.is_absolute() => Ok(entry.dir),
        Ok(_) => Err(because(&format!("the user database names no home folder of user {user}"))),
        Err(error) => Err(because(&format!("cannot look up the home folder of user {user}: {error}"))),
    }
}

/// The path without symbolic links above the folder, so that all jobs have the same path. The folder may be missing.
fn without_links_above(path: &Path) -> PathBuf {
    match (path.parent(), path.file_name()) {
        (Some(above), Some(name)) => above.canonicalize().unwrap_or_else(|_| without_links_above(above)).join(name),
        _ => path.to_owned(),
    }
}

fn is_ours(about: &Metadata) -> bool {
    about.uid() == geteuid().as_raw()
}
