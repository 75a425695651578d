//! The state of a lock, as an observer sees it.

use std::time::Duration;

/// The most slots that a lock may have, and how many readers may hold a read-write lock together.
pub(crate) const READERS: u16 = 1000;

/// A holder of a lock. Semaphores and read-write locks may have several.
///
/// # Examples
/// ```no_run
/// # async fn example(lock: fairlock::Lock) -> Result<(), fairlock::error::Fault> {
/// for holder in lock.inspect().await?.holders {
///     println!("{} has held it for {:?}", holder.label, holder.held_for);
///     if !holder.confirmed {
///         println!("and has not answered since it was granted the lock: it may be dead");
///     }
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Holder {
    /// The holder's id: `CLIENT.N`, the UUID of its client and the number of the acquire within it. Equal ids are
    /// the same acquire, also before and after the grant ([`QueuedWaiter::id`]). Beyond that its format may change.
    pub id: String,
    /// Which of the slots its lease has, as [`Held::slot`](crate::Held::slot).
    pub slot: u32,
    /// How many may hold the lock together while this lease lasts: 1 for a lock or a writer, 1000 for a reader.
    pub slots: u32,
    /// The fencing token of its lease.
    pub token: u64,
    /// Its label.
    pub label: String,
    /// Its owner.
    pub owner: String,
    /// What is left of its lease unless it is renewed.
    pub remaining: Duration,
    /// For how long it has held the lock, by the server's clock.
    pub held_for: Duration,
    /// Whether an operator broke the lease: it is not renewed any more.
    pub broken: bool,
    /// Whether the holder is known to have heard of the grant. A waiter is granted a claim, which is shorter than its
    /// lease, and its first renewal confirms that. A process that died while it waited never does, and the lock passes
    /// on when the claim ends. (A claim that is as long as the lease counts as confirmed.)
    pub confirmed: bool,
}

/// One waiter in the queue of a lock.
///
/// # Examples
/// ```no_run
/// # async fn example(lock: fairlock::Lock) -> Result<(), fairlock::error::Fault> {
/// for (place, waiter) in lock.inspect().await?.queue.iter().enumerate() {
///     println!("{}. {} waits for {:?}{}", place + 1, waiter.label, waiter.waited, if waiter.alive { "" } else { ", silent" });
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct QueuedWaiter {
    /// The waiter's id, as [`Holder::id`].
    pub id: String,
    /// The ticket of the waiter: lower tickets are served first.
    pub ticket: u64,
    /// Its label.
    pub label: String,
    /// Its owner.
    pub owner: String,
    /// For how long it has waited, by the server's clock.
    pub waited: Duration,
    /// Whether its session is live. A waiter whose session has ended is purged when its turn comes.
    pub alive: bool,
    /// How many may hold the lock together with it once it is granted the lock, see [`Holder::slots`].
    pub slots: u32,
}

/// The state of a lock at one moment. Holders and queue are read in pages, so they may change between two of them.
///
/// # Examples
/// ```no_run
/// # async fn example(lock: fairlock::Lock) -> Result<(), fairlock::error::Fault> {
/// let state = lock.inspect().await?;
/// match (state.holders.first(), state.recovering_for) {
///     (Some(holder), _) => println!("held by {}, {} waiting", holder.label, state.waiting),
///     (None, Some(time)) => println!("the server lost data: nothing is granted for {time:?} at most"),
///     (None, None) => println!("free"),
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct LockState {
    /// The holders, in the order of their slots. Of a lock with one slot there is one at most.
    pub holders: Vec<Holder>,
    /// The number of waiters, live or not.
    pub waiting: u64,
    /// The waiters, in the order in which they will be served.
    pub queue: Vec<QueuedWaiter>,
    /// For how long nothing is granted at most, because the server lost data and waits for its former clients.
    pub recovering_for: Option<Duration>,
}

impl LockState {
    /// How many may hold the lock together now: the smallest number that a holder said ([`Holder::slots`]). None if
    /// nobody holds it. One that says more than that ([`Lock::slots`](crate::Lock::slots)) waits all the same, and nobody
    /// tells it why.
    ///
    /// # Examples
    /// ```no_run
    /// # async fn example(gpus: fairlock::Lock) -> Result<(), fairlock::error::Fault> {
    /// if let Some(slots) = gpus.inspect().await?.slots().filter(|slots| *slots < gpus.slots()) {
    ///     println!("a holder allows {slots} at most, and this program says {}", gpus.slots());
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn slots(&self) -> Option<u32> {
        strictest(&self.holders).map(|holder| holder.slots)
    }

    /// This page, and the one after it.
    pub(crate) fn then(self, next: Self) -> Self {
        let Self { mut holders, mut queue, .. } = self;
        holders.extend(next.holders);
        queue.extend(next.queue);
        Self { holders, queue, ..next }
    }
}

/// The holder that allows the fewest.
pub(crate) fn strictest(holders: &[Holder]) -> Option<&Holder> {
    holders.iter().min_by_key(|holder| holder.slots)
}

/// Whether an acquire that says one number is told that another one, the smallest of the holders, counts. An acquire that
/// wants the lock alone waits for all of them anyway, and a writer keeps readers out as it should.
#[cfg_attr(not(feature = "operator"), allow(unreachable_pub))]
pub fn differs(own: u32, limit: u32) -> bool {
    own != limit && own != 1 && (own, limit) != (READERS.into(), 1)
}

/// The result of [`Lock::break_lease`](crate::Lock::break_lease) and
/// [`Lock::force_break_lease`](crate::Lock::force_break_lease).
///
/// # Examples
/// ```no_run
/// # async fn example(lock: fairlock::Lock) -> Result<(), fairlock::error::Fault> {
/// use fairlock::state::BreakOutcome;
///
/// if let Some(holder) = lock.inspect().await?.holders.first() {
///     match lock.break_lease(holder.token).await? {
///         BreakOutcome::Told { remaining, .. } => println!("{} was told; over in {remaining:?}", holder.label),
///         other => println!("nothing to break any more: {other:?}"),
///     }
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum BreakOutcome {
    /// The holder was told, and its lease is not renewed any more: it ends after this time at the latest.
    #[non_exhaustive]
    Told {
        /// What is left of the lease.
        remaining: Duration,
    },
    /// No lease with that token is alive.
    Unknown,
    /// The lease was ended at once.
    Ended,
}
