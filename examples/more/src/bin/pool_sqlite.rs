//! A pool of workers that share jobs in a SQLite database, on a runtime that is not tokio (smol).
//!
//! When you would want it: a holder reads, works for a while, and writes what follows from what it has read. To compare
//! tokens in the last write is not enough then: a former holder that was paused may write between the reading and the
//! writing of the present one. So **the first thing that a holder does is to write its token**. From then on every write of
//! a former holder is refused, and what was read stays true until this holder writes, or another one begins.
//!
//! `cargo run -p fairlock-examples --bin pool_sqlite -- /tmp/jobs.db WORKER`, in several terminals.

use std::time::Duration;

use fairlock::Client;
use rusqlite::{Connection, OptionalExtension as _};

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [path, worker] = &*arguments else { return Err("usage: pool_sqlite DATABASE WORKER".into()) };
    let store = Store::open(path)?;
    let url = std::env::var("REDIS_URL").unwrap_or("redis://127.0.0.1/".into());
    smol::block_on(async {
        let lock = Client::connect(&url).await?.lock("jobs")?;
        loop {
            // A worker that comes back for the next job stands at the end of the line.
            let guard = lock.acquire().label(worker).await?;
            let token = i64::try_from(guard.token())?;
            if !store.begin(token)? {
                continue;
            }
            let Some(job) = store.next()? else { return Ok(()) };
            smol::Timer::after(Duration::from_millis(20)).await;
            match store.finish(token, job, worker)? {
                true => println!("did {job}"),
                false => println!("refused: a later holder has begun, and does {job} itself"),
            }
        }
    })
}

/// Twelve jobs, and the token of the latest holder.
pub(crate) struct Store(Connection);

impl Store {
    pub(crate) fn open(path: &str) -> rusqlite::Result<Self> {
        let database = Connection::open(path)?;
        // Another process may write: SQLite then waits by itself.
        database.busy_timeout(Duration::from_secs(10))?;
        database.execute_batch(
            "BEGIN IMMEDIATE;
             CREATE TABLE IF NOT EXISTS fence (id INTEGER PRIMARY KEY CHECK (id = 1), token INTEGER);
             INSERT OR IGNORE INTO fence VALUES (1, 0);
             CREATE TABLE IF NOT EXISTS job (id INTEGER PRIMARY KEY, done_by TEXT);
             INSERT OR IGNORE INTO job (id) VALUES (1), (2), (3), (4), (5), (6), (7), (8), (9), (10), (11), (12);
             COMMIT",
        )?;
        Ok(Self(database))
    }

    /// Before the first look. False if a later holder has begun.
    pub(crate) fn begin(&self, token: i64) -> rusqlite::Result<bool> {
        Ok(self.0.execute("UPDATE fence SET token = ?1 WHERE token <= ?1", [token])? == 1)
    }

    pub(crate) fn next(&self) -> rusqlite::Result<Option<i64>> {
        let first = "SELECT id FROM job WHERE done_by IS NULL ORDER BY id LIMIT 1";
        self.0.query_row(first, [], |row| row.get(0)).optional()
    }

    /// One statement compares and writes. False if a later holder has begun.
    pub(crate) fn finish(&self, token: i64, job: i64, worker: &str) -> rusqlite::Result<bool> {
        let rows = self.0.execute(
            "UPDATE job SET done_by = ?3 WHERE id = ?2 AND (SELECT token FROM fence) = ?1",
            (token, job, worker),
        )?;
        Ok(rows == 1)
    }
}
