//! `fairlock status`: which locks there are, who holds them, and who waits; with `--check` for monitors.

use std::cmp::Reverse;
use std::time::Duration;

use fairlock::error::Fault;
use fairlock::state::LockState;

use super::document::{self, is_used, word};
use super::screen::{self, width};
use super::{FREE, HELD, check_names, connected, lock, own};
use crate::duration::{about, any};
use crate::exit::{Failure, say};
use crate::sharing::oldest;
use crate::survey::{self, Survey, complaint};
use crate::text::printable;
use crate::{connect, output};

const HELP: &str = "\
Examples:
  fairlock status                         all locks, the oldest hold first
  fairlock status deploy                  who holds it, and who waits
  fairlock status 'ci:*' --json           for programs
  fairlock status --check --max-wait 10m deploy

Exit code: 0; 1 if all locks that were asked for are free; 125 no answer, or
not of each lock; with --check 0 fine, 1 recovering or breaking, 2 beyond a
limit, 3 no answer, or not of each lock.";

/// That no lock is found.
fn nothing(patterns: &[String]) -> String {
    let which = if patterns.is_empty() { String::new() } else { format!(" that matches {}", patterns.join(" ")) };
    format!("no lock{which} is held or waited for")
}

/// The most waiters of each lock that a pattern shows.
pub(super) const WAITERS: u32 = 100;

#[derive(Debug, clap::Args)]
#[command(after_help = HELP, override_usage = "fairlock status [OPTIONS] [NAME|PATTERN]...")]
pub(crate) struct Args {
    /// Names, or patterns with * ? [] [default: all locks in use]
    ///
    /// A name shows the lock with its whole queue. A pattern, and no argument at all, shows the locks in use that it
    /// matches, one in a line. That takes a look through the keys of all servers (SCAN), which does not hold them up.
    /// In a name that has them, write a backslash before * ? and [.
    #[arg(value_name = "NAME|PATTERN", hide_short_help = true)]
    pub(crate) names: Vec<String>,
    /// Locks that nobody uses now, too
    ///
    /// Their keys expire within a day of their last use.
    #[arg(short = 'a', long)]
    pub(crate) all: bool,
    /// One JSON object per lock and line
    ///
    /// docs/command-line.md describes the fields. Its `state` is
    ///   held        the lock has a holder, or several
    ///   breaking    the lease of a holder was broken, and is not renewed
    ///   free        it has no holder; if `waiting` is not zero, the
    ///               first waiter is next
    ///   recovering  nothing is granted for up to `recovering_for_ms`,
    ///               because the server lost data and waits for its
    ///               former clients
    #[arg(long, verbatim_doc_comment)]
    pub(crate) json: bool,
    /// One line per lock, and the exit codes of monitors
    #[arg(long, conflicts_with = "json")]
    pub(crate) check: bool,
    /// With --check: longest wait in the queue
    #[arg(long, value_name = "TIME", value_parser = any, requires = "check")]
    pub(crate) max_wait: Option<Duration>,
    /// With --check: longest hold
    #[arg(long, value_name = "TIME", value_parser = any, requires = "check")]
    pub(crate) max_held: Option<Duration>,
    /// With --check: longest queue
    #[arg(long, value_name = "N", requires = "check")]
    pub(crate) max_waiting: Option<u64>,
}

pub(crate) fn status(server: &connect::Args, args: &Args) -> Result<u8, Failure> {
    let (names, patterns) = survey::split(&args.names);
    let are_named = patterns.is_empty() && !names.is_empty();
    let (locks, unreadable) = match look(server, args.all, &names, &patterns) {
        Err(failure) if args.check => {
            return output::write(&unknown(&failure.message)).map(|()| Health::Unknown.code());
        }
        found => found?,
    };
    let complaint = complaint(&unreadable);
    let (text, code) = if args.check {
        check(args, &locks, complaint.as_deref(), &patterns)
    } else {
        let text = if args.json {
            locks.iter().map(|(name, state)| document::line(&document::of_lock(name, state))).collect()
        } else if are_named {
            locks.iter().map(|(name, state)| screen::lock(name, state, width())).collect()
        } else if locks.is_empty() {
            if complaint.is_none() {
                say(nothing(&patterns));
            }
            String::new()
        } else {
            screen::table(&locks, width())
        };
        let is_free = !args.names.is_empty() && locks.iter().all(|(_, state)| word(state) == "free");
        (text, if is_free { FREE } else { HELD })
    };
    output::write(&text)?;
    // Whether these locks are held is not known.
    complaint.filter(|_| !args.check).map_or(Ok(code), |complaint| Err(Failure::own(complaint)))
}

