//! What the shim does, event by event, once the command has started.

use std::os::unix::net::UnixStream;
use std::sync::mpsc::Receiver;
use std::time::Duration;

use fairlock::operator::Time;
use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;
use rustix::process::{WaitId, WaitIdOptions, WaitIdStatus, waitid};

use super::give_back;
use super::protocol::{self, Order, Report};
use super::rest::Rest;
use crate::exit::say;
use crate::process::table::{self, Process};
use crate::process::terminal::Terminal;
use crate::process::{descendants, signals};

/// The interval of looks at the command's descendants once they are killed.
const SWEEP: Duration = Duration::from_millis(20);
/// The interval between TERM and KILL. Also how long fairlock may take to hear of a signal that has ended the command
/// already, and how long what is left of a command may take to end before the user is told.
const LOOK: Duration = Duration::from_millis(250);
/// The interval of looks for daemons while the command runs, and at what is left of it. Every end that matters is also
/// reported by SIGCHLD.
const CALM: Duration = Duration::from_secs(1);
/// How long killed processes may take to vanish before the shim stops looking.
const VANISH: Duration = Duration::from_secs(1);
/// How many of the processes that are left are named.
const MOST_NAMED: usize = 5;

pub(super) enum ShimEvent {
    Order(Order),
    FairlockGone,
    /// A child ended or stopped: the command, or a descendant that was adopted.
    Child,
    Alarm,
}

pub(super) struct Shim {
    socket: UnixStream,
    pid: Pid,
    rest: Rest,
    kill_after: Duration,
    term_at: Time,
    kill_at: Time,
    /// The lease is over, or fairlock is gone: everything ends that needs the lease.
    is_over: bool,
    ending: Option<Ending>,
    /// How the command itself ended.
    end: Option<End>,
    /// A signal that asks a command to end was passed on.
    asked: bool,
    /// The next look for daemons.
    next_look: Time,
    complained: bool,
    /// Whether fairlock was told that the group has processes left.
    told: Option<bool>,
    /// What to give back if fairlock dies.
    leases: String,
    terminal: Option<Terminal>,
    fairlock_is_gone: bool,
    /// Nothing is left of the command that the lease protects.
    all_gone: bool,
}

/// What needs the lease is being ended: TERM has been sent.
struct Ending {
    kill_at: Time,
    killed: bool,
    /// The command itself is ended, and not only what was left of it.
    forced: bool,
}

struct End {
    at: Time,
    by_signal: bool,
}

impl Shim {
    pub(super) fn new(
        socket: UnixStream,
        pid: Pid,
        kill_after: Duration,
        (term_at, kill_at): (Time, Time),
        leases: String,
        terminal: Option<Terminal>,
    ) -> Self {
        Self {
            socket,
            pid,
            rest: Rest::of(pid),
            kill_after,
            term_at,
            kill_at,
            is_over: false,
            ending: None,
            end: None,
            asked: false,
            next_look: Time::now() + CALM,
            complained: false,
            told: None,
            leases,
            terminal,
            fairlock_is_gone: false,
            all_gone: true,
        }
    }

    pub(super) fn next_look(&self) -> Time {
        match (&self.ending, &self.end) {
            (Some(ending), _) if ending.killed => Time::now() + SWEEP,
            // The end of a child is also reported by SIGCHLD.
            (Some(ending), _) => ending.kill_at.min(Time::now() + LOOK),
            (None, None) => self.term_at.min(self.next_look),
            (None, Some(end)) if Time::now() < end.at + LOOK => self.term_at.min(end.at + LOOK),
            (None, Some(_)) => self.term_at.min(Time::now() + CALM),
        }
    }

