//! The command and its shim, seen from fairlock.

use std::ffi::OsString;
use std::io::{BufRead as _, BufReader, ErrorKind, Write as _};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Stdio};
use std::thread;
use std::time::Duration;

use fairlock::operator::Time;
use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;

use super::protocol::{self, Order, Report};
use super::queue::QueueShim;
use crate::process::signals::Mask;
use crate::process::{descendants, descriptors, this_binary};

/// How long the shim may take to start. It needs milliseconds.
const PATIENCE: Duration = Duration::from_secs(10);

/// What to run, and under which conditions.
pub(crate) struct Plan<'a> {
    pub(crate) program: &'a Path,
    /// The command as the user wrote it; its first word becomes the command's name.
    pub(crate) words: &'a [OsString],
    pub(crate) environment: Vec<(&'static str, String)>,
    /// What the shim gives back if fairlock dies.
    pub(crate) leases: String,
    pub(crate) kill_after: Duration,
    pub(crate) term_at: Time,
    pub(crate) kill_at: Time,
    /// The process group that gives its place in the terminal's foreground to the command.
    pub(crate) foreground: Option<rustix::process::Pid>,
    pub(crate) mask: &'a Mask,
}

/// A shim with its command.
pub(crate) struct Job {
    shim: Child,
    socket: UnixStream,
    command: Option<ProcessHandle>,
    /// The children that are older than the shim: the private server, and those of a shell that became fairlock by
    /// `exec`.
    before: Vec<i32>,
}

impl Job {
    /// Starts the shim, which starts the command. A separate thread calls `on_report` with each report of the shim, and
    /// with None when the shim is gone.
    ///
    /// Until the shim is ready, the queue shim gives the leases back if fairlock is killed. It would do so while the
    /// command runs, too, so it ends before the command begins.
    pub(crate) fn start(
        plan: Plan<'_>,
        queue_shim: Option<QueueShim>,
        mut on_report: impl FnMut(Option<Report>) + Send + 'static,
    ) -> std::io::Result<Self> {
        let (socket, far_end) = UnixStream::pair()?;
        // If the shim is killed, fairlock becomes the parent of the processes that the shim had adopted.
        descendants::adopt()?;
        let before = descendants::present();
        let mut command = this_binary();
        command
            // `killall -9 fairlock` must not take the shim along.
            .arg0(protocol::SHIM_NAME)
            .arg(protocol::SHIM_WORD)
            .arg(plan.kill_after.as_nanos().min(u128::from(u64::MAX)).to_string())
            .arg(plan.term_at.0.to_string())
            .arg(plan.kill_at.0.to_string())
            .arg(plan.foreground.map_or(0, |group| group.as_raw_nonzero().get()).to_string())
            .arg(plan.mask.to_argument())
            .arg(plan.program)
            .args(plan.words)
            .envs(plan.environment)
            .stdin(Stdio::from(OwnedFd::from(far_end)))
            // Neither Ctrl-C nor a signal to fairlock's group reaches the shim.
            .process_group(0);
        // The thread starts before the shim, so that nothing can fail once the command may run.
        let (begin, begun) = std::sync::mpsc::channel::<BufReader<UnixStream>>();
        thread::Builder::new().name("reports".to_owned()).spawn(move || {
            // An error means that there is no shim to listen to.
            let Ok(reader) = begun.recv() else { return };
            for report in reader.lines().map_while(Result::ok) {
                if let Ok(report) = report.parse() {
                    on_report(Some(report));
                }
            }
            on_report(None);
        })?;
        let mut shim = descendants::spawn(&mut command)?;
        // This was the last copy of the far end here: from now on the stream ends when the shim ends.
        drop(command);
        let begun = make_ready(&socket, plan.leases).and_then(|reader| {
            drop(queue_shim);
            // Without its stdin the command does not begin.
            descriptors::send(&socket, std::io::stdin().as_raw_fd()).map(|()| reader)
        });
        match begun {
            Ok(reader) => drop(begin.send(reader)),
            Err(error) => {
                let _ = shim.kill();
                let _ = shim.wait();
                return Err(error);
            }
        }
        Ok(Self { shim, socket, command: None, before })
    }

