//! The arguments of `fairlock watch`.

const HELP: &str = "\
Keys: ↑ ↓ choose · Enter opens, Esc goes back · s sorts · q quits
      / filters by name or holder · b breaks the lease, after a question

Examples:
  fairlock watch                all locks, the oldest hold first
  fairlock watch 'deploy:*' db  some of them
Exit code: 125 without a terminal, or with TERM=dumb.";

#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// Names, or patterns with `*`, `?` and `[…]` [default: all]
    #[arg(value_name = "NAME")]
    pub(crate) names: Vec<String>,
}
