#![doc = include_str!("../README.md")]

mod acquire;
mod blocking;
mod cancel;
mod client;
mod clock;
mod error;
mod fork;
mod guard;
mod inspect;
mod keeper;
mod lock;
mod operation;
mod options;
mod protocol;
mod server;
mod term;
#[cfg(feature = "tls")]
mod tls;
mod wakers;

pub use acquire::{Acquire, Enqueue, TryAcquire, Waiting};
pub use cancel::Canceller;
pub use client::{Client, ClientBuilder};
pub use error::{
    AcquireError, Cause, ConnectError, Fault, InvalidOption, Lost, LostReason, ReleaseError, RenewError, RunError,
    TryAcquireError,
};
pub use guard::{Guard, Held};
pub use inspect::{BreakOutcome, Holder, LockState, QueuedWaiter};
pub use lock::Lock;
pub use operation::Operation;
pub use options::LockOptions;
#[cfg(feature = "tls")]
pub use tls::Tls;

#[cfg(feature = "__test-hooks")]
#[doc(hidden)]
pub mod testing;
