//! A lock for each key, held and released by key.

use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use futures_util::future::join_all;
use tracing::Instrument as _;

use crate::acquire::{Acquire, TryAcquire};
use crate::client::Client;
use crate::error::{AcquireError, Fault, InvalidOption, ReleaseError, RunError, TryAcquireError};
use crate::guard::{Guard, Held};
use crate::lock::Lock;
use crate::memory::GiveBack as _;
use crate::mutex::lock;
use crate::operation::Operation;
use crate::options::LockOptions;
use crate::run::{job_under, outcome};

/// A lock for each key of a space: accounts, users, files. Cheap to clone; all clones share
/// what they hold.
///
/// A key is anything that can be displayed. It needs memory only while it is held or waited for, so there may be any
/// number of them. Keys that are held are released when the last clone and the last [`KeyGuard`] are dropped.
///
/// # Examples
/// ```no_run
/// # async fn example(client: fairlock::Client) -> Result<(), Box<dyn std::error::Error>> {
/// let users = fairlock::compat::KeyedMutex::new(&client, "users")?;
///
/// // For a scope, or for a job:
/// let guard = users.guard(7).await?;
/// drop(guard);
/// users.run(7, |held| async move { println!("token {}", held.token()) }).await?;
///
/// // With whatever else an acquire may have, such as a label of its own:
/// let guard = users.lock(7)?.acquire().label("deposit").await?;
/// drop(guard);
///
/// // Or until it is released by its key, anywhere in this process:
/// users.acquire("alice").await?;
/// assert!(users.release("alice").await?);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct KeyedMutex {
    space: Arc<Space>,
    timeout: Option<Duration>,
}

struct Space {
    client: Client,
    /// As it is written in names of locks.
    name: String,
    options: LockOptions,
    held: Mutex<KeptGuards>,
}

/// The guards of the keys that are held.
#[derive(Default)]
struct KeptGuards {
    guards: HashMap<String, Guard>,
    /// How many there may be before those whose lease was lost are dropped.
    most: usize,
}

impl KeptGuards {
    fn remove(&mut self, name: &str) -> Option<Guard> {
        let guard = self.guards.remove(name);
        self.guards.give_back();
        guard
    }
}

impl KeyedMutex {
    /// A lock for each key of the space with this name, with the usual options: renewed while it is held. The lock of a
    /// key is named `SPACE:KEY`, see [`lock`](Self::lock). No round trip.
    ///
    /// # Errors
    /// [`InvalidOption`] if the space cannot be the beginning of a lock's name.
    pub fn new(client: &Client, space: &str) -> Result<Self, InvalidOption> {
        Self::with_options(client, space, LockOptions::default())
    }

    /// The same with other options. With [`manual_renewal`](LockOptions::manual_renewal) a key is released after its
    /// lease at the latest.
    ///
    /// # Errors
    /// [`InvalidOption`] if the space or an option cannot work, or if the options name more than one
    /// [slot](LockOptions::slots).
    pub fn with_options(client: &Client, space: &str, options: LockOptions) -> Result<Self, InvalidOption> {
        // Its end must be the first colon: key `1:2` of `user` is not key `2` of `user:1`.
        let name = space.replace('%', "%25").replace(':', "%3A");
        options.check(&name)?;
        if let Some(slots @ 2..) = options.chosen_slots() {
            let what = "a `KeyedMutex`, in which one holds a key";
            return Err(InvalidOption::FixedSlots { what, slots });
        }
        let space = Space { client: client.clone(), name, options, held: Mutex::default() };
        Ok(Self { space: Arc::new(space), timeout: None })
    }

    /// The same keys, with acquires that give up after this time (default: they wait for ever), see
    /// [`Acquire::timeout`].
    #[must_use]
    pub fn timeout(&self, timeout: Duration) -> Self {
        Self { space: self.space.clone(), timeout: Some(timeout) }
    }

    /// The lock of this key, with all that a lock can do. A lease that is acquired through it is not released by key.
    ///
    /// It is named `SPACE:KEY`, with some characters written as in URLs, so that no two keys share a name: in the key `{`,
    /// `}` and `%` as `%7B`, `%7D` and `%25`, in the space `:` and `%` as `%3A` and `%25`.
    ///
    /// # Errors
    /// [`InvalidOption::NameTooLong`] if the name has more than 512 bytes.
    pub fn lock(&self, key: impl fmt::Display) -> Result<Lock, InvalidOption> {
        let Space { client, name, options, .. } = &*self.space;
        let key = key.to_string().replace('%', "%25").replace('{', "%7B").replace('}', "%7D");
        client.lock_with(&format!("{name}:{key}"), options.clone())
    }

