//! The progress line on stderr of a terminal: one line, rewritten in place.

use std::io::IsTerminal as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::termios::tcgetwinsize;

use crate::process::terminal::Terminal;
use crate::stderr;
use crate::text::{columns, head, printable, shorten};

/// The last columns stay free. The terminal shows `^C` behind the line, and a line that reaches the last column may
/// wrap; its first row could not be rewritten then.
const FREE: usize = 3;
/// A narrower terminal has no room for fairlock's name.
const WIDE: usize = 60;

/// Whether the line is on the terminal. A process has one terminal.
static DRAWN: AtomicBool = AtomicBool::new(false);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    Plain,
    Bold,
    Faint,
    Warning,
}

/// A part of the line. What changes comes first; the end may be cut. A faint part, the holder, is shortened in its
/// middle: a label has the machine at its beginning, and the script at its end.
pub(crate) type Part = (Style, String);

/// Draws the line, if a terminal shows stderr and fairlock is in its foreground. False if not.
pub(crate) fn draw(terminal: Option<&Terminal>, parts: &[Part]) -> bool {
    let screen = std::io::stderr();
    if !screen.is_terminal() || is_dumb() || !terminal.is_some_and(Terminal::is_ours) {
        return false;
    }
    let width = width();
    let own = (Style::Faint, "fairlock: ".to_owned());
    let own = (width >= WIDE).then_some(&own);
    let line = line(own.into_iter().chain(parts), width.saturating_sub(FREE), has_colours());
    // Before and after: a message of another thread may come in between, and erases what is there by then.
    DRAWN.store(true, Ordering::Relaxed);
    stderr::write_if_free(&format!("\r\x1b[K{line}"));
    DRAWN.store(true, Ordering::Relaxed);
    true
}

/// How long a wait has lasted: `0:07`, `1:02:03`.
pub(crate) fn clock(waited: Duration) -> String {
    let seconds = waited.as_secs();
    let (hours, minutes, rest) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    if hours > 0 { format!("{hours}:{minutes:02}:{rest:02}") } else { format!("{minutes}:{rest:02}") }
}

/// The name of a lock as a part of the line that leaves room for the others.
pub(crate) fn name(name: &str) -> String {
    shorten(&printable(name), width() / 4)
}

/// The columns of the terminal on stderr.
fn width() -> usize {
    // A terminal that does not know its size says zero.
    let width = tcgetwinsize(std::io::stderr()).map_or(0, |size| usize::from(size.ws_col));
    if width == 0 { 80 } else { width }
}

/// Leaves the terminal as if the line had never been there: for what is said next, or for the shell.
pub(crate) fn erase() {
    if DRAWN.swap(false, Ordering::Relaxed) {
        stderr::write("\r\x1b[K");
        // The command may be the next to write to stderr.
        stderr::flush(stderr::A_MOMENT);
    }
}

/// Whether the terminal only shows lines: it would show the signs that move the cursor, too.
pub(crate) fn is_dumb() -> bool {
    std::env::var_os("TERM").is_none_or(|terminal| terminal.is_empty() || terminal == "dumb")
}

/// As no-color.org asks: any text in NO_COLOR turns colours off.
pub(crate) fn has_colours() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()) && !is_dumb()
}

fn line<'a>(parts: impl Iterator<Item = &'a Part>, mut room: usize, colours: bool) -> String {
    let mut line = String::new();
    for (style, text) in parts {
        if room == 0 {
            break;
        }
        let shown = if *style == Style::Faint { shorten(text, room) } else { head(text, room).to_owned() };
        let is_short = shown.len() < text.len();
        room -= columns(&shown).min(room);
        let code = match style {
            Style::Plain => None,
            Style::Bold => Some(1),
            Style::Faint => Some(2),
            Style::Warning => Some(33),
        };
        match code.filter(|_| colours) {
            Some(code) => line.push_str(&format!("\x1b[{code}m{shown}\x1b[m")),
            None => line.push_str(&shown),
        }
        if is_short {
            break;
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::{Style, line};

    #[test]
    fn the_end_is_cut_by_columns_and_colours_take_none() {
        let parts = [(Style::Bold, "日本".to_owned()), (Style::Plain, "語 and".to_owned()), (Style::Faint, "x".into())];
        assert_eq!(line(parts.iter(), 7, true), "\x1b[1m日本\x1b[m語 ");
        assert_eq!(line(parts.iter(), 7, false), "日本語 ");
        assert_eq!(line(parts.iter(), 4, false), "日本");
        assert_eq!(line(parts.iter(), 80, false), "日本語 andx");
        let holder = [(Style::Plain, "· ".to_owned()), (Style::Faint, "held by ops@db1:1 dump.sh".to_owned())];
        assert_eq!(line(holder.iter(), 18, false), "· held by …dump.sh");
    }
}
