//! Texts that fit into a number of columns.

use std::time::{Duration, Instant};

use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

/// The text, or its beginning and an ellipsis.
pub(crate) fn fit(text: &str, columns: u16) -> String {
    let columns = usize::from(columns);
    if text.width() <= columns {
        return text.to_owned();
    }
    let mut used = 1; // the ellipsis
    let mut short = String::new();
    for c in text.chars() {
        used += c.width().unwrap_or(0);
        if used > columns {
            break;
        }
        short.push(c);
    }
    if columns > 0 {
        short.push('…');
    }
    short
}

/// A duration in at most seven columns, its largest two units.
pub(crate) fn words(span: Duration) -> String {
    let seconds = span.as_secs();
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86400);
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{minutes}m {:02}s", seconds % 60),
        3600..86400 => format!("{hours}h {:02}m", minutes % 60),
        86400..8_640_000 => format!("{days}d {:02}h", hours % 24),
        _ => format!("{days}d"),
    }
}

pub(crate) fn ago(then: Instant, now: Instant) -> String {
    words(now.duration_since(then))
}

/// The newest value on the right; the highest has the full height.
pub(crate) fn sparkline(newest_first: impl Iterator<Item = u64>, columns: usize) -> String {
    const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let mut values: Vec<u64> = newest_first.take(columns).collect();
    values.resize(columns, 0);
    values.reverse();
    let most = values.iter().copied().max().unwrap_or(0).max(1);
    // Nothing is the lowest bar, and anything is more than nothing.
    let bar = |value: u64| if value == 0 { 0 } else { 1 + usize::try_from((value - 1) * 7 / most).unwrap_or(6).min(6) };
    values.into_iter().map(|value| BARS[bar(value)]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_cut_by_columns() {
        for (text, columns, fits) in [
            ("abc", 3, "abc"),
            ("abcd", 3, "ab…"),
            ("日本語", 6, "日本語"),
            ("日本語", 5, "日本…"),
            ("日本語", 4, "日…"),
            ("abc", 1, "…"),
            ("abc", 0, ""),
        ] {
            assert_eq!(fit(text, columns), fits);
            assert!(fit(text, columns).width() <= columns.into());
        }
    }

    #[test]
    fn durations_take_at_most_seven_columns() {
        for (seconds, text) in [
            (0, "0s"),
            (59, "59s"),
            (60, "1m 00s"),
            (3599, "59m 59s"),
            (3600, "1h 00m"),
            (86399, "23h 59m"),
            (86400, "1d 00h"),
            (8_639_999, "99d 23h"),
            (8_640_000, "100d"),
        ] {
            let shown = words(Duration::from_secs(seconds));
            assert_eq!(shown, text);
            assert!(shown.len() <= 7);
        }
    }

    #[test]
    fn bars_grow_to_the_highest() {
        assert_eq!(sparkline([8, 4, 1, 0].into_iter(), 6), "▁▁▁▂▄█");
        assert_eq!(sparkline([1].into_iter(), 2), "▁▂");
        assert_eq!(sparkline([1, 2, 3, 4, 5, 6, 7].into_iter(), 3), "▄▆█");
    }
}
