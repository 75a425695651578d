//! Tries that ask on whose behalf the lock is held.

use crate::acquire::TryAcquire;
use crate::error::TryAcquireError;
use crate::guard::Guard;
use crate::inspect::Holder;
use crate::lock::holders;
use crate::operation::Operation;

/// On whose behalf a lock is held after a try.
///
/// # Examples
/// ```no_run
/// # async fn example(lock: fairlock::Lock) -> Result<(), Box<dyn std::error::Error>> {
/// use fairlock::compat::Ownership;
///
/// match Ownership::of(lock.try_acquire().owner("worker-3")).await? {
///     Ownership::Granted(guard) => println!("granted with token {}", guard.token()),
///     Ownership::Mine(holder) => println!("I hold it already, with token {}", holder.token),
///     other => println!("{} holds it", other.owner()),
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum Ownership {
    /// The try was granted the lock.
    Granted(Guard),
    /// The same owner holds the lock by an earlier acquire, of this client or of another one. This try gets no guard:
    /// only the earlier acquire's can renew and release the lease.
    Mine(Holder),
    /// Another owner holds the lock.
    Other(Holder),
}

impl Ownership {
    /// Takes the lock if it is free, and otherwise tells which [owner](TryAcquire::owner) holds it. A second try by the
    /// same owner is told so, and takes no second lease. One round trip; if more than 16 hold it, another one for every
    /// 500 of them.
    ///
    /// Of a lock with several [slots](crate::LockOptions::slots) a try takes a free one, also if its owner has another.
    /// If it is full, and the owner has none of them, this tells the holder of the lowest slot.
    ///
    /// An empty owner stands for none: two tries without an owner are not by the same one.
    ///
    /// # Errors
    /// [`TryAcquireError`]. `Busy` only means that no owner can be named: nobody holds the lock, but others wait for it,
    /// or the server lost data.
    ///
    /// # Cancel safety
    /// If the future is dropped, a grant that is on its way is released.
    pub fn of(acquire: TryAcquire) -> Operation<Result<Self, TryAcquireError>> {
        let (owner, (handle, keys)) = (acquire.chosen_owner(), acquire.of());
        let wakers = handle.wakers.clone();
        let all = Operation::relayed(&wakers, async move { holders(&handle, &keys).await });
        Operation::of_others(async move {
            match acquire.await {
                Ok(guard) => Ok(Self::Granted(guard)),
                Err(TryAcquireError::Busy { mut holders, held, slots, waiting, recovering_for }) => {
                    if held > holders.len() as u64 {
                        holders = all.await?;
                    }
                    let is_mine = |holder: &Holder| !owner.is_empty() && holder.owner == *owner;
                    match holders.iter().position(is_mine) {
                        Some(at) => Ok(Self::Mine(holders.swap_remove(at))),
                        None if holders.is_empty() => {
                            Err(TryAcquireError::Busy { holders, held, slots, waiting, recovering_for })
                        }
                        None => Ok(Self::Other(holders.swap_remove(0))),
                    }
                }
                Err(error) => Err(error),
            }
        })
    }

    /// The owner that holds the lock.
    pub fn owner(&self) -> &str {
        match self {
            Self::Granted(guard) => guard.owner(),
            Self::Mine(holder) | Self::Other(holder) => &holder.owner,
        }
    }

    /// Whether the owner of the try holds the lock, since now or since before.
    pub fn is_mine(&self) -> bool {
        matches!(self, Self::Granted(_) | Self::Mine(_))
    }
}