    /// Acquires the lock of this key and keeps it until [`release`](Self::release). Costs what [`Lock::acquire`] costs.
    ///
    /// # Errors
    /// [`AcquireError`].
    ///
    /// # Cancel safety
    /// If the future is dropped, the waiter leaves the queue.
    pub fn acquire(&self, key: impl fmt::Display) -> Operation<Result<Held, AcquireError>> {
        let acquire = self.waiting(key);
        let space = self.space.clone();
        Operation::of_others(async move { Ok(space.keep(acquire?.await?)) })
    }

    /// Acquires the lock of this key if it is free and has no waiters, and keeps it until [`release`](Self::release).
    /// One round trip.
    ///
    /// # Errors
    /// [`TryAcquireError`].
    ///
    /// # Cancel safety
    /// If the future is dropped, a grant that is on its way is released.
    pub fn try_acquire(&self, key: impl fmt::Display) -> Operation<Result<Held, TryAcquireError>> {
        let acquire: Result<TryAcquire, _> = self.lock(key).map(|lock| lock.try_acquire());
        let space = self.space.clone();
        Operation::of_others(async move { Ok(space.keep(acquire?.await?)) })
    }

    /// Acquires the lock of this key for as long as the guard lives. [`release`](Self::release) and
    /// [`release_all`](Self::release_all) end it earlier. Costs what [`Lock::acquire`] costs.
    ///
    /// # Errors
    /// [`AcquireError`].
    ///
    /// # Cancel safety
    /// If the future is dropped, the waiter leaves the queue.
    pub fn guard(&self, key: impl fmt::Display) -> Operation<Result<KeyGuard, AcquireError>> {
        let acquire = self.waiting(key);
        let space = self.space.clone();
        Operation::of_others(async move {
            let guard = acquire?.await?;
            Ok(KeyGuard::new(space, guard))
        })
    }

    /// Acquires the lock of this key, runs the job while holding it, and releases it, see [`Acquire::run`]. If the key
    /// is released meanwhile, the job is dropped, as if its lease were lost. Two round trips if the lock is free.
    ///
    /// # Errors
    /// [`RunError`].
    ///
    /// # Cancel safety
    /// If the future is dropped, the job is dropped and the lock is released.
    pub async fn run<F, Fut, T>(&self, key: impl fmt::Display, job: F) -> Result<T, RunError>
    where
        F: FnOnce(Held) -> Fut,
        Fut: Future<Output = T>,
    {
        let acquire = self.waiting(key).map_err(AcquireError::from)?;
        let guard = acquire.await?;
        let span = guard.span().clone();
        let guard = KeyGuard::new(self.space.clone(), guard);
        let value = job_under(guard.when_over(|lost| lost), job(guard.held.clone()).instrument(span)).await?;
        guard.check()?;
        Ok(outcome(value, guard.release().await)?)
    }

    /// Acquires the lock of this key on the spot, runs the job on this thread, and releases it, see
    /// [`run`](Self::run) and [`Acquire::run_blocking`]. Two round trips if the lock is free.
    ///
    /// # Errors
    /// [`RunError`].
    pub fn run_blocking<T>(&self, key: impl fmt::Display, job: impl FnOnce(Held) -> T) -> Result<T, RunError> {
        let guard = self.waiting(key).map_err(AcquireError::from)?.blocking()?;
        let span = guard.span().clone();
        let guard = KeyGuard::new(self.space.clone(), guard);
        let value = span.in_scope(|| job(guard.held.clone()));
        guard.check()?;
        Ok(outcome(value, guard.release().blocking())?)
    }

    /// Releases the lock of this key, whatever part of this process acquired it through this mutex. False if no part
    /// has, or if its lease was lost some time ago. One round trip.
    ///
    /// # Errors
    /// As [`Guard::release`].
    ///
    /// # Cancel safety
    /// If the future is dropped after its first poll, the lock is released nevertheless.
    pub fn release(&self, key: impl fmt::Display) -> Operation<Result<bool, ReleaseError>> {
        // A key that cannot be a lock's name was never acquired.
        let name = self.lock(key).map(|lock| lock.name().to_owned()).unwrap_or_default();
        let space = self.space.clone();
        Operation::of_others(async move {
            let guard = space.kept()?.remove(&name);
            match guard {
                Some(guard) => guard.release().await.map(|()| true),
                None => Ok(false),
            }
        })
    }