    /// Remembers the command's process, which the shim has reported.
    pub(crate) fn started(&mut self, pid: i32) {
        self.command = Some(ProcessHandle::new(pid));
    }

    /// The command's process group.
    pub(crate) fn group(&self) -> Option<rustix::process::Pid> {
        self.command.as_ref().and_then(|command| rustix::process::Pid::from_raw(command.pid))
    }

    /// Sends an order to the shim. False if the shim does not read; the caller may try again.
    pub(crate) fn order(&self, order: Order) -> bool {
        protocol::send(&self.socket, order)
    }

    /// Kills a shim that missed its deadline. The kernel kills the command with it.
    pub(crate) fn kill_shim(&mut self) {
        let _ = self.shim.kill();
    }

    /// Waits for the end of the shim, after its last message or its death.
    pub(crate) fn shim_is_done(&mut self) {
        // The shim has nothing left to do. If it was stopped at its last step, it must not hold up fairlock.
        let _ = self.shim.kill();
        let _ = self.shim.wait();
    }

    /// Kills what is left of the command after a shim that died without a last message. The kernel killed the command,
    /// but not its descendants, which are fairlock's children now.
    pub(crate) fn end_orphans(&self) -> Orphans {
        let mut left = descendants::signal_children(Some(Signal::SIGKILL), &self.before).alive;
        if let Some(command) = &self.command {
            let group = Pid::from_raw(command.pid);
            // A group's number is not reused while a process is in the group.
            left |= killpg(group, Signal::SIGKILL) != Err(nix::Error::ESRCH);
            if !command.is_gone() {
                let _ = kill(group, Signal::SIGKILL);
                return Orphans::Command;
            }
        }
        if left { Orphans::Others } else { Orphans::Gone }
    }
}

/// Tells the shim of the leases, and waits until it has heard of them. Returns what reads its reports.
fn make_ready(mut socket: &UnixStream, leases: String) -> std::io::Result<BufReader<UnixStream>> {
    // A shim that somebody stops now must not hold up fairlock.
    socket.set_write_timeout(Some(PATIENCE))?;
    socket.set_read_timeout(Some(PATIENCE))?;
    socket.write_all(Order::Keep { leases }.to_string().as_bytes())?;
    let mut reader = BufReader::new(socket.try_clone()?);
    let mut first = String::new();
    reader.read_line(&mut first)?;
    socket.set_read_timeout(None)?;
    match first.parse() {
        Ok(Report::Ready) => Ok(reader),
        _ => Err(ErrorKind::UnexpectedEof.into()),
    }
}

/// What is still alive after the shim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Orphans {
    /// The command itself.
    Command,
    /// The command's descendants.
    Others,
    Gone,
}

/// A process that is not our child.
struct ProcessHandle {
    pid: i32,
    #[cfg(any(target_os = "linux", target_os = "android"))]
    handle: Option<OwnedFd>,
}

impl ProcessHandle {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    fn new(pid: i32) -> Self {
        use rustix::process::{PidfdFlags, pidfd_open};
        let handle = rustix::process::Pid::from_raw(pid).and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
        Self { pid, handle }
    }

    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    fn new(pid: i32) -> Self {
        Self { pid }
    }

    fn is_gone(&self) -> bool {
        #[cfg(any(target_os = "linux", target_os = "android"))]
        if let Some(handle) = &self.handle {
            // The handle means this one process, even if its number is reused.
            use rustix::event::{PollFd, PollFlags, Timespec, poll};
            let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
            return poll(&mut [PollFd::new(handle, PollFlags::IN)], Some(&at_once)).is_ok_and(|ready| ready > 0);
        }
        kill(Pid::from_raw(self.pid), None) == Err(nix::Error::ESRCH)
    }
}
