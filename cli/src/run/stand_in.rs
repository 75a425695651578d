//! The stand-in: the process that holds locks for a script, from `fairlock hold --fd`. `hold.rs` says why there is one.
//!
//! From the grant on it has nothing open that its script has open, but the descriptor until it has locked it: whoever
//! reads the script's output, or waits for another of its files, waits for the script and not for its stand-in. To write
//! a message it opens the script's stderr once more, for a moment.

use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata};
use std::io::{BufRead as _, BufReader, IsTerminal as _, Write as _};
use std::os::fd::{AsFd as _, OwnedFd, RawFd};
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt as _;

use nix::sys::signal::Signal;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FileType, OFlags, fstat};
use rustix::io::{Errno, retry_on_intr};
use rustix::process::Pid;

use super::event_file;
use crate::exit::{self, Failure, say};
use crate::process::open_file::{self, OpenFile};
use crate::process::{descriptors, table, this_binary};
use crate::{output, runtime, stderr};

/// `fairlock __hold SCRIPT ARGUMENTS…` is the stand-in of the script with this process id. Its stdin is a socket, over
/// which it receives the descriptor, and tells what is to be printed at the grant, a line that may be empty.
pub(crate) const WORD: &str = "__hold";

/// Starts the stand-in, and waits until it has the lock.
pub(super) fn start(descriptor: RawFd) -> Result<u8, Failure> {
    let failed = |error: std::io::Error| Failure::because("cannot start the process that holds the lock", error);
    let about = std::fs::metadata(format!("/dev/fd/{descriptor}")).map_err(|error| {
        Failure::own(format!("descriptor {descriptor}: {error}; open a file first, as in `exec {descriptor}>my.lock`"))
    })?;
    if !about.is_file() && !about.is_dir() {
        return Err(Failure::own(format!(
            "descriptor {descriptor} is no file: open one, as in `exec {descriptor}>my.lock`"
        )));
    }
    if open_file::is_open_here_only(descriptor) {
        return Err(Failure::own(format!(
            "only this command has descriptor {descriptor} open, so nothing would be held: write `exec \
             {descriptor}>my.lock` on a line before"
        )));
    }
    let (socket, far_end) = UnixStream::pair().map_err(failed)?;
    descriptors::send(&socket, descriptor).map_err(failed)?;
    let script = script_with(descriptor, &about);
    let mut command = this_binary();
    command.arg(WORD).arg(script.to_string()).args(std::env::args_os().skip(1)).stdin(OwnedFd::from(far_end));
    let mut stand_in = command.spawn().map_err(failed)?;
    // With the command goes this process's copy of the far end.
    drop(command);
    let mut grant = String::new();
    BufReader::new(socket).read_line(&mut grant).map_err(failed)?;
    if grant.ends_with('\n') {
        return if grant == "\n" { Ok(0) } else { output::write(&grant).map(|()| 0) };
    }
    let status = stand_in.wait().map_err(failed)?;
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    Ok(code.unwrap_or_else(|| status.signal().map_or(exit::OWN_FAILURE, exit::by_signal)))
}

/// The process id of the script: the last of this process's ancestors in a row that have this file open by this number.
/// Between the two may be a subshell, as in `$(fairlock hold … || …)`, or `timeout`, which is gone after the grant.
fn script_with(descriptor: RawFd, about: &Metadata) -> i32 {
    let has = |pid: i32| {
        let opened = std::fs::metadata(format!("/proc/{pid}/fd/{descriptor}"));
        opened.is_ok_and(|opened| (opened.dev(), opened.ino()) == (about.dev(), about.ino()))
    };
    let caller = rustix::process::getppid().map_or(0, |pid| pid.as_raw_nonzero().get());
    table::ancestors().take_while(|pid| has(*pid)).last().unwrap_or(caller)
}

/// The process that holds a lock for a script.
pub(super) struct StandIn {
    pub(super) pid: i32,
    pub(super) script: i32,
    /// The locks that it holds.
    pub(super) names: Vec<String>,
    /// What the script closes in the end.
    pub(super) descriptor: RawFd,
}

/// The script for which a stand-in holds its locks.
pub(super) struct Script {
    pid: Pid,
    #[cfg(any(target_os = "linux", target_os = "android"))]
    handle: OwnedFd,
    /// Until it is watched.
    descriptor: Option<OwnedFd>,
    /// The descriptor to which events are to be written.
    events: Option<RawFd>,
    socket: UnixStream,
}

