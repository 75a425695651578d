//! Text from others, made fit for a terminal.

use std::fmt::Write as _;
use std::time::Duration;

/// Escapes what could drive a terminal or deceive its reader: names and labels are chosen by other users of the server.
pub(crate) fn printable(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        // Besides the control characters: line separators, and the marks that reorder text.
        let deceives =
            matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}');
        if c.is_control() || deceives {
            let _ = write!(out, "{}", c.escape_default());
        } else {
            out.push(c);
        }
    }
    out
}

/// A duration for people: whole seconds, since nobody reads more while waiting.
pub(crate) fn seconds(duration: Duration) -> String {
    humantime::format_duration(Duration::from_secs(duration.as_secs())).to_string()
}

#[cfg(test)]
mod tests {
    use super::printable;

    #[test]
    fn control_characters_are_escaped_and_letters_are_not() {
        assert_eq!(printable("nächtlich 日本 'a\"b'"), "nächtlich 日本 'a\"b'");
        assert_eq!(printable("a\x1b[2Jb\r\n\u{9b}c\u{202e}d"), r"a\u{1b}[2Jb\r\n\u{9b}c\u{202e}d");
    }
}
