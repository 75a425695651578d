//! As in the library. A thread may lose its processor while it holds a mutex: without that, a mutex orders more than it
//! promises, because loom switches threads only at operations that it knows.

use loom::sync::{Mutex, MutexGuard};
use loom::thread::yield_now;

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    let guard = mutex.lock().unwrap();
    yield_now();
    guard
}

pub(crate) fn try_lock<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    mutex.try_lock().ok()
}