    /// Returns true once nothing is left that needs the lease.
    pub(super) fn handle(&mut self, event: ShimEvent) -> bool {
        match event {
            ShimEvent::Order(Order::Lease { term_at, kill_at }) => {
                (self.term_at, self.kill_at) = (term_at, kill_at);
                // An order in the socket's buffer is no order that a stopped shim knows.
                protocol::send(&self.socket, Report::Lease { term_at, kill_at });
            }
            ShimEvent::Order(Order::End { kill_at }) => {
                self.kill_at = self.kill_at.min(kill_at);
                self.is_over = true;
            }
            ShimEvent::Order(Order::Signal { number, whole_group }) => self.pass_on(number, whole_group),
            ShimEvent::Order(Order::Continue) => self.signal_group(Signal::SIGCONT),
            ShimEvent::Order(Order::Keep { .. }) => {}
            ShimEvent::FairlockGone => (self.fairlock_is_gone, self.is_over) = (true, true),
            ShimEvent::Child => self.collect(),
            ShimEvent::Alarm => {}
        }
        self.act(Time::now())
    }

    fn act(&mut self, now: Time) -> bool {
        self.is_over |= now >= self.term_at;
        if self.end.is_none() && now >= self.next_look {
            self.rest.look();
            self.next_look = now + CALM;
        }
        if self.ending.is_none() && self.is_done(now) {
            return true;
        }
        if self.is_over {
            self.end();
        }
        self.ending.is_some() && self.have_ended(now)
    }

    /// Whether the command has ended, and with it all that needs the lease.
    fn is_done(&mut self, now: Time) -> bool {
        let Some(end) = &self.end else { return false };
        let left = self.rest.left(false);
        if left.is_empty() {
            return true;
        }
        let is_time = now >= end.at + LOOK;
        if !self.asked && !end.by_signal {
            // The command exited by itself, and what it left behind may go on. But perhaps it was sent a signal, as
            // fairlock was, which has not passed it on yet.
            return is_time || self.is_over;
        }
        let in_group = left.iter().any(|process| process.group == self.pid.as_raw());
        if is_time && self.told != Some(in_group) {
            self.told = Some(in_group);
            protocol::send(&self.socket, Report::Rest { in_group, processes: named(&left) });
        }
        false
    }

    /// Sends TERM to the command and its descendants, or to what is left of a command that has ended.
    fn end(&mut self) {
        // If the command has just exited by itself, the shim did not end it.
        let forced = self.end.is_none();
        if self.ending.is_some() || (forced && exited(self.pid)) {
            return;
        }
        let kill_at = self.kill_at.min(Time::now() + self.kill_after);
        self.ending = Some(Ending { kill_at, killed: false, forced });
        self.signal_group(Signal::SIGTERM);
        self.signal_group(Signal::SIGCONT);
        for process in self.rest.left(forced).iter().filter(|process| process.group != self.pid.as_raw()) {
            let _ = process.signal(Signal::SIGTERM);
            let _ = process.signal(Signal::SIGCONT);
        }
        if self.fairlock_is_gone {
            let what = if forced { "its command" } else { "what its command left behind" };
            say(format_args!("fairlock was killed; ending {what}"));
        }
    }

    /// Kills what has not ended in time. True once it is gone, or does not vanish.
    fn have_ended(&mut self, now: Time) -> bool {
        let Some(ending) = &mut self.ending else { return false };
        let (due, forced, kill_at) = (now >= ending.kill_at, ending.forced, ending.kill_at);
        if due && !std::mem::replace(&mut ending.killed, true) {
            self.signal_group(Signal::SIGKILL);
        }
        // The children of killed processes are children of the shim now, and next to be killed.
        let spared = if forced { Vec::new() } else { self.rest.daemons() };
        if due && let Some(pid) = descendants::signal_children(Some(Signal::SIGKILL), &spared).foreign {
            self.complain(pid);
        }
        if self.end.is_none() {
            return false;
        }
        self.all_gone = self.rest.left(forced).is_empty();
        self.all_gone || (due && now >= kill_at + VANISH)
    }

    /// Passes on a signal that fairlock has heard.
    fn pass_on(&mut self, number: i32, whole_group: bool) {
        let Ok(signal) = Signal::try_from(number) else {
            return;
        };
        if !signals::asks_to_end(signal) {
            if whole_group {
                self.signal_group(signal);
            } else if self.end.is_none() {
                let _ = kill(self.pid, signal);
            }
            return;
        }
        self.asked = true;
        // Before the signal is sent: what a process starts to clean up after it must not hear it.
        let outside = self.rest.addressees(self.end.is_none() && !exited(self.pid));
        // What is stopped cannot act on it.
        for signal in [signal, Signal::SIGCONT] {
            self.signal_group(signal);
            for process in &outside {
                if process.signal(signal) == Err(nix::Error::EPERM) {
                    self.complain(Pid::from_raw(process.pid));
                }
            }
        }
    }

