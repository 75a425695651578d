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
mod server;
#[cfg(feature = "tls")]
mod tls;

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
pub mod testing {
    //! For this crate's own tests.

    /// The clock by which local deadlines are kept, in nanoseconds.
    pub fn local_clock_ns() -> u64 {
        crate::clock::Time::now().0
    }

    /// The digest by which a script of this name is called.
    pub fn digest(name: &str) -> String {
        let script = crate::server::SCRIPTS.iter().find(|script| script.name == name);
        script.map(|script| redis::Script::new(script.text).get_hash().to_owned()).unwrap_or_default()
    }

    /// Name and text of every script, with another reading of the clock in the place of the server's.
    pub fn scripts(server_time: &str) -> Vec<(&'static str, String)> {
        crate::server::SCRIPTS
            .iter()
            .map(|script| (script.name, script.text.replace(crate::server::TIME, server_time)))
            .collect()
    }
}
