//! A write into SQLite that refuses a holder whose lease has ended, whatever that holder believes.
//!
//! When you would want it: always when a late write does harm. No lock with leases can stop a process that was paused (a
//! suspended laptop, a frozen virtual machine, SIGSTOP) and goes on writing as if nothing had happened. The database can,
//! if it keeps the fencing token of the last writer.
//!
//! See it: `cargo run -p fairlock-examples --bin fenced_sqlite -- /tmp/report.db first`, then Ctrl-Z. In another terminal
//! the same with `second`, which is granted the lock when the lease of the first ends; press Enter there. Then `fg` and
//! Enter in the first terminal: refused.

use std::time::Duration;

use fairlock::{Client, LockOptions};
use rusqlite::Connection;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [path, text] = &*arguments else { return Err("usage: fenced_sqlite DATABASE TEXT".into()) };
    let database = Connection::open(path)?;
    database.execute("CREATE TABLE IF NOT EXISTS report (id INTEGER PRIMARY KEY, text TEXT, token INTEGER)", [])?;

    let url = std::env::var("REDIS_URL").unwrap_or("redis://127.0.0.1/".into());
    let client = Client::connect(&url).blocking()?;
    let lock = client.lock_with("report", LockOptions::new().lease(Duration::from_secs(2)))?;
    let guard = lock.acquire().label(text).blocking()?;
    println!("granted with token {}; press Enter to write", guard.token());

    // The work. A process that is paused here finds out only after it goes on.
    std::io::stdin().read_line(&mut String::new())?;

    if write(&database, guard.token(), text)? {
        println!("written");
    } else {
        println!("refused: a later holder has written already");
    }
    Ok(())
}

/// False if a later holder has written. One statement compares and writes, so nothing comes in between. A holder may
/// write several times: its own token is not refused.
fn write(database: &Connection, token: u64, text: &str) -> Result<bool, Box<dyn std::error::Error>> {
    let token = i64::try_from(token)?;
    let rows = database.execute(
        "INSERT INTO report (id, text, token) VALUES (1, ?1, ?2)
         ON CONFLICT (id) DO UPDATE SET text = excluded.text, token = excluded.token
         WHERE report.token <= excluded.token",
        (text, token),
    )?;
    Ok(rows == 1)
}
