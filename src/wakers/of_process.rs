//! The wakers that all clients of a process share.

use std::io;
use std::sync::{Arc, Mutex, Weak};

use super::Wakers;
use crate::fork::{Lazy, OfProcess};
use crate::mutex::lock;

impl Wakers {
    /// The wakers of this process. The first client starts the thread, which ends with the last one.
    pub(crate) fn of_this_process() -> io::Result<Arc<Self>> {
        static WAKERS: Lazy<OfProcess<Mutex<Weak<Wakers>>>> = Lazy::new(OfProcess::default);
        let mut wakers = lock(WAKERS.get());
        if let Some(wakers) = wakers.upgrade() {
            return Ok(wakers);
        }
        let started = Self::start()?;
        *wakers = Arc::downgrade(&started);
        Ok(started)
    }
}
