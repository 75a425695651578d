//! The client that all its locks share.

mod builder;

use std::sync::Arc;

pub use self::builder::ClientBuilder;
use crate::error::{ConnectError, InvalidOption};
use crate::inspect::READERS;
use crate::keeper::Handle;
use crate::lock::Lock;
use crate::operation::Operation;
use crate::options::{LockOptions, check_name};
use crate::protocol::LockKeys;
use crate::rw_lock::RwLock;
use crate::server::Target;

/// A connection to a Redis server, and the thread that renews leases and keeps places in queues.
///
/// Cheap to clone; one for a process is enough, for any number of locks. When the last handle (clones, locks, guards,
/// acquires under way) is dropped, the thread ends; that drop waits up to 250 ms for what is still to be given back.
/// [`close`](Self::close) waits for that without blocking the thread.
///
/// # Examples
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let client = fairlock::Client::connect("redis://127.0.0.1/").await?;
/// let guard = client.lock("reports:nightly")?.acquire().await?;
/// drop(guard);
/// client.close().await;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Client {
    handle: Arc<Handle>,
    target: Arc<Target>,
    label: Arc<str>,
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").field("server", &self.target).field("id", &self.handle.client_id().as_str()).finish()
    }
}

impl Client {
    /// Connects to the server or servers of a URL, see [`ClientBuilder::url`]. About three round trips.
    ///
    /// # Errors
    /// [`ConnectError`] within 5 seconds if the server cannot be reached or cannot be used.
    /// [`ConnectError::is_transient`] says whether waiting may help.
    ///
    /// # Cancel safety
    /// If the future is dropped, the connection is closed again.
    pub fn connect(url: &str) -> Operation<Result<Self, ConnectError>> {
        Self::builder().url(url).connect()
    }

    /// A client that connects in the background when it is first used, and waits for a server that is not there yet. An
    /// acquire waits until its timeout. It fails at once with [`Fault::Connect`](crate::error::Fault::Connect) where waiting
    /// does not help, such as after a wrong password. No round trip, and no thread before the first use.
    ///
    /// # Errors
    /// [`ConnectError::Url`] if the URL is not understood.
    pub fn connect_lazy(url: &str) -> Result<Self, ConnectError> {
        Self::builder().url(url).connect_lazy()
    }

    /// Connects to the server that the environment names: [`ClientBuilder::from_env`]. About three round trips.
    ///
    /// # Errors
    /// [`ConnectError`] within 5 seconds if the server cannot be reached or cannot be used.
    ///
    /// # Cancel safety
    /// If the future is dropped, the connection is closed again.
    pub fn from_env() -> Operation<Result<Self, ConnectError>> {
        ClientBuilder::from_env().connect()
    }

    /// A builder for a client with settings of its own.
    pub fn builder() -> ClientBuilder {
        ClientBuilder::default()
    }

    /// The lock of this name, from 1 to 512 bytes that do not begin with `}`, with the usual options. No round trip.
    ///
    /// # Errors
    /// [`InvalidOption`] if the name is empty, longer than 512 bytes or begins with `}`.
    pub fn lock(&self, name: &str) -> Result<Lock, InvalidOption> {
        self.lock_with(name, LockOptions::default())
    }

    /// The lock of this name, from 1 to 512 bytes that do not begin with `}`, with these options. No round trip.
    ///
    /// # Errors
    /// [`InvalidOption`] if the name or an option cannot work.
    pub fn lock_with(&self, name: &str, options: LockOptions) -> Result<Lock, InvalidOption> {
        check_name(name)?;
        let spec = options.of(LockKeys::new(&self.handle.prefix, name))?;
        let (owner, label) = options.texts();
        let label = label.map_or_else(|| self.label.clone(), Into::into);
        Ok(Lock::new(self.handle.clone(), spec, label, owner.unwrap_or_default().into()))
    }

    /// The semaphore of this name, with the usual options: a lock that so many may hold together, from 1 to 1000. It is
    /// [`lock_with`] the option [`slots`](LockOptions::slots), which says more. No round trip.
    ///
    /// Waiters are served in order, as those of any lock, and [`Held::slot`](crate::Held::slot) says which of the places
    /// a holder has. [`inspect`](Lock::inspect) tells who holds the others. Fencing tokens rise in each slot, and of two
    /// holders either may have the higher one: a store can refuse old tokens if it keeps the latest one for each slot.
    ///
    /// # Errors
    /// [`InvalidOption`] if the name or the number cannot be a lock's.
    ///
    /// # Examples
    /// ```no_run
    /// # async fn example(client: fairlock::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// let gpus = client.semaphore("gpu", 4)?;
    /// let guard = gpus.acquire().await?;
    /// println!("GPU {}", guard.slot()); // from 0 to 3
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// [`lock_with`]: Self::lock_with
    pub fn semaphore(&self, name: &str, slots: u32) -> Result<Lock, InvalidOption> {
        self.semaphore_with(name, slots, LockOptions::default())
    }

    /// The semaphore of this name with these options. No round trip.
    ///
    /// # Errors
    /// [`InvalidOption`] if the name, the number or an option cannot work, or if the options name
    /// [`slots`](LockOptions::slots), too.
    pub fn semaphore_with(&self, name: &str, slots: u32, options: LockOptions) -> Result<Lock, InvalidOption> {
        if let Some(slots) = options.chosen_slots() {
            return Err(InvalidOption::FixedSlots { what: "a semaphore that has its number beside them", slots });
        }
        self.lock_with(name, options.slots(slots))
    }

    /// The read-write lock of this name, with the usual options: up to 1000 readers hold it together, or one writer. No
    /// round trip.
    ///
    /// # Errors
    /// [`InvalidOption`] if the name cannot be a lock's.
    pub fn rw_lock(&self, name: &str) -> Result<RwLock, InvalidOption> {
        self.rw_lock_with(name, LockOptions::default())
    }

    /// The read-write lock of this name, with these options, for readers and writers. No round trip.
    ///
    /// # Errors
    /// [`InvalidOption`] if the name or an option cannot work, or if the options name [`slots`](LockOptions::slots).
    pub fn rw_lock_with(&self, name: &str, options: LockOptions) -> Result<RwLock, InvalidOption> {
        if let Some(slots) = options.chosen_slots() {
            let what = "a read-write lock, which one writer holds or up to 1000 readers";
            return Err(InvalidOption::FixedSlots { what, slots });
        }
        let writer = self.lock_with(name, options.clone())?;
        let reader = self.lock_with(name, options.slots(READERS.into()))?;
        Ok(RwLock::new(reader, writer))
    }

    /// Ends the client: waiters get [`Fault::Closed`](crate::error::Fault::Closed), guards hear that they are lost, everything
    /// is given back, and the connections end. Returns when that is done, or after a second. One round trip. An acquire
    /// that was granted just before may still return its guard, which is lost.
    ///
    /// # Cancel safety
    /// If the future is dropped after its first poll, the client is closed nevertheless.
    pub fn close(&self) -> Operation<()> {
        let handle = self.handle.clone();
        Operation::relayed(&self.handle.wakers, async move {
            // An error means that the keeper is gone, with everything that it kept.
            let _ = handle.close().await;
        })
    }

    pub(crate) fn is_forked(&self) -> bool {
        self.handle.is_forked()
    }

    /// Makes the client's thread panic: for tests of what follows.
    #[cfg(feature = "__test-hooks")]
    #[doc(hidden)]
    pub fn panic_keeper(&self) {
        self.handle.panic();
    }
}
