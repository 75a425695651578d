//! When the keeper's thread starts. A client that connects lazily has none before its first message: a program that only
//! makes clients forks as one that has a single thread, and what it never uses costs no thread.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use crate::mutex::lock;
use crate::thread;
use crate::wakers::Wakers;

type Work = Box<dyn FnOnce() + Send>;

/// Starts the thread once.
pub(super) struct Starter {
    started: AtomicBool,
    /// What the thread does. The thread takes it, so it is still here if the thread could not be started.
    work: Arc<Mutex<Option<Work>>>,
}

impl Starter {
    pub(super) fn new(work: impl FnOnce() + Send + 'static) -> Self {
        Self { started: AtomicBool::new(false), work: Arc::new(Mutex::new(Some(Box::new(work)))) }
    }

    pub(super) fn has_started(&self) -> bool {
        self.started.load(Ordering::Acquire)
    }

    /// Starts the thread, and the one that wakes callers, unless they were started before.
    pub(super) fn start(&self, wakers: &Wakers) -> io::Result<()> {
        if self.has_started() {
            return Ok(());
        }
        let starting = lock(&self.work);
        if !self.has_started() {
            wakers.begin()?;
            let work = self.work.clone();
            thread::spawn("fairlock-keeper", move || {
                let work = lock(&work).take();
                if let Some(work) = work {
                    work();
                }
            })?;
            self.started.store(true, Ordering::Release);
        }
        drop(starting);
        Ok(())
    }
}
