//! What a caller of a world has been granted, and what it may believe of that.

use std::sync::Arc;
use std::time::Duration;

use super::losses::Basis;
use crate::clock::Time;
use crate::options::Spec;
use crate::testing::promises::Holder;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(clippy::enum_variant_names)] // The words of the guard.
pub(super) enum Taken {
    Offered,
    Yes,
    Reclaimed,
}

#[derive(Clone, Debug)]
pub(super) struct Holding {
    pub(super) lock: usize,
    pub(super) spec: Arc<Spec>,
    pub(super) token: u64,
    pub(super) slot: u16,
    /// How many may hold the lock together with it: a writer's may be let in from the call of `downgrade` on.
    pub(super) most: u16,
    /// Whether the caller was told that it is a reader.
    pub(super) is_reader: bool,
    pub(super) deadline: Time,
    /// By when its holder must have been told, unless it is prolonged.
    pub(super) tell_by: Time,
    pub(super) granted: Time,
    pub(super) lost: bool,
    /// The machine knows it.
    pub(super) tended: bool,
    pub(super) taken: Taken,
    /// The data on the server that it rests on. None: an operator ended it by force.
    pub(super) basis: Option<Basis>,
    /// How many losses of data there had been when it was granted.
    pub(super) era: u32,
}

impl Holding {
    pub(super) fn holder<W>(&self, who: W) -> Holder<W> {
        Holder { who, slot: self.slot.into(), most: self.most.into() }
    }

    /// Whether its holder may believe in it.
    pub(super) fn is_believed(&self, now: Time) -> bool {
        !self.lost && self.taken != Taken::Reclaimed && now < self.deadline
    }
}

/// The latest time at which the holder must be told: the notice before the deadline. If less than a whole lease is
/// left, the notice is shorter in proportion.
pub(super) fn tell_by(spec: &Spec, now: Time, deadline: Time) -> Time {
    let left = deadline.since(now).as_secs_f64() / spec.lease.as_secs_f64();
    deadline - spec.notice.mul_f64(left.min(1.0)) + Duration::from_millis(1)
}