impl Script {
    /// Called first of all, while `fairlock hold` is alive.
    pub(super) fn of(pid: Option<OsString>, events: Option<&OsStr>) -> Result<Self, Failure> {
        let events = events.and_then(event_file::descriptor).filter(|descriptor| *descriptor > 2);
        descriptors::close_inherited(events);
        let gone = |error: std::io::Error| Failure::because("the script is gone", error);
        let pid = pid.and_then(|word| word.to_str()?.parse().ok()).and_then(Pid::from_raw);
        let pid = pid.ok_or_else(|| Failure::own("the script is gone"))?;
        #[cfg(any(target_os = "linux", target_os = "android"))]
        let handle = {
            use rustix::process::{PidfdFlags, Signal, pidfd_open, set_parent_process_death_signal};
            // If `fairlock hold` dies before the grant, so does this process.
            set_parent_process_death_signal(Some(Signal::TERM)).map_err(|error| gone(error.into()))?;
            let _ = rustix::thread::set_name(c"fairlock");
            pidfd_open(pid, PidfdFlags::empty()).map_err(|error| gone(error.into()))?
        };
        let socket = UnixStream::from(std::io::stdin().as_fd().try_clone_to_owned().map_err(gone)?);
        let descriptor = descriptors::receive(&socket).map_err(gone)?;
        Ok(Self {
            pid,
            #[cfg(any(target_os = "linux", target_os = "android"))]
            handle,
            descriptor: Some(descriptor),
            events,
            socket,
        })
    }

    /// The command line of the script, for the label.
    pub(super) fn words(&self) -> Vec<OsString> {
        let line = std::fs::read(format!("/proc/{}/cmdline", self.number())).unwrap_or_default();
        let mut words: Vec<_> = line.split(|byte| *byte == 0).map(|word| OsString::from_vec(word.to_vec())).collect();
        words.retain(|word| !word.is_empty());
        if words.is_empty() { vec!["hold".into()] } else { words }
    }

    /// The process id of the script.
    pub(super) fn number(&self) -> u32 {
        self.pid.as_raw_nonzero().get().cast_unsigned()
    }

