//! The bounds of times, names and texts.

use std::time::Duration;

use crate::error::InvalidOption;
use crate::inspect::READERS;

/// The shortest lease, liveness and longest hold.
pub(crate) const LEAST: Duration = Duration::from_millis(50);
/// The longest lease, also of one that is extended.
pub(crate) const LONGEST: Duration = Duration::from_secs(30 * 24 * 3600);
const MOST_TIMEOUT: Duration = Duration::from_secs(366 * 24 * 3600);
const MOST_NAME: usize = 512;
const MOST_TEXT: usize = 4096;

/// Refuses an option whose duration is out of its bounds.
pub(super) fn within(
    option: &'static str,
    value: Duration,
    least: Duration,
    most: Duration,
) -> Result<(), InvalidOption> {
    if value < least || value > most {
        return Err(InvalidOption::Duration { option, value, least, most });
    }
    Ok(())
}

/// How many may hold a lock together.
pub(super) fn check_slots(slots: u32) -> Result<u16, InvalidOption> {
    let most = u16::try_from(slots).ok().filter(|most| (1..=READERS).contains(most));
    most.ok_or(InvalidOption::Slots { slots })
}

/// A timeout that timers can have: more than zero, and no longer than anybody waits.
pub(crate) fn in_bounds(timeout: Duration) -> Duration {
    timeout.clamp(Duration::from_millis(1), MOST_TIMEOUT)
}

pub(crate) fn check_name(name: &str) -> Result<(), InvalidOption> {
    if name.is_empty() {
        return Err(InvalidOption::EmptyName);
    }
    if name.len() > MOST_NAME {
        return Err(InvalidOption::NameTooLong { length: name.len() });
    }
    // An empty hash tag counts as none, and the keys of the lock would be in different slots.
    if name.starts_with('}') {
        return Err(InvalidOption::LeadingBrace { name: name.into() });
    }
    Ok(())
}

/// A brace in the prefix would be the hash tag of all locks.
pub(crate) fn check_prefix(prefix: &str) -> Result<(), InvalidOption> {
    if prefix.contains(['{', '}']) {
        return Err(InvalidOption::Brace { prefix: prefix.into() });
    }
    Ok(())
}

pub(crate) fn check_text(what: &'static str, text: &str) -> Result<(), InvalidOption> {
    if text.len() > MOST_TEXT {
        return Err(InvalidOption::TooLong { what, length: text.len() });
    }
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);
    const DAY: Duration = Duration::from_secs(24 * 3600);

    #[test]
    fn timeouts_are_brought_within_bounds() {
        for (given, used) in [
            (Duration::ZERO, MS),
            (MS / 2, MS),
            (MS, MS),
            (366 * DAY, 366 * DAY),
            (366 * DAY + MS, 366 * DAY),
            (Duration::MAX, 366 * DAY),
        ] {
            assert_eq!(in_bounds(given), used);
        }
    }

    #[test]
    fn a_lock_has_from_one_to_a_thousand_slots() {
        for (slots, most) in [(1, Some(1)), (1000, Some(1000)), (0, None), (1001, None), (65_537, None)] {
            assert_eq!(check_slots(slots), most.ok_or(InvalidOption::Slots { slots }));
        }
    }

    #[test]
    fn names_and_texts_have_bounds() {
        check_name("x").unwrap();
        check_name(&"x".repeat(512)).unwrap();
        assert!(matches!(check_name(&"x".repeat(513)), Err(InvalidOption::NameTooLong { length: 513 })));
        assert!(matches!(check_name(""), Err(InvalidOption::EmptyName)));
        for braces in ["{", "{}", "a{b}c", "a}"] {
            check_name(braces).unwrap();
            assert!(matches!(check_prefix(braces), Err(InvalidOption::Brace { .. })), "{braces:?}");
        }
        assert!(matches!(check_name("}a"), Err(InvalidOption::LeadingBrace { .. })));
        check_text("the label", "{}").unwrap();
        check_text("the label", &"x".repeat(4096)).unwrap();
        assert!(matches!(check_text("the label", &"x".repeat(4097)), Err(InvalidOption::TooLong { length: 4097, .. })));
    }
}
