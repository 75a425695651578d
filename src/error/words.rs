//! Parts of messages.

use std::time::Duration;

use super::Cause;
use crate::inspect::{Holder, differs, strictest};

/// A duration for people, without nanoseconds. A millisecond at least, because "0ns" reads like an error.
pub(crate) fn brief(duration: &Duration) -> String {
    let millis = duration.as_millis() as u64;
    let unit = match millis {
        0..1000 => 1,
        1000..10_000 => 100,
        _ => 1000,
    };
    format!("{:?}", Duration::from_millis((millis / unit * unit).max(1)))
}

pub(super) fn login(address: &str, cause: &Cause) -> String {
    let said = cause.to_string();
    if cause.is_of_here() {
        format!("no login for the server at {address}: {said}")
    } else if said.starts_with("NOAUTH") {
        format!(
            "the server at {address} needs a password, and none was given (NOAUTH): give one, in the URL for instance"
        )
    } else {
        format!("the server at {address} denies the login ({said}): check the user and the password")
    }
}

pub(super) fn encryption(address: &str, cause: &Cause) -> String {
    if cause.is_of_here() {
        format!("no encrypted connection to {address}: {cause}")
    } else {
        format!("no encrypted connection to {address} ({cause}): check the certificates on both sides")
    }
}

pub(super) fn unavailable(waited: &Duration, cause: &Option<Cause>) -> String {
    let waited = brief(waited);
    match cause {
        Some(cause) => format!("no result from the server within {waited}: {cause}"),
        None => format!("no answer from the server within {waited}"),
    }
}

/// An acquire without time to wait is a try.
pub(super) fn within(waited: &Duration) -> String {
    if waited.is_zero() { "at once".to_owned() } else { format!("within {}", brief(waited)) }
}

pub(super) fn because(cause: &Option<Cause>) -> String {
    cause.as_ref().map_or_else(String::new, |cause| format!(" (last error: {cause})"))
}

pub(super) fn at(position: &Option<u64>, age: &Option<Duration>) -> String {
    let (Some(position), Some(age)) = (position, age) else { return String::new() };
    format!(", at position {position} of the queue {} before", brief(age))
}

/// How many hold it and how many may, for an acquire that said another number: `(3 of 5; this one says 2)`.
pub(super) fn numbers(holders: &[Holder], held: &u64, slots: &u32) -> String {
    let limit = strictest(holders).map(|holder| holder.slots).filter(|limit| differs(*slots, *limit));
    limit.map_or_else(String::new, |limit| format!(" ({held} of {limit}; this one says {slots})"))
}

pub(super) fn held_by(holders: &[Holder], held: &u64, recovering_for: &Option<Duration>) -> String {
    let others = match held.saturating_sub(1) {
        0 => String::new(),
        1 => ", and by another".into(),
        others => format!(", and by {others} others"),
    };
    match (holders.first(), recovering_for) {
        (Some(holder), _) if !holder.confirmed && holder.held_for.as_secs() > 0 => {
            format!("granted {} ago to {:?}, which has not answered{others}", brief(&holder.held_for), holder.label)
        }
        (Some(holder), _) => {
            format!("held by {:?} for another {} unless renewed{others}", holder.label, brief(&holder.remaining))
        }
        (None, Some(longest)) => {
            format!("nothing is granted for up to {} because the server lost data", brief(longest))
        }
        (None, None) => "free, but its waiters are first".into(),
    }
}
