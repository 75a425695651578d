//! The shim: the process between fairlock and the command, which ends the command in time when fairlock cannot.
//!
//! It knows the lease's deadline, and learns of every renewal. It ends the command and all its descendants with TERM,
//! later KILL, when fairlock orders it, when fairlock is gone (its end of the socket is closed, however it died), or when
//! the deadline comes and fairlock has not spoken (it is stopped or frozen, or Redis is out of reach).
//!
//! It has a process group of its own and blocks all signals, so that neither the terminal nor a well-meant `kill` ends it
//! before its command; and another name than fairlock, so that `killall -9 fairlock` does not. If it is killed all the
//! same, the kernel kills the command with it, see `stage.rs`, and fairlock its descendants, see `process/descendants.rs`. If it
//! is stopped, fairlock kills it at the deadline; and when fairlock dies, the kernel continues it.
//!
//! It acts first and speaks after, and never waits for a reader of its words or reports.

pub(crate) mod job;
pub(crate) mod protocol;
pub(crate) mod stage;

use std::ffi::OsString;
use std::io::{BufRead as _, BufReader};
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::process::{ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{self, Sender};
use std::thread;
use std::time::Duration;

use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;
use rustix::process::{WaitId, WaitIdOptions, WaitOptions, WaitStatus, wait, waitid};

use crate::exit::{OWN_FAILURE, say};
use crate::process::clock::{Alarm, Moment};
use crate::process::{descendants, signals, this_binary};
use crate::stderr;
use protocol::{Order, Report};

/// How often the command's descendants are looked at once they are killed.
const SWEEP: Duration = Duration::from_millis(20);
/// How often before that.
const LOOK: Duration = Duration::from_millis(250);
/// How long killed processes may take to vanish before the shim stops looking.
const VANISH: Duration = Duration::from_secs(1);

pub(crate) fn main(arguments: impl Iterator<Item = OsString>) -> ExitCode {
    match guard_command(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say(format_args!("the shim failed: {error}"));
            ExitCode::from(OWN_FAILURE)
        }
    }
}

fn guard_command(mut arguments: impl Iterator<Item = OsString>) -> std::io::Result<()> {
    signals::block_all()?;
    // A caller that ignores SIGCHLD would make the kernel throw the command's exit status away.
    signal_hook::flag::register(Signal::SIGCHLD as i32, Arc::new(AtomicBool::new(false)))?;
    outlive_fairlock()?;
    descendants::adopt()?;
    let mut number =
        || arguments.next().and_then(|word| word.to_str()?.parse().ok()).ok_or(std::io::ErrorKind::InvalidInput);
    let (kill_after, term_at, kill_at) = (Duration::from_nanos(number()?), Moment(number()?), Moment(number()?));
    let socket = UnixStream::from(std::io::stdin().as_fd().try_clone_to_owned()?);
    let stdin = protocol::receive_descriptor(&socket)?;

    if Moment::now() >= term_at {
        // fairlock was stopped between the grant and this. The lease is over, and nothing has begun.
        protocol::send(&socket, Report::TooLate);
        return Ok(());
    }
    let (events, inbox) = mpsc::channel();
    let on_child = events.clone();
    signals::listen_to_children(move || drop(on_child.send(Event::Child)))?;
    let mut command = this_binary();
    command.arg(stage::COMMAND_WORD).arg(std::process::id().to_string()).args(arguments);
    // Spawned by the main thread, which lives as long as the shim: the kernel ties the command to the thread.
    let pid = match command.stdin(Stdio::from(stdin)).process_group(0).spawn() {
        Ok(child) => child.id().cast_signed(),
        Err(error) => {
            protocol::send(&socket, Report::Failed { cause: error.to_string() });
            return Ok(());
        }
    };
    // The command's stdin must have no other reader than the command.
    drop(command);
    protocol::send(&socket, Report::Started { pid });

    let alarm = Arc::new(Alarm::new()?);
    hear_fairlock(socket.try_clone()?, events.clone());
    ring(Arc::clone(&alarm), events);
    let mut shim = Shim {
        socket,
        pid: Pid::from_raw(pid),
        kill_after,
        term_at,
        kill_at,
        ending: None,
        status: None,
        complained: false,
    };
    loop {
        alarm.set(shim.next_look())?;
        // The alarm's thread holds a sender for ever, so there is always one.
        let Ok(event) = inbox.recv() else {
            return Ok(());
        };
        if let Some(last_word) = shim.handle(event) {
            // fairlock does not let it live any longer than that.
            stderr::flush(stderr::LAST_WORDS);
            protocol::send(&shim.socket, last_word);
            return Ok(());
        }
    }
}

enum Event {
    Order(Order),
    FairlockGone,
    /// A child ended or stopped: the command, or a descendant that was adopted.
    Child,
    Alarm,
}

struct Shim {
    socket: UnixStream,
    pid: Pid,
    kill_after: Duration,
    term_at: Moment,
    kill_at: Moment,
    ending: Option<Ending>,
    /// How the command itself ended, while its descendants are still there.
    status: Option<WaitStatus>,
    complained: bool,
}

/// The command is being ended: TERM has been sent.
struct Ending {
    kill_at: Moment,
    killed: bool,
}

impl Shim {
    fn next_look(&self) -> Moment {
        match &self.ending {
            None => self.term_at,
            Some(ending) if ending.killed => Moment::now().after(SWEEP),
            // Each of the others that ends is told by a signal.
            Some(ending) => ending.kill_at.min(Moment::now().after(LOOK)),
        }
    }

