//! The wakers that all clients of a process share.

use std::sync::{Arc, Mutex, Weak};

use super::Wakers;
use crate::fork::{Lazy, OfProcess};
use crate::mutex::lock;

impl Wakers {
    /// The wakers of this process. The first keeper starts the thread, which ends with the last client.
    pub(crate) fn of_this_process() -> Arc<Self> {
        static WAKERS: Lazy<OfProcess<Mutex<Weak<Wakers>>>> = Lazy::new(OfProcess::default);
        let mut wakers = lock(WAKERS.get());
        if let Some(wakers) = wakers.upgrade() {
            return wakers;
        }
        let made = Self::new();
        *wakers = Arc::downgrade(&made);
        made
    }
}
