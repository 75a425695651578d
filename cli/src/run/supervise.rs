//! Supervises the running command: signals, job control, and the lease.

use std::time::Duration;

use fairlock::error::Lost;
use fairlock::operator::Time;
use nix::sys::signal::Signal;

use super::held_locks::HeldLocks;
use super::inbox::{Inbox, RunEvent};
use super::reporter::Reporter;
use super::timing::Timing;
use crate::duration::seconds;
use crate::exit::{self, Failure, say};
use crate::process::terminal::Terminal;
use crate::process::{descendants, signals};
use crate::shim::job::{Job, Orphans};
use crate::shim::protocol::{Order, Report};

/// A command that uses the terminal from the background is stopped, and fairlock stops with it. If that happens more
/// often than this without a SIGCONT in between, fairlock does not stop: its job is orphaned.
const MOST_TOUCHES: u32 = 3;

/// How the command ended.
#[derive(Clone, Copy)]
pub(crate) struct CommandEnd {
    pub(crate) code: u8,
    /// The command, or what it left behind, was ended because the lease was lost.
    pub(crate) lost: bool,
    /// The signal of Ctrl-C or Ctrl-\\ that the command died of, if only the command received it.
    pub(crate) interrupted: Option<Signal>,
}

impl From<u8> for CommandEnd {
    fn from(code: u8) -> Self {
        Self { code, lost: false, interrupted: None }
    }
}

/// The state while the command runs.
pub(crate) struct Supervisor<'a> {
    job: Job,
    terminal: Option<Terminal>,
    /// The command wants the terminal whenever fairlock's job is in the foreground.
    wants_terminal: bool,
    /// fairlock received SIGTSTP, so it stops once the command has stopped.
    told_to_stop: bool,
    stopped: bool,
    /// How the command itself ended. Processes that it has started may still need the lease.
    ended: Option<CommandEnd>,
    /// Such processes were named to the user. Whether any of them is in the command's group.
    rest_in_group: Option<bool>,
    /// The command had the terminal when it ended.
    had_terminal: bool,
    granted: &'a HeldLocks,
    timing: Timing,
    /// What the shim was sent: when to send TERM, and when KILL.
    told: (Time, Time),
    /// By when the shim sends KILL, as it has confirmed. It is told of renewals in vain while it is stopped.
    knows: Time,
    /// The shim missed its deadline, and was killed.
    stuck: bool,
    lost: bool,
    told_lost: bool,
    reporter: &'a mut Reporter,
    /// The last signal that fairlock received and passed on to the whole command.
    passed_on: Option<Signal>,
    /// How often the command used the terminal from the background since fairlock was last continued.
    touches: u32,
}

impl<'a> Supervisor<'a> {
    pub(crate) fn new(
        job: Job,
        mut terminal: Option<Terminal>,
        in_front: bool,
        granted: &'a HeldLocks,
        timing: Timing,
        told: (Time, Time),
        reporter: &'a mut Reporter,
    ) -> Self {
        if let Some(terminal) = &mut terminal {
            terminal.handed_over = in_front;
        }
        Self {
            job,
            terminal,
            wants_terminal: in_front,
            told_to_stop: false,
            stopped: false,
            ended: None,
            rest_in_group: None,
            had_terminal: false,
            granted,
            timing,
            told,
            knows: told.1,
            stuck: false,
            lost: false,
            told_lost: false,
            reporter,
            passed_on: None,
            touches: 0,
        }
    }

    /// Returns once the command is dead, and what it has started does not need the lease.
    pub(crate) async fn supervise(mut self, inbox: &mut Inbox) -> Result<CommandEnd, Failure> {
        let granted = self.granted;
        let result = loop {
            // Before the shim is told of the lease as it is: a renewal in between is not missed.
            let renewed = granted.renewed();
            let mut next_look = self.tell_shim();
            if !self.lost {
                next_look = next_look.min(self.reporter.warn_if_due(granted, self.timing).await);
            }
            tokio::select! {
                biased;
                event = inbox.recv() => match event {
                    Some(RunEvent::Signal(signal)) => self.on_signal(signal),
                    Some(RunEvent::Shim(report)) => if let Some(result) = self.on_report(report) { break result },
                    Some(RunEvent::Closed | RunEvent::Data) => {}
                    Some(RunEvent::ShimGone) | None => break self.on_shim_gone().await,
                },
                lost = granted.guards.lost(), if !self.lost => self.on_lost(&lost),
                Some((name, token, left)) = renewed, if !self.lost => self.reporter.renewed(&name, token, left),
                () = tokio::time::sleep(next_look) => {}
            }
        };
        self.job.shim_is_done();
        self.take_terminal_back();
        // The number of the command's group is not needed any more. What the dead shim has not collected would be left to
        // the first process of a container, which may collect nobody.
        descendants::collect();
        if let (true, Some(terminal)) = (self.had_terminal, &self.terminal)
            // A command that ended by itself left the modes as it wanted them to be.
            && !matches!(result, Ok(CommandEnd { code: ..exit::BUSY, .. }))
        {
            terminal.restore_modes();
        }
        // If the command did not have the terminal, no key ended it.
        result.map(|ended| CommandEnd { interrupted: ended.interrupted.filter(|_| self.had_terminal), ..ended })
    }

