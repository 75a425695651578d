//! One lease with several handles inside a process.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use crate::error::ReleaseError;
use crate::guard::Guard;
use crate::operation::Operation;

/// A counted handle of one lease: the lock is released when the last of its clones is dropped. Made by
/// [`Guard::share`].
///
/// It is what re-entrance is mostly used for: code that needs the lock takes a handle as its argument, and its caller
/// keeps one. It also hands one lease to several tasks.
///
/// It has all of a guard that does not end the lease.
///
/// # Examples
/// ```no_run
/// # async fn example(lock: fairlock::Lock) -> Result<(), Box<dyn std::error::Error>> {
/// use fairlock::SharedGuard;
///
/// async fn write(part: u32, guard: SharedGuard) {
///     println!("part {part} with token {}", guard.token());
/// }
///
/// let guard = lock.acquire().await?.share();
/// let parts = (0..8).map(|part| tokio::spawn(write(part, guard.clone())));
/// for part in parts.collect::<Vec<_>>() {
///     part.await?;
/// }
/// assert!(guard.release().await?, "no task has kept a handle");
/// # Ok(())
/// # }
/// ```
#[must_use = "the lock is released as soon as the last handle is dropped"]
#[derive(Clone)]
pub struct SharedGuard {
    guard: Arc<Guard>,
}

impl Guard {
    /// Makes a guard that can be cloned, whose last clone releases the lock. No round trip.
    pub fn share(self) -> SharedGuard {
        SharedGuard { guard: Arc::new(self) }
    }
}

impl SharedGuard {
    /// How many handles of this lease there are, this one included.
    pub fn handles(&self) -> usize {
        Arc::strong_count(&self.guard)
    }

    /// Drops this handle, and releases the lock if it is the last one, see [`Guard::release`]. Returns whether it was.
    /// One round trip if it is the last one. Of several handles that are released at the same time, exactly one is.
    ///
    /// # Errors
    /// As [`Guard::release`], if it is the last one.
    ///
    /// # Cancel safety
    /// If the future is dropped, so is the handle.
    pub fn release(self) -> Operation<Result<bool, ReleaseError>> {
        Operation::of_others(async move {
            match Arc::into_inner(self.guard) {
                Some(guard) => guard.release().await.map(|()| true),
                None => Ok(false),
            }
        })
    }
}

impl Deref for SharedGuard {
    type Target = Guard;
    fn deref(&self) -> &Guard {
        &self.guard
    }
}

impl fmt::Debug for SharedGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedGuard").field("guard", &self.guard).field("handles", &self.handles()).finish()
    }
}
