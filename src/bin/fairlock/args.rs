//! The command line as a whole. Each subcommand's arguments and their help are in the module of that subcommand.

use std::ffi::OsString;

use clap::builder::FalseyValueParser;
use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

use crate::look::{breaking, list, status, wait};
use crate::run::hold;
use crate::{bench, connect, doctor, exporter, history, local, run, shipped, watch};

const TEMPLATE: &str = "\
{about-with-newline}
{usage-heading} {usage}

Commands:
{subcommands}{after-help}";

const SHORT: &str = "\
Examples:
  fairlock run deploy ./deploy.sh  one at a time, first come first served
  fairlock status deploy           who holds it, and who waits
Server: --redis URL, or REDIS_URL, or 127.0.0.1; --local is one of your own.";

const LONG: &str = "\
Examples:
  fairlock run deploy ./deploy.sh  one at a time, first come first served
  fairlock --local run build make  without a server of your own
  fairlock status deploy           who holds it, and who waits

Options before the command are those that every command has: --redis URL, --local, --prefix PREFIX, --tls-ca FILE, \
--tls-cert FILE and --tls-key FILE, which `fairlock run --help` explains; and --version.";

/// What a bug report needs: which build this is, and which servers and other versions it works with.
fn long_version() -> String {
    let libc = if cfg!(target_env = "musl") { " (musl, static)" } else { "" };
    let test_hooks = if cfg!(feature = "__test-hooks") { ", __test-hooks" } else { "" };
    format!(
        "{}\nfeatures: cli, tls (rustls){test_hooks}\nservers:  Redis 6.0 or newer, Valkey\nbuilt for {} {}{libc}",
        env!("CARGO_PKG_VERSION"),
        std::env::consts::OS,
        std::env::consts::ARCH,
    )
}

/// Fair distributed locks on Redis: first come, first served
#[derive(Debug, Parser)]
#[command(
    name = "fairlock",
    version,
    long_version = long_version(),
    help_template = TEMPLATE,
    after_help = SHORT,
    after_long_help = LONG,
    override_usage = "fairlock [OPTIONS] COMMAND",
    disable_help_subcommand = true,
    subcommand_required = true,
)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) server: connect::Args,
    #[command(subcommand)]
    pub(crate) task: Task,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Task {
    /// Wait in line for a lock, and run a command while holding it
    Run(run::Args),
    /// Hold a lock for a script, without a command
    Hold(hold::Args),
    /// Show which locks there are, the oldest hold first
    List(list::Args),
    /// Show who holds a lock, and who waits for it
    Status(status::Args),
    /// Wait until a lock is free, without taking it
    Wait(wait::Args),
    /// End the lease of a holder, by asking it or by force
    Break(breaking::Args),
    /// Look for what harms locks at the servers, and say what mends it
    Doctor(doctor::Args),
    /// Measure what a lock costs at your server
    Bench(bench::Args),
    /// Watch locks, holders and queues on the whole screen
    Watch(watch::Args),
    /// Show who had a lock lately, as a timeline
    History(history::Args),
    /// Serve metrics of locks to Prometheus
    Exporter(exporter::Args),
    /// The private server that --local uses
    Local(local::Args),
    /// Print completions for a shell
    Completions(shipped::Completions),
    /// Write man pages
    #[command(hide = true)]
    ManPages(shipped::ManPages),
}

/// The subcommands whose options may come from the environment. The options of the connection always may.
const WITH_VARIABLES: [&str; 2] = ["run", "hold"];
/// The options without a variable: they say which lock is taken, and what runs.
const WITHOUT_VARIABLE: [&str; 5] = ["and", "shell", "fd", "help", "version"];
/// Of two options that exclude each other, one on the command line replaces one in the environment.
const EXCLUSIVE: [[&str; 2]; 2] = [["timeout", "no_wait"], ["redis", "local"]];

/// The command with the environment's values, for parsing; `Cli::command()` is the same without them.
fn command_here() -> Command {
    let mut command = Cli::command().mut_args(or_from_environment);
    for name in WITH_VARIABLES {
        command = command.mut_subcommand(name, |command| command.mut_args(or_from_environment));
    }
    command
}

/// The variable of an option: `FAIRLOCK_NO_WAIT` for `--no-wait`.
pub(crate) fn variable(arg: &Arg) -> Option<String> {
    let long = arg.get_long().filter(|long| !WITHOUT_VARIABLE.contains(long))?;
    Some(format!("FAIRLOCK_{}", long.to_uppercase().replace('-', "_")))
}

/// A variable that is empty counts as unset, since a crontab cannot unset one.
fn or_from_environment(arg: Arg) -> Arg {
    let set = variable(&arg).filter(|name| std::env::var_os(name).is_some_and(|value| !value.is_empty()));
    let Some(name) = set else { return arg };
    let arg = arg.env(name).hide_env(true);
    if matches!(arg.get_action(), ArgAction::SetTrue) { arg.value_parser(FalseyValueParser::new()) } else { arg }
}

impl Cli {
    /// The arguments of this process, with what its environment adds.
    pub(crate) fn of_this_process() -> Result<Self, clap::Error> {
        Self::of(std::env::args_os())
    }

    /// The arguments that another process of this program was given.
    pub(crate) fn of(words: impl IntoIterator<Item = OsString>) -> Result<Self, clap::Error> {
        let mut command = command_here();
        let matches = command.try_get_matches_from_mut(words)?;
        let given = matches.subcommand().map_or(&matches, |(_, matches)| matches);
        for [one, other] in EXCLUSIVE {
            if on_the_line(given, one) && on_the_line(given, other) {
                let option = |id: &str| format!("--{}", id.replace('_', "-"));
                let said = format!("the argument '{}' cannot be used with '{}'", option(one), option(other));
                return Err(command.error(ErrorKind::ArgumentConflict, said));
            }
        }
        let mut cli = Self::from_arg_matches(&matches)?;
        if on_the_line(given, "redis") {
            cli.server.local = false;
        }
        if let (Task::Run(run::Args { wait, .. }) | Task::Hold(hold::Args { wait, .. }), true) =
            (&mut cli.task, on_the_line(given, "timeout"))
        {
            wait.no_wait = false;
        }
        Ok(cli)
    }
}

fn on_the_line(matches: &ArgMatches, id: &str) -> bool {
    matches!(matches.try_contains_id(id), Ok(true)) && matches.value_source(id) == Some(ValueSource::CommandLine)
}
