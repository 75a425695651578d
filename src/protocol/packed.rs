//! What scripts pack: numbers as little-endian doubles, and texts with their sizes before them.

use std::time::Duration;

/// Scripts count in Lua, where whole numbers are exact up to here. A higher number is no number of theirs.
pub(crate) const LARGEST: u64 = 1 << 53;

/// What is left to be read. What stands behind the values that are asked for was added by a later version.
pub(crate) struct Packed<'a>(pub(crate) &'a [u8]);

impl<'a> Packed<'a> {
    pub(crate) fn take(&mut self, size: usize) -> Option<&'a [u8]> {
        self.0.split_off(..size)
    }

    pub(crate) fn byte(&mut self) -> Option<u8> {
        self.0.split_off_first().copied()
    }

    pub(crate) fn number(&mut self) -> Option<u64> {
        let number = f64::from_le_bytes(self.take(8)?.try_into().ok()?);
        let is_whole = number >= 0.0 && number <= LARGEST as f64 && number.fract() == 0.0;
        is_whole.then_some(number as u64)
    }

    pub(crate) fn span(&mut self) -> Option<Duration> {
        self.number().map(Duration::from_micros)
    }

    /// A text of up to 255 bytes.
    pub(crate) fn short(&mut self) -> Option<&'a [u8]> {
        let size = self.byte()?;
        self.take(size.into())
    }

    /// A number of two bytes.
    pub(crate) fn half(&mut self) -> Option<u16> {
        Some(u16::from_le_bytes(self.take(2)?.try_into().ok()?))
    }

    /// The size of a text of up to 64 KiB.
    pub(crate) fn size(&mut self) -> Option<usize> {
        self.half().map(usize::from)
    }

    /// A text of up to 64 KiB.
    pub(crate) fn text(&mut self) -> Option<&'a [u8]> {
        let size = self.size()?;
        self.take(size)
    }

    /// A text of any length.
    pub(crate) fn long(&mut self) -> Option<&'a [u8]> {
        let size = u32::from_le_bytes(self.take(4)?.try_into().ok()?);
        self.take(usize::try_from(size).ok()?)
    }
}
