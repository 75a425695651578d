//! Four test databases for any number of test runs: each run has one of them alone, and its slot says which.
//!
//! When you would want it: developers and CI jobs share a PostgreSQL, a run needs a database that nobody else uses, and
//! one for each of them would be too many. So with devices, accounts of a test system, or ports.
//!
//! A run that was killed leaves its tables behind, so each run makes its database anew. `FORCE` ends the connections of
//! a former run that has lost its lease and does not know it, so that it writes no more.
//!
//! `cargo run -p fairlock-examples --bin test_databases -- "host=localhost user=postgres"`, six times at once; with
//! `fairlock status 'test databases'` in another terminal.

use std::time::Duration;

use fairlock::{Client, Held};
use postgres::NoTls;

const DATABASES: u32 = 4;
type Failure = Box<dyn std::error::Error + Send + Sync>;

fn main() -> Result<(), Failure> {
    let address = std::env::args().nth(1).ok_or("usage: test_databases ADDRESS")?;
    let url = std::env::var("REDIS_URL").unwrap_or("redis://127.0.0.1/".into());
    let client = Client::connect(&url).blocking()?;
    with_database(&client, &address, |database, held| {
        println!("has test_{}", held.slot());
        database.batch_execute("CREATE TABLE users (name TEXT); SELECT pg_sleep(5)")?;
        Ok(())
    })
}

/// Runs a test with a database of its own, which is empty.
pub(crate) fn with_database<T>(
    client: &Client,
    address: &str,
    test: impl FnOnce(&mut postgres::Client, &Held) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let databases = client.semaphore("test databases", DATABASES)?;
    databases.acquire().timeout(Duration::from_secs(600)).run_blocking(|held| {
        // No two leases have one slot at the same time.
        let name = format!("test_{}", held.slot());
        let mut server = postgres::Client::connect(address, NoTls)?;
        server.batch_execute(&format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)"))?;
        server.batch_execute(&format!("CREATE DATABASE {name}"))?;
        held.check()?;
        test(&mut postgres::Client::connect(&format!("{address} dbname={name}"), NoTls)?, &held)
    })?
}