    /// Releases all keys that are held through this mutex, and tells how many there were. It goes on: acquires under
    /// way are not touched, and later ones are as before. One round trip for all together.
    ///
    /// # Errors
    /// The first of [`ReleaseError`], see [`Guard::release`]. Nothing need be done: all keys are released in any case.
    ///
    /// # Cancel safety
    /// If the future is dropped after its first poll, the locks are released nevertheless.
    pub fn release_all(&self) -> Operation<Result<usize, ReleaseError>> {
        let space = self.space.clone();
        Operation::of_others(async move {
            let kept = std::mem::take(&mut *space.kept()?).guards;
            let count = kept.len();
            let released = join_all(kept.into_values().map(Guard::release)).await;
            released.into_iter().collect::<Result<(), _>>()?;
            Ok(count)
        })
    }

    /// Whether the lease of this key is held through this mutex. It checks the clock. No round trip.
    pub fn is_held(&self, key: impl fmt::Display) -> bool {
        let Ok(lock) = self.lock(key) else { return false };
        self.space.kept().is_ok_and(|kept| kept.guards.get(lock.name()).is_some_and(|guard| guard.check().is_ok()))
    }

    /// How many keys are kept in this process: those that are held, and those whose lease was lost recently.
    pub fn kept(&self) -> usize {
        self.space.kept().map_or(0, |kept| kept.guards.len())
    }

    fn waiting(&self, key: impl fmt::Display) -> Result<Acquire, InvalidOption> {
        let acquire = self.lock(key)?.acquire();
        Ok(match self.timeout {
            Some(timeout) => acquire.timeout(timeout),
            None => acquire,
        })
    }
}

impl fmt::Debug for KeyedMutex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyedMutex").field("space", &self.space.name).field("kept", &self.kept()).finish()
    }
}

impl Space {
    /// Fails in a forked process, where a thread of the parent may have the mutex for ever.
    fn kept(&self) -> Result<MutexGuard<'_, KeptGuards>, Fault> {
        if self.client.is_forked() {
            return Err(Fault::Forked);
        }
        Ok(lock(&self.held))
    }

    /// Keeps a guard for its key. One of an earlier lease that was lost gives way to it.
    fn keep(&self, guard: Guard) -> Held {
        let held = guard.held();
        let mut lost = Vec::new();
        if let Ok(mut kept) = self.kept() {
            let kept = &mut *kept;
            lost.extend(kept.guards.insert(guard.name().to_owned(), guard));
            // A caller need not release a key whose lease was lost.
            if kept.guards.len() > kept.most {
                lost.extend(kept.guards.extract_if(|_, guard| guard.check().is_err()).map(|(_, guard)| guard));
                kept.most = (2 * kept.guards.len()).max(64);
                kept.guards.give_back();
            }
        }
        held
    }

    /// Takes out the guard of this lease, unless another lease of the key is kept by now.
    fn take(&self, held: &Held) -> Result<Option<Guard>, Fault> {
        let mut kept = self.kept()?;
        let same = kept.guards.get(held.name()).is_some_and(|guard| guard.token() == held.token());
        Ok(if same { kept.remove(held.name()) } else { None })
    }
}

/// Holds the lock of a key until it is dropped, its key is released, or its lease is lost. Made by
/// [`KeyedMutex::guard`].
///
/// # Examples
/// ```no_run
/// # async fn example(accounts: fairlock::compat::KeyedMutex) -> Result<(), Box<dyn std::error::Error>> {
/// let guard = accounts.guard(7).await?;
/// println!("account 7 is ours, with token {}", guard.token());
/// guard.release().await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "the lock of the key is released as soon as its guard is dropped"]
pub struct KeyGuard {
    space: Arc<Space>,
    held: Held,
}

impl KeyGuard {
    fn new(space: Arc<Space>, guard: Guard) -> Self {
        let held = space.keep(guard);
        Self { space, held }
    }

    /// Releases the lock of the key and reports whether it was held to the end, see [`Guard::release`]. One round trip.
    ///
    /// # Errors
    /// As [`Guard::release`].
    ///
    /// # Cancel safety
    /// If the future is dropped, the lock is released nevertheless.
    pub fn release(self) -> Operation<Result<(), ReleaseError>> {
        Operation::of_others(async move {
            let guard = self.space.take(&self.held)?;
            match guard {
                Some(guard) => guard.release().await,
                None => self.held.check().map_err(Into::into),
            }
        })
    }
}

impl Deref for KeyGuard {
    type Target = Held;
    fn deref(&self) -> &Held {
        &self.held
    }
}

impl Drop for KeyGuard {
    fn drop(&mut self) {
        drop(self.space.take(&self.held));
    }
}

impl fmt::Debug for KeyGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyGuard").field("held", &self.held).finish()
    }
}
