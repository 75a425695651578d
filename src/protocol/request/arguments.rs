//! The arguments of a request as they are sent. Scripts take numbers as doubles, and texts with their sizes before them;
//! what operators ask is in words.

use std::time::Duration;

use super::super::memory::{Memory, Seat};
use super::CallerData;

/// Where the arguments of a request go, one after the other.
pub(super) struct Arguments<'a, P> {
    pub(super) tag: &'a str,
    pub(super) put: P,
    pub(super) digits: itoa::Buffer,
}

impl<P: FnMut(&'static str, &[&[u8]])> Arguments<'_, P> {
    pub(super) fn text(&mut self, name: &'static str, value: &str) {
        (self.put)(name, &[value.as_bytes()]);
    }

    pub(super) fn number(&mut self, name: &'static str, value: u64) {
        (self.put)(name, &[self.digits.format(value).as_bytes()]);
    }

    pub(super) fn flag(&mut self, name: &'static str, value: bool) {
        self.number(name, u64::from(value));
    }

    pub(super) fn told(&mut self, memory: Memory) {
        (self.put)("memory", &[memory.as_bytes()]);
    }

    pub(super) fn seat(&mut self, seat: Seat) {
        (self.put)("seat", &[seat.as_bytes()]);
    }

    /// How a session lasts: the first numbers of [`Terms`].
    pub(super) fn times(&mut self, liveness: Duration, buffer: Duration, heartbeat: Duration) {
        (self.put)("times", &[&packed_us(liveness), &packed_us(buffer), &packed_us(heartbeat)]);
    }

    pub(super) fn terms(&mut self, terms: &Terms<'_>) {
        let CallerData { secret, label, owner } = terms.about;
        let texts = [secret.as_str(), label, owner, self.tag].map(str::as_bytes);
        // Options are checked: no text of this client is longer.
        let size = |text: &[u8]| u16::try_from(text.len()).unwrap_or(u16::MAX).to_le_bytes();
        let [secret, label, owner, tag] = texts;
        (self.put)(
            "terms",
            &[
                &packed_us(terms.liveness),
                &packed_us(terms.buffer),
                &packed_us(terms.heartbeat),
                &packed_us(terms.lease),
                &packed(terms.room),
                &terms.most.to_le_bytes(),
                &[u8::from(terms.as_claim), size(secret)[0]],
                &size(label),
                &size(owner),
                &size(tag),
                secret,
                label,
                owner,
                tag,
            ],
        );
    }

    pub(super) fn left(&mut self, left: Duration) {
        (self.put)("left", &[&packed_us(left)]);
    }
}

/// What an acquire or a renewal asks for. The server keeps it as it comes: see `lua/lib/terms.lua`.
pub(super) struct Terms<'a> {
    pub(super) liveness: Duration,
    pub(super) buffer: Duration,
    pub(super) heartbeat: Duration,
    pub(super) lease: Duration,
    pub(super) room: u64,
    /// How many may hold together while the lease lasts, itself among them.
    pub(super) most: u16,
    pub(super) as_claim: bool,
    pub(super) about: &'a CallerData,
}

fn packed(number: u64) -> [u8; 8] {
    (number as f64).to_le_bytes()
}

fn packed_us(span: Duration) -> [u8; 8] {
    packed(u64::try_from(span.as_micros()).unwrap_or(u64::MAX))
}
