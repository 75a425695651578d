//! The async runtime of a subcommand that needs one: it runs on the main thread.

use tokio::runtime::{Builder, Runtime};

use crate::exit::Failure;

/// With these drivers, such as [`Builder::enable_time`].
pub(crate) fn start(drivers: impl FnOnce(&mut Builder) -> &mut Builder) -> Result<Runtime, Failure> {
    let runtime = drivers(&mut Builder::new_current_thread()).build();
    runtime.map_err(|error| Failure::because("cannot start the async runtime", error))
}
