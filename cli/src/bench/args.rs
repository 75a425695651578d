//! The arguments of `fairlock bench`.

const HELP: &str = "\
A ratio says how often the same number of bare round trips would fit in: it can
be compared between machines, times cannot. A lock of a random name is used, and
nothing is left behind, also after Ctrl-C.

Examples:
  fairlock bench --rounds 50
Exit code: 125 if fairlock fails.";

#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// How often each thing is measured
    #[arg(long, value_name = "N", default_value_t = 500, value_parser = clap::value_parser!(u32).range(10..=100_000))]
    pub(crate) rounds: u32,
    /// How many clients want one lock in the last row
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(2..=64))]
    pub(crate) contenders: u32,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}
