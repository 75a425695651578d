//! Mutexes whose poison says nothing: what they guard is whole at every moment.

use std::any::type_name;
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

use crate::spots::reach;

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    let guard = mutex.lock().unwrap_or_else(PoisonError::into_inner);
    reach(type_name::<T>());
    guard
}

/// For threads that wait for nobody: None if it is locked.
pub(crate) fn try_lock<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    let guard = match mutex.try_lock() {
        Ok(guard) => guard,
        Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
        Err(TryLockError::WouldBlock) => return None,
    };
    reach(type_name::<T>());
    Some(guard)
}
