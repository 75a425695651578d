//! The folder of the private server: where it is, and that nobody else can reach into it.

use std::ffi::OsString;
use std::fs::{DirBuilder, Metadata};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use rustix::process::geteuid;

use crate::exit::Failure;
use crate::text::printable;

/// The folder that overrides all others.
const OVERRIDE: &str = "FAIRLOCK_LOCAL_DIR";
/// What fits into a socket's address, with its closing zero: 108 bytes on Linux, 104 elsewhere.
const LONGEST_SOCKET_PATH: usize = if cfg!(any(target_os = "linux", target_os = "android")) { 107 } else { 103 };

/// A folder for the private server.
#[derive(Debug, Clone)]
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.0.join("redis.sock")
    }

    pub(crate) fn log(&self) -> PathBuf {
        self.0.join("redis.log")
    }

    /// Locked while somebody starts the server.
    pub(crate) fn start_lock(&self) -> PathBuf {
        self.0.join("start.lock")
    }

    /// Locked by the server as long as it lives.
    pub(crate) fn server_lock(&self) -> PathBuf {
        self.0.join("server.lock")
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

    /// Makes the folder if it is missing, and refuses it if others could use it.
    pub(crate) fn prepare(&self) -> Result<(), Failure> {
        let shown = printable(&self.0.to_string_lossy());
        if self.socket().as_os_str().len() > LONGEST_SOCKET_PATH {
            return Err(Failure::own(format!(
                "{shown}: too long for a unix socket's path ({LONGEST_SOCKET_PATH} bytes with the file name); \
                 set {OVERRIDE} to a shorter folder"
            )));
        }
        DirBuilder::new().recursive(true).mode(0o700).create(&self.0).map_err(|error| {
            Failure::own(format!("cannot make the folder {shown}: {error}; {OVERRIDE} sets another"))
        })?;
        self.check()
    }

    /// Refuses a folder that is not ours alone: whoever can write there could put another server in its place, and
    /// whoever can read there could talk to ours.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        let shown = printable(&self.0.to_string_lossy());
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

/// Where the server may be, the first choice first. A job from cron has no XDG_RUNTIME_DIR and a login has, and both must
/// find the same server: so a server that runs in any of these is shared, and the usual place is tried by its number.
pub(crate) fn candidates() -> Result<Vec<Folder>, Failure> {
    if let Some(folder) = variable(OVERRIDE) {
        let folder = std::path::absolute(folder).map_err(|error| Failure::because(OVERRIDE, error))?;
        return Ok(vec![Folder(folder)]);
    }
    let mut folders = Vec::new();
    let run_time = variable("XDG_RUNTIME_DIR").unwrap_or_else(|| format!("/run/user/{}", geteuid().as_raw()).into());
    // After `su` this may be another user's.
    if run_time.is_absolute() && run_time.metadata().is_ok_and(|about| about.is_dir() && is_ours(&about)) {
        folders.push(Folder(run_time.join("fairlock")));
    }
    let home = variable("HOME").filter(|home| home.is_absolute());
    let state =
        variable("XDG_STATE_HOME").filter(|state| state.is_absolute()).or(home.map(|home| home.join(".local/state")));
    folders.extend(state.map(|state| Folder(state.join("fairlock"))));
    if folders.is_empty() {
        return Err(Failure::own(format!("no folder for the private server: set {OVERRIDE}, or HOME")));
    }
    Ok(folders)
}

fn variable(name: &str) -> Option<PathBuf> {
    std::env::var_os(name).filter(|value| *value != OsString::new()).map(PathBuf::from)
}

fn is_ours(about: &Metadata) -> bool {
    about.uid() == geteuid().as_raw()
}
