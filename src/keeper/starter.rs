//! When the keeper's thread starts. A client that connects lazily has none before its first message: a program that only
//! makes clients forks as one that has a single thread, and what it never uses costs no thread.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, mpsc};

use crate::mutex::lock;
use crate::thread;
use crate::wakers::Wakers;

type Work = Box<dyn FnOnce() + Send>;

/// Starts the thread once.
pub(super) struct Starter {
    started: AtomicBool,
    /// What the thread does, until it has started.
    work: Mutex<Option<Work>>,
}

impl Starter {
    pub(super) fn new(work: impl FnOnce() + Send + 'static) -> Self {
        Self { started: AtomicBool::new(false), work: Mutex::new(Some(Box::new(work))) }
    }

    pub(super) fn has_started(&self) -> bool {
        self.started.load(Ordering::Acquire)
    }

    /// Starts the thread, and the one that wakes callers, unless they were started before.
    pub(super) fn start(&self, wakers: &Wakers) -> io::Result<()> {
        if self.has_started() {
            return Ok(());
        }
        let mut waiting = lock(&self.work);
        if waiting.is_some() {
            wakers.begin()?;
            // A thread that cannot be started takes nothing along.
            let (hand_over, handed_over) = mpsc::channel::<Work>();
            thread::spawn("fairlock-keeper", move || {
                if let Ok(work) = handed_over.recv() {
                    work();
                }
            })?;
            let _ = waiting.take().map(|work| hand_over.send(work));
            self.started.store(true, Ordering::Release);
        }
        Ok(())
    }
}