    fn take_terminal_back(&mut self) {
        let group = self.job.group();
        self.had_terminal |= self.terminal.as_mut().is_some_and(|terminal| terminal.take_back(group));
    }

    /// Keeps the shim's deadlines in step with the lease, and kills the shim if it has missed one. Returns after how
    /// long it is to be called again, unless something happens before.
    fn tell_shim(&mut self) -> Duration {
        let (term_at, kill_at) = self.timing.of(&self.granted.guards);
        let mut knows = true;
        if self.lost {
            // A loss is final. It may bring the end forward, but never put it off.
            let kill_at = kill_at.min(self.told.1);
            self.told_lost = self.told_lost || self.job.order(Order::End { kill_at });
            knows = self.told_lost;
            self.told.1 = kill_at;
            self.knows = self.knows.min(kill_at);
        } else if term_at > self.told.0 + Duration::from_millis(1) {
            knows = self.job.order(Order::Lease { term_at, kill_at });
            if knows {
                self.told = (term_at, kill_at);
            }
        }
        let missed = self.knows + self.timing.margin / 2;
        let left = missed.since(Time::now());
        if left.is_zero() {
            // The shim is stopped; or fairlock was stopped, and its report is still to be read.
            self.stuck = true;
            self.lost |= Time::now() >= self.timing.of(&self.granted.guards).0;
            self.job.kill_shim();
        }
        if knows && !left.is_zero() { left } else { self.timing.retry }
    }

    fn on_lost(&mut self, lost: &Lost) {
        self.lost = true;
        self.tell_shim();
        // Without a group the command is not started yet, and the shim may report that it is too late.
        if self.job.group().is_some() {
            let and = if self.ended.is_some() { "ending what the command left behind" } else { "ending the command" };
            self.reporter.lost(Some(lost), and);
        }
    }

    /// The exit code of a lost lease, always with its message.
    fn ended_with_lease(&mut self, and: &str) -> CommandEnd {
        self.lost = true;
        self.reporter.lost(self.granted.guards.check().err().as_ref(), and);
        CommandEnd { lost: true, ..exit::LOST.into() }
    }

    fn on_signal(&mut self, signal: Signal) {
        match signal {
            Signal::SIGCONT => {
                self.told_to_stop = false;
                self.touches = 0;
                self.resume();
            }
            Signal::SIGTSTP => {
                self.told_to_stop = true;
                self.pass_on(signal, true);
                // There is no group that would be reported to have stopped.
                if self.rest_in_group == Some(false) {
                    self.on_stop(signal);
                }
            }
            _ if signals::asks_to_end(signal) => self.pass_on(signal, true),
            _ => self.pass_on(signal, false),
        }
    }

    fn pass_on(&mut self, signal: Signal, whole_group: bool) {
        if whole_group && self.ended.is_none() {
            self.passed_on = Some(signal);
        }
        self.job.order(Order::Signal { number: signal as i32, whole_group });
    }

    fn on_report(&mut self, report: Report) -> Option<Result<CommandEnd, Failure>> {
        match report {
            // It is the first report, which was read before.
            Report::Ready => {}
            Report::Started { pid } => self.job.started(pid),
            Report::Lease { kill_at, .. } => self.knows = kill_at.min(self.told.1),
            Report::Stopped { signal } => self.on_stop(Signal::try_from(signal).unwrap_or(Signal::SIGSTOP)),
            // The shim saw the deadline first, or fairlock was stopped when the lease ran out.
            Report::Exited { forced: true, .. } | Report::Killed { forced: true, .. } => {
                self.ended = Some(self.ended_with_lease("the command was ended"));
            }
            Report::Exited { code, .. } => self.ended = Some(u8::try_from(code).unwrap_or(exit::OWN_FAILURE).into()),
            Report::Killed { signal, .. } => {
                self.ended = Some(CommandEnd {
                    code: exit::by_signal(signal),
                    lost: false,
                    interrupted: Signal::try_from(signal)
                        .ok()
                        .filter(|signal| signals::is_typed(*signal))
                        // The sender of a signal to fairlock has chosen its receiver.
                        .filter(|signal| self.passed_on != Some(*signal)),
                });
            }
            Report::Rest { in_group, processes } => {
                if self.rest_in_group.replace(in_group).is_none() {
                    self.reporter.kept_for(&processes);
                }
                // Nobody is left in front to hear the keys, so fairlock passes them on.
                if !in_group {
                    self.take_terminal_back();
                    self.wants_terminal = false;
                }
            }
            Report::Failed { cause } => return Some(Err(Failure::because("cannot run the command", cause))),
            Report::TooLate => return Some(Ok(self.ended_with_lease("the command was not started"))),
            Report::Done => return self.ended.map(|ended| Ok(self.with_loss(ended))),
        }
        None
    }

