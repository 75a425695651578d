#![doc = include_str!("../README.md")]

mod acquire;
mod bell;
mod blocking;
mod cancel;
mod client;
mod clock;
mod error;
mod fork;
mod function;
mod guard;
mod history;
mod holding;
mod inspect;
mod keeper;
mod keyed;
mod lock;
mod lock_all;
mod memory;
mod mutex;
mod operation;
#[cfg(feature = "operator")]
#[doc(hidden)]
pub mod operator;
mod options;
mod ownership;
mod protocol;
mod run;
mod server;
mod share;
mod term;
mod thread;
#[cfg(feature = "tls")]
mod tls;
mod wakers;

pub use acquire::{Acquire, Enqueue, TryAcquire, Waiting};
pub use cancel::Canceller;
pub use client::{Client, ClientBuilder};
pub use error::{
    AcquireError, Cause, ConnectError, Fault, InvalidOption, LockAllError, Lost, LostReason, ReleaseError, RenewError,
    RunError, TryAcquireError, TryRunError,
};
#[doc(hidden)]
pub use function::__enclosing;
pub use function::Locked;
pub use guard::{Guard, Held};
pub use history::{EndedAs, History, PastGrant};
pub use holding::Refreshed;
pub use inspect::{BreakOutcome, Holder, LockState, QueuedWaiter};
pub use keyed::{KeyGuard, KeyedMutex};
pub use lock::Lock;
pub use lock_all::{AllGuard, LockAll};
pub use operation::Operation;
pub use options::LockOptions;
pub use ownership::Ownership;
pub use share::SharedGuard;
#[cfg(feature = "tls")]
pub use tls::Tls;

#[cfg(feature = "__test-hooks")]
#[doc(hidden)]
pub mod testing;
