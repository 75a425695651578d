//! Short stages in which a fresh process of this binary prepares itself and then becomes another program. What a safe
//! program may not do between fork and exec, it can do here.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode};

use rustix::fs::{FlockOperation, flock};
use rustix::io::retry_on_intr;
use rustix::process::Pid;

use crate::exit::{NOT_EXECUTABLE, NOT_FOUND, OWN_FAILURE, say};
use crate::signals::Mask;
use crate::terminal;
use crate::text::printable;

/// `fairlock __command PARENT FOREGROUND MASK PROGRAM NAME ARGUMENT…` becomes the command.
pub(crate) const COMMAND_WORD: &str = "__command";
/// `fairlock __server LOCK PROGRAM ARGUMENT…` becomes the private server.
pub(crate) const SERVER_WORD: &str = "__server";

pub(crate) fn become_command(arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let mut arguments = arguments.fuse();
    let mut word = || arguments.next().unwrap_or_default();
    let (parent, foreground, mask) = (word(), word(), word());
    let (program, name) = (word(), word());
    if let Err(error) = die_with_parent() {
        say(format_args!("cannot tie the command to its shim: {error}"));
        return ExitCode::from(OWN_FAILURE);
    }
    // A shim that died before the line above killed nobody, but left its child to another parent.
    let parent_now = rustix::process::getppid().map_or(0, |pid| pid.as_raw_nonzero().get());
    if parent.to_str() != Some(parent_now.to_string().as_str()) {
        return ExitCode::from(OWN_FAILURE);
    }
    if let Some(group) = foreground.to_str().and_then(|group| group.parse().ok()).and_then(Pid::from_raw) {
        // The command owns the terminal before its first instruction, or it might be stopped by it.
        terminal::come_to_foreground(group);
    }
    if let Err(error) = Mask::from_argument(&mask.to_string_lossy()).restore() {
        say(format_args!("cannot restore the signal mask: {error}"));
        return ExitCode::from(OWN_FAILURE);
    }
    let error = Command::new(&program).arg0(&name).args(arguments).exec();
    say(format_args!("{}: {error}", printable(&name.to_string_lossy())));
    ExitCode::from(if error.kind() == std::io::ErrorKind::NotFound { NOT_FOUND } else { NOT_EXECUTABLE })
}

pub(crate) fn become_server(mut arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let (lock, program) = (arguments.next().unwrap_or_default(), arguments.next().unwrap_or_default());
    // Its own session: neither Ctrl-C nor a hang-up of the terminal that happened to start it reaches it.
    if let Err(error) = rustix::process::setsid() {
        say(format_args!("cannot begin a session: {error}"));
        return ExitCode::from(OWN_FAILURE);
    }
    close_inherited();
    // The server keeps this lock by inheriting the file, so that there is one server, even if its socket is removed.
    if let Err(error) = lock_for_life(&lock) {
        say(format_args!("{}: {error}", printable(&lock.to_string_lossy())));
        return ExitCode::from(OWN_FAILURE);
    }
    let error = Command::new(&program).args(arguments).exec();
    say(format_args!("{}: {error}", printable(&program.to_string_lossy())));
    ExitCode::from(OWN_FAILURE)
}

/// The kernel kills this process, also after it became another program, when its parent dies. Its children are not
/// killed with it: the shim or fairlock ends those, see `descendants.rs`.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn die_with_parent() -> std::io::Result<()> {
    Ok(rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?)
}

/// Other kernels cannot do it. There a command outlives a shim that was killed, until fairlock has noticed.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn die_with_parent() -> std::io::Result<()> {
    Ok(())
}

fn lock_for_life(path: &OsStr) -> std::io::Result<()> {
    let file = File::options().create(true).truncate(false).write(true).open(path)?;
    retry_on_intr(|| flock(&file, FlockOperation::LockExclusive))?;
    rustix::io::fcntl_setfd(&file, rustix::io::FdFlags::empty())?;
    // Closing it would give up the lock.
    std::mem::forget(file);
    Ok(())
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
