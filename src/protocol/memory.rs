//! What the server tells a client to remember and to send back. The client reads the first numbers in these texts, and
//! sends all of it back.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::time::Duration;

use super::packed::Packed;
use super::stamps::{Epoch, Stamp, Ticket, Token};
use crate::clock::Time;

/// A short text of any bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Text<const MOST: usize> {
    length: u8,
    bytes: [u8; MOST],
}

impl<const MOST: usize> Text<MOST> {
    const EMPTY: Self = Self { length: 0, bytes: [0; MOST] };

    fn new(text: &[u8]) -> Option<Self> {
        let mut bytes = [0; MOST];
        bytes.get_mut(..text.len())?.copy_from_slice(text);
        Some(Self { length: text.len().try_into().ok()?, bytes })
    }

    fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.length.into()]
    }
}

/// Number by number, so that a fingerprint of a world finds them.
impl<const MOST: usize> Hash for Text<MOST> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let (version, numbers) = self.as_bytes().split_first().unwrap_or((&0, &[]));
        let (numbers, rest) = numbers.as_chunks();
        state.write_u8(*version);
        numbers.iter().for_each(|number| state.write_u64(f64::from_le_bytes(*number) as u64));
        state.write(rest);
    }
}

macro_rules! texts {
    ($($(#[doc = $doc:literal])+ $name:ident($most:literal))+) => {$(
        $(#[doc = $doc])+
        #[derive(Clone, Copy, PartialEq, Eq, Hash)]
        pub(crate) struct $name(Text<$most>);

        impl $name {
            pub(crate) const NONE: Self = Self(Text::EMPTY);

            /// None: it is longer than any that the scripts give.
            pub(crate) fn new(text: &[u8]) -> Option<Self> {
                Text::new(text).map(Self)
            }

            pub(crate) fn as_bytes(&self) -> &[u8] {
                self.0.as_bytes()
            }
        }

        impl Default for $name {
            fn default() -> Self {
                Self::NONE
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}({})", stringify!($name), self.as_bytes().escape_ascii())
            }
        }
    )+};
}

texts! {
    /// What the server knew of a lock when it answered. It goes back with every request of a waiter or holder; a
    /// stranger has none.
    Memory(63)
    /// A waiter's place or a holder's lease. It goes back with what is about that place or lease.
    Seat(47)
}

/// What a client reads in a seat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SeatTold {
    /// The place from which this waiter came.
    pub(super) ticket: Ticket,
    /// None: it is a place.
    pub(super) token: Option<Token>,
    pub(super) slot: u16,
    pub(super) most: u16,
}

impl Seat {
    pub(super) fn told(self) -> Option<SeatTold> {
        let mut packed = Packed(self.as_bytes());
        let (_version, _epoch) = (packed.byte()?, packed.number()?);
        Some(SeatTold {
            ticket: Ticket::new(packed.number()?)?,
            token: Token::new(packed.number()?),
            slot: packed.half()?,
            most: packed.half()?,
        })
    }
}

/// How long the server remembers a lock in use beyond the end of the last session. After that the lock may have been made
/// anew although nothing was lost.
const REMEMBERED: Duration = Duration::from_secs(24 * 3600);

/// What a client knows of a lock: its memory, and by what two memories are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Knowledge {
    memory: Memory,
    pub(crate) epoch: Option<Epoch>,
    pub(crate) stamp: Option<Stamp>,
    /// When the last request was sent that was answered.
    pub(crate) heard: Time,
}

/// Without `heard`, on which nothing depends for a day.
impl Hash for Knowledge {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.memory, self.epoch, self.stamp).hash(state);
    }
}

impl Default for Knowledge {
    fn default() -> Self {
        Self::new(Memory::NONE, None, None)
    }
}

impl Knowledge {
    pub(crate) fn new(memory: Memory, epoch: Option<Epoch>, stamp: Option<Stamp>) -> Self {
        Self { memory, epoch, stamp, heard: Time(0) }
    }

