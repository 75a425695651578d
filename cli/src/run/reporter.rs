//! What `run` and `hold` tell, and to whom. People read messages on stderr, at a terminal also the progress line while
//! they wait; programs read the events of `--events`; systemd shows a status.

use std::time::{Duration, Instant};

use fairlock::error::Lost;
use serde_json::json;

use super::args::Wait;
use super::event_file::EventFile;
use super::held_locks::HeldLocks;
use super::queue_view::QueueView;
use super::systemd::Systemd;
use super::timing::Timing;
use crate::connect::Server;
use crate::duration::{milliseconds, seconds, shown};
use crate::exit::{Failure, say};
use crate::log::Log;
use crate::process::terminal::Terminal;
use crate::progress;
use crate::text::printable;

/// The most former holders that are named at the end.
const MOST_NAMED: usize = 5;
/// The most holders in an event.
const MOST_TOLD: usize = 16;

pub(crate) struct Reporter {
    quiet: bool,
    verbose: bool,
    /// A log was told of the wait, so it is told of the grant too.
    has_spoken: bool,
    /// All names, for messages.
    names: String,
    /// What was advised.
    advice: Option<&'static str>,
    events: Option<EventFile>,
    systemd: Option<Systemd>,
    log: Log,
    /// The labels of the holders that were waited for.
    behind: Vec<String>,
    /// The lock and the topic of the last event about a position.
    seen: Option<(String, String)>,
    began: Instant,
    granted: Option<Grant>,
    /// That the lease is running out was told.
    warned: bool,
    /// A warning that `--quiet` keeps to itself until the lease is lost.
    unsaid: Option<String>,
    said_lost: bool,
}

struct Grant {
    at: Instant,
    waited: Duration,
    tokens: Vec<(String, u64)>,
}

impl Reporter {
    /// For locks with these names, as people are told.
    pub(crate) fn new(wait: &Wait, names: String) -> Result<Self, Failure> {
        Ok(Self {
            quiet: wait.quiet,
            verbose: wait.verbose,
            has_spoken: false,
            names,
            advice: None,
            events: wait.events.as_ref().map(|to| EventFile::open(to)).transpose()?,
            systemd: Systemd::of_this_process(),
            log: Log::default(),
            behind: Vec::new(),
            seen: None,
            began: Instant::now(),
            granted: None,
            warned: false,
            unsaid: None,
            said_lost: false,
        })
    }

    /// All names, escaped.
    pub(crate) fn names(&self) -> &str {
        &self.names
    }

    /// A message that `--quiet` leaves out.
    pub(crate) fn mention(&mut self, message: impl std::fmt::Display) {
        if !self.quiet {
            self.has_spoken = true;
            progress::erase();
            say(message);
        }
    }

    /// The server gives nobody a place in the queue. Told when the reason is new, and now and then; the tip once.
    pub(crate) fn trouble(&mut self, why: &str, tip: Option<&'static str>) {
        if !self.log.is_due(why.to_owned()) {
            return;
        }
        self.mention(format_args!("{why}; trying again"));
        if let Some(tip) = tip
            && !self.quiet
            && self.advice.replace(tip) != Some(tip)
        {
            self.mention(format_args!("tip: {tip}"));
        }
    }

    /// The failure without advice that was given before.
    pub(crate) fn not_twice(&self, failure: Failure) -> Failure {
        let tip = failure.tip.filter(|tip| self.advice != Some(tip.as_str()));
        Failure { tip, ..failure }
    }

    /// Whether anybody hears of the places in the queue.
    pub(crate) fn tells_places(&self) -> bool {
        !self.quiet || self.verbose || self.events.is_some()
    }

    fn write(&mut self, event: &str, name: &str, fields: serde_json::Value) {
        if let Some(events) = &mut self.events {
            events.write(event, name, fields);
        }
    }

    pub(crate) fn queued(&mut self, name: &str, ticket: u64) {
        self.write("queued", name, json!({ "ticket": ticket }));
    }

    /// A look at the queue showed something new.
    pub(crate) fn seen(&mut self, name: &str, view: &QueueView) {
        let QueueView::Place { position, waiting, holders, expected, .. } = view else { return };
        let topic = view.topic(true).map(|topic| (name.to_owned(), topic));
        if self.seen == topic {
            return;
        }
        self.seen = topic;
        let held = holders.len();
        let holders: Vec<_> = holders
            .iter()
            .take(MOST_TOLD)
            .map(|holder| {
                if !self.behind.contains(&holder.label) {
                    self.behind.push(holder.label.clone());
                }
                let held_for = milliseconds(holder.held_for());
                json!({ "label": holder.label, "token": holder.token, "slot": holder.slot, "held_for_ms": held_for })
            })
            .collect();
        let expected = expected.map(|at| milliseconds(at.saturating_duration_since(tokio::time::Instant::now())));
        let place = json!({
            "position": position, "waiting": waiting, "held": held, "holders": holders, "expected_ms": expected,
        });
        self.write("position", name, place);
    }

    /// Shows the wait as it is now.
    pub(crate) fn show(&mut self, terminal: Option<&Terminal>, name: &str, view: &QueueView) {
        let short = progress::name(name);
        let name = printable(name);
        if let Some(systemd) = &mut self.systemd {
            systemd.waiting(&view.sentence(&name));
        }
        if self.quiet || progress::draw(terminal, &view.line(self.began.elapsed(), &short)) {
            return;
        }
        if let Some(topic) = view.topic(self.verbose)
            && self.log.is_due(topic)
        {
            self.mention(view.sentence(&name));
        }
    }

