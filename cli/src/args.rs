//! The command line as a whole. Each subcommand's arguments and their help are in the module of that subcommand.

use std::any::TypeId;
use std::ffi::OsString;
use std::path::PathBuf;

use clap::builder::FalseyValueParser;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

use crate::look::{breaking, status, wait};
use crate::text::printable;
use crate::{connect, doctor, exporter, history, local, run, shipped, stderr, tips, variables, watch};

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

Options before the command are those that every command has: --redis URL, --local, --prefix PREFIX, --user NAME, \
--password-file FILE, --password-command COMMAND, --tls-ca FILE, --tls-cert FILE and --tls-key FILE, which \
`fairlock help connection` explains; and --version.";

/// At the end of the help of each subcommand that asks a server.
const CONNECTION: &str = "\
`fairlock help connection` explains the options of the connection: users, passwords, TLS, Sentinel and Cluster.";

/// What a bug report needs: which build this is, and which servers and other versions it works with.
fn long_version() -> String {
    let libc = if cfg!(target_env = "musl") { " (musl, static)" } else { "" };
    format!(
        "{}\nfeatures: tls (rustls)\nservers:  Redis 6.0 or newer, Valkey\nbuilt for {} {}{libc}",
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
    Hold(run::HoldArgs),
    /// Show locks, who holds them, and who waits
    Status(status::Args),
    /// Wait until locks are free, without taking them
    Wait(wait::Args),
    /// End the lease of a holder, by asking it or by force
    Break(breaking::Args),
    /// Look for what harms locks at the servers, and say what to do
    Doctor(doctor::Args),
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
    /// Which server keeps the locks, and how to reach it
    ///
    /// These options may stand before or behind any command. Most of them have variables (docs/command-line.md).
    #[command(hide = true, override_usage = "fairlock [OPTIONS] COMMAND")]
    Connection,
}

/// The subcommands that ask no server, so that their helps leave out the options of the connection.
const WITHOUT_SERVER: [&str; 3] = ["local", "completions", "man-pages"];

/// The subcommand that only has a help: that of the options of the connection. The helps of the others name only two of
/// them.
const ABOUT_CONNECTIONS: &str = "connection";
const NAMED_EVERYWHERE: [&str; 2] = ["redis", "local"];

/// The command as completions and man pages show it. A page has all of its options.
pub(crate) fn command() -> Command {
    in_full(Cli::command(), connect::MORE_SERVERS)
}

/// The same with the values of the environment, for parsing, and with helps that leave out what they have in common.
fn command_here() -> Command {
    let mut command = Cli::command().mut_args(or_from_environment);
    for name in ["run", "hold"] {
        command = command.mut_subcommand(name, |command| command.mut_args(or_from_environment));
    }
    in_full(command, CONNECTION).mut_subcommands(|command| match command.get_name() {
        ABOUT_CONNECTIONS => command,
        _ => command.mut_args(|arg| {
            let short = arg.get_help().cloned();
            match arg.get_id().as_str() {
                _ if !arg.is_global_set() => arg,
                id if NAMED_EVERYWHERE.contains(&id) => arg.long_help(short.unwrap_or_default()),
                _ => arg.hide_long_help(true),
            }
        }),
    })
}

/// With this below the long help of each subcommand that asks a server.
fn in_full(mut command: Command, closing: &str) -> Command {
    // Only now each subcommand has the options of the connection.
    command.build();
    command.mut_subcommands(|command| {
        let closing = match command.get_name() {
            name if WITHOUT_SERVER.contains(&name) => return without_server(command),
            ABOUT_CONNECTIONS => connect::MORE_SERVERS,
            _ => closing,
        };
        let below = command.get_after_long_help().or(command.get_after_help()).map(|below| format!("{below}\n\n"));
        command.after_long_help(below.unwrap_or_default() + closing)
    })
}

fn without_server(command: Command) -> Command {
    let command = command.mut_args(|arg| if arg.is_global_set() { arg.hide(true) } else { arg });
    command.mut_subcommands(without_server)
}

/// The short help of this command, or of a subcommand, named as in `fairlock local`.
fn short_help(name: &str) -> String {
    let mut command = command();
    let subcommand = name.split(' ').nth(1).and_then(|word| command.find_subcommand_mut(word));
    match subcommand {
        Some(subcommand) => subcommand.render_help().to_string(),
        None => command.render_help().to_string(),
    }
}

/// `fairlock help run` is `fairlock run --help`.
fn or_help(words: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut words: Vec<OsString> = words.into_iter().collect();
    if words.get(1).is_some_and(|word| word == "help") {
        words.remove(1);
        words.push("--help".into());
    }
    words
}

/// A variable that is empty counts as unset, since a crontab cannot unset one.
fn or_from_environment(arg: Arg) -> Arg {
    let is_set = |name: &String| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let Some(name) = variables::of(&arg).filter(is_set) else { return arg };
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
        let (mut command, words) = (command_here(), or_help(words));
        let matches = command.try_get_matches_from_mut(&words).map_err(|error| match error.kind() {
            ErrorKind::InvalidUtf8 => command_here().error(ErrorKind::InvalidUtf8, not_utf_8(words)),
            _ => error,
        })?;
        let given = matches.subcommand().map_or(&matches, |(_, matches)| matches);
        let mut cli = Self::from_arg_matches(&matches)?;
        // Of these two, one on the command line replaces one in the environment.
        if on_the_line(given, "redis") {
            if on_the_line(given, "local") {
                return Err(not_with_local(&mut command, "redis"));
            }
            cli.server.local = false;
        }
        // The private server knows no users. Those of variables are for the other servers.
        let login = ["user", "password_file", "password_command"].into_iter().find(|id| on_the_line(given, id));
        match login.filter(|_| cli.server.local) {
            Some(id) => Err(not_with_local(&mut command, &id.replace('_', "-"))),
            None => Ok(cli),
        }
    }
}