    /// What a reply or message tells. None: no script gives this memory.
    pub(super) fn told(memory: Memory) -> Option<Self> {
        if memory == Memory::NONE {
            return Some(Self::default());
        }
        let mut packed = Packed(memory.as_bytes());
        packed.byte()?;
        let (epoch, stamp) = (Epoch::new(packed.number()?), Stamp::new(packed.number()?));
        // One without an epoch is of a lock that the server does not know.
        Some(epoch.map_or_else(Self::default, |epoch| Self::new(memory, Some(epoch), stamp)))
    }

    pub(crate) fn is_strangers(&self) -> bool {
        self.memory == Memory::NONE
    }

    /// What a request brings.
    pub(crate) fn memory(&self) -> Memory {
        self.memory
    }

    /// Whether the server may have forgotten the lock, although nothing was lost: nothing is held or given back, and
    /// those that wait have this liveness.
    pub(crate) fn may_be_forgotten(&self, now: Time, liveness: Duration) -> bool {
        !self.is_strangers() && now >= self.heard + liveness + REMEMBERED
    }

    /// Takes what a request that brought `brought` was told. Answers may come out of the order in which their requests
    /// were executed, so one that tells of less is taken only if its request brought what is known: then the server has
    /// judged that. True if data was lost since.
    pub(crate) fn take(&mut self, told: Self, brought: Option<Memory>) -> bool {
        let is_newer = told.epoch == self.epoch && told.stamp >= self.stamp;
        if !is_newer && !self.is_strangers() && brought != Some(self.memory) {
            return false;
        }
        let before = std::mem::replace(self, Self { heard: self.heard.max(told.heard), ..told });
        before.epoch.is_some() && before.epoch != self.epoch
    }

    /// What the reply to a request told that was sent then.
    pub(crate) fn heard(self, sent: Time) -> Self {
        Self { heard: sent, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(epoch: u64, stamp: u64, sent: u64) -> Knowledge {
        let memory = Memory::new(format!("{epoch} {stamp} {sent}").as_bytes()).unwrap_or_default();
        Knowledge::new(memory, Epoch::new(epoch), Stamp::new(stamp)).heard(Time(sent))
    }

    #[test]
    fn a_text_that_is_too_long_is_refused() {
        assert!(Seat::new(&[1; 47]).is_some_and(|seat| seat.as_bytes() == [1; 47]));
        assert_eq!((Seat::new(&[1; 48]), Memory::new(&[1; 300])), (None, None));
    }

    #[test]
    fn an_older_answer_is_not_taken() {
        let mut mine = known(1, 5, 10);
        assert!(!mine.take(known(1, 4, 20), None));
        assert_eq!(mine, known(1, 5, 10));
        assert!(!mine.take(known(1, 5, 20), None));
        assert_eq!(mine, known(1, 5, 20), "of two with one stamp the later one counts");
    }

    #[test]
    fn an_answer_under_another_epoch_is_taken_if_its_request_brought_what_is_known() {
        let mut mine = known(1, 5, 10);
        let older = known(1, 4, 10).memory;
        assert!(!mine.take(known(7, 9, 20), Some(older)), "an older request, executed after a loss, knew less");
        assert_eq!(mine, known(1, 5, 10));
        let brought = mine.memory;
        assert!(mine.take(known(7, 9, 20), Some(brought)), "and then data was lost");
        assert_eq!(mine, known(7, 9, 20));
    }

    #[test]
    fn a_stranger_takes_what_it_is_told_and_lost_nothing() {
        let mut mine = Knowledge::default();
        assert!(!mine.take(known(3, 4, 20), Some(Memory::NONE)));
        assert_eq!(mine, known(3, 4, 20));
    }

    #[test]
    fn a_lock_may_be_forgotten_a_day_after_the_last_session() {
        let (mine, liveness) = (known(1, 5, 10), Duration::from_secs(10));
        let later = mine.heard + liveness + REMEMBERED;
        assert!(!mine.may_be_forgotten(later - Duration::from_nanos(1), liveness));
        assert!(mine.may_be_forgotten(later, liveness));
        assert!(!Knowledge::default().may_be_forgotten(later, liveness), "a stranger knows of nothing");
    }
}
