//! Texts for people: escaped so that names and labels of others cannot control a terminal.

use std::fmt::Write as _;
use std::time::{Duration, SystemTime};

use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

use crate::duration::{about, seconds};

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

/// A word for a shell, in a line that is proposed.
pub(crate) fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "+-_.:/@=,%".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

/// A place in a queue: 1st, 2nd, 3rd, 4th.
pub(crate) fn ordinal(number: u64) -> String {
    let ending = match (number % 10, number % 100) {
        (_, 11..=13) => "th",
        (1, _) => "st",
        (2, _) => "nd",
        (3, _) => "rd",
        _ => "th",
    };
    format!("{number}{ending}")
}

/// A moment for programs, in UTC: `2026-11-22T12:01:07.250Z`.
pub(crate) fn iso(time: SystemTime) -> String {
    humantime::format_rfc3339_millis(time).to_string()
}

/// A moment for people, in UTC: `2026-11-22 12:01:07`.
pub(crate) fn moment(time: SystemTime) -> String {
    humantime::format_rfc3339_seconds(time).to_string().replace('T', " ").replace('Z', "")
}

/// The columns that a terminal needs for this text. Terminals disagree about sequences: some add up the widths of the
/// characters, others know that of the whole. The larger one counts.
pub(crate) fn columns(text: &str) -> usize {
    text.chars().map(|c| c.width().unwrap_or(1)).sum::<usize>().max(text.width())
}

/// The beginning of the text that fits into this many columns of a terminal.
pub(crate) fn head(text: &str, room: usize) -> &str {
    let mut used = 0;
    let cut = text.char_indices().find(|(at, c)| {
        used += c.width().unwrap_or(1);
        used.max(text[..at + c.len_utf8()].width()) > room
    });
    cut.map_or(text, |(at, _)| &text[..at])
}

/// The same, with a mark where something was cut off.
pub(crate) fn cut(text: &str, room: usize) -> String {
    if columns(text) <= room { text.to_owned() } else { format!("{}…", head(text, room.saturating_sub(1))) }
}

/// The same for names and labels, without the middle: the beginning and the end tell more.
pub(crate) fn shorten(text: &str, room: usize) -> String {
    if columns(text) <= room {
        return text.to_owned();
    }
    let end = tail(text, room.saturating_sub(1) / 2);
    format!("{}…{end}", head(text, room.saturating_sub(1 + columns(end))))
}

/// The end of the text that fits into this many columns. It begins with a character that has columns of its own.
fn tail(text: &str, room: usize) -> &str {
    let mut start = text.len();
    for (at, c) in text.char_indices().rev() {
        if columns(&text[at..]) > room {
            break;
        }
        if c.width().unwrap_or(1) > 0 {
            start = at;
        }
    }
    &text[start..]
}

/// Whether the lock has passed to a waiter that seems to be dead: a living one confirms its grant within moments.
pub(crate) fn is_unanswered(confirmed: bool, held_for: Duration) -> bool {
    !confirmed && held_for >= Duration::from_secs(1)
}

/// `granted 8s ago to ops@db1:14380 deploy.sh, which has not answered`
pub(crate) fn granted_to(label: &str, ago: Duration) -> String {
    format!("granted {} ago to {label}{UNANSWERED}", about(ago))
}

pub(crate) const UNANSWERED: &str = ", which has not answered";

/// `held 12m by ops@db1:14380 deploy.sh`
pub(crate) fn held_by(label: &str, held_for: Duration) -> String {
    if held_for < Duration::from_secs(1) {
        format!("held by {label}")
    } else {
        format!("held {} by {label}", about(held_for))
    }
}

/// One of the two: what an operator or a waiter is told of a holder.
pub(crate) fn hold(confirmed: bool, label: &str, held_for: Duration) -> String {
    if is_unanswered(confirmed, held_for) {
        format!("held by nobody yet: {}", granted_to(label, held_for))
    } else {
        held_by(label, held_for)
    }
}

/// What a holder or waiter is called, for people.
pub(crate) fn name_of(label: &str, id: &str) -> String {
    printable(if label.is_empty() { id } else { label })
}

/// Describes a lock in recovery.
pub(crate) fn no_grants(longest: Duration) -> String {
    let longest = seconds(longest.max(Duration::from_secs(1)));
    format!("recovering: the server lost data, and grants nothing for up to {longest}, until its clients are back")
}

#[cfg(test)]
mod tests {
    use super::{columns, cut, head, ordinal, printable, printable_json, shorten};

    #[test]
    fn columns_are_counted_and_not_characters() {
        for (text, room, fits) in [
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
            assert_eq!(head(text, room), fits, "{text} in {room}");
        }
        assert_eq!((cut("日本語", 6), cut("日本語", 5)), ("日本語".to_owned(), "日本…".to_owned()));
        assert_eq!(columns(&cut("日本語", 4)), 3);
    }

    #[test]
    fn a_short_form_keeps_beginning_and_end() {
        for (text, room, short) in [
            ("reports:2026:nightly", 20, "reports:2026:nightly"),
            ("reports:2026:nightly", 10, "repor…htly"),
            ("日本語日本語", 8, "日本…語"),
            ("abcne\u{301}", 4, "ab…e\u{301}"),
            ("abc", 1, "…"),
        ] {
            assert_eq!(shorten(text, room), short, "{text} in {room}");
            assert!(columns(short) <= room);
        }
    }

    #[test]
    fn ordinals_read_as_people_say_them() {
        let said: Vec<String> = [1, 2, 3, 4, 11, 12, 13, 21, 102, 111].into_iter().map(ordinal).collect();
        assert_eq!(said, ["1st", "2nd", "3rd", "4th", "11th", "12th", "13th", "21st", "102nd", "111th"]);
    }

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