fn not_with_local(command: &mut Command, option: &str) -> clap::Error {
    command.error(ErrorKind::ArgumentConflict, format!("the argument '--{option}' cannot be used with '--local'"))
}

/// Which argument or variable has to be UTF-8 and is not. clap does not say, and those of the command, and paths, may be
/// anything. So one after the other is made UTF-8, until clap does not complain any more.
fn not_utf_8(mut words: Vec<OsString>) -> String {
    const OWN: &str = "is not valid UTF-8: names, labels and options must be";
    for at in 0..words.len() {
        if let Err(word) = words[at].clone().into_string() {
            let shown = word.to_string_lossy().into_owned();
            words[at] = shown.clone().into();
            let again = command_here().try_get_matches_from(&words);
            if again.err().is_none_or(|error| error.kind() != ErrorKind::InvalidUtf8) {
                return format!("the argument '{shown}' {OWN}");
            }
        }
    }
    let is_text = |arg: &&Arg| arg.get_value_parser().type_id() != TypeId::of::<PathBuf>();
    let command = command();
    let run = command.find_subcommand("run").into_iter().flat_map(Command::get_arguments);
    let mut named = run.filter(is_text).filter_map(variables::of);
    let found = named.find(|name| std::env::var_os(name).is_some_and(|value| value.to_str().is_none()));
    found.map_or_else(|| format!("a variable {OWN}"), |name| format!("the variable {name} {OWN}"))
}

fn on_the_line(matches: &ArgMatches, id: &str) -> bool {
    matches!(matches.try_contains_id(id), Ok(true)) && matches.value_source(id) == Some(ValueSource::CommandLine)
}

/// Writes what is wrong with the arguments. The message quotes them, so it is escaped as well.
pub(crate) fn say_wrong_call(mut error: clap::Error) {
    if let (ErrorKind::MissingSubcommand, Some(ContextValue::String(name))) =
        (error.kind(), error.get(ContextKind::InvalidSubcommand))
    {
        return stderr::write(&short_help(name));
    }
    let tip = tips::for_wrong_call(&mut error, &command());
    let plain = error.render().to_string();
    let mut lines: String = plain.lines().map(|line| printable(line) + "\n").collect();
    if let Some(tip) = tip {
        // clap's own tips stand there too.
        let at = lines.find("\n\n").unwrap_or(lines.len());
        lines.insert_str(at, &format!("\n\n  tip: {tip}"));
    }
    stderr::write(&lines);
}