    /// Calls this when the script is dead.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    pub(super) fn on_death(&self, call: impl FnOnce() + Send + 'static) -> Result<(), Failure> {
        let handle = self.handle.try_clone().map_err(|error| Failure::because("cannot watch the script", error))?;
        runtime::thread("script", move || {
            if is_dead(&handle, None) {
                call();
            }
        })
    }

    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    pub(super) fn on_death(&self, _: impl FnOnce() + Send + 'static) -> Result<(), Failure> {
        Ok(())
    }

    /// The lock is granted: from now on neither the terminal nor the end of `fairlock hold` ends this process, and it
    /// has nothing open of the script but the descriptor. Calls `closed` when all other copies of that are closed.
    pub(super) fn granted(&mut self, told: &str, closed: impl FnOnce() + Send + 'static) -> Result<(), Failure> {
        #[cfg(any(target_os = "linux", target_os = "android"))]
        let _ = rustix::process::set_parent_process_death_signal(None);
        let _ = rustix::process::setsid();
        // The event file has opened it once more.
        self.events.take().into_iter().for_each(descriptors::close);
        self.let_go_of_output().and_then(|()| self.watch(closed))?;
        // `fairlock hold` returns at this.
        let told = self.socket.write_all(told.as_bytes());
        told.map_err(|error| Failure::because("fairlock hold is gone", error))
    }

    fn let_go_of_output(&self) -> Result<(), Failure> {
        let failed = |error: std::io::Error| Failure::because("cannot let go of the script's output", error);
        let null = File::options().read(true).write(true).open("/dev/null").map_err(failed)?;
        rustix::stdio::dup2_stdin(&null).map_err(|error| failed(error.into()))?;
        rustix::stdio::dup2_stdout(&null).map_err(|error| failed(error.into()))?;
        if self.may_keep_stderr() {
            return Ok(());
        }
        stderr::flush(stderr::A_MOMENT);
        stderr::redirect(self.stderr().map_err(failed)?);
        rustix::stdio::dup2_stderr(&null).map_err(|error| failed(error.into()))
    }

    /// Nobody waits for the end of a file or of /dev/null. A file that is opened once more would have another position,
    /// so that script and stand-in would write over each other.
    fn may_keep_stderr(&self) -> bool {
        let stderr = std::io::stderr();
        let (Ok(about), Some(Ok(watched))) = (fstat(&stderr), self.descriptor.as_ref().map(fstat)) else {
            return false;
        };
        let is_read = matches!(FileType::from_raw_mode(about.st_mode), FileType::Fifo | FileType::Socket);
        // It may be a copy of the descriptor, which is to be closed.
        let is_watched = (about.st_dev, about.st_ino) == (watched.st_dev, watched.st_ino);
        !is_read && !stderr.is_terminal() && !is_watched
    }

    /// Opens the script's stderr, as it is then.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    fn stderr(&self) -> std::io::Result<impl Fn() -> Option<OwnedFd> + Send + Sync + 'static> {
        let (path, handle) = (format!("/proc/{}/fd/2", self.number()), self.handle.try_clone()?);
        // Neither does a pipe without a reader hold it up, nor does the terminal become its own.
        let flags = (OFlags::NONBLOCK | OFlags::NOCTTY).bits().cast_signed();
        Ok(move || {
            let file = File::options().append(true).custom_flags(flags).open(&path).ok()?;
            // Another process may have the number of one that is dead.
            (!is_dead(&handle, Some(&Timespec::default()))).then(|| file.into())
        })
    }

    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    fn stderr(&self) -> std::io::Result<impl Fn() -> Option<OwnedFd> + Send + Sync + 'static> {
        Ok(|| None)
    }

    fn watch(&mut self, closed: impl FnOnce() + Send + 'static) -> Result<(), Failure> {
        let failed = |error: std::io::Error| Failure::because("cannot watch the descriptor", error);
        let descriptor = self.descriptor.take().ok_or_else(|| failed(std::io::ErrorKind::NotFound.into()))?;
        let file = OpenFile::new(descriptor).map_err(failed)?;
        runtime::thread("descriptor", move || {
            file.await_close();
            closed();
        })
    }

    /// Sends the script a signal. One that is dead needs none.
    pub(super) fn tell(&self, signal: Signal) {
        #[cfg(any(target_os = "linux", target_os = "android"))]
        let sent = rustix::process::Signal::from_named_raw(signal as i32)
            .ok_or(Errno::INVAL)
            .and_then(|signal| rustix::process::pidfd_send_signal(&self.handle, signal));
        #[cfg(not(any(target_os = "linux", target_os = "android")))]
        let sent = rustix::process::Signal::from_named_raw(signal as i32)
            .ok_or(Errno::INVAL)
            .and_then(|signal| rustix::process::kill_process(self.pid, signal));
        if let Err(error) = sent
            && error != Errno::SRCH
        {
            say(format_args!("cannot send {signal} to process {}: {error}", self.number()));
        }
    }
}

/// Lets this stand-in go on as if its script had closed its descriptor, and waits until it has given the lock back.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(super) fn end(stand_in: &StandIn, name: &str) -> Result<u8, Failure> {
    use crate::text::printable;
    use rustix::process::{PidfdFlags, pidfd_open};
    const PATIENCE: Timespec = Timespec { tv_sec: 10, tv_nsec: 0 };
    let failed = |error: std::io::Error| Failure::because(&format!("cannot give {} back", printable(name)), error);
    let Some(Ok(process)) = Pid::from_raw(stand_in.pid).map(|pid| pidfd_open(pid, PidfdFlags::empty())) else {
        return Ok(0);
    };
    open_file::let_go(stand_in.pid, stand_in.descriptor).map_err(failed)?;
    if is_dead(&process, Some(&PATIENCE)) {
        return Ok(0);
    }
    let (name, fd) = (printable(name), stand_in.descriptor);
    Err(Failure::own(format!(
        "{name} is still held: give it back where descriptor {fd} is open, or close it everywhere"
    )))
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(super) fn end(_: &StandIn, _: &str) -> Result<u8, Failure> {
    Err(Failure::own("--unlock needs Linux: close the descriptor instead, as in `exec 9>&-`"))
}

/// Whether the process has ended by the end of this time.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn is_dead(process: &OwnedFd, time: Option<&Timespec>) -> bool {
    retry_on_intr(|| poll(&mut [PollFd::new(process, PollFlags::IN)], time)).is_ok_and(|ready| ready > 0)
}