    pub(crate) fn granted(&mut self, granted: &HeldLocks, server: &Server) {
        progress::erase();
        let (waited, tokens) = (self.began.elapsed(), granted.tokens());
        for (name, token) in &tokens {
            let (_, slot) = granted.lease(name);
            self.write("granted", name, json!({ "token": token, "slot": slot, "waited_ms": milliseconds(waited) }));
        }
        let listed: Vec<String> = tokens.iter().map(|(_, token)| token.to_string()).collect();
        let (names, listed) = (&self.names, listed.join(", "));
        if self.verbose || self.has_spoken {
            let place = if self.verbose { format!(" at {}", server.place()) } else { String::new() };
            say(format_args!("got {names}{place} after {} (token {listed})", shown(waited)));
        }
        if let Some(systemd) = &self.systemd {
            systemd.granted(&format!("holds {names} (token {listed})"));
        }
        self.granted = Some(Grant { at: Instant::now(), waited, tokens });
    }

    /// How long was waited for the grant.
    pub(crate) fn waited(&self) -> Duration {
        self.granted.as_ref().map_or_else(|| self.began.elapsed(), |granted| granted.waited)
    }

    pub(crate) fn renewed(&mut self, name: &str, token: u64, left: Duration) {
        self.write("renewed", name, json!({ "token": token, "remaining_ms": milliseconds(left) }));
        if std::mem::take(&mut self.warned) {
            self.unsaid = None;
            if !self.quiet {
                say(format_args!("Redis answers again; the lease on {} goes on", self.names));
            }
            self.status("holds the lock");
        }
    }

    /// Warns once half of the lease is left. Returns after how long to ask again, unless there is a renewal before.
    pub(crate) async fn warn_if_due(&mut self, granted: &HeldLocks, timing: Timing) -> Duration {
        let left = granted.guards.remaining();
        if let Some(due) = left.checked_sub(timing.warning).filter(|due| !due.is_zero()) {
            return due;
        }
        let left = left.saturating_sub(timing.notice);
        if let (Some(first), false) = (granted.first_to_end(), left.is_zero()) {
            let cause = granted.trouble().await;
            self.warned(first.name(), first.token(), left, &cause);
        }
        Duration::MAX
    }

    /// The lease is running out. Told once, until it is renewed.
    fn warned(&mut self, name: &str, token: u64, left: Duration, cause: &str) {
        if std::mem::replace(&mut self.warned, true) {
            return;
        }
        self.write("warned", name, json!({ "token": token, "remaining_ms": milliseconds(left), "cause": cause }));
        let (cause, name, left) = (printable(cause), printable(name), seconds(left));
        let warning = format!("{cause}; {name} is ours for {left} more");
        if self.quiet {
            self.unsaid = Some(warning);
        } else {
            say(warning);
        }
        self.status(&format!("{cause}; the lease ends in {left}"));
    }

    /// The command has ended, and the lock is kept for these processes.
    pub(crate) fn kept_for(&self, processes: &str) {
        let (names, processes) = (&self.names, printable(processes));
        say(format_args!("the command has ended; {names} stays held until this has ended, too: {processes}"));
        self.status(&format!("the command has ended; still there: {processes}"));
    }

    /// The lease is lost. Told once.
    pub(crate) fn lost(&mut self, lost: Option<&Lost>, and: &str) {
        if std::mem::replace(&mut self.said_lost, true) {
            return;
        }
        let tokens = self.granted.as_ref().map(|granted| granted.tokens.clone()).unwrap_or_default();
        let reason = lost.map_or_else(|| "it ran out".to_owned(), |lost| lost.reason.to_string());
        let gone = |name: &str| lost.is_none_or(|lost| *lost.name == *name);
        for (name, token) in tokens.iter().filter(|(name, _)| gone(name)) {
            self.write("lost", name, json!({ "token": token, "reason": reason }));
        }
        let name = lost.map_or_else(|| self.names.clone(), |lost| printable(&lost.name));
        progress::erase();
        if let Some(warning) = self.unsaid.take() {
            say(warning);
        }
        say(format_args!("the lease on {name} is lost: {}; {and}", printable(&reason)));
        self.status("the lease is lost");
    }

    fn status(&self, text: &str) {
        if let Some(systemd) = &self.systemd {
            systemd.status(text);
        }
    }

    pub(crate) fn stopping(&self) {
        if let Some(systemd) = &self.systemd {
            systemd.stopping();
        }
    }

    pub(crate) fn released(&mut self, code: u8) {
        let Some(Grant { at, waited, tokens }) = self.granted.take() else { return };
        let held = at.elapsed();
        for (name, token) in &tokens {
            self.write("released", name, json!({ "token": token, "held_ms": milliseconds(held), "exit_code": code }));
        }
        if self.verbose {
            let (names, waited, held) = (&self.names, shown(waited), shown(held));
            say(format_args!("released {names}: waited {waited}{}, held {held}", self.behind_whom()));
        }
    }

    fn behind_whom(&self) -> String {
        let named = self.behind.iter().take(MOST_NAMED).map(String::as_str).collect::<Vec<_>>().join(", ");
        match self.behind.len() {
            0 => String::new(),
            1..=MOST_NAMED => format!(" behind {named}"),
            all => format!(" behind {named} and {} more", all - MOST_NAMED),
        }
    }

    /// The lease had ended before its release, and nobody has heard of it until now.
    pub(crate) fn ended_before(&self, lost: &Lost) {
        let (names, lost) = (&self.names, printable(&lost.to_string()));
        say(format_args!("{names} was not held to the end: {lost}; another job may have run meanwhile"));
    }

    /// The server has not confirmed a release. Longer than this nobody else is granted the lock.
    pub(crate) fn not_released(&self, why: impl std::fmt::Display, left: Duration) {
        let (names, why, left) = (&self.names, printable(&why.to_string()), seconds(left));
        say(format_args!("{names} could not be released ({why}): the lease ends by itself, in {left} at the latest"));
    }
}
