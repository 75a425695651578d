#![doc = include_str!("../README.md")]

mod acquire;
mod bell;
mod blocking;
mod cancel;
mod client;
mod clock;
pub mod compat;
pub mod error;
mod fork;
mod guard;
mod history;
mod inspect;
mod keeper;
mod lock;
mod lock_all;
mod memory;
mod mutex;
mod operation;
#[cfg(feature = "operator")]
#[doc(hidden)]
pub mod operator;
mod options;
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
pub use cancel::CancellationToken;
pub use client::{Client, ClientBuilder};
pub use guard::{Guard, Held};
pub use lock::Lock;
pub use lock_all::{AllGuard, LockAll};
pub use operation::Operation;
pub use options::LockOptions;
pub use share::SharedGuard;
#[cfg(feature = "tls")]
pub use tls::Tls;

/// What is told of a lock: its holder, its waiters, its history, and what an operator's break did.
pub mod state {
    pub use crate::history::{EndedAs, History, PastGrant};
    pub use crate::inspect::{BreakOutcome, Holder, LockState, QueuedWaiter};
}

#[cfg(feature = "__test-hooks")]
#[doc(hidden)]
pub mod testing;
