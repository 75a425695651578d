//! Whether this process is a fork of the one that made a client. The keeper stays in the parent. So a forked process
//! has to notice before it takes anything, above all a mutex, which a thread of the parent may have held.
//!
//! Each operation asks several times, so the question costs no system call: a handler of `pthread_atfork` counts forks.
//! It does not run for `_Fork` and a bare `clone`, after which POSIX allows only what a signal handler may call.

use std::io;

use forkguard::atfork::Guard;

/// A process.
#[derive(Debug, Clone)]
pub(crate) struct Process(Guard);

impl Process {
    /// This process.
    pub(crate) fn this() -> io::Result<Self> {
        let guard = Guard::try_new().map_err(|error| io::Error::from_raw_os_error(error.code().get()))?;
        Ok(Self(guard))
    }

    /// Whether the current process is a fork of it.
    pub(crate) fn is_forked(&self) -> bool {
        // A guard tells each fork once, so this asks a copy.
        self.0.clone().detected_fork()
    }
}
