//! The progress line on stderr: rewritten in place at a terminal; in a log, or in the background of a terminal, printed
//! when there is news.

use std::io::IsTerminal as _;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::termios::tcgetwinsize;
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

use crate::process::terminal::Terminal;
use crate::{exit, stderr};

/// The last columns stay free. The terminal shows `^C` behind the line, and a line that reaches the last column may
/// wrap; its first row could not be rewritten then.
const FREE: usize = 3;

/// Whether the line is on the terminal. A process has one terminal.
static DRAWN: AtomicBool = AtomicBool::new(false);

pub(crate) struct ProgressLine {
    told: String,
}

impl ProgressLine {
    pub(crate) fn new() -> Self {
        Self { told: String::new() }
    }

    /// `live` is for a terminal, and its end may be cut; `news` is for a log, and is printed once.
    pub(crate) fn show(&mut self, terminal: Option<&Terminal>, live: &str, news: &str) {
        let screen = std::io::stderr();
        if screen.is_terminal() && terminal.is_some_and(Terminal::is_ours) {
            // A terminal that does not know its size says zero.
            let width = tcgetwinsize(&screen).map_or(0, |size| usize::from(size.ws_col));
            let room = if width == 0 { 80 } else { width }.saturating_sub(FREE);
            let line = format!("\r\x1b[K{}", head(&format!("fairlock: {live}"), room));
            stderr::write_if_free(&line);
            DRAWN.store(true, Ordering::Relaxed);
            news.clone_into(&mut self.told);
        } else if self.told != news {
            erase();
            exit::say(news);
            news.clone_into(&mut self.told);
        }
    }
}

impl Drop for ProgressLine {
    fn drop(&mut self) {
        erase();
    }
}

/// Leaves the terminal as if the line had never been there: for what is said next, or for the shell.
pub(crate) fn erase() {
    if DRAWN.swap(false, Ordering::Relaxed) {
        stderr::write("\r\x1b[K");
        // The command may be the next to write to stderr.
        stderr::flush(stderr::A_MOMENT);
    }
}

/// The beginning of the text that fits into this many columns of a terminal.
fn head(text: &str, columns: usize) -> &str {
    let mut used = 0;
    let cut = text.char_indices().find(|(at, c)| {
        // Terminals disagree about sequences: some add up the widths of the characters, others know that of the whole.
        used += c.width().unwrap_or(1);
        used.max(text[..at + c.len_utf8()].width()) > columns
    });
    cut.map_or(text, |(at, _)| &text[..at])
}

#[cfg(test)]
mod tests {
    use super::head;

    #[test]
    fn columns_are_counted_and_not_characters() {
        for (text, columns, fits) in [
            ("abc", 3, "abc"),
            ("abc", 2, "ab"),
            ("abc", 0, ""),
            ("日本語", 6, "日本語"),
            ("日本語", 5, "日本"),
            ("ne\u{301}e", 2, "ne\u{301}"),
            ("🔒🔒", 3, "🔒"),
            // One character of one column, and a mark that gives it two.
            ("\u{260e}\u{fe0f}!", 2, "\u{260e}\u{fe0f}"),
            // A sequence that some terminals show as one flag, others as two letters of two columns each.
            ("\u{1f1ef}\u{1f1f5}", 3, "\u{1f1ef}\u{1f1f5}"),
        ] {
            assert_eq!(head(text, columns), fits, "{text} in {columns}");
        }
    }
}
