//! A notifier that keeps one call until somebody waits for it, as an edge-triggered descriptor does.

use loom::sync::{Condvar, Mutex};

#[derive(Default)]
pub(crate) struct Notifier(loom::sync::Arc<(Mutex<bool>, Condvar)>);

impl Notifier {
    pub(crate) fn notify(&self) {
        *self.0.0.lock().unwrap() = true;
        self.0.1.notify_one();
    }

    /// The end at which the keeper sleeps.
    pub(crate) fn poller(&self) -> Poller {
        Poller(self.0.clone())
    }
}

pub(crate) struct Poller(loom::sync::Arc<(Mutex<bool>, Condvar)>);

impl Poller {
    pub(crate) fn sleep(&self) {
        let mut notified = self.0.0.lock().unwrap();
        while !std::mem::take(&mut *notified) {
            notified = self.0.1.wait(notified).unwrap();
        }
    }
}
