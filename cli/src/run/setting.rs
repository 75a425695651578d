//! What a run needs before it connects, and how it takes and releases its locks: the same with a command and without.

use std::time::{Duration, Instant};

use fairlock::operator::Time;
use fairlock::{ClientBuilder, LockOptions, error::ReleaseError};
use nix::sys::signal::Signal;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::timeout;

use super::args::Wait;
use super::events::Event;
use super::granted::Granted;
use super::nested::Ancestors;
use super::news::News;
use super::request::{self, Request};
use super::timing::Timing;
use super::wait;
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

pub(crate) struct Setting<'a> {
    wait: &'a Wait,
    /// In the order in which they are taken.
    names: Vec<&'a str>,
    label: String,
    pub(crate) server: Server,
    tip: Option<&'static str>,
    client: ClientBuilder,
    options: LockOptions,
    pub(crate) ancestors: Ancestors,
    pub(crate) timing: Timing,
    /// The signals that were blocked when this process was started.
    pub(crate) mask: Mask,
    pub(crate) hear: UnboundedSender<Event>,
    pub(crate) events: UnboundedReceiver<Event>,
    pub(crate) news: News,
    pub(crate) terminal: Option<Terminal>,
}

impl<'a> Setting<'a> {
    pub(crate) fn new(
        server: &connect::Args,
        wait: &'a Wait,
        names: Vec<&'a str>,
        kill_after: Duration,
        label: impl FnOnce() -> String,
    ) -> Result<Self, Failure> {
        let timing = Timing::new(wait.lease, kill_after);
        // A claim is too short to stop a command within it, so the command starts with a whole lease.
        let options =
            LockOptions::new().lease(wait.lease).notice(timing.notice).confirm_grants().replicas(wait.replicas);
        for name in &names {
            options.check(name).map_err(|error| Failure::own(error.to_string()))?;
        }
        let news = News::new(wait, &names)?;
        let place = Server::find(server)?;
        // Before any other thread is started, and after the private server, which must not inherit the mask.
        let mask = signals::block().map_err(|error| Failure::because("cannot block signals", error))?;
        let (hear, events) = unbounded_channel();
        let on_signal = hear.clone();
        signals::listen(move |signal| drop(on_signal.send(Event::Signal(signal))))
            .map_err(|error| Failure::because("cannot listen to signals", error))?;
        if server.local {
            // After the signals are blocked, because its threads must leave them to the listener.
            local::keep_running();
        }
        Ok(Self {
            wait,
            names,
            label: wait.label.clone().unwrap_or_else(label),
            client: place.client(),
            server: place,
            tip: server.tip(),
            options,
            ancestors: Ancestors::of_this_process(),
            timing,
            mask,
            hear,
            events,
            news,
            terminal: Terminal::open(),
        })
    }

    /// Waits for all locks. Returns when a command must be sent TERM and when KILL, unless the leases are renewed.
    pub(crate) async fn take(&mut self) -> Result<(Granted, (Time, Time)), Failure> {
        self.take_guarded().await.map(|(granted, deadlines, _)| (granted, deadlines))
    }

    /// The same with the queue shim, which gives the locks back if this process is killed.
    pub(crate) async fn take_guarded(&mut self) -> Result<(Granted, (Time, Time), Option<QueueShim>), Failure> {
        let began = Instant::now();
        let no_wait = self.wait.no_wait || self.wait.timeout.is_some_and(|timeout| timeout.is_zero());
        let mut request = Request {
            server: &self.server,
            client: &self.client,
            names: &self.names,
            label: self.label.clone(),
            options: self.options.clone(),
            timeout: self.wait.timeout,
            no_wait,
            replicas: self.wait.replicas,
            conflict_code: self.wait.conflict_exit_code,
            quiet: self.wait.quiet,
            tip: self.tip,
            ancestors: &self.ancestors,
        };
        loop {
            let (events, terminal) = (&mut self.events, self.terminal.as_ref());
            let (granted, queue_shim) = wait::for_locks(&request, events, &mut self.news, terminal).await?;
            // If this process was stopped, or the machine suspended, since the lease was confirmed, it is renewed
            // first.
            if Time::now() >= self.timing.of(&granted.guards).0 {
                granted.renew().await;
            }
            let deadlines = self.timing.of(&granted.guards);
            if Time::now() < deadlines.0 {
                self.news.granted(&granted);
                return Ok((granted, deadlines, queue_shim));
            }
            // The lease is over, and the command was not started.
            self.news.mention("the lock was granted too late to be used; waiting again");
            if let Err(signal) = give_back(granted, true, events, &self.news).await {
                return Err(request::interrupted_by(signal, &self.names));
            }
            let least = Duration::from_millis(1);
            request.timeout = self.wait.timeout.map(|all| all.saturating_sub(began.elapsed()).max(least));
        }
    }

    /// Releases the locks, and returns whether they were held until then and are given back. If a signal comes before
    /// the server answers, or it does not answer soon, they expire by themselves.
    pub(crate) async fn release(&mut self, granted: Granted, lost: bool) -> bool {
        give_back(granted, lost, &mut self.events, &self.news).await == Ok(true)
    }
}

/// As [`Setting::release`]. An error is the signal that came first.
async fn give_back(
    granted: Granted,
    lost: bool,
    events: &mut UnboundedReceiver<Event>,
    news: &News,
) -> Result<bool, Signal> {
    let end = Instant::now() + granted.longest_remaining();
    let first = granted.first_to_end().map(|guard| guard.name().to_owned()).unwrap_or_default();
    let Granted { client, guards } = granted;
    let left = || end.saturating_duration_since(Instant::now());
    let released = tokio::select! {
        released = timeout(ANSWER, guards.release()) => released,
        signal = wait::interruption(events) => {
            news.not_released(signal, left());
            return Err(signal);
        }
    };
    if !lost {
        match &released {
            Ok(Ok(())) => {}
            Ok(Err(ReleaseError::Lost(lost))) => news.ended_before(lost),
            Ok(Err(error)) => news.not_released(error, left()),
            Err(_) => {
                let trouble = request::why_silent(&client, &first).await;
                news.not_released(trouble, left());
            }
        }
    }
    let _ = timeout(LAST_ANSWERS, client.close()).await;
    Ok(!lost && matches!(released, Ok(Ok(()))))
}
