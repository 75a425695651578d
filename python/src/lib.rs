//! The native half of the Python package `fairlock`: the Rust library, as `fairlock/*.py` uses it.
//!
//! Every call that waits is an [`Operation`](operation::Operation) around a future of the library. There are two ways
//! to run one, and neither needs a runtime: `wait` sleeps on a socket without the GIL, so that a signal interrupts it;
//! `poll` is for an event loop or a hub of greenlets, which watches the socket of a [`Notifier`](notifier::Notifier).
//! Wakers only write to these sockets. They take no GIL, so a busy interpreter holds up no other client of its process.
//!
//! What people see (defaults, documentation, context managers) is Python, in `fairlock/`.

mod bell;
mod call;
mod client;
mod convert;
mod errors;
mod guard;
mod kept;
mod lock;
mod logs;
mod notifier;
mod operation;
mod testing;

use pyo3::prelude::*;

/// The version of this package.
#[pyfunction]
fn version() -> &'static str {
    env!("CARGO_PKG_VERSION")
}

#[pyo3::pymodule]
mod _native {
    use pyo3::prelude::*;

    #[pymodule_export]
    use super::version;
    #[pymodule_export]
    use crate::call::{Block, Call};
    #[pymodule_export]
    use crate::client::{Client, connect, connect_lazy};
    #[pymodule_export]
    use crate::guard::{AllGuard, Guard};
    #[pymodule_export]
    use crate::lock::{Lock, Waiting, lock_all};
    #[pymodule_export]
    use crate::logs::{log_level, logs_fileno, next_logs, no_more_logs, take_logs};
    #[pymodule_export]
    use crate::notifier::Notifier;
    #[pymodule_export]
    use crate::operation::{Operation, exited, exiting, exits, has_exited};
    #[pymodule_export]
    use crate::testing::LockService;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        crate::logs::subscribe();
        crate::kept::keep(module.py())
    }
}
