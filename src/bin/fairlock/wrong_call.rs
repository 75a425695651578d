//! What fairlock says of a call that it does not understand.

use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::text::printable;
use crate::{args, stderr, tips};

/// Writes what is wrong with the arguments. The message quotes them, so it is escaped as well.
pub(crate) fn say(mut error: clap::Error) {
    if let (ErrorKind::MissingSubcommand, Some(ContextValue::String(name))) =
        (error.kind(), error.get(ContextKind::InvalidSubcommand))
    {
        return stderr::write(&args::short_help(name));
    }
    let tip = tips::for_wrong_call(&mut error);
    let plain = error.render().to_string();
    let mut lines: String = plain.lines().map(|line| printable(line) + "\n").collect();
    if let Some(tip) = tip {
        // clap's own tips stand there too.
        let at = lines.find("\n\n").unwrap_or(lines.len());
        lines.insert_str(at, &format!("\n\n  tip: {tip}"));
    }
    stderr::write(&lines);
}
