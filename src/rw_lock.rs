//! Two locks of one name: what readers take, and what writers take.

use std::fmt;

use crate::acquire::{Acquire, TryAcquire};
use crate::lock::Lock;

/// A fair read-write lock: up to 1000 readers hold it together, or one writer alone. Cheap to clone; it holds nothing
/// until it is acquired. Made by [`Client::rw_lock`](crate::Client::rw_lock).
///
/// Readers and writers wait in one queue and are served in the order of arrival, so neither starves: a reader that comes
/// after a writer waits behind it, also while other readers hold the lock. The 1001st reader waits as well.
///
/// [`reader`](Self::reader) and [`writer`](Self::writer) are two [`Lock`]s of this name, one with 1000
/// [`slots`](crate::LockOptions::slots) and one with 1, and can do all that a lock can. A client that uses the name as
/// a plain lock is a writer.
///
/// A writer can become a reader, see [`Guard::downgrade`](crate::Guard::downgrade). A reader cannot become a writer: two
/// readers that both wait until the other one is gone would wait for ever. Release the lock and write: whoever waited
/// before comes first, so look again at what was read.
///
/// # Examples
/// ```no_run
/// # async fn example(client: fairlock::Client) -> Result<(), Box<dyn std::error::Error>> {
/// # async fn rebuild() {}
/// use std::time::Duration;
///
/// let index = client.rw_lock("index")?;
/// let reader = index.read().await?;
/// reader.release().await?;
///
/// let writer = index.write().timeout(Duration::from_secs(60)).await?;
/// rebuild().await;
/// writer.downgrade().await?; // from here on readers are let in, and no other writer
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct RwLock {
    reader: Lock,
    writer: Lock,
}

impl RwLock {
    pub(crate) fn new(reader: Lock, writer: Lock) -> Self {
        Self { reader, writer }
    }

    /// Waits for its turn and holds the lock together with other readers, see [`Lock::acquire`], also for what it costs.
    pub fn read(&self) -> Acquire {
        self.reader.acquire()
    }

    /// Waits for its turn and holds the lock alone, see [`Lock::acquire`], also for what it costs.
    pub fn write(&self) -> Acquire {
        self.writer.acquire()
    }

    /// Takes the lock as a reader if no writer has it and nobody waits. One round trip.
    pub fn try_read(&self) -> TryAcquire {
        self.reader.try_acquire()
    }

    /// Takes the lock as a writer if nobody has it and nobody waits. One round trip.
    pub fn try_write(&self) -> TryAcquire {
        self.writer.try_acquire()
    }

    /// The lock that readers take, for all that a lock can do.
    pub fn reader(&self) -> &Lock {
        &self.reader
    }

    /// The lock that writers take, for all that a lock can do.
    pub fn writer(&self) -> &Lock {
        &self.writer
    }

    /// The name of both locks.
    pub fn name(&self) -> &str {
        self.writer.name()
    }
}

impl fmt::Debug for RwLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RwLock").field("name", &self.name()).finish_non_exhaustive()
    }
}