/// Locks by name, and why others cannot be read.
type Found = (Vec<(String, LockState)>, Vec<Fault>);

/// The locks with these names, as they were named; and those that match patterns, the oldest hold first.
fn look(server: &connect::Args, all: bool, names: &[String], patterns: &[String]) -> Result<Found, Failure> {
    check_names(names)?;
    let Some(client) = connect::running(server)? else {
        say("the private server does not run");
        return Ok((names.iter().map(|name| (name.clone(), LockState::default())).collect(), Vec::new()));
    };
    let (mut found, mut unreadable) = (Vec::new(), Vec::new());
    if names.is_empty() || !patterns.is_empty() {
        let mut survey = Survey::new(client.places().map_err(own)?, &server.prefix, patterns, Duration::MAX);
        let seen = survey.look(WAITERS).map_err(|error| server.failed(error))?;
        unreadable = seen.unreadable;
        found.extend(seen.seen.into_iter().map(|(name, seen)| (name, seen.state)));
        found.retain(|(name, state)| (all || is_used(state)) && !names.contains(name));
        // Names are in order already.
        found.sort_by_key(|(_, state)| {
            let held = oldest(&state.holders).map(|holder| holder.held_for);
            (Reverse(held), state.waiting == 0)
        });
    }
    if names.is_empty() {
        return Ok((found, unreadable));
    }
    connected(server, client, async |client| {
        let mut locks = Vec::new();
        for name in names {
            match lock(&client, name)?.inspect().await {
                Ok(state) => locks.push((name.clone(), state)),
                Err(fault @ (Fault::OtherLayout { .. } | Fault::WrongType { .. })) => unreadable.push(fault),
                Err(fault) => return Err(own(fault)),
            }
        }
        locks.extend(found);
        Ok((locks, unreadable))
    })
}

/// From the best to the worst.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Health {
    Fine,
    Warning,
    Unknown,
    Critical,
}

impl Health {
    /// The exit codes that monitors agree on.
    fn code(self) -> u8 {
        match self {
            Health::Fine => 0,
            Health::Warning => 1,
            Health::Critical => 2,
            Health::Unknown => 3,
        }
    }
}

/// A monitor reads stdout.
fn unknown(why: &str) -> String {
    format!("UNKNOWN - {}\n", printable(why).replace('|', "¦"))
}

/// A line for each lock, one for those that cannot be read, and the worst exit code of all.
fn check(args: &Args, locks: &[(String, LockState)], complaint: Option<&str>, patterns: &[String]) -> (String, u8) {
    if locks.is_empty() && complaint.is_none() {
        return (format!("OK - {}\n", printable(&nothing(patterns))), Health::Fine.code());
    }
    let mut text = complaint.map(unknown).unwrap_or_default();
    let mut worst = if complaint.is_some() { Health::Unknown } else { Health::Fine };
    for (name, state) in locks {
        let (health, line) = judge(args, name, state);
        text += &line;
        worst = worst.max(health);
    }
    (text, worst.code())
}

/// A line as monitors read it: a word, what it is about, and figures behind a bar.
fn judge(args: &Args, name: &str, state: &LockState) -> (Health, String) {
    let held = oldest(&state.holders).map(|holder| holder.held_for).unwrap_or_default();
    let wait = state.queue.iter().map(|waiter| waiter.waited).max().unwrap_or_default();
    let mut faults = Vec::new();
    let mut limit = |what: &str, found: Duration, most: Option<Duration>| {
        if let Some(most) = most.filter(|most| found > *most) {
            faults.push(format!("{what} {}, more than {}", about(found), about(most)));
        }
    };
    limit("longest wait", wait, args.max_wait);
    limit("held", held, args.max_held);
    if let Some(most) = args.max_waiting.filter(|most| state.waiting > *most) {
        faults.push(format!("{} waiting, more than {most}", state.waiting));
    }
    let health = match word(state) {
        _ if !faults.is_empty() => Health::Critical,
        "breaking" => Health::Warning,
        // A holder that is back does not end a recovery.
        _ if state.recovering_for.is_some() => Health::Warning,
        _ => Health::Fine,
    };
    let heading = match health {
        Health::Fine => "OK",
        Health::Warning => "WARNING",
        Health::Critical => "CRITICAL",
        Health::Unknown => "UNKNOWN",
    };
    if faults.is_empty() {
        faults.push(screen::brief(state, None));
    }
    let figures = format!("held={}s wait={}s waiting={}", held.as_secs(), wait.as_secs(), state.waiting);
    // A bar in a label would end the sentence.
    let said = format!("{}: {}", printable(name), faults.join("; ")).replace('|', "¦");
    (health, format!("{heading} - {said} | {figures}\n"))
}
