//! The values in a reply, however they were sent.

use std::time::Duration;

use rmpv::ValueRef;

use crate::protocol::packed::LARGEST;

/// A value of a reply, independent of the wire.
pub(crate) trait Value: Sized {
    fn bytes(&self) -> Option<&[u8]>;
    fn int(&self) -> Option<i64>;
    fn list(&self) -> Option<&[Self]>;
}

impl Value for ValueRef<'_> {
    fn bytes(&self) -> Option<&[u8]> {
        match self {
            Self::String(text) => Some(text.as_bytes()),
            Self::Binary(bytes) => Some(bytes),
            _ => None,
        }
    }

    fn int(&self) -> Option<i64> {
        match self {
            Self::Integer(number) => number.as_i64(),
            _ => None,
        }
    }

    fn list(&self) -> Option<&[Self]> {
        match self {
            Self::Array(items) => Some(items),
            _ => None,
        }
    }
}

/// Labels and owners of others may be any bytes: they are for people.
pub(super) fn text(value: &impl Value) -> Option<String> {
    Some(String::from_utf8_lossy(value.bytes()?).into_owned())
}

pub(super) fn number(value: &impl Value) -> Option<u64> {
    let number = match value.int() {
        Some(number) => u64::try_from(number).ok(),
        None => std::str::from_utf8(value.bytes()?).ok()?.parse().ok(),
    };
    number.filter(|number| *number <= LARGEST)
}

/// A slot, or a number of holders.
pub(super) fn small(value: &impl Value) -> Option<u32> {
    number(value)?.try_into().ok()
}

/// Yes or no, as one or zero.
pub(super) fn flag(value: &impl Value) -> Option<bool> {
    match number(value)? {
        0 => Some(false),
        1 => Some(true),
        _ => None,
    }
}

pub(super) fn span(value: &impl Value) -> Option<Duration> {
    number(value).map(Duration::from_micros)
}
