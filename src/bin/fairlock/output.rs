//! What subcommands print.

use std::io::{ErrorKind, Write as _};

use rustix::termios::tcgetwinsize;

use crate::exit::Failure;

/// Writes to stdout. A reader that closes the pipe, as `head` does, is no failure.
pub(crate) fn write(text: &str) -> Result<(), Failure> {
    let mut stdout = std::io::stdout();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(Failure::because("cannot write to stdout", error)),
        _ => Ok(()),
    }
}

/// The columns of the terminal on stdout, or 80.
pub(crate) fn width() -> usize {
    let columns = tcgetwinsize(std::io::stdout()).map_or(0, |size| usize::from(size.ws_col));
    if columns == 0 { 80 } else { columns.max(40) }
}

/// For a name that no other process chooses.
pub(crate) fn random_word() -> String {
    let seed = std::collections::hash_map::RandomState::new();
    format!("{:016x}", std::hash::BuildHasher::hash_one(&seed, std::process::id()))
}
