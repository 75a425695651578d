//! Names and options that cannot work.

use std::sync::Arc;
use std::time::Duration;

/// A name or an option that cannot work. Nothing was sent to the server.
///
/// # Examples
/// ```
/// use std::time::Duration;
/// use fairlock::{LockOptions, error::InvalidOption};
///
/// let options = LockOptions::new().lease(Duration::from_secs(5)).renew_every(Duration::from_secs(5));
/// let error = options.check("reports").unwrap_err();
/// assert!(matches!(error, InvalidOption::RenewalTooLate { .. }), "{error}");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidOption {
    /// The name of the lock is empty.
    #[error("the lock's name is empty: give it a name such as \"reports:nightly\"")]
    EmptyName,
    /// The name of the lock is longer than 512 bytes.
    #[error("the lock's name has {length} bytes: use at most 512, for instance a hash of it")]
    #[non_exhaustive]
    NameTooLong {
        /// How long it is, in bytes.
        length: usize,
    },
    /// A variable of the environment is not valid UTF-8.
    #[error("the variable {variable} is not valid UTF-8: correct it, or set the option in the program")]
    #[non_exhaustive]
    NotUtf8 {
        /// The variable.
        variable: &'static str,
    },
    /// There is no name of a lock in a list of names.
    #[error("no lock was named: give at least one name")]
    NoNames,
    /// A lock cannot have as many slots.
    #[error("the slots are {slots}: a lock has from 1 to 1000, and with 1 only one may hold it")]
    #[non_exhaustive]
    Slots {
        /// What was given.
        slots: u32,
    },
    /// A number of slots was given where it is fixed.
    #[error("{slots} slots were given for {what}: leave the option `slots` out, or use a lock with it")]
    #[non_exhaustive]
    FixedSlots {
        /// "a read-write lock, which has one writer or up to 1000 readers", for example.
        what: &'static str,
        /// What was given.
        slots: u32,
    },
    /// Several locks were to be acquired together, and one of them is of another client.
    #[error("the lock {name:?} is of another client than the others: acquire all of them by one client")]
    #[non_exhaustive]
    OtherClient {
        /// The lock.
        name: Arc<str>,
    },
    /// A lease that its holder shares with others was to be downgraded.
    #[error(
        "a lease of the lock {name:?} that up to {slots} may share cannot be downgraded: only a writer, or the holder of \
         a lock with one slot, can become a reader"
    )]
    #[non_exhaustive]
    NoWriter {
        /// The lock.
        name: Arc<str>,
        /// How many may hold the lock together.
        slots: u32,
    },
    /// The function is a closure, which has no name of its own.
    #[error("{name} has no name of its own: name a lock, and use its `locked`")]
    #[non_exhaustive]
    Closure {
        /// How the compiler calls it.
        name: String,
    },
    /// The name of the lock begins with `}`. In a cluster its keys would be in different hash slots.
    #[error(
        "the lock's name {name:?} begins with `}}`, which would leave the hash tag of its keys in a cluster empty: put \
         another character first, or write %7D"
    )]
    #[non_exhaustive]
    LeadingBrace {
        /// The name.
        name: String,
    },
    /// The prefix contains a brace, which would put all locks into one hash slot of a cluster.
    #[error(
        "the prefix {prefix:?} contains a brace: `{{` and `}}` mark the hash tag of the keys in a cluster; leave them \
         out, or write others for them, such as %7B and %7D"
    )]
    #[non_exhaustive]
    Brace {
        /// The prefix.
        prefix: String,
    },
    /// A duration is zero, too short, or too long.
    #[error("{option} is {}: it must be between {least:?} and {}", in_days(.value), in_days(.most))]
    #[non_exhaustive]
    Duration {
        /// The option's name.
        option: &'static str,
        /// What was given.
        value: Duration,
        /// The minimum.
        least: Duration,
        /// The maximum.
        most: Duration,
    },
    /// A renewal would come too late to be of use.
    #[error(
        "renewing every {every:?} with a notice of {notice:?} leaves nothing of a lease of {lease:?}: \
         renew earlier, shorten the notice or lengthen the lease, so that both together stay below it"
    )]
    #[non_exhaustive]
    RenewalTooLate {
        /// The interval of renewals.
        every: Duration,
        /// The notice before the deadline.
        notice: Duration,
        /// The lease.
        lease: Duration,
    },
    /// A label, an owner or the prefix is longer than 4096 bytes.
    #[error("{what} has {length} bytes: use at most 4096")]
    #[non_exhaustive]
    TooLong {
        /// "the label", "the owner" or "the prefix".
        what: &'static str,
        /// How long it is, in bytes.
        length: usize,
    },
}

/// A long time in days, which are easier to read than ten digits of seconds.
fn in_days(duration: &Duration) -> String {
    const DAY: u64 = 24 * 3600;
    match duration.as_secs() / DAY {
        0 | 1 => format!("{duration:?}"),
        days if duration.subsec_nanos() == 0 && duration.as_secs().is_multiple_of(DAY) => format!("{days} days"),
        days => format!("more than {days} days"),
    }
}
