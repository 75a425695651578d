//! The shim: the process between fairlock and the command, which ends the command in time when fairlock cannot.
//!
//! The shim knows the lease's deadline and is told of every renewal. It sends TERM and later KILL to the command and
//! all its descendants in three cases: fairlock orders it; fairlock is gone (its end of the socket is closed, however
//! it died); the deadline comes without an order (fairlock is stopped or frozen, or Redis cannot be reached).
//!
//! The shim has its own process group and blocks all signals, so that neither the terminal nor a well-meant `kill` ends
//! it before its command. Its name is not fairlock, so that `killall -9 fairlock` does not end it either. If the shim
//! is killed nevertheless, the kernel kills the command with it (`stage.rs`), and fairlock kills the descendants
//! (`process/descendants.rs`). If the shim is stopped, fairlock kills it at the deadline. If fairlock dies while the
//! shim is stopped, the kernel continues the shim.
//!
//! Once the command has ended after the death of fairlock, the shim gives the lock back (`give_back.rs`).
//!
//! The shim acts first and writes messages afterwards. It never waits for a reader of its messages or reports.

pub(crate) mod give_back;
pub(crate) mod job;
pub(crate) mod protocol;
pub(crate) mod queue;
pub(crate) mod stage;

use std::ffi::OsString;
use std::io::{BufRead as _, BufReader};
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::process::{ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::Duration;

use fairlock::operator::Time;
use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;
use rustix::process::{WaitId, WaitIdOptions, WaitOptions, WaitStatus, wait, waitid};

use crate::exit::{OWN_FAILURE, say};
use crate::process::alarm::Alarm;
use crate::process::{descendants, signals, this_binary};
use crate::stderr;
use protocol::{Order, Report};

/// The interval of looks at the command's descendants once they are killed.
const SWEEP: Duration = Duration::from_millis(20);
/// The interval between TERM and KILL.
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
    // If the caller ignores SIGCHLD, the kernel would discard the command's exit status.
    signal_hook::flag::register(Signal::SIGCHLD as i32, Arc::new(AtomicBool::new(false)))?;
    outlive_fairlock()?;
    descendants::adopt()?;
    let mut number =
        || arguments.next().and_then(|word| word.to_str()?.parse().ok()).ok_or(std::io::ErrorKind::InvalidInput);
    let (kill_after, term_at, kill_at) = (Duration::from_nanos(number()?), Time(number()?), Time(number()?));
    let socket = UnixStream::from(std::io::stdin().as_fd().try_clone_to_owned()?);
    let stdin = protocol::receive_descriptor(&socket)?;

    if Time::now() >= term_at {
        // fairlock was stopped after the grant. The lease is over and the command was not started.
        protocol::send(&socket, Report::TooLate);
        return Ok(());
    }
    let (events, inbox) = mpsc::channel();
    let on_child = events.clone();
    signals::listen_to_children(move || drop(on_child.send(Event::Child)))?;
    let mut command = this_binary();
    command.arg(stage::COMMAND_WORD).arg(std::process::id().to_string()).args(arguments);
    // The main thread spawns it and lives as long as the shim: the kernel ties the command's life to this thread.
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
        leases: None,
        fairlock_is_gone: false,
        all_gone: true,
    };
    loop {
        alarm.set(shim.next_look())?;
        // The alarm's thread holds a sender for ever, so there is always one.
        let Ok(event) = inbox.recv() else {
            return Ok(());
        };
        if let Some(last_word) = shim.handle(event) {
            // fairlock kills the shim after its last message.
            stderr::flush(stderr::LAST_WORDS);
            protocol::send(&shim.socket, last_word);
            shim.await_end_of_fairlock(&inbox);
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
    term_at: Time,
    kill_at: Time,
    ending: Option<Ending>,
    /// How the command itself ended, while some of its descendants are still alive.
    status: Option<WaitStatus>,
    complained: bool,
    /// What to give back if fairlock dies.
    leases: Option<String>,
    fairlock_is_gone: bool,
    /// Nothing is left of the command that the lease protects.
    all_gone: bool,
}

/// The command is being ended: TERM has been sent.
struct Ending {
    kill_at: Time,
    killed: bool,
}

impl Shim {
    fn next_look(&self) -> Time {
        match &self.ending {
            None => self.term_at,
            Some(ending) if ending.killed => Time::now() + SWEEP,
            // The end of a child is also reported by SIGCHLD.
            Some(ending) => ending.kill_at.min(Time::now() + LOOK),
        }
    }

    /// Returns the shim's last message once there is nothing left to guard.
    fn handle(&mut self, event: Event) -> Option<Report> {
        match event {
            Event::Order(Order::Lease { term_at, kill_at }) => {
                (self.term_at, self.kill_at) = (term_at, kill_at);
                // An order in the socket's buffer is no order that a stopped shim knows.
                protocol::send(&self.socket, Report::Lease { term_at, kill_at });
            }
            Event::Order(Order::End { kill_at }) => {
                self.kill_at = self.kill_at.min(kill_at);
                self.end();
            }
            Event::Order(Order::Signal { number, whole_group }) => self.pass_on(number, whole_group),
            Event::Order(Order::Continue) => self.signal_all(Signal::SIGCONT),
            Event::Order(Order::Keep { leases }) => self.leases = Some(leases),
            Event::FairlockGone => {
                self.fairlock_is_gone = true;
                if self.end() {
                    say("fairlock was killed; ending its command");
                }
            }
            Event::Child => self.collect(),
            Event::Alarm => {}
        }
        self.act(Time::now())
    }

    fn act(&mut self, now: Time) -> Option<Report> {
        if self.ending.is_none() && self.status.is_none() && now >= self.term_at {
            self.end();
        }
        let Some(ending) = &mut self.ending else {
            // The command exited by itself. The processes that it left behind may go on.
            return self.status.map(|status| last_word(status, false));
        };
        let due = now >= ending.kill_at;
        if due && !ending.killed {
            ending.killed = true;
            self.signal_all(Signal::SIGKILL);
        }
        // The children of killed processes are children of the shim now, and next to be killed.
        let left = descendants::signal_children(due.then_some(Signal::SIGKILL), &[]);
        if let (true, Some(pid)) = (due, left.foreign) {
            self.complain(pid);
        }
        let status = self.status?;
        let waited_enough = due && now >= self.ending.as_ref()?.kill_at + VANISH;
        let gone = group_is_empty(self.pid) && !left.alive;
        self.all_gone = gone;
        (waited_enough || gone).then(|| last_word(status, true))
    }

    /// fairlock kills the shim once it has heard the last message. If fairlock dies instead, the shim gives the leases
    /// back, unless a process of the command lives on.
    fn await_end_of_fairlock(mut self, inbox: &Receiver<Event>) {
        while !self.fairlock_is_gone {
            match inbox.recv() {
                Ok(Event::FairlockGone) => self.fairlock_is_gone = true,
                Ok(Event::Order(Order::Keep { leases })) => self.leases = Some(leases),
                Ok(_) => {}
                Err(_) => return,
            }
        }
        if let (Some(leases), true) = (self.leases, self.all_gone) {
            give_back::give_back(&leases, self.kill_at);
        }
    }

    /// Sends TERM to the command and its descendants. False if that was done before, or if the command has exited.
    fn end(&mut self) -> bool {
        // If the command has just exited by itself, the shim did not end it.
        if self.ending.is_some() || self.status.is_some() || exited(self.pid) {
            return false;
        }
        self.ending = Some(Ending { kill_at: self.kill_at.min(Time::now() + self.kill_after), killed: false });
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

    /// Signals the command's process group. Until the command is collected its number cannot be reused.
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
            say(format_args!("no permission to signal {who}, which now runs as another user: it cannot be ended"));
        }
    }

    /// Collects the children that have exited, and notes what happened to the command.
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
            // A stopped command cannot act on TERM.
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

/// If this process is stopped when fairlock dies, the kernel continues it: otherwise nothing would end the command.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn outlive_fairlock() -> std::io::Result<()> {
    rustix::thread::set_name(c"lease-shim")?;
    Ok(rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::CONT))?)
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn outlive_fairlock() -> std::io::Result<()> {
    Ok(())
}

/// Whether the command has exited, collected or not.
fn exited(pid: Pid) -> bool {
    let Some(pid) = rustix::process::Pid::from_raw(pid.as_raw()) else {
        return true;
    };
    let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    !matches!(waitid(WaitId::Pid(pid), look), Ok(None))
}

fn hear_fairlock(socket: UnixStream, events: Sender<Event>) {
    thread::spawn(move || {
        // A line that cannot be parsed is ignored: without an order the deadline ends the command.
        for order in BufReader::new(socket).lines().map_while(Result::ok).filter_map(|line| line.parse().ok()) {
            let _ = events.send(Event::Order(order));
        }
        let _ = events.send(Event::FairlockGone);
    });
}

fn ring(alarm: Arc<Alarm>, events: Sender<Event>) {
    thread::spawn(move || while alarm.wait().is_ok() && events.send(Event::Alarm).is_ok() {});
}
