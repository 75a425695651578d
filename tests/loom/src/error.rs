//! Why a lease is over, as far as the tests tell reasons apart.

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum LostReason {
    Ended,
    Released,
}
