//! Where the connection lies, and the lease. Nobody waits here: who has the connection has taken it out, and a lease is
//! claimed by a compare-and-swap.

use super::sync::{AtomicU64, Mutex, Ordering::SeqCst, fence, lock, try_lock};

/// After this many looks of the keeper without a use the connection is closed.
const IDLE_LOOKS: u32 = 10;
/// In place of the id of a lease while a thread takes it, or looks at it.
const CLAIMED: u64 = u64::MAX;

/// The connection that callers may use.
pub(in crate::keeper) struct Slot<W> {
    /// Its line, 0 if there is none.
    line: AtomicU64,
    /// Empty while somebody has taken it.
    lies: Mutex<Option<Lies<W>>>,
}

struct Lies<W> {
    line: u64,
    wire: W,
    /// Looks of the keeper since it was last used.
    looks: u32,
}

impl<W> Slot<W> {
    pub(super) fn new() -> Self {
        Self { line: AtomicU64::new(0), lies: Mutex::new(None) }
    }

    /// The line of the connection that callers may use, 0 if there is none.
    pub(in crate::keeper) fn line(&self) -> u64 {
        self.line.load(SeqCst)
    }

    /// Takes the connection out, for a caller.
    pub(super) fn take(&self) -> Option<(u64, W)> {
        let line = self.line();
        let taken = lock(&self.lies).take_if(|lies| lies.line == line)?;
        Some((taken.line, taken.wire))
    }

    /// Puts the connection back, which is dropped if it was withdrawn meanwhile.
    pub(super) fn put(&self, line: u64, wire: W) {
        let mut lies = lock(&self.lies);
        // A connection that was offered since is there already.
        if self.line() == line {
            *lies = Some(Lies { line, wire, looks: 0 });
        }
    }

    /// From now on callers may use this connection. False if a caller is here just now.
    pub(in crate::keeper) fn offer(&self, line: u64, wire: W) -> bool {
        let Some(mut lies) = try_lock(&self.lies) else { return false };
        self.line.store(line, SeqCst);
        *lies = Some(Lies { line, wire, looks: 0 });
        true
    }

    /// From now on callers may not use this connection. One that has it drops it when it comes back.
    pub(in crate::keeper) fn withdraw(&self, line: u64) {
        let _ = self.line.compare_exchange(line, 0, SeqCst, SeqCst);
        self.is_cleared();
    }

    /// Drops a connection that was withdrawn. False if one may still be here.
    pub(super) fn is_cleared(&self) -> bool {
        let line = self.line();
        try_lock(&self.lies).is_some_and(|mut lies| {
            lies.take_if(|lies| lies.line != line);
            lies.is_none()
        })
    }

    /// Counts a look of the keeper. Closes a connection that nobody has used for long, and returns its line.
    pub(in crate::keeper) fn look(&self) -> Option<u64> {
        let mut lies = try_lock(&self.lies)?;
        lies.as_mut()?.looks += 1;
        let idle = lies.take_if(|lies| lies.looks > IDLE_LOOKS)?;
        // While `lies` is locked: a request that a caller sent meanwhile would have no line that ends it.
        self.line.compare_exchange(idle.line, 0, SeqCst, SeqCst).ok()
    }
}

/// For tests.
#[cfg(test)]
impl<W> Slot<W> {
    /// While another thread is here, which may have lost its processor.
    pub(super) fn busy(&self, meanwhile: impl FnOnce()) {
        let _here = lock(&self.lies);
        meanwhile();
    }
}

/// A lease that the keeper does not know.
pub(in crate::keeper) struct Claim<L> {
    /// The id of the lease, 0 if there is none.
    id: AtomicU64,
    /// Locked only by the thread that has changed `id` to [`CLAIMED`], and before the id is there. So no thread waits.
    held: Mutex<Option<L>>,
}

impl<L> Claim<L> {
    pub(super) fn new() -> Self {
        Self { id: AtomicU64::new(0), held: Mutex::new(None) }
    }

    pub(in crate::keeper) fn is_free(&self) -> bool {
        fence(SeqCst);
        self.id.load(SeqCst) == 0
    }

    /// For the caller that has the connection, if the claim is free. What it reads then, a thread that found no lease
    /// here has written.
    pub(super) fn put(&self, id: u64, lease: L) {
        *lock(&self.held) = Some(lease);
        self.id.store(id, SeqCst);
        fence(SeqCst);
    }

    /// The lease of this id, for its caller. Others are not looked at: the keeper would miss them meanwhile, and it may be
    /// told to release one only once.
    pub(super) fn take(&self, id: u64) -> Option<L> {
        self.claim(id, |_| true)
    }

    /// The lease, if it is of this kind and its caller does not take it just now. For the keeper only.
    pub(in crate::keeper) fn take_if(&self, which: impl FnOnce(&L) -> bool) -> Option<L> {
        fence(SeqCst);
        self.claim(self.id.load(SeqCst), which)
    }

    fn claim(&self, id: u64, which: impl FnOnce(&L) -> bool) -> Option<L> {
        if id == 0 || id == CLAIMED || self.id.compare_exchange(id, CLAIMED, SeqCst, SeqCst).is_err() {
            return None;
        }
        let taken = lock(&self.held).take_if(|lease| which(lease));
        self.id.store(if taken.is_some() { 0 } else { id }, SeqCst);
        taken
    }
}
