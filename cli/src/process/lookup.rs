//! Finds the command before fairlock queues, so that a typo does not cost an hour's wait.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, AtFlags, CWD, accessat};

use crate::exit::{Failure, NOT_EXECUTABLE, NOT_FOUND};
use crate::text::printable;

/// The file that `execvp` would run. The returned path contains a slash, so it is not searched for again.
pub(crate) fn find(command: &OsStr) -> Result<PathBuf, Failure> {
    if command.as_bytes().contains(&b'/') {
        let path = PathBuf::from(command);
        return match judge(&path) {
            Found::Executable => Ok(path),
            Found::NotExecutable => Err(not_executable(command)),
            Found::Nothing => Err(not_found(command)),
        };
    }
    let path = std::env::var_os("PATH").unwrap_or_else(|| OsString::from("/bin:/usr/bin"));
    let mut refused = false;
    for folder in std::env::split_paths(&path) {
        // An empty entry means the current folder.
        let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { &folder };
        let candidate = folder.join(command);
        match judge(&candidate) {
            Found::Executable if !command.is_empty() => return Ok(candidate),
            Found::NotExecutable if !command.is_empty() && !candidate.is_dir() => refused = true,
            _ => {}
        }
    }
    Err(if refused { not_executable(command) } else { not_found(command) })
}

enum Found {
    Executable,
    NotExecutable,
    Nothing,
}

fn judge(path: &Path) -> Found {
    match std::fs::metadata(path) {
        Ok(about) if about.is_file() && accessat(CWD, path, Access::EXEC_OK, AtFlags::EACCESS).is_ok() => {
            Found::Executable
        }
        Ok(_) => Found::NotExecutable,
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => Found::NotExecutable,
        Err(_) => Found::Nothing,
    }
}

fn not_found(command: &OsStr) -> Failure {
    Failure::new(NOT_FOUND, format!("{}: command not found", printable(&command.to_string_lossy())))
}

fn not_executable(command: &OsStr) -> Failure {
    Failure::new(NOT_EXECUTABLE, format!("{}: cannot be executed", printable(&command.to_string_lossy())))
}
