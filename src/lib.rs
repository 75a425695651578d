#![doc = include_str!("../README.md")]

mod acquire;
mod client;
mod clock;
mod error;
mod guard;
mod inspect;
mod keeper;
mod lock;
mod options;
mod protocol;
mod server;
#[cfg(feature = "tls")]
mod tls;
mod wakers;

pub use acquire::{Acquire, AcquireFuture, Enqueue, EnqueueFuture, TryAcquire, TryAcquireFuture, Waiting};
pub use client::{Client, ClientBuilder};
pub use error::{
    AcquireError, ConnectError, Fault, Lost, LostReason, OptionError, ReleaseError, RenewError, RunError,
    TryAcquireError,
};
pub use guard::{Guard, Held};
pub use inspect::{Broken, Holder, LockState, QueuedWaiter};
pub use lock::Lock;
pub use options::LockOptions;
#[cfg(feature = "tls")]
pub use tls::Tls;

#[cfg(feature = "test-hooks")]
#[doc(hidden)]
pub mod testing;
