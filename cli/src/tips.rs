//! What to do instead, after a wrong call.

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::text::printable;

/// A command that was not found may be a line for a shell.
pub(crate) fn for_no_command(words: &[OsString]) -> Option<&'static str> {
    let [word] = words else { return None };
    let is_line = word.to_string_lossy().contains(|c: char| c.is_whitespace() || "|&;<>$()`".contains(c));
    is_line.then_some("a shell line needs --shell, or: -- sh -c '…'")
}

/// The advice for a wrong call, if there is better than clap's.
pub(crate) fn for_wrong_call(error: &mut clap::Error) -> Option<String> {
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.clone()),
        Some(ContextValue::Strings(texts)) => texts.first().cloned(),
        _ => None,
    };
    let (argument, value) = (text(ContextKind::InvalidArg), text(ContextKind::InvalidValue));
    if error.get(ContextKind::SuggestedArg).is_some() {
        // Only a word is misspelled.
        error.remove(ContextKind::Suggested);
        return None;
    }
    let tip = match (error.kind(), argument.as_deref()) {
        (ErrorKind::UnknownArgument, Some(option)) => match option {
            "-x" | "-e" | "--exclusive" => "every lock is exclusive: leave the option out".to_owned(),
            "-s" | "--shared" => "every lock is exclusive: there is no shared one".to_owned(),
            "-u" | "--unlock" => "a lock is released when its command ends".to_owned(),
            "-o" | "--close" => "the command never inherits the lock: leave the option out".to_owned(),
            _ if has_command(error) => {
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
        // clap knows a word that is meant, or the word is one of `fairlock local`.
        (ErrorKind::InvalidSubcommand, _) if error.get(ContextKind::SuggestedSubcommand).is_some() => return None,
        (ErrorKind::InvalidSubcommand, _) if usage(error).contains("fairlock local") => return None,
        (ErrorKind::InvalidSubcommand, _) => {
            let word = text(ContextKind::InvalidSubcommand).unwrap_or_default();
            format!("to run a command under the lock {0}: fairlock run {0} COMMAND", printable(&word))
        }
        (ErrorKind::ValueValidation | ErrorKind::InvalidValue, Some(option)) => {
            let long = option.split(' ').next()?.strip_prefix("--")?;
            let variable = format!("FAIRLOCK_{}", long.to_uppercase().replace('-', "_"));
            let here = std::env::var_os(&variable)?;
            (here.to_str() == value.as_deref()).then(|| format!("the value comes from the variable {variable}"))?
        }
        _ => return None,
    };
    error.remove(ContextKind::Suggested);
    Some(tip)
}

fn usage(error: &clap::Error) -> String {
    error.get(ContextKind::Usage).map(ToString::to_string).unwrap_or_default()
}

/// Whether it was called wrongly before a command to run, or instead of one.
fn has_command(error: &clap::Error) -> bool {
    usage(error).contains("COMMAND...")
}
