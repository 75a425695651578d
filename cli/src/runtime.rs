//! The async runtime of a subcommand that needs one, which runs on the main thread, and threads that wait for what
//! cannot be awaited.

use tokio::runtime::{Builder, Runtime};

use crate::exit::Failure;

/// With these drivers, such as [`Builder::enable_time`].
pub(crate) fn start(drivers: impl FnOnce(&mut Builder) -> &mut Builder) -> Result<Runtime, Failure> {
    let runtime = drivers(&mut Builder::new_current_thread()).build();
    runtime.map_err(|error| Failure::because("cannot start the async runtime", error))
}

/// Starts a thread that nobody joins.
pub(crate) fn thread(name: &str, work: impl FnOnce() + Send + 'static) -> Result<(), Failure> {
    let started = std::thread::Builder::new().name(name.to_owned()).spawn(work);
    started.map(drop).map_err(|error| Failure::because("cannot start a thread", error))
}
