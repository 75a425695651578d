//! The arguments of `fairlock doctor`.

use std::time::Duration;

use crate::duration;

const EXAMPLES: &str = "\
Examples:
  fairlock doctor --lease 2m  for jobs that run with this lease
  fairlock doctor --json      for programs";

const SHORT: &str = "\
Exit code: 0 nothing that harms locks, 1 a warning, 2 a fault, 125 wrongly
called. It changes nothing but a lock of a random name, whose keys it removes.";

const MORE: &str = "\
Doctor reads settings, tries each right with a call that changes nothing, measures round trips, and at last takes and \
releases a lock of a random name, whose keys it removes. What it may not see, such as CONFIG, it says.";

const CODES: &str = "\
Exit codes:
  0    nothing that harms locks (notes do not count)
  1    at least one warning
  2    at least one fault: locks fail, or two jobs may hold one lock
  125  fairlock was called wrongly";

#[derive(Debug, clap::Args)]
#[command(
    after_help = format!("{EXAMPLES}\n\n{SHORT}"),
    after_long_help = format!("{MORE}\n\n{EXAMPLES}\n\n{CODES}"),
)]
pub(crate) struct Args {
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
    /// The lease of the jobs
    ///
    /// Delays are compared with it.
    #[arg(long, value_parser = duration::positive, default_value = "30s", value_name = "TIME")]
    pub(crate) lease: Duration,
}
