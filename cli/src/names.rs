//! The names of locks, for the completions of shells.
//!
//! `fairlock __names` reads an unfinished line, and prints what may stand for its last word, if that word is the name
//! of a lock. Its exit code tells a shell that the word is a command, or an argument of one. It reads the line from stdin, because an argument is shown by `ps`, and the line may have a URL with a
//! password. The scripts for the shells know nothing of it but this call: which words are names, and which server the
//! line means, is read from the same arguments that they are parsed with.

use std::ffi::OsString;
use std::io::Read as _;
use std::process::ExitCode;
use std::sync::mpsc::channel;
use std::time::Duration;

use clap::{Arg, Command};

use crate::args::{self, Cli};
use crate::survey::Survey;
use crate::{connect, output};

pub(crate) const WORD: &str = "__names";

/// The exit codes for a line that ends in a command, and in an argument of one.
const COMMAND: u8 = 3;
const ARGUMENT: u8 = 4;

/// Somebody has pressed a key and waits. Without an answer by then there are no names.
const PATIENCE: Duration = Duration::from_millis(700);

pub(crate) fn main() -> ExitCode {
    let (send, found) = channel();
    // Its end is not awaited: the server may hang.
    let look = move || {
        let asked = line_of_stdin().map(|line| asked(&args::command(), &line));
        drop(send.send(match asked {
            Some(Asked::Name { options, typed }) => Ok(names(options, &typed).unwrap_or_default()),
            Some(Asked::Command) => Err(COMMAND),
            Some(Asked::Argument) => Err(ARGUMENT),
            Some(Asked::Other) | None => Ok(Vec::new()),
        }));
    };
    if std::thread::Builder::new().spawn(look).is_err() {
        return ExitCode::SUCCESS;
    }
    match found.recv_timeout(PATIENCE) {
        Ok(Ok(names)) => {
            let _ = output::write(&names.iter().map(|name| format!("{name}\n")).collect::<String>());
            ExitCode::SUCCESS
        }
        Ok(Err(code)) => ExitCode::from(code),
        Err(_) => ExitCode::SUCCESS,
    }
}

/// The line as it was typed. The shells end it with a newline.
fn line_of_stdin() -> Option<String> {
    let mut line = Vec::new();
    std::io::stdin().read_to_end(&mut line).ok()?;
    let line = String::from_utf8_lossy(&line);
    Some(line.strip_suffix('\n').unwrap_or(&line).to_owned())
}

/// None whenever a server does not answer.
fn names(options: Vec<String>, typed: &str) -> Option<Vec<String>> {
    let words = ["fairlock".to_owned()].into_iter().chain(options).chain(["status".to_owned()]);
    let cli = Cli::of(words.map(OsString::from)).ok()?;
    let places = connect::running(&cli.server).ok()??.places().ok()?;
    let found = Survey::new(places, &cli.server.prefix, &[], Duration::MAX).look(1).ok()?;
    Some(found.seen.into_keys().filter(|name| name.starts_with(typed) && is_plain(name)).collect())
}

/// What a line asks for.
#[derive(Debug, PartialEq, Eq)]
enum Asked {
    /// The name of a lock.
    Name {
        /// The options of the connection.
        options: Vec<String>,
        /// The beginning of the name.
        typed: String,
    },
    /// The command of `fairlock run`.
    Command,
    /// An argument of that command.
    Argument,
    Other,
}

fn asked(command: &Command, line: &str) -> Asked {
    let unquoted = |word: &str| word.replace(['\'', '"', '\\'], "");
    let mut words: Vec<String> = line.split_whitespace().map(unquoted).collect();
    let typed = if line.ends_with(char::is_whitespace) { Some(String::new()) } else { words.pop() };
    let Some(typed) = typed else { return Asked::Other };
    let (mut command, mut options, mut names) = (command, Vec::new(), 0);
    let mut words = words.into_iter().skip(1);
    let mut awaited: Option<&Arg> = None;
    while let Some(word) = words.next() {
        if let Some(arg) = option(command, &word) {
            let value = takes_value(arg) && !(word.starts_with("--") && word.contains('='));
            let value = if value { words.next() } else { None };
            // Only an option at the end of the line has no value yet.
            awaited = Some(arg).filter(|arg| takes_value(arg) && value.is_none() && !word.contains('='));
            if arg.is_global_set() {
                options.extend([word].into_iter().chain(value));
            }
        } else if word.starts_with('-') {
            // `--`, and options that there are not.
        } else if let Some(subcommand) = command.find_subcommand(&word) {
            command = subcommand;
        } else if command.get_positionals().nth(names).is_some_and(|place| place.get_id() == "command") {
            // What follows belongs to that command.
            return Asked::Argument;
        } else {
            names += 1;
        }
    }
    let place = match awaited {
        Some(arg) if arg.get_id() == "and" => "name",
        None if !typed.starts_with('-') => {
            let mut places = command.get_positionals();
            let place = places.nth(names).or_else(|| command.get_positionals().last().filter(|last| is_list(last)));
            place.map_or("", |place| place.get_id().as_str())
        }
        _ => "",
    };
    match place {
        "name" | "names" => Asked::Name { options, typed },
        "command" => Asked::Command,
        _ => Asked::Other,
    }
}

