//! Whether a client has an acquire or a lease at a lock. A lock is acquired over the direct connection only if it has
//! not.

use std::hash::{BuildHasher as _, BuildHasherDefault, DefaultHasher};
use std::sync::Arc;

use super::sync::{AtomicU32, Ordering::SeqCst};

/// Locks are told apart by hashes of their names. Two with the same one lose only speed.
const SEATS: usize = 64;

/// What a client has at the locks of each hash: acquires, and leases that their holders have.
pub(in crate::keeper) struct Seats([Arc<AtomicU32>; SEATS]);

/// An acquire of this client, and the lease that it leads to.
#[derive(Debug)]
pub(crate) struct Presence(Arc<AtomicU32>);

impl Seats {
    pub(super) fn new() -> Self {
        Self(std::array::from_fn(|_| Arc::new(AtomicU32::new(0))))
    }

    /// Counts an acquire of this lock, and the lease that it leads to.
    pub(in crate::keeper) fn enter(&self, name: &str) -> Presence {
        let hash = BuildHasherDefault::<DefaultHasher>::default().hash_one(name);
        let seat = &self.0[(hash % SEATS as u64) as usize];
        seat.fetch_add(1, SeqCst);
        Presence(seat.clone())
    }
}

impl Presence {
    pub(super) fn is_alone(&self) -> bool {
        self.0.load(SeqCst) == 1
    }
}

impl Drop for Presence {
    fn drop(&mut self) {
        self.0.fetch_sub(1, SeqCst);
    }
}
