//! The command line as a whole. Each subcommand's arguments and their help are in the module of that subcommand.

use std::time::Duration;

use clap::{Parser, Subcommand};

use crate::exit::EXIT_CODES;
use crate::{connect, doctor, exporter, local, run, status, watch};

/// Hold a fair distributed lock on Redis while a command runs: first come, first served
#[derive(Debug, Parser)]
#[command(name = "fairlock", version, after_long_help = EXIT_CODES, after_help = EXIT_CODES, subcommand_required = true)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) server: connect::Args,
    #[command(subcommand)]
    pub(crate) task: Task,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Task {
    /// Wait for the lock, and run a command while holding it
    Run(run::Args),
    /// Show who holds a lock, and who waits for it
    Status(status::Args),
    /// Look for what harms locks at the servers, and say what mends it
    Doctor(doctor::Args),
    /// Watch locks, holders and queues on the whole screen
    Watch(watch::Args),
    /// Serve metrics of locks to Prometheus
    Exporter(exporter::Args),
    /// The private server that --local uses
    Local(local::Args),
}

/// A value of an option: a duration that is not zero.
pub(crate) fn positive(text: &str) -> Result<Duration, String> {
    match humantime::parse_duration(text) {
        Ok(Duration::ZERO) => Err("must be more than zero".to_owned()),
        Ok(duration) => Ok(duration),
        Err(error) => Err(error.to_string()),
    }
}

/// A value of an option: how long to wait.
pub(crate) fn timeout(text: &str) -> Result<Duration, String> {
    const DAYS: u64 = 366;
    let at_most = Duration::from_secs(DAYS * 24 * 3600);
    positive(text).and_then(|time| if time > at_most { Err(format!("must be at most {DAYS} days")) } else { Ok(time) })
}
