//! What subcommands print.

use std::io::{ErrorKind, Write as _};

use rustix::termios::tcgetwinsize;
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

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

/// Lines of at most this many columns. A word that is longer is broken.
pub(crate) fn wrap(text: &str, columns: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    let mut used = 0;
    for word in text.split(' ') {
        if used > 0 && used + 1 + word.width() > columns {
            lines.push(String::new());
            used = 0;
        }
        for c in (if used > 0 { " " } else { "" }).chars().chain(word.chars()) {
            let width = c.width().unwrap_or(0);
            if used + width > columns && used > 0 {
                lines.push(String::new());
                used = 0;
            }
            if let Some(line) = lines.last_mut() {
                line.push(c);
            }
            used += width;
        }
    }
    lines
}

/// For a name that no other process chooses.
pub(crate) fn random_word() -> String {
    let seed = std::collections::hash_map::RandomState::new();
    format!("{:016x}", std::hash::BuildHasher::hash_one(&seed, std::process::id()))
}

#[cfg(test)]
mod tests {
    use super::wrap;

    #[test]
    fn lines_are_broken_between_words_and_long_words_within() {
        for (text, columns, lines) in [
            ("one two three", 7, &["one two", "three"][..]),
            ("one", 3, &["one"]),
            ("", 3, &[""]),
            ("abcdefg h", 3, &["abc", "def", "g h"]),
            ("日本語 a", 4, &["日本", "語 a"]),
        ] {
            assert_eq!(wrap(text, columns), lines, "{text}");
        }
    }
}