    /// The command had ended before the lease was lost.
    fn with_loss(&self, ended: CommandEnd) -> CommandEnd {
        CommandEnd { lost: ended.lost || (self.rest_in_group.is_some() && self.lost), ..ended }
    }

    /// The shim was killed. The kernel killed the command with it if it could.
    async fn on_shim_gone(&mut self) -> Result<CommandEnd, Failure> {
        // When the shim is collected, the kernel has signalled the command, even if the shim has not reported it yet.
        self.job.shim_is_done();
        for round in 0.. {
            match self.job.end_orphans() {
                Orphans::Gone => break,
                // Perhaps they are dead and not yet collected by their new parent; or the kernel cannot kill them.
                Orphans::Others if round >= 100 => break,
                Orphans::Command if round == 100 => say("the command cannot be ended; waiting until it exits"),
                _ => {}
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        if let Some(ended) = self.ended {
            say("the command's shim was killed, and what the command left behind with it");
            Ok(self.with_loss(ended))
        } else if self.lost {
            Ok(self.ended_with_lease("the command was killed"))
        } else if self.stuck {
            Err(Failure::own(
                "the command's shim was stopped, so it was killed, and the command with it if it still ran",
            ))
        } else {
            Err(Failure::own("the command's shim was killed, and the command with it"))
        }
    }

    /// The command was stopped: by Ctrl-Z, by using the terminal from the background, or by a signal.
    fn on_stop(&mut self, signal: Signal) {
        let touched = matches!(signal, Signal::SIGTTIN | Signal::SIGTTOU);
        self.stopped = true;
        self.wants_terminal |= touched;
        if touched && self.terminal.as_ref().is_some_and(Terminal::is_ours) {
            // The command only needs the terminal, which no other process of this job has.
            self.resume();
            return;
        }
        let group = self.job.group();
        let had = self.terminal.as_mut().is_some_and(|terminal| terminal.take_back(group));
        let job_control = had || self.told_to_stop || (self.terminal.is_some() && signal != Signal::SIGSTOP);
        // Without job control the command was paused on purpose, and no shell would continue fairlock: it keeps the
        // lease.
        if !job_control || self.lost {
            return;
        }
        self.touches += u32::from(touched);
        if self.touches > 1 && touched {
            // Continued and stopped again: perhaps no shell is left that could give it the terminal.
            if self.touches > MOST_TOUCHES {
                self.hang_up();
                return;
            }
        } else if signals::is_orphaned() {
            // The kernel does not stop it either.
            if !touched {
                say("not stopped: no shell could continue this job");
            }
        } else {
            let left = seconds(self.granted.guards.remaining());
            say(format_args!(
                "stopped; the lease on {} ends in {left}, and the command with it",
                self.reporter.names()
            ));
        }
        // The rest of the job stops as well, unless the signal was for fairlock alone.
        signals::stop_here(had || touched);
        self.told_to_stop = false;
        self.resume();
    }

    /// The command waits for a terminal that no shell can give it any more: fairlock's job is orphaned, so it does not
    /// stop. The kernel sends HUP to a stopped job that becomes orphaned, and so does fairlock.
    fn hang_up(&mut self) {
        if self.touches == MOST_TOUCHES + 1 {
            say("the command needs the terminal, and no shell is left to give it: sending it HUP");
            self.pass_on(Signal::SIGHUP, true);
            self.resume();
        }
    }

    /// Continues the command if it was stopped. Gives it the terminal if it wants it and fairlock's group has it.
    fn resume(&mut self) {
        if let (true, Some(terminal), Some(group)) = (self.wants_terminal, &mut self.terminal, self.job.group()) {
            terminal.hand_over(group);
        }
        if std::mem::take(&mut self.stopped) {
            self.job.order(Order::Continue);
        }
    }
}
