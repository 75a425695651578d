//! A client of the library, as the benchmarks use it: from blocking callers, and from tasks.

use fairlock::{Client, Guard, Lock};

pub fn connect(url: &str) -> Client {
    Client::connect(url).blocking().expect("connecting to the private redis-server")
}

/// An acquire by a blocking caller.
pub fn acquire(lock: &Lock) -> Guard {
    lock.acquire().blocking().expect("a grant")
}

/// A release by a blocking caller, which awaits the answer.
pub fn release(guard: Guard) {
    guard.release().blocking().expect("a lease that is still held");
}

/// The same by a task.
pub async fn cycle(lock: &Lock) {
    lock.acquire().await.expect("a grant").release().await.expect("a lease that is still held");
}