    /// Signals the command's process group. The number of a command that has ended is not reused before it is collected.
    fn signal_group(&mut self, signal: Signal) {
        let sent = killpg(self.pid, signal);
        let moved = self.end.is_none() && nix::unistd::getpgid(Some(self.pid)).is_ok_and(|group| group != self.pid);
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

    /// Notes what happened to the command, and collects the other children that have exited.
    fn collect(&mut self) {
        let Some(pid) = rustix::process::Pid::from_raw(self.pid.as_raw()) else {
            return;
        };
        // Once the command has ended, what is left of its group is the job that a terminal stops.
        let lives = self.end.is_none();
        let job = || if lives { WaitId::Pid(pid) } else { WaitId::Pgid(Some(pid)) };
        while let Ok(Some(status)) = waitid(job(), WaitIdOptions::STOPPED | WaitIdOptions::NOHANG) {
            let signal = status.stopping_signal().unwrap_or(Signal::SIGSTOP as i32);
            protocol::send(&self.socket, Report::Stopped { signal });
            // A stopped command cannot act on TERM.
            if self.ending.is_some() {
                self.signal_group(Signal::SIGCONT);
            }
        }
        if self.end.is_none() {
            // It is not collected: its number, which is that of its group, must not be reused. Without /proc only a
            // group without its dead leader shows that it is empty.
            let keep = if table::is_shown() { WaitIdOptions::NOWAIT } else { WaitIdOptions::empty() };
            if let Ok(Some(status)) = waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOHANG | keep) {
                self.end = Some(End { at: Time::now(), by_signal: status.terminating_signal().is_some() });
                let forced = self.ending.is_some();
                protocol::send(&self.socket, how_it_ended(&status, forced));
            }
        }
        descendants::collect_adopted();
    }

    /// fairlock kills the shim once it has heard the last message. If fairlock dies instead, the shim does what
    /// fairlock would do: it takes the terminal back, and gives the leases back, unless a process of the command lives
    /// on.
    pub(super) fn await_end_of_fairlock(mut self, inbox: &Receiver<ShimEvent>) {
        while !self.fairlock_is_gone {
            match inbox.recv() {
                Ok(ShimEvent::FairlockGone) => self.fairlock_is_gone = true,
                Ok(_) => {}
                Err(_) => return,
            }
        }
        if let Some(terminal) = &mut self.terminal
            && terminal.take_back(rustix::process::Pid::from_raw(self.pid.as_raw()))
        {
            terminal.restore_modes();
        }
        // Nobody needs its number any more, and fairlock would have collected it.
        if let Some(pid) = rustix::process::Pid::from_raw(self.pid.as_raw()) {
            let _ = waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOHANG);
        }
        descendants::collect_adopted();
        if self.all_gone {
            give_back::give_back(&self.leases, self.kill_at);
        }
    }

    pub(super) fn send(&self, report: Report) {
        protocol::send(&self.socket, report);
    }
}

fn how_it_ended(status: &WaitIdStatus, forced: bool) -> Report {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => Report::Exited { code, forced },
        (None, Some(signal)) => Report::Killed { signal, forced },
        (None, None) => Report::Failed { cause: "the command's exit status is not known".to_owned() },
    }
}

/// `4711 (make), 4712 (cc)`
fn named(processes: &[Process]) -> String {
    let names = processes.iter().take(MOST_NAMED).map(|process| format!("{} ({})", process.pid, process.name));
    let names = names.collect::<Vec<_>>().join(", ");
    match processes.len() {
        ..=MOST_NAMED => names,
        all => format!("{names} and {} more", all - MOST_NAMED),
    }
}

/// Whether the command has exited, collected or not.
fn exited(pid: Pid) -> bool {
    let Some(pid) = rustix::process::Pid::from_raw(pid.as_raw()) else {
        return true;
    };
    let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    !matches!(waitid(WaitId::Pid(pid), look), Ok(None))
}
