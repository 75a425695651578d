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
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.clone()),
        Some(ContextValue::Strings(texts)) => texts.first().cloned(),
        _ => None,
    };
    let (argument, value) = (text(ContextKind::InvalidArg), text(ContextKind::InvalidValue));
    let option = argument.as_deref().filter(|_| error.kind() == ErrorKind::UnknownArgument);
    let of_others = option.and_then(|option| {
        option_of_others(option).or_else(|| of_a_holder(option, error)).or_else(|| of_flock(option, error, command))
    });
    if error.get(ContextKind::SuggestedArg).is_some() && of_others.is_none() {
        // Only a word is misspelled.
        error.remove(ContextKind::Suggested);
        return None;
    }
    let tip = match (error.kind(), argument.as_deref()) {
        (ErrorKind::UnknownArgument, Some(option)) => match option {
            _ if of_others.is_some() => {
                error.remove(ContextKind::SuggestedArg);
                of_others?
            }
            _ if is_number(option) => "no time and no number here is negative".to_owned(),
            _ if has_command(error) && is_behind_a_name(option) => {
                // clap would advise `-- -x`, which makes an option the command.
                "options of fairlock come before the command, those of the command behind it".to_owned()
            }
            _ => {
                error.remove(ContextKind::Suggested);
                return None;
            }
        },
        (ErrorKind::MissingRequiredArgument, Some(missing)) if missing.contains("COMMAND") => {
            "to hold a lock without a command: fairlock hold NAME".to_owned()
        }
        // The word is one of `fairlock local`.
        (ErrorKind::InvalidSubcommand, _) if usage(error).contains("fairlock local") => return None,
        (ErrorKind::InvalidSubcommand, _) => {
            let word = text(ContextKind::InvalidSubcommand).unwrap_or_default();
            let meant = text(ContextKind::SuggestedSubcommand);
            if verb_of_others(&word).is_none() && meant.is_some_and(|meant| is_a_slip(&word, &meant)) {
                return None;
            }
            error.remove(ContextKind::SuggestedSubcommand);
            match verb_of_others(&word) {
                Some(tip) => tip.to_owned(),
                None if is_descriptor(&word) => of_descriptor(&word),
                None => {
                    format!("to run a command under the lock {0}: fairlock run {0} COMMAND", printable(&quoted(&word)))
                }
            }
        }
        (ErrorKind::ValueValidation | ErrorKind::InvalidValue, Some(option)) => {
            let long = option.split(' ').next()?.strip_prefix("--")?;
            // It has all options that have a variable.
            let run = command.find_subcommand("run")?;
            let variable = run.get_arguments().find(|arg| arg.get_long() == Some(long)).and_then(variables::of)?;
            let here = std::env::var_os(&variable)?;
            (here.to_str() == value.as_deref()).then(|| format!("the value comes from the variable {variable}"))?
        }
        _ => return None,
    };
    error.remove(ContextKind::Suggested);
    Some(tip)
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

/// Options of those who hold a lock, where one only looks on.
fn of_a_holder(option: &str, error: &clap::Error) -> Option<String> {
    let looks_on = usage(error).contains("fairlock status");
    let is_ours = ["--slots", "--shared", "--exclusive", "-s", "-x", "-e"].contains(&option);
    (looks_on && is_ours).then(|| format!("{option} is for run, hold and wait; status shows all holders"))
}