/// The option that this word names, in the command or for all of them. Of letters that are written together it is the
/// last one.
fn option<'a>(command: &'a Command, word: &str) -> Option<&'a Arg> {
    let is_meant = |arg: &&Arg| match word.strip_prefix("--") {
        Some(long) => {
            let long = long.split('=').next();
            let aliases = arg.get_all_aliases().unwrap_or_default();
            arg.get_long().into_iter().chain(aliases).any(|name| Some(name) == long)
        }
        None => {
            let letter = word.strip_prefix('-').and_then(|letters| letters.chars().last());
            let aliases = arg.get_all_short_aliases().unwrap_or_default();
            arg.get_short().into_iter().chain(aliases).any(|short| Some(short) == letter)
        }
    };
    command.get_arguments().find(is_meant)
}

fn takes_value(arg: &Arg) -> bool {
    arg.get_action().takes_values()
}

fn is_list(arg: &Arg) -> bool {
    arg.get_num_args().is_some_and(|count| count.max_values() > 1)
}

/// Whether a shell takes it for what it is. The names come from other users of the server, and a completion is put into
/// a line that is run next.
fn is_plain(name: &str) -> bool {
    !name.starts_with('-') && name.chars().all(|c| c.is_alphanumeric() || "_-.:/@+=,%".contains(c))
}

#[cfg(test)]
mod tests {
    use super::{Asked, asked, is_plain};
    use crate::args;

    #[test]
    fn a_name_is_completed_where_a_name_stands() {
        let command = args::command();
        for (line, typed) in [
            ("fairlock status ", Some("")),
            ("fairlock status a dep", Some("dep")),
            ("fairlock wait -w 10m dep", Some("dep")),
            ("fairlock run -t 10m dep", Some("dep")),
            ("fairlock run --wait 10m dep", Some("dep")),
            ("fairlock -q run -qw 10m --label x dep", Some("dep")),
            ("fairlock run 'dep", Some("dep")),
            ("fairlock run x ech", None),
            ("fairlock run x --and or", Some("or")),
            ("fairlock run x -a ", Some("")),
            ("fairlock run --label ", None),
            ("fairlock run --no", None),
            ("fairlock break --token 7 ", Some("")),
            ("fairlock break a ", None),
            ("fairlock history ", Some("")),
            ("fairlock watch a b", Some("b")),
            ("fairlock hold x --fd ", None),
            ("fairlock sta", None),
            ("fairlock local sta", None),
            ("", None),
        ] {
            let found = match asked(&command, line) {
                Asked::Name { typed, .. } => Some(typed),
                _ => None,
            };
            assert_eq!(found.as_deref(), typed, "{line}");
        }
    }

    #[test]
    fn a_command_is_completed_behind_the_name_and_what_follows_is_its_own() {
        let command = args::command();
        for (line, asks) in [
            ("fairlock run deploy ", Asked::Command),
            ("fairlock run -w 10m deploy ./de", Asked::Command),
            ("fairlock run deploy -- ", Asked::Command),
            ("fairlock run deploy -", Asked::Other),
            ("fairlock run deploy -w ", Asked::Other),
            ("fairlock run deploy tar -c ", Asked::Argument),
            ("fairlock run deploy -- tar --label ", Asked::Argument),
            ("fairlock hold deploy ", Asked::Other),
        ] {
            assert_eq!(asked(&command, line), asks, "{line}");
        }
    }

    #[test]
    fn the_server_is_the_one_of_the_line() {
        let line = "fairlock --redis redis://h:1 status --prefix=p --json --local x";
        let options = ["--redis", "redis://h:1", "--prefix=p", "--local"].map(str::to_owned).to_vec();
        assert_eq!(asked(&args::command(), line), Asked::Name { options, typed: "x".to_owned() });
    }

    #[test]
    fn a_name_that_a_shell_would_run_is_not_offered() {
        assert!(["prod:web/deploy", "日本語", "a.b-c_1"].into_iter().all(is_plain));
        assert!(!["$(reboot)", "a b", "a;b", "-x", "`x`", "a\nb", "\u{1b}[2J", "a'b"].into_iter().any(is_plain));
    }
}
