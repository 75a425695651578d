//! The stage of the command: a fresh process of this binary that prepares itself and then becomes the command. Here it
//! can do in safe code what a program may not do between fork and exec.

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode};

use rustix::process::Pid;

use crate::exit::{NOT_EXECUTABLE, NOT_FOUND, OWN_FAILURE, say};
use crate::hidden;
use crate::process::signals::Mask;
use crate::process::terminal;
use crate::text::printable;
use crate::variables;

/// `fairlock __command PARENT FOREGROUND MASK PROGRAM NAME ARGUMENT…` becomes the command.
pub(crate) const COMMAND_WORD: &str = "__command";

pub(crate) fn become_command(arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let mut arguments = arguments.fuse();
    let mut word = || arguments.next().unwrap_or_default();
    let (parent, foreground, mask) = (word(), word(), word());
    let (program, name) = (word(), word());
    if let Err(error) = die_with_parent() {
        say(format_args!("cannot tie the command to its shim: {error}"));
        return ExitCode::from(OWN_FAILURE);
    }
    // If the shim died before the line above, the kernel sent nothing, but this process has another parent now.
    let parent_now = rustix::process::getppid().map_or(0, |pid| pid.as_raw_nonzero().get());
    if parent.to_str() != Some(parent_now.to_string().as_str()) {
        return ExitCode::from(OWN_FAILURE);
    }
    if let Some(group) = foreground.to_str().and_then(|group| group.parse().ok()).and_then(Pid::from_raw) {
        // The command must have the terminal before its first instruction: otherwise using it could stop the command.
        terminal::come_to_foreground(group);
    }
    if let Err(error) = Mask::from_argument(&mask.to_string_lossy()).restore() {
        say(format_args!("cannot restore the signal mask: {error}"));
        return ExitCode::from(OWN_FAILURE);
    }
    let mut command = Command::new(&program);
    command.arg0(&name).args(arguments);
    // These were meant for fairlock itself, not for one that the command may run.
    for name in [hidden::VARIABLE].iter().chain(&variables::OF_RUN) {
        command.env_remove(name);
    }
    let error = command.exec();
    say(format_args!("{}: {error}", printable(&name.to_string_lossy())));
    ExitCode::from(if error.kind() == std::io::ErrorKind::NotFound { NOT_FOUND } else { NOT_EXECUTABLE })
}

/// The kernel kills this process when its parent dies, also after it became another program. It does not kill the
/// children of this process: the shim or fairlock ends those, see `process/descendants.rs`.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn die_with_parent() -> std::io::Result<()> {
    Ok(rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?)
}

/// Other kernels cannot do that. There a command outlives a killed shim until fairlock notices.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn die_with_parent() -> std::io::Result<()> {
    Ok(())
}
