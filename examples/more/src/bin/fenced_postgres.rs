//! A write into PostgreSQL that refuses a holder whose lease has ended, whatever that holder believes.
//!
//! When you would want it: as in `fenced_sqlite`, always when a late write does harm, here with a database that several
//! machines share. The token is a column next to the data; a table that is written by many locks gets one for each row.
//!
//! See it: `cargo run -p fairlock-examples --bin fenced_postgres -- "host=localhost user=postgres" first`, and go on as
//! `fenced_sqlite.rs` says.

use std::time::Duration;

use fairlock::{Client, LockOptions};
use postgres::NoTls;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [address, text] = &*arguments else { return Err("usage: fenced_postgres ADDRESS TEXT".into()) };
    let mut database = postgres::Client::connect(address, NoTls)?;

    let url = std::env::var("REDIS_URL").unwrap_or("redis://127.0.0.1/".into());
    let client = Client::connect(&url).blocking()?;
    let lock = client.lock_with("report", LockOptions::new().lease(Duration::from_secs(2)))?;
    let guard = lock.acquire().label(text).blocking()?;
    database.batch_execute("CREATE TABLE IF NOT EXISTS report (id INT PRIMARY KEY, text TEXT, token BIGINT)")?;
    println!("granted with token {}; press Enter to write", guard.token());

    // The work. A process that is paused here finds out only after it goes on.
    std::io::stdin().read_line(&mut String::new())?;

    if write(&mut database, guard.token(), text)? {
        println!("written");
    } else {
        println!("refused: a later holder has written already");
    }
    Ok(())
}

/// False if a later holder has written. One statement compares and writes, so nothing comes in between. A holder may
/// write several times: its own token is not refused.
fn write(database: &mut postgres::Client, token: u64, text: &str) -> Result<bool, Box<dyn std::error::Error>> {
    let token = i64::try_from(token)?;
    let rows = database.execute(
        "INSERT INTO report (id, text, token) VALUES (1, $1, $2)
         ON CONFLICT (id) DO UPDATE SET text = excluded.text, token = excluded.token
         WHERE report.token <= excluded.token",
        &[&text, &token],
    )?;
    Ok(rows == 1)
}
