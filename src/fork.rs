//! Whether this process is a fork of the one that made a client. The keeper stays in the parent. So a forked process
//! has to notice before it takes anything, above all a mutex, which a thread of the parent may have held.
//!
//! Each operation asks several times, so the question costs no system call: a handler of `pthread_atfork` counts forks.
//! It does not run for `_Fork` and a bare `clone`, after which POSIX allows only what a signal handler may call.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use forkguard::atfork::Guard;

use crate::blocking::poll_channel;

/// A process.
#[derive(Clone, Debug)]
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

/// A future that takes a mutex whenever it is polled or dropped, such as one of tokio's `Notify`. In a forked process it
/// does neither: it is ready at once, and its memory is not given back.
pub(crate) struct UnlessForked<F> {
    process: Process,
    /// None only while it is dropped.
    future: Option<Pin<Box<F>>>,
}

impl<F: Future<Output = ()>> UnlessForked<F> {
    pub(crate) fn new(process: &Process, future: F) -> Self {
        Self { process: process.clone(), future: Some(Box::pin(future)) }
    }

    pub(crate) fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        match &mut self.future {
            Some(future) if !self.process.is_forked() => poll_channel(future, context),
            _ => Poll::Ready(()),
        }
    }
}

impl<F> Drop for UnlessForked<F> {
    fn drop(&mut self) {
        if self.process.is_forked() {
            std::mem::forget(self.future.take());
        }
    }
}
