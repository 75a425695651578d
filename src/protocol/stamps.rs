//! Stamps: the numbers that the server's clock gives. None of them is zero, so where there may be none the code says
//! `Option`, and the wire says 0.

use std::num::NonZeroU64;

macro_rules! stamps {
    ($($(#[doc = $doc:literal])+ $name:ident)+) => {$(
        $(#[doc = $doc])+
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub(crate) struct $name(NonZeroU64);

        // Each kind has all of these, and some are looked into by tests only.
        #[allow(dead_code)]
        impl $name {
            /// None for zero.
            pub(crate) fn new(number: u64) -> Option<Self> {
                NonZeroU64::new(number).map(Self)
            }

            pub(crate) fn get(self) -> u64 {
                self.0.get()
            }

            /// As requests name it: zero if there is none.
            pub(crate) fn on_wire(stamp: Option<Self>) -> u64 {
                stamp.map_or(0, Self::get)
            }
        }
    )+};
}

stamps! {
    /// A stamp of any kind, where only the order counts.
    Stamp
    /// A waiter's place in the queue.
    Ticket
    /// A fencing token: the stamp of a grant.
    Token
    /// The stamp that names a stretch of time without a loss.
    Epoch
}

impl Token {
    /// The ticket of an acquire that was granted the lock at once: it never had a place in the queue.
    pub(crate) fn as_ticket(self) -> Ticket {
        Ticket(self.0)
    }

    pub(crate) fn as_stamp(self) -> Stamp {
        Stamp(self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zero_means_none_on_the_wire_and_is_no_stamp() {
        assert_eq!(Ticket::new(0), None);
        assert_eq!(Ticket::on_wire(None), 0);
        assert_eq!(Ticket::on_wire(Ticket::new(7)), 7);
        assert!(Stamp::new(1) > None, "a stamp is above none");
    }
}
