//! What a run needs before it connects, and how it takes and releases its locks: the same with a command and without.

use std::time::{Duration, Instant};

use fairlock::operator::Time;
use fairlock::{LockOptions, error::ReleaseError};
use nix::sys::signal::Signal;
use tokio::sync::mpsc::unbounded_channel;
use tokio::time::timeout;

use super::acquire;
use super::args::Wait;
use super::held_locks::HeldLocks;
use super::inbox::{Inbox, Outbox, RunEvent, interruption};
use super::nested::Ancestors;
use super::reporter::Reporter;
use super::request::{self, LockRequest};
use super::timing::Timing;
use crate::connect::{self, Server};
use crate::exit::Failure;
use crate::local;
use crate::process::signals::{self, Mask};
use crate::process::terminal::Terminal;
use crate::shim::queue::QueueShim;

/// How long the end of a run waits for a server that is away. The leases end without it, only later.
const ANSWER: Duration = Duration::from_secs(4);
/// How long it waits then for what the client has still to say to servers that answer.
const LAST_ANSWERS: Duration = Duration::from_secs(1);

/// What the main thread owns from the start of this process to its end.
pub(crate) struct Setting<'a> {
    pub(crate) request: LockRequest<'a>,
    pub(crate) timing: Timing,
    /// The signals that were blocked when this process was started.
    pub(crate) mask: Mask,
    pub(crate) outbox: Outbox,
    pub(crate) inbox: Inbox,
    pub(crate) reporter: Reporter,
    pub(crate) terminal: Option<Terminal>,
}

impl<'a> Setting<'a> {
    pub(crate) fn new(
        server: &connect::Args,
        wait: &'a Wait,
        wanted: Vec<(&'a str, u32)>,
        kill_after: Duration,
        label: impl FnOnce() -> String,
    ) -> Result<Self, Failure> {
        let timing = Timing::new(wait.lease, kill_after);
        // A claim is too short to stop a command within it, so the command starts with a whole lease.
        let options =
            LockOptions::new().lease(wait.lease).notice(timing.notice).confirm_grants().replicas(wait.replicas);
        let locks: Vec<_> = wanted.into_iter().map(|(name, slots)| (name, options.clone().slots(slots))).collect();
        for (name, options) in &locks {
            options.check(name).map_err(|error| Failure::own(error.to_string()))?;
        }
        let reporter = Reporter::new(wait, request::names(&locks))?;
        let found = Server::find(server)?;
        // Before any other thread is started, and after the private server, which must not inherit the mask.
        let mask = signals::block().map_err(|error| Failure::because("cannot block signals", error))?;
        let (outbox, inbox) = unbounded_channel();
        let on_signal = outbox.clone();
        signals::listen(move |signal| drop(on_signal.send(RunEvent::Signal(signal))))
            .map_err(|error| Failure::because("cannot listen to signals", error))?;
        if server.local {
            // After the signals are blocked, because its threads must leave them to the listener.
            local::keep_running();
        }
        let request = LockRequest {
            wait,
            client: found.client(),
            server: found,
            locks,
            label: wait.label.clone().unwrap_or_else(label),
            timeout: wait.timeout,
            no_wait: wait.no_wait || wait.timeout.is_some_and(|timeout| timeout.is_zero()),
            tip: server.tip(),
            ancestors: Ancestors::of_this_process(),
        };
        Ok(Self { request, timing, mask, outbox, inbox, reporter, terminal: Terminal::open() })
    }

    /// Waits for all locks. Returns also when a command must be sent TERM and when KILL, unless the leases are renewed;
    /// and the queue shim, which gives the locks back if this process is killed.
    pub(crate) async fn take(&mut self) -> Result<(HeldLocks, (Time, Time), Option<QueueShim>), Failure> {
        let began = Instant::now();
        loop {
            let (inbox, terminal) = (&mut self.inbox, self.terminal.as_ref());
            let (granted, queue_shim) = acquire::locks(&self.request, inbox, &mut self.reporter, terminal).await?;
            // If this process was stopped, or the machine suspended, since the lease was confirmed, it is renewed
            // first.
            if Time::now() >= self.timing.of(&granted.guards).0 {
                granted.renew().await;
            }
            let deadlines = self.timing.of(&granted.guards);
            if Time::now() < deadlines.0 {
                self.reporter.granted(&granted, &self.request.server);
                return Ok((granted, deadlines, queue_shim));
            }
            // The lease is over, and the command was not started.
            self.reporter.mention("the lock was granted too late to be used; waiting again");
            if let Err(signal) = give_back(granted, true, inbox, &self.reporter).await {
                return Err(self.request.interrupted_by(signal));
            }
            let least = Duration::from_millis(1);
            let timeout = self.request.wait.timeout;
            self.request.timeout = timeout.map(|all| all.saturating_sub(began.elapsed()).max(least));
        }
    }

    /// Releases the locks, and returns whether they were held until then and are given back. If a signal comes before
    /// the server answers, or it does not answer soon, they expire by themselves.
    pub(crate) async fn release(&mut self, granted: HeldLocks, lost: bool) -> bool {
        give_back(granted, lost, &mut self.inbox, &self.reporter).await == Ok(true)
    }
}

/// As [`Setting::release`]. An error is the signal that came first.
async fn give_back(granted: HeldLocks, lost: bool, inbox: &mut Inbox, reporter: &Reporter) -> Result<bool, Signal> {
    let end = Instant::now() + granted.longest_remaining();
    let first = granted.first_to_end().map(|guard| guard.name().to_owned()).unwrap_or_default();
    let HeldLocks { client, guards } = granted;
    let left = || end.saturating_duration_since(Instant::now());
    let released = tokio::select! {
        released = timeout(ANSWER, guards.release()) => released,
        signal = interruption(inbox) => {
            reporter.not_released(signal, left());
            return Err(signal);
        }
    };
    if !lost {
        match &released {
            Ok(Ok(())) => {}
            Ok(Err(ReleaseError::Lost(lost))) => reporter.ended_before(lost),
            Ok(Err(error)) => reporter.not_released(error, left()),
            Err(_) => {
                let trouble = request::why_silent(&client, &first).await;
                reporter.not_released(trouble, left());
            }
        }
    }
    let _ = timeout(LAST_ANSWERS, client.close()).await;
    Ok(!lost && matches!(released, Ok(Ok(()))))
}
