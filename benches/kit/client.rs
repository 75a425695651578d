//! A client of the library, as the benchmarks use it: from blocking callers, and from tasks.

use std::future::Future;

use fairlock::{Client, Guard, Lock};

pub fn connect(url: &str) -> Client {
    block_on(Client::connect(url)).expect("connecting to the private redis-server")
}

pub fn block_on<F: Future>(future: F) -> F::Output {
    smol::future::block_on(future)
}

/// An acquire by a blocking caller.
pub fn acquire(lock: &Lock) -> Guard {
    lock.acquire().blocking().expect("a grant")
}

/// A release by a blocking caller, which awaits the answer.
pub fn release(guard: Guard) {
    block_on(guard.release()).expect("a lease that is still held");
}

/// The same by a task.
pub async fn cycle(lock: &Lock) {
    lock.acquire().await.expect("a grant").release().await.expect("a lease that is still held");
}