    /// Returns the shim's last word, once there is nothing left to guard.
    fn handle(&mut self, event: Event) -> Option<Report> {
        match event {
            Event::Order(Order::Lease { term_at, kill_at }) => (self.term_at, self.kill_at) = (term_at, kill_at),
            Event::Order(Order::End { kill_at }) => {
                self.kill_at = self.kill_at.min(kill_at);
                self.end();
            }
            Event::Order(Order::Signal { number, whole_group }) => self.pass_on(number, whole_group),
            Event::Order(Order::Continue) => self.signal_all(Signal::SIGCONT),
            Event::FairlockGone => {
                if self.end() {
                    say("fairlock was killed; ending its command");
                }
            }
            Event::Child => self.collect(),
            Event::Alarm => {}
        }
        self.act(Moment::now())
    }

    fn act(&mut self, now: Moment) -> Option<Report> {
        if self.ending.is_none() && self.status.is_none() && now >= self.term_at {
            self.end();
        }
        let Some(ending) = &mut self.ending else {
            // The command exited by itself. What it left behind is its own affair.
            return self.status.map(|status| last_word(status, false));
        };
        let due = now >= ending.kill_at;
        if due && !ending.killed {
            ending.killed = true;
            self.signal_all(Signal::SIGKILL);
        }
        // Those that were children of the killed are our children now, and next.
        let left = descendants::signal_children(due.then_some(Signal::SIGKILL), &[]);
        if let (true, Some(pid)) = (due, left.foreign) {
            self.complain(pid);
        }
        let status = self.status?;
        let waited_enough = due && now >= self.ending.as_ref()?.kill_at.after(VANISH);
        let gone = group_is_empty(self.pid) && !left.alive;
        (waited_enough || gone).then(|| last_word(status, true))
    }

    /// Begins to end the command with its descendants. False if there is nothing to begin.
    fn end(&mut self) -> bool {
        // A command that has just exited by itself was not ended by us.
        if self.ending.is_some() || self.status.is_some() || exited(self.pid) {
            return false;
        }
        self.ending = Some(Ending { kill_at: self.kill_at.min(Moment::now().after(self.kill_after)), killed: false });
        self.signal_all(Signal::SIGTERM);
        self.signal_all(Signal::SIGCONT);
        for pid in descendants::outside(self.pid) {
            let _ = kill(pid, Signal::SIGTERM);
            let _ = kill(pid, Signal::SIGCONT);
        }
        true
    }

    fn pass_on(&mut self, number: i32, whole_group: bool) {
        let Ok(signal) = Signal::try_from(number) else {
            return;
        };
        if whole_group {
            self.signal_all(signal);
        } else if self.status.is_none() {
            let _ = kill(self.pid, signal);
        }
    }

    /// Signals the command's process group. As long as the command has not been reaped, its number cannot be another's.
    fn signal_all(&mut self, signal: Signal) {
        let sent = killpg(self.pid, signal);
        let moved = self.status.is_none() && nix::unistd::getpgid(Some(self.pid)).is_ok_and(|group| group != self.pid);
        let sent = if moved { kill(self.pid, signal) } else { sent };
        if sent == Err(nix::Error::EPERM) {
            self.complain(self.pid);
        }
    }

    fn complain(&mut self, pid: Pid) {
        if !std::mem::replace(&mut self.complained, true) {
            let who = if pid == self.pid { "the command".to_owned() } else { format!("process {pid} of the command") };
            say(format_args!("may not signal {who}, which has changed its user: it cannot be ended"));
        }
    }

    /// Collects the children that have ended, and takes note of what happened to the command.
    fn collect(&mut self) {
        while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG | WaitOptions::UNTRACED) {
            if pid.as_raw_nonzero().get() != self.pid.as_raw() {
                continue;
            }
            let Some(signal) = status.stopping_signal() else {
                self.status = Some(status);
                continue;
            };
            protocol::send(&self.socket, Report::Stopped { signal });
            // A stopped command cannot act on the TERM that it was sent.
            if self.ending.is_some() {
                self.signal_all(Signal::SIGCONT);
            }
        }
    }
}

fn last_word(status: WaitStatus, forced: bool) -> Report {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => Report::Exited { code, forced },
        (None, Some(signal)) => Report::Killed { signal, forced },
        (None, None) => Report::Failed { cause: "the command's exit status is not known".to_owned() },
    }
}

fn group_is_empty(group: Pid) -> bool {
    killpg(group, None) == Err(nix::Error::ESRCH)
}

/// The kernel continues this process when fairlock dies, if somebody has stopped it: else nobody would end the command.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn outlive_fairlock() -> std::io::Result<()> {
    rustix::thread::set_name(c"lease-shim")?;
    Ok(rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::CONT))?)
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn outlive_fairlock() -> std::io::Result<()> {
    Ok(())
}

/// Has the command exited, reaped or not?
fn exited(pid: Pid) -> bool {
    let Some(pid) = rustix::process::Pid::from_raw(pid.as_raw()) else {
        return true;
    };
    let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    !matches!(waitid(WaitId::Pid(pid), look), Ok(None))
}

fn hear_fairlock(socket: UnixStream, events: Sender<Event>) {
    thread::spawn(move || {
        // A line that cannot be understood counts as silence: then the deadline ends the command.
        for order in BufReader::new(socket).lines().map_while(Result::ok).filter_map(|line| line.parse().ok()) {
            let _ = events.send(Event::Order(order));
        }
        let _ = events.send(Event::FairlockGone);
    });
}

fn ring(alarm: Arc<Alarm>, events: Sender<Event>) {
    thread::spawn(move || while alarm.wait().is_ok() && events.send(Event::Alarm).is_ok() {});
}
