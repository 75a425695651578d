//! `fairlock status`: who holds a lock, and who waits for it; with `--check` for monitors.

use std::time::Duration;

use fairlock::{Client, LockState};

use super::document::{self, word};
use super::list::{self, list};
use super::screen::{self, width};
use super::{FREE, HELD, lock, own, with_running};
use crate::duration::{about, any};
use crate::exit::{Failure, say};
use crate::text::printable;
use crate::{connect, output};

const HELP: &str = "\
Examples:
  fairlock status deploy                          who holds it, and who waits
  fairlock status deploy --json                   the same for programs
  fairlock status --check --max-wait 10m deploy   for Nagios and the like

Exit code: 0 held, breaking or recovering (one of them at least), 1 free,
125 no answer; with --check 0 fine, 1 recovering or breaking, 2 beyond a limit,
3 no answer.";

#[derive(Debug, clap::Args)]
#[command(after_help = HELP, override_usage = "fairlock status [OPTIONS] [NAME]...")]
pub(crate) struct Args {
    /// The names of the locks; without any, all that are in use are listed
    #[arg(value_name = "NAME", hide_short_help = true)]
    pub(crate) names: Vec<String>,
    /// One JSON object per lock and line
    ///
    /// docs/command-line.md describes the fields. Its `state` is
    ///   held        the lock has a holder
    ///   breaking    the lease of its holder was broken, and is not renewed
    ///   free        it has no holder; if `waiting` is not zero, the
    ///               first waiter is next
    ///   recovering  nothing is granted for up to `recovering_for_ms`,
    ///               because the server lost data and waits for its
    ///               former clients
    #[arg(long, verbatim_doc_comment)]
    pub(crate) json: bool,
    /// One line per lock, and the exit codes of monitors
    #[arg(long, conflicts_with = "json", requires = "names")]
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
    if args.names.is_empty() && !args.check {
        return list(server, &list::Args { pattern: None, json: args.json, all: false });
    }
    let states = async |client: Option<Client>| {
        let Some(client) = client else {
            say("the private server does not run");
            return Ok(args.names.iter().map(|name| (name, LockState::default())).collect());
        };
        let mut seen = Vec::new();
        for name in &args.names {
            seen.push((name, lock(&client, name)?.inspect().await.map_err(own)?));
        }
        Ok(seen)
    };
    let seen = match with_running(server, &args.names, states) {
        Err(failure) if args.check => return Ok(unknown(&failure)),
        seen => seen?,
    };
    let (mut text, mut worst) = (String::new(), Health::Fine);
    for (name, state) in &seen {
        text += &match (args.json, args.check) {
            (true, _) => document::line(&document::of_lock(name, state)),
            (_, true) => {
                let (health, line) = check(args, name, state);
                worst = worst.max(health);
                line
            }
            _ => screen::lock(name, state, width()),
        };
    }
    output::write(&text)?;
    Ok(match () {
        () if args.check => worst as u8,
        () if seen.iter().any(|(_, state)| word(state) != "free") => HELD,
        () => FREE,
    })
}

/// The exit codes that monitors agree on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Health {
    Fine = 0,
    Warning = 1,
    Critical = 2,
    Unknown = 3,
}

/// A monitor reads stdout.
fn unknown(failure: &Failure) -> u8 {
    let _ = output::write(&format!("UNKNOWN - {}\n", printable(&failure.message)));
    Health::Unknown as u8
}

/// A line as monitors read it: a word, what it is about, and figures behind a bar.
fn check(args: &Args, name: &str, state: &LockState) -> (Health, String) {
    let held = state.holder.as_ref().map(|holder| holder.held_for).unwrap_or_default();
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
        "breaking" | "recovering" => Health::Warning,
        _ => Health::Fine,
    };
    let heading = match health {
        Health::Fine => "OK",
        Health::Warning => "WARNING",
        Health::Critical => "CRITICAL",
        Health::Unknown => "UNKNOWN",
    };
    if faults.is_empty() {
        faults.push(screen::brief(state));
    }
    let figures = format!("held={}s wait={}s waiting={}", held.as_secs(), wait.as_secs(), state.waiting);
    // A bar in a label would end the sentence.
    let said = format!("{}: {}", printable(name), faults.join("; ")).replace('|', "¦");
    (health, format!("{heading} - {said} | {figures}\n"))
}
