//! Whether this process is a fork of the one that made a client. The keeper stays in the parent. So a forked process
//! has to notice before it takes anything, above all a mutex, which a thread of the parent may have held.
//!
//! Each operation asks several times, so the question costs no system call: a handler of `pthread_atfork` counts forks.
//! It does not run for `_Fork` and a bare `clone`, after which POSIX allows only what a signal handler may call.
//!
//! What all clients of a process share, or all clones of a setting, is in an [`OfProcess`]. What is made once is
//! [`Lazy`], and not in a `LazyLock` or a `OnceLock`, which a forked process could find half made.

use std::future::Future;
use std::ops::Deref;
use std::pin::Pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll};

use forkguard::{atfork, pid};
use once_cell::race::OnceBox;

use crate::blocking::poll_channel;
use crate::spots::reach;

/// A process.
#[derive(Clone, Debug)]
pub(crate) struct Process(Guard);

#[derive(Clone, Debug)]
enum Guard {
    /// By the number of forks.
    Counted(atfork::Guard),
    /// By the id of the process, which takes a system call.
    ById(pid::Guard),
}

/// No process installs the handler of forks.
const NOBODY: u32 = 0;
/// The handler is installed.
const DONE: u32 = u32::MAX;

impl Process {
    /// This process.
    pub(crate) fn this() -> Self {
        static INSTALLS: AtomicU32 = AtomicU32::new(NOBODY);
        Self::of(std::process::id(), &INSTALLS)
    }

    /// The process of this id. `installs`: which process installs the handler of forks, where a thread waits for another
    /// one that does so already. A process that was forked meanwhile does without the handler: it would wait for ever.
    fn of(id: u32, installs: &AtomicU32) -> Self {
        let other = match installs.compare_exchange(NOBODY, id, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => false,
            Err(process) => ![id, DONE].contains(&process),
        };
        if !other && let Ok(guard) = atfork::Guard::try_new() {
            installs.store(DONE, Ordering::Release);
            return Self(Guard::Counted(guard));
        }
        Self(Guard::ById(pid::Guard::default()))
    }

    /// Whether the current process is a fork of it.
    pub(crate) fn is_forked(&self) -> bool {
        // A guard tells each fork once, so this asks a copy.
        match &self.0 {
            Guard::Counted(guard) => guard.clone().detected_fork(),
            Guard::ById(guard) => guard.clone().detected_fork(),
        }
    }
}

/// A value that is made when it is first needed. Nobody waits for the thread that makes it, which may have stayed in the
/// parent of this process: each that needs it makes it, and the first one counts.
pub(crate) struct Lazy<T> {
    made: OnceBox<T>,
    make: fn() -> T,
}

impl<T> Lazy<T> {
    pub(crate) const fn new(make: fn() -> T) -> Self {
        Self { made: OnceBox::new(), make }
    }
}

impl<T> Deref for Lazy<T> {
    type Target = T;
    fn deref(&self) -> &T {
        self.made.get_or_init(|| {
            reach(std::any::type_name::<T>());
            Box::new((self.make)())
        })
    }
}

/// A value that each process has for itself. A forked process has none of its parent's threads, and one of them may have
/// been changing the value, or have had its mutex.
#[derive(Debug)]
pub(crate) struct OfProcess<T> {
    process: Process,
    value: T,
    forked: OnceBox<OfProcess<T>>,
}

impl<T: Default> Default for OfProcess<T> {
    fn default() -> Self {
        Self { process: Process::this(), value: T::default(), forked: OnceBox::new() }
    }
}

impl<T: Default> OfProcess<T> {
    /// That of this process.
    pub(crate) fn get(&self) -> &T {
        let mut own = self;
        while own.process.is_forked() {
            own = own.forked.get_or_init(Box::default);
        }
        &own.value
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_was_forked_while_its_parent_installs_a_handler_goes_by_its_id() {
        let (parent, child) = (7, 8);
        let installs = AtomicU32::new(parent);
        assert!(matches!(Process::of(child, &installs).0, Guard::ById(_)));
        assert_eq!(installs.load(Ordering::Relaxed), parent);
        assert!(matches!(Process::of(parent, &installs).0, Guard::Counted(_)));
        assert!(matches!(Process::of(child, &installs).0, Guard::Counted(_)));
    }
}
