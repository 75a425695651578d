//! Texts for people: escaped so that names and labels of others cannot control a terminal.

use std::fmt::Write as _;
use std::time::Duration;

/// Escapes characters that could control a terminal or deceive its reader. Other users of the server choose names and
/// labels.
pub(crate) fn printable(text: &str) -> String {
    escape(text, |out, c| write!(out, "{}", c.escape_default()))
}

/// The same for a JSON document, in JSON's own escapes, so that its values stay the same.
pub(crate) fn printable_json(json: &str) -> String {
    escape(json, |out, c| c.encode_utf16(&mut [0; 2]).iter().try_for_each(|unit| write!(out, "\\u{unit:04x}")))
}

fn escape(text: &str, write: impl Fn(&mut String, char) -> std::fmt::Result) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if shows(c) {
            out.push(c);
        } else {
            let _ = write(&mut out, c);
        }
    }
    out
}

/// Whether a reader sees which character this is. Control characters, marks that reorder text, invisible characters,
/// unusual spaces and unassigned code points do not show. The standard library knows them all, and escapes them in
/// `{:?}`.
fn shows(c: char) -> bool {
    if c.is_ascii() {
        return !c.is_ascii_control();
    }
    // After a letter, because an accent alone would be escaped too.
    let mut text = String::from("a");
    text.push(c);
    text.escape_debug().count() == 2
}

/// A duration for people, in whole seconds.
pub(crate) fn seconds(duration: Duration) -> String {
    humantime::format_duration(Duration::from_secs(duration.as_secs())).to_string()
}

/// Describes a lock in recovery.
pub(crate) fn no_grants(longest: Duration) -> String {
    let longest = seconds(longest.max(Duration::from_secs(1)));
    format!("recovering: the server lost data, and grants nothing for up to {longest}, until its clients are back")
}

#[cfg(test)]
mod tests {
    use super::{printable, printable_json};

    #[test]
    fn control_characters_are_escaped_and_letters_are_not() {
        for text in ["nächtlich 日本 'a\"b'\\", "e\u{301}", "नमस्ते", "🔒"] {
            assert_eq!((printable(text), printable_json(text)), (text.to_owned(), text.to_owned()));
        }
        assert_eq!(printable("a\x1b[2Jb\r\n\u{9b}c\u{202e}d"), r"a\u{1b}[2Jb\r\n\u{9b}c\u{202e}d");
        for c in [
            '\u{7f}',
            '\u{ad}',
            '\u{61c}',
            '\u{200b}',
            '\u{2028}',
            '\u{2066}',
            '\u{206a}',
            '\u{feff}',
            '\u{fff9}',
            '\u{e0041}',
        ] {
            assert_eq!(printable(&c.to_string()), c.escape_unicode().to_string());
        }
        assert_eq!(printable_json("\u{7f}\u{e0041}"), r"\u007f\udb40\udc41");
    }
}
