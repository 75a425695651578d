//! The wakers that all clients of a process share.

use std::io;
use std::sync::{Arc, Mutex, Weak};

use once_cell::race::OnceBox;

use super::Wakers;
use crate::fork::Process;
use crate::mutex::lock;

/// The wakers of one process. A forked process does without them, and has its own: it has none of its parent's threads,
/// and one of them may have held the mutex at the fork. For the same reason nobody waits at a [`OnceBox`].
struct OfProcess {
    process: Process,
    wakers: Mutex<Weak<Wakers>>,
    forked: OnceBox<OfProcess>,
}

impl OfProcess {
    fn this() -> io::Result<Box<Self>> {
        Ok(Box::new(Self { process: Process::this()?, wakers: Mutex::default(), forked: OnceBox::new() }))
    }
}

impl Wakers {
    /// The wakers of this process. The first client starts the thread, which ends with the last one.
    pub(crate) fn of_this_process() -> io::Result<Arc<Self>> {
        static FIRST: OnceBox<OfProcess> = OnceBox::new();
        let mut of_process = FIRST.get_or_try_init(OfProcess::this)?;
        while of_process.process.is_forked() {
            of_process = of_process.forked.get_or_try_init(OfProcess::this)?;
        }
        let mut wakers = lock(&of_process.wakers);
        if let Some(wakers) = wakers.upgrade() {
            return Ok(wakers);
        }
        let started = Self::start()?;
        *wakers = Arc::downgrade(&started);
        Ok(started)
    }
}
