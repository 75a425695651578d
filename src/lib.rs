#![doc = include_str!("../docs/crate.md")]
//! # Where to look
//!
//! | for | see |
//! |---|---|
//! | a connection, its login and its settings | [`Client`], [`ClientBuilder`] |
//! | a lock and its options | [`Client::lock`], [`Lock`], [`LockOptions`] |
//! | waiting for a turn, with a timeout, a label, a place in line | [`Lock::acquire`], [`Lock::enqueue`], [`Acquire`] |
//! | several holders; many readers or one writer | [`Client::semaphore`], [`Held::slot`]; [`Client::rw_lock`], [`RwLock`] |
//! | trying without waiting | [`Lock::try_acquire`] |
//! | holding, its token, its loss | [`Guard`], [`Held`], [`error::Lost`] |
//! | a job that is dropped when the lease is lost | [`Acquire::run`], [`Acquire::run_blocking`] |
//! | several locks under one guard; a lock for each key | [`Client::lock_all`]; [`compat::KeyedMutex`] |
//! | who holds it and who waits; ending a lease | [`Lock::inspect`], [`Lock::history`]; [`Lock::break_lease`] |
//! | what can go wrong | [`error`] |
//! | tests of your program without a server | `testing`, with the feature of that name |
//!
//! An [`Operation`] is awaited, or waited for on the spot with [`blocking`](Operation::blocking).
#![cfg_attr(docsrs, feature(doc_cfg))]

/// The program of README.md compiles, too. Among the unit tests it only shows that the package has the file.
#[cfg(any(doctest, test))]
#[doc = include_str!("../README.md")]
mod readme {}

mod acquire;
mod blocking;
mod cancel;
mod client;
mod clock;
pub mod compat;
mod credentials;
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
mod notifier;
mod operation;
#[cfg(feature = "operator")]
#[doc(hidden)]
pub mod operator;
mod options;
mod protocol;
mod run;
mod rw_lock;
mod server;
mod spots;
mod sync;
mod term;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod thread;
#[cfg(feature = "tls")]
mod tls;
mod wakers;

pub use acquire::{Acquire, Enqueue, TryAcquire, Waiting};
pub use cancel::CancellationToken;
pub use client::{Client, ClientBuilder};
pub use credentials::Credentials;
pub use guard::{Guard, Held};
pub use lock::Lock;
pub use lock_all::{AllGuard, LockAll};
pub use operation::Operation;
pub use options::LockOptions;
pub use rw_lock::RwLock;
#[cfg(feature = "tls")]
pub use tls::Tls;

/// What is told of a lock: its holder, its waiters, its history, and what an operator's break did.
pub mod state {
    pub use crate::history::{EndedAs, History, PastGrant};
    pub use crate::inspect::{BreakOutcome, Holder, LockState, QueuedWaiter};
}

#[cfg(feature = "__test-hooks")]
#[doc(hidden)]
pub mod __hooks;
