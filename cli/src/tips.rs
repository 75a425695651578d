//! What to do instead, after a wrong call.

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::text::{printable, quoted};
use crate::variables;

/// A command that was not found may be a line for a shell; or a number behind `-n`, which means a semaphore elsewhere.
pub(crate) fn for_no_command(name: &str, no_wait: bool, words: &[OsString]) -> Option<String> {
    let first = words.first().map(|word| word.to_string_lossy()).unwrap_or_default();
    let number = [name, &*first].into_iter().find(|word| word.parse::<u32>().is_ok()).filter(|_| no_wait);
    if let Some(number) = number {
        return Some(format!("-n is --no-wait; --slots {number} lets up to {number} jobs hold the lock"));
    }
    let is_line = words.len() == 1 && first.contains(|c: char| c.is_whitespace() || "|&;<>$()`".contains(c));
    is_line.then(|| "a shell line needs --shell, or: -- sh -c '…'".to_owned())
}

/// The advice for a wrong call, if there is better than clap's.
pub(crate) fn for_wrong_call(error: &mut clap::Error, command: &clap::Command) -> Option<String> {
    let usage = error.get(ContextKind::Usage).map(ToString::to_string).unwrap_or_default();
    let is_before_a_subcommand = usage.contains("fairlock [OPTIONS] COMMAND");
    if !is_before_a_subcommand {
        // clap would advise `-- -x`, which makes an option the command.
        error.remove(ContextKind::Suggested);
    }
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.clone()),
        Some(ContextValue::Strings(texts)) => texts.first().cloned(),
        _ => None,
    };
    let argument = text(ContextKind::InvalidArg);
    let tip = match (error.kind(), argument.as_deref()) {
        // `break` has --slot, which clap names.
        (ErrorKind::UnknownArgument, Some(option @ ("--slots" | "-s" | "--shared" | "-x" | "-e" | "--exclusive")))
            if !is_before_a_subcommand && error.get(ContextKind::SuggestedArg).is_none() =>
        {
            format!("{option} is for run, hold and wait; status shows how many may hold a lock")
        }
        (ErrorKind::UnknownArgument, Some(option)) => {
            let of_run = || is_before_a_subcommand && is_option(command.find_subcommand("run"), option);
            // As flock has them: before the name, which takes a subcommand here.
            option_of_others(option).or_else(|| {
                of_run().then(|| format!("options of run come behind it, as in: fairlock run {option} … NAME COMMAND"))
            })?
        }
        (ErrorKind::MissingRequiredArgument, Some(missing)) if missing.contains("COMMAND") => {
            "to hold a lock without a command: fairlock hold NAME".to_owned()
        }
        // The word is one of `fairlock local`.
        (ErrorKind::InvalidSubcommand, _) if usage.contains("fairlock local") => return None,
        (ErrorKind::InvalidSubcommand, _) => {
            let word = text(ContextKind::InvalidSubcommand)?;
            let similar =
                text(ContextKind::SuggestedSubcommand).map(|similar| format!("a similar subcommand is {similar}; "));
            let lock = printable(&quoted(&word));
            let runs = || {
                format!(
                    "{}to run a command under the lock {lock}: fairlock run {lock} COMMAND",
                    similar.unwrap_or_default()
                )
            };
            verb_of_others(&word).map_or_else(runs, ToOwned::to_owned)
        }
        (ErrorKind::ValueValidation | ErrorKind::InvalidValue, Some(option)) => {
            let long = option.split(' ').next()?.strip_prefix("--")?;
            // It has all options that have a variable.
            let run = command.find_subcommand("run")?;
            let variable = run.get_arguments().find(|arg| arg.get_long() == Some(long)).and_then(variables::of)?;
            let here = std::env::var_os(&variable)?;
            let is_here = here.to_str() == text(ContextKind::InvalidValue).as_deref();
            is_here.then(|| format!("the value comes from the variable {variable}"))?
        }
        _ => return None,
    };
    for suggestion in [ContextKind::Suggested, ContextKind::SuggestedArg, ContextKind::SuggestedSubcommand] {
        error.remove(suggestion);
    }
    Some(tip)
}

fn is_option(of: Option<&clap::Command>, word: &str) -> bool {
    let names = |arg: &clap::Arg| {
        let long = arg.get_long_and_visible_aliases().unwrap_or_default();
        let short = arg.get_short_and_visible_aliases().unwrap_or_default();
        let is_long = word.strip_prefix("--").is_some_and(|name| long.contains(&name));
        is_long || short.iter().any(|letter| word == format!("-{letter}"))
    };
    of.is_some_and(|command| command.get_arguments().any(names))
}

/// Options of flock that make no sense here, and what others call a semaphore, a reader and a writer.
fn option_of_others(option: &str) -> Option<String> {
    let tip = match option {
        "-u" | "--unlock" => {
            "a lock is released when its command ends; a script that holds it releases it by `fairlock hold NAME -u`, or by \
             closing the descriptor, as in `exec 9>&-`"
        }
        "-j" | "--jobs" | "--concurrency" | "--count" | "--limit" | "--max" | "--permits" | "--semaphore" => {
            "--slots N lets up to N jobs hold the lock"
        }
        "--read" | "--reader" | "--readers" | "--rdlock" | "--write" | "--writer" | "--wrlock" => {
            "--shared is for a reader, and without it the job is a writer"
        }
        _ => return None,
    };
    Some(tip.to_owned())
}

/// Verbs of other programs.
fn verb_of_others(word: &str) -> Option<&'static str> {
    Some(match word {
        "lock" | "acquire" => "fairlock run NAME COMMAND holds it for a command, fairlock hold NAME for a script",
        "unlock" | "release" => {
            "a lock is released when its command or script ends; fairlock break NAME ends the lease of another"
        }
        "downgrade" | "upgrade" => {
            "no command makes a reader of a writer or a writer of a reader: end it, and start the other one"
        }
        "kill" => "fairlock break NAME ends the lease of a holder, and its command with it",
        "list" | "ls" => "fairlock status shows which locks there are",
        "top" => "fairlock watch shows all locks on the whole screen",
        "who" => "fairlock status NAME shows who holds a lock, and who waits for it",
        _ => return None,
    })
}
