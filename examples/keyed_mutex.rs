//! A mutex for each key: what concerns one customer is done one after the other, on whichever machine it arrives.
//!
//! When you would want it: there are many keys (customers, files, documents), each of them rarely contended, and no lock
//! object should be kept for a key that nobody uses. A key costs memory only while it is held or waited for.
//!
//! `cargo run --example keyed_mutex`

use std::time::Duration;

use fairlock::{
    Client,
    compat::KeyedMutex,
    error::{AcquireError, ReleaseError},
};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::var("REDIS_URL").unwrap_or("redis://127.0.0.1/".into());
    let client = Client::connect(&url).await?;
    let customers = KeyedMutex::new(&client, "customers")?.timeout(Duration::from_secs(30));

    // For a scope: orders of one customer wait for each other, those of two do not.
    let orders = [("alice", 1), ("bob", 2), ("alice", 3)];
    let handled = orders.map(|(customer, order)| tokio::spawn(handle(customers.clone(), customer, order)));
    for order in handled {
        println!("order {} is done", order.await??);
    }

    // Or from one request to another: an editor opens a document, and closes it an hour later.
    open(&customers, "carol").await?;
    println!("carol is ours until the call of close: {}", customers.is_held("carol"));
    close(&customers, "carol").await?;
    Ok(())
}

pub(crate) async fn handle(customers: KeyedMutex, customer: &str, order: u32) -> Result<u32, AcquireError> {
    let _guard = customers.guard(customer).await?;
    tokio::time::sleep(Duration::from_millis(50)).await;
    Ok(order)
}

/// The lease is renewed until the key is released, by whichever task of this process.
pub(crate) async fn open(customers: &KeyedMutex, customer: &str) -> Result<u64, AcquireError> {
    Ok(customers.acquire(customer).await?.token())
}

/// False if it was not open.
pub(crate) async fn close(customers: &KeyedMutex, customer: &str) -> Result<bool, ReleaseError> {
    customers.release(customer).await
}
