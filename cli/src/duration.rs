//! Durations, as arguments have them, and as screens and documents show them.

use std::time::Duration;

const NO_TIME: &str = "no time: give seconds, or a time such as 90s, 10m or 1h";
const TOO_LONG: &str = "longer than can be counted";

/// Such as `90s` or `1h`, or a number of seconds.
pub(crate) fn any(text: &str) -> Result<Duration, String> {
    let time = match text.parse::<f64>() {
        Ok(seconds) if seconds.is_nan() => Err(NO_TIME),
        Ok(seconds) => Duration::try_from_secs_f64(seconds).map_err(|_| TOO_LONG),
        Err(_) => humantime::parse_duration(text).map_err(|_| NO_TIME),
    };
    time.map_err(str::to_owned)
}

pub(crate) fn positive(text: &str) -> Result<Duration, String> {
    any(text).and_then(|time| if time.is_zero() { Err("must be more than zero".to_owned()) } else { Ok(time) })
}

/// A value of an option: how long to wait.
pub(crate) fn timeout(text: &str) -> Result<Duration, String> {
    const DAYS: u64 = 366;
    match any(text) {
        Ok(time) if time <= Duration::from_secs(DAYS * 24 * 3600) => Ok(time),
        Err(error) if error != TOO_LONG => Err(error),
        _ => Err(format!("must be at most {DAYS} days; without the option it waits for ever")),
    }
}

/// A duration for people, as exact as they can use it: `1m 5s`, `12s`, `850ms`, `1.2ms`, `85µs`.
pub(crate) fn shown(span: Duration) -> String {
    let us = span.as_micros();
    match us {
        0..1_000 => format!("{us}µs"),
        1_000..10_000 => format!("{:.1}ms", span.as_secs_f64() * 1e3),
        10_000..10_000_000 => humantime::format_duration(Duration::from_millis(span.as_millis() as u64)).to_string(),
        _ => seconds(span),
    }
}

/// A duration in at most seven columns, its largest two units.
pub(crate) fn short(span: Duration) -> String {
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

/// A duration for people, in whole seconds.
pub(crate) fn seconds(duration: Duration) -> String {
    humantime::format_duration(Duration::from_secs(duration.as_secs())).to_string()
}

/// A duration for people, as short as a changing line needs it: its largest unit, and hours with their minutes.
pub(crate) fn about(duration: Duration) -> String {
    let seconds = duration.as_secs();
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60);
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{minutes}m"),
        3600..86_400 => format!("{hours}h {minutes}m"),
        _ => format!("{days}d {hours}h"),
    }
}

/// For documents: whole milliseconds.
pub(crate) fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{about, short, shown};

    #[test]
    fn durations_are_as_exact_as_people_can_use_them() {
        let seconds = Duration::from_secs_f64;
        for (span, text) in [
            (0.0, "0µs"),
            (0.000_085, "85µs"),
            (0.001_24, "1.2ms"),
            (0.85, "850ms"),
            (1.5, "1s 500ms"),
            (12.3, "12s"),
            (65.0, "1m 5s"),
            (90_000.0, "1day 1h"),
        ] {
            assert_eq!(shown(seconds(span)), text);
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
            let shown = short(Duration::from_secs(seconds));
            assert_eq!(shown, text);
            assert!(shown.len() <= 7);
        }
    }

    #[test]
    fn a_rough_duration_is_its_largest_unit() {
        let said: Vec<String> =
            [0, 59, 60, 3599, 3600, 86_399, 200_000].into_iter().map(|s| about(Duration::from_secs(s))).collect();
        assert_eq!(said, ["0s", "59s", "1m", "59m", "1h 0m", "23h 59m", "2d 7h"]);
    }
}
