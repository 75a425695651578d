//! The arguments of `fairlock history`.

use std::path::PathBuf;

use crate::survey;

const HELP: &str = "\
Examples:
  fairlock history deploy on                record the grants of this lock
  fairlock history deploy                   a timeline in the terminal
  fairlock history deploy --out deploy.html
Exit code: 1 if nothing is recorded, 125 if fairlock fails.";

#[derive(Debug, clap::Args)]
#[command(after_help = HELP, override_usage = "fairlock history [OPTIONS] NAME [on|off]")]
pub(crate) struct Args {
    /// The name of the lock
    ///
    /// In a name that has them, write a backslash before * ? and [, as for the other subcommands that look at locks.
    #[arg(value_name = "NAME", value_parser = survey::name, hide_short_help = true)]
    pub(crate) name: String,
    /// on: record grants from now on; off: drop what was recorded
    ///
    /// The server keeps the latest 1,000, for a week after the lock was last used, whoever uses it. Each grant costs
    /// two more commands of the server. It needs Redis 6.2.
    #[arg(value_name = "on|off", hide_possible_values = true)]
    pub(crate) record: Option<Record>,
    /// How many grants, the latest
    #[arg(long, value_name = "N", default_value_t = 50, conflicts_with = "record", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) count: u32,
    /// Write a page for a browser; - is stdout
    #[arg(long, value_name = "FILE", conflicts_with_all = ["record", "json"])]
    pub(crate) out: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long, conflicts_with = "record")]
    pub(crate) json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Record {
    On,
    Off,
}
