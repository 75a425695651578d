//! `fairlock list`: which locks there are.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use fairlock::LockState;
use fairlock::operator::{LookError, Place};

use super::document;
use super::own;
use super::screen::{self, width};
use crate::exit::{Failure, say};
use crate::{connect, output};

const HELP: &str = "\
Examples:
  fairlock list                    all locks in use, the oldest hold first
  fairlock list deploy             those with deploy in their names
  fairlock list 'ci:*' --json      those that begin with ci:, for programs

It looks through the keys of all servers (SCAN), without holding them up.
Exit code: 0, or 125 if a server does not answer.";

/// How long a server may take for each answer.
const PATIENCE: Duration = Duration::from_secs(5);
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
        Some(pattern) if pattern.contains(['*', '?', '[', '\\']) => pattern.to_owned(),
        Some(part) => format!("*{part}*"),
    };
    let places = connect::client(server)?.places().map_err(own)?;
    let mut found: BTreeMap<String, (Instant, LockState)> = BTreeMap::new();
    for master in places.masters(PATIENCE).map_err(own)? {
        find(&master, &server.prefix, &pattern, &mut found).map_err(own)?;
    }
    let used = |state: &LockState| state.holder.is_some() || state.waiting > 0 || state.recovering_for.is_some();
    let mut locks: Vec<_> = found.into_iter().filter(|(_, (_, state))| args.all || used(state)).collect();
    // Names are in order already. The servers were asked one after the other.
    locks.sort_by_key(|(_, (seen, state))| {
        let since = state.holder.as_ref().and_then(|holder| seen.checked_sub(holder.held_for));
        (since.is_none(), since, state.waiting == 0)
    });
    let locks: Vec<(String, LockState)> = locks.into_iter().map(|(name, (_, state))| (name, state)).collect();
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

/// Adds the locks of one server.
fn find(
    master: &Place,
    prefix: &str,
    pattern: &str,
    found: &mut BTreeMap<String, (Instant, LockState)>,
) -> Result<(), LookError> {
    let mut line = master.connect(PATIENCE)?;
    let names: Vec<String> = line.lock_names(prefix, pattern, PATIENCE)?.into_iter().collect();
    let seen = line.look(prefix, &names, WAITERS, PATIENCE)?;
    for (name, seen) in names.into_iter().zip(seen) {
        match seen {
            Ok(seen) => drop(found.insert(name, (Instant::now(), seen.state))),
            // Its slot has just moved to a server that is asked, too.
            Err(LookError::Moved(_)) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
