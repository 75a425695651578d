//! What `fairlock wait` shows, and until when it waits.

use std::time::Duration;

use fairlock::state::LockState;
use tokio::time::{Instant, sleep_until, timeout_at};

use super::LOOK;
use super::screen::{brief, count, what_alone};
use crate::exit::{Failure, say};
use crate::log::Log;
use crate::process::terminal::Terminal;
use crate::progress::{self, Part, Style};
use crate::text::printable;

/// How long the server may take for an answer, also at the end of the timeout.
const ANSWER: Duration = Duration::from_secs(2);
/// A log is not told of a shorter silence.
const PATIENCE: Duration = Duration::from_secs(5);

const SILENT: &str = "no answer from the server";

pub(super) struct Show {
    /// As they were given.
    names: String,
    /// How many may hold the locks together, as is asked for.
    own: u32,
    quiet: bool,
    /// What to do if no server is there. It is told once.
    tip: Option<&'static str>,
    terminal: Option<Terminal>,
    log: Log,
    began: Instant,
    end: Option<Instant>,
    /// The last answer of the server.
    heard: Instant,
    /// Why there is none since.
    trouble: Option<String>,
}

impl Show {
    pub(super) fn new(
        names: &[String],
        own: u32,
        most: Option<Duration>,
        quiet: bool,
        tip: Option<&'static str>,
    ) -> Self {
        let began = Instant::now();
        Self {
            names: names.join(" "),
            own,
            quiet,
            tip,
            terminal: Terminal::open(),
            log: Log::default(),
            began,
            end: most.map(|most| began + most),
            heard: began,
            trouble: None,
        }
    }

    /// Whether the time is over.
    pub(super) fn is_over(&self) -> bool {
        self.end.is_some_and(|end| Instant::now() >= end)
    }

    /// Until the next look, or until the time is over.
    pub(super) async fn pause(&self) {
        let next = Instant::now() + LOOK;
        sleep_until(self.end.map_or(next, |end| end.min(next))).await;
    }

    /// The answer, if it comes until the time is over, or soon.
    pub(super) async fn in_time<T>(
        &mut self,
        asking: impl AsyncFnOnce(&mut Self) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let Some(end) = self.end else { return asking(self).await };
        let answer = timeout_at(end.max(Instant::now() + ANSWER), asking(self)).await;
        // Whether the locks are free is not known: that is no timeout of the wait.
        answer.unwrap_or_else(|_| Err(self.unanswered()))
    }

    fn unanswered(&mut self) -> Failure {
        let why = self.trouble.take().unwrap_or_else(|| SILENT.to_owned());
        Failure { tip: self.tip.map(str::to_owned), ..Failure::own(why) }
    }

    /// This lock is waited for, with so many others after it.
    pub(super) fn waiting(&mut self, name: &str, more: usize, state: &LockState) {
        (self.heard, self.trouble) = (Instant::now(), None);
        let more = and_more(more);
        // The numbers come before a holder, whom a narrow terminal cuts.
        let waiting = Some(format!("{} waiting", state.waiting)).filter(|_| state.waiting > 0);
        let held = what_alone(state);
        let numbers = waiting.into_iter().chain(count(state).told(Some(self.own)));
        let texts = std::iter::once(progress::name(name) + &more).chain(numbers);
        let parts = texts.map(|text| (Style::Plain, text)).chain([(Style::Faint, held)]);
        if self.quiet || self.draw(parts.collect()) {
            return;
        }
        if self.log.is_due(name.to_owned()) {
            say(format_args!("waiting for {}{more}: {}", printable(name), brief(state, Some(self.own))));
        }
    }

    /// The server has not answered for a second more.
    pub(super) fn silent(&mut self) {
        let drawn = self.draw_why((Style::Warning, SILENT.into()));
        if !drawn && self.heard.elapsed() >= PATIENCE && self.trouble.is_none() {
            self.trouble(SILENT);
        }
    }

    /// The search for locks takes a second more, as it does where servers have many keys.
    pub(super) fn searching(&self) {
        self.draw_why((Style::Plain, "looking for locks that match".into()));
    }

    fn draw_why(&self, why: Part) -> bool {
        let waits = (Style::Plain, format!("waiting for {}", progress::name(&self.names)));
        self.quiet || self.draw(vec![waits, why])
    }

    /// Why the server does not serve.
    pub(super) fn trouble(&mut self, why: &str) {
        self.trouble = Some(why.to_owned());
        if !self.quiet && self.log.is_due(why.to_owned()) {
            progress::erase();
            say(format_args!("{why}; trying again"));
            if let Some(tip) = self.tip.take() {
                say(format_args!("tip: {tip}"));
            }
        }
    }

    /// One line on a terminal, with how long the wait has lasted. False if there is none.
    fn draw(&self, parts: Vec<Part>) -> bool {
        let mut line = vec![(Style::Plain, progress::clock(self.began.elapsed()))];
        for part in parts {
            line.extend([(Style::Faint, " · ".to_owned()), part]);
        }
        progress::draw(self.terminal.as_ref(), &line)
    }
}

/// How many locks are waited for in addition to the one that is named.
fn and_more(count: usize) -> String {
    if count == 0 { String::new() } else { format!(" and {count} more") }
}
