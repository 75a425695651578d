//! The arguments of `fairlock watch`.

use std::time::Duration;

use crate::duration;

const HELP: &str = "\
Keys:
  ↑ ↓ PgUp PgDn   choose a lock          Enter, Esc   open it, go back
  s               sort                   /            show names with this text
  b               break its lease, after a question   q  quit

Example:
  fairlock watch 'deploy:*' backup

Exit code: 0 when you quit, 125 without a terminal or when called wrongly.";

#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// The locks: names, or patterns with `*`, `?` and `[…]` [default: all]
    #[arg(value_name = "NAME")]
    pub(crate) names: Vec<String>,
    /// How often to look
    #[arg(long, value_name = "TIME", value_parser = duration::positive, default_value = "1s")]
    pub(crate) every: Duration,
    /// How often to look for new locks among all keys of the server
    #[arg(long, value_name = "TIME", value_parser = duration::any, default_value = "5s")]
    pub(crate) find_every: Duration,
}
