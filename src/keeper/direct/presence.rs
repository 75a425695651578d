//! Whether a client has an acquire or a lease at a lock. A lock is acquired over the direct connection only if it has
//! not.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash as _, Hasher as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use super::Direct;
use crate::clock::Time;

/// How long the acquires of a lock that is not free ask the keeper only.
const CONTENDED: Duration = Duration::from_millis(100);
/// Locks are told apart by hashes of their names. Two with the same one lose only speed.
const SEATS: usize = 64;

/// One for each hash.
pub(super) struct Seats([Seat; SEATS]);

impl Default for Seats {
    fn default() -> Self {
        Self(std::array::from_fn(|_| Seat::default()))
    }
}

impl Direct {
    /// Counts an acquire of this lock, and the lease that it leads to.
    pub(in crate::keeper) fn enter(self: &Arc<Self>, name: &str) -> Presence {
        let mut hasher = DefaultHasher::new();
        name.hash(&mut hasher);
        let seat = (hasher.finish() % SEATS as u64) as usize;
        self.seats.0[seat].present.fetch_add(1, Ordering::SeqCst);
        Presence { direct: self.clone(), seat }
    }
}

/// What a client has at the locks of one hash.
#[derive(Default)]
struct Seat {
    /// Acquires, and leases that their holders have.
    present: AtomicU32,
    /// Until then a lock here was not free, in ns of [`Time`].
    contended: AtomicU64,
}

/// An acquire of this client, and the lease that it leads to.
pub(crate) struct Presence {
    direct: Arc<Direct>,
    seat: usize,
}

impl std::fmt::Debug for Presence {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Presence").finish_non_exhaustive()
    }
}

impl Presence {
    fn seat(&self) -> &Seat {
        &self.direct.seats.0[self.seat]
    }

    /// Counted from 1.
    pub(super) fn number(&self) -> usize {
        self.seat + 1
    }

    pub(super) fn is_alone(&self) -> bool {
        self.seat().present.load(Ordering::SeqCst) == 1
    }

    pub(super) fn is_contended(&self) -> bool {
        Time::now() < Time(self.seat().contended.load(Ordering::Relaxed))
    }

    pub(super) fn contend(&self) {
        self.seat().contended.store((Time::now() + CONTENDED).0, Ordering::Relaxed);
    }

    /// Whether the keeper is to take over the lease that was just granted at once: its client has something else at the
    /// lock now, or was closed, or the keeper has withdrawn the connection and no longer looks.
    pub(in crate::keeper) fn is_disturbed(&self) -> bool {
        let withdrawn = self.direct.line.load(Ordering::SeqCst) == 0;
        !self.is_alone() || withdrawn || self.direct.closed.load(Ordering::SeqCst)
    }
}

impl Drop for Presence {
    fn drop(&mut self) {
        self.seat().present.fetch_sub(1, Ordering::SeqCst);
    }
}
