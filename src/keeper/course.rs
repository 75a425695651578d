//! The course of a lease: what the keeper and callers change while it lasts. The deadline that the keeper decides by is
//! the `term` of the machine's lease (`machine/record.rs`); this one is what callers read of it.
//!
//! | field | written by | read by |
//! |---|---|---|
//! | `deadline` | the keeper: later by a renewal; whoever ends the lease: earlier | all |
//! | `renewals`, `renewed_at` | the keeper | all |
//! | `taken` | the caller that takes the grant, or the keeper that takes it back: the first of them | both |
//! | `ending`, `lost` | whoever ends the lease: the keeper or a caller, whichever is first | all |

use crate::clock::Time;
use crate::error::LostReason;
use crate::sync::OnceLock;
use crate::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};

pub(super) struct Course {
    deadline: AtomicU64,
    /// How often it was renewed.
    renewals: AtomicU64,
    /// When it was last renewed, or granted.
    renewed_at: AtomicU64,
    taken: AtomicU8,
    /// A thread sets `lost`. No other thread may try to, because it would wait for the first one.
    ending: AtomicBool,
    lost: OnceLock<LostReason>,
}

const WAITING: u8 = 0;
const TAKEN: u8 = 1;
const RECLAIMED: u8 = 2;

impl Course {
    pub(super) fn new(granted: Time, deadline: Time) -> Self {
        Self {
            deadline: AtomicU64::new(deadline.0),
            renewals: AtomicU64::new(0),
            renewed_at: AtomicU64::new(granted.0),
            taken: AtomicU8::new(WAITING),
            ending: AtomicBool::new(false),
            lost: OnceLock::new(),
        }
    }

    /// A renewal. Returns when the lease was renewed before, unless it is over.
    pub(super) fn prolong(&self, now: Time, deadline: Time) -> Option<Time> {
        if self.lost().is_some() {
            return None;
        }
        self.deadline.fetch_max(deadline.0, Ordering::Relaxed);
        let before = self.renewed_at.swap(now.0, Ordering::Relaxed);
        // Who sees the renewal sees its deadline.
        self.renewals.fetch_add(1, Ordering::Release);
        Some(Time(before))
    }

    /// The lease is over. Until this deadline its holder can finish. False if it was over before.
    pub(super) fn end(&self, deadline: Time, reason: LostReason) -> bool {
        self.deadline.fetch_min(deadline.0, Ordering::Relaxed);
        !self.ending.swap(true, Ordering::Relaxed) && self.lost.set(reason).is_ok()
    }

    /// Why the lease is over. Who sees that sees the deadline.
    pub(super) fn lost(&self) -> Option<&LostReason> {
        self.lost.get()
    }

    pub(super) fn deadline(&self) -> Time {
        Time(self.deadline.load(Ordering::Relaxed))
    }

    pub(super) fn renewals(&self) -> u64 {
        self.renewals.load(Ordering::Acquire)
    }

    pub(super) fn renewed_at(&self) -> Time {
        Time(self.renewed_at.load(Ordering::Relaxed))
    }

    /// The keeper takes the lease back if its caller has not taken it.
    pub(super) fn reclaim(&self) -> bool {
        self.taken.compare_exchange(WAITING, RECLAIMED, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    pub(super) fn take(&self) -> bool {
        self.taken.compare_exchange(WAITING, TAKEN, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    pub(super) fn is_taken(&self) -> bool {
        self.taken.load(Ordering::Relaxed) == TAKEN
    }

    /// For tests: a thread has begun to end the lease, and lost its processor.
    #[cfg(all(test, not(loom)))]
    pub(super) fn begin_to_end(&self) {
        self.ending.store(true, Ordering::Relaxed);
    }
}
