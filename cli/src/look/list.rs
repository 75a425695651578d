//! `fairlock list`: which locks there are.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::time::Duration;

use fairlock::LockState;

use super::document;
use super::own;
use super::screen::{self, width};
use crate::exit::{Failure, say};
use crate::survey::{Survey, is_pattern};
use crate::{connect, output};

const HELP: &str = "\
Examples:
  fairlock list                    all locks in use, the oldest hold first
  fairlock list deploy             those with deploy in their names
  fairlock list 'ci:*' --json      those that begin with ci:, for programs

It looks through the keys of all servers (SCAN), without holding them up.
Exit code: 0, or 125 if a server does not answer.";

/// The most waiters of each lock that JSON shows.
const WAITERS: u32 = 100;

#[derive(Debug, clap::Args)]
#[command(after_help = HELP, override_usage = "fairlock list [OPTIONS] [PATTERN]")]
pub(crate) struct Args {
    /// A part of the names, or a pattern with * ? [] for whole names
    #[arg(value_name = "PATTERN", hide_short_help = true)]
    pub(crate) pattern: Option<String>,
    /// One JSON object per lock and line
    ///
    /// The same as of `status --json`, with the first 100 waiters.
    #[arg(long)]
    pub(crate) json: bool,
    /// Locks that nobody uses now, too
    ///
    /// Their keys expire within a day of their last use.
    #[arg(short = 'a', long)]
    pub(crate) all: bool,
}

pub(crate) fn list(server: &connect::Args, args: &Args) -> Result<u8, Failure> {
    let pattern = match args.pattern.as_deref() {
        None | Some("") => "*".to_owned(),
        Some(pattern) if is_pattern(pattern) => pattern.to_owned(),
        Some(part) => format!("*{part}*"),
    };
    let found = match connect::running(server)? {
        None => {
            say("the private server does not run");
            BTreeMap::new()
        }
        Some(client) => {
            let places = client.places().map_err(own)?;
            let found = Survey::new(places, &server.prefix, &[pattern], Duration::MAX).look(WAITERS);
            found.map_err(|error| server.failed(error))?
        }
    };
    let locks = found.into_iter().map(|(name, seen)| (name, seen.state));
    let used = |state: &LockState| state.holder.is_some() || state.waiting > 0 || state.recovering_for.is_some();
    let mut locks: Vec<(String, LockState)> = locks.filter(|(_, state)| args.all || used(state)).collect();
    // Names are in order already.
    locks.sort_by_key(|(_, state)| {
        let held = state.holder.as_ref().map(|holder| holder.held_for);
        (Reverse(held), state.waiting == 0)
    });
    if args.json {
        let lines = locks.iter().map(|(name, state)| document::line(&document::of_lock(name, state)));
        output::write(&lines.collect::<String>())?;
    } else if locks.is_empty() {
        say("no lock is held or waited for");
    } else {
        output::write(&screen::table(&locks, width()))?;
    }
    Ok(0)
}