/// Options and descriptors where flock has them: before the name of a lock, which takes a subcommand here, and behind
/// that of `hold`.
fn of_flock(option: &str, error: &clap::Error, command: &clap::Command) -> Option<String> {
    let words: Vec<String> = std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
    let usage = usage(error);
    if usage.contains("fairlock hold") {
        let number = option.trim_start_matches('-');
        let behind = || words.iter().skip_while(|word| *word != "-fd").nth(1).filter(|word| is_descriptor(word));
        return match option {
            "-f" => behind().map(|number| of_descriptor(number)),
            // Behind an option it is meant as the value of that.
            _ => (is_descriptor(number) && is_no_value(option)).then(|| of_descriptor(number)),
        };
    }
    let run = command.find_subcommand("run").filter(|_| usage.contains("fairlock [OPTIONS] COMMAND"))?;
    let is_meant = |arg: &&clap::Arg| match option.strip_prefix("--") {
        Some(long) => arg.get_long() == Some(long) || arg.get_all_aliases().is_some_and(|all| all.contains(&long)),
        None => {
            let short = option.chars().nth(1);
            arg.get_short() == short || arg.get_all_short_aliases().is_some_and(|all| all.first().copied() == short)
        }
    };
    let of_run = run.get_arguments().find(is_meant)?;
    let takes_value = of_run.get_action().takes_values();
    // The first word that is no option, nor the value of this one.
    let mut rest = words.iter().skip_while(|word| !word.starts_with(option));
    if rest.next().is_some_and(|word| word == option) && takes_value {
        rest.next();
    }
    let first = rest.find(|word| !word.starts_with('-'));
    let value = if takes_value { " …" } else { "" };
    Some(match first {
        Some(number) if is_descriptor(number) && rest.next().is_none() => of_descriptor(number),
        _ => format!("options of run come behind it: fairlock run {option}{value} NAME COMMAND"),
    })
}

/// Whether no option is before this word.
fn is_no_value(word: &str) -> bool {
    let words: Vec<_> = std::env::args_os().collect();
    let before = words.windows(2).find(|pair| pair[1] == word);
    before.is_none_or(|pair| !pair[0].to_string_lossy().starts_with('-'))
}

fn is_descriptor(word: &str) -> bool {
    word.parse::<u16>().is_ok()
}

fn of_descriptor(number: &str) -> String {
    format!("to hold a lock until descriptor {number} is closed: fairlock hold NAME --fd {number}")
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

/// Whether one typing error makes a word of another: a character too many, too few or wrong, or two that changed
/// places.
fn is_a_slip(typed: &str, meant: &str) -> bool {
    let (typed, meant): (Vec<char>, Vec<char>) = (typed.chars().collect(), meant.chars().collect());
    let same = typed.iter().zip(&meant).take_while(|(one, other)| one == other).count();
    let (typed, meant) = (&typed[same..], &meant[same..]);
    let same = typed.iter().rev().zip(meant.iter().rev()).take_while(|(one, other)| one == other).count();
    match (&typed[..typed.len() - same], &meant[..meant.len() - same]) {
        ([a, b], [c, d]) => (a, b) == (d, c),
        (typed, meant) => typed.len() <= 1 && meant.len() <= 1,
    }
}

/// `-5`, which is meant as the value of an option.
fn is_number(option: &str) -> bool {
    option.strip_prefix('-').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
}

/// Whether a word that is no option comes before this one, after the subcommand.
fn is_behind_a_name(option: &str) -> bool {
    let words = std::env::args_os().skip(2).map(|word| word.to_string_lossy().into_owned());
    words.take_while(|word| !word.starts_with(option)).any(|word| !word.starts_with('-'))
}

fn usage(error: &clap::Error) -> String {
    error.get(ContextKind::Usage).map(ToString::to_string).unwrap_or_default()
}

/// Whether it was called wrongly before a command to run, or instead of one.
fn has_command(error: &clap::Error) -> bool {
    usage(error).contains("COMMAND...")
}

#[cfg(test)]
mod tests {
    use super::is_a_slip;

    #[test]
    fn one_typing_error_is_a_slip_and_two_are_another_word() {
        for typed in ["hodl", "hol", "hld", "hoold", "hold", "holt", "bold"] {
            assert!(is_a_slip(typed, "hold"), "{typed}");
        }
        for (typed, meant) in [("x", "exporter"), ("lock", "local"), ("who", "hold"), ("dloh", "hold"), ("", "hold")] {
            assert!(!is_a_slip(typed, meant), "{typed}");
        }
    }
}
