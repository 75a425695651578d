//! The rows of `server_time` alone, which need no client: `cargo bench --profile dev --bench server_time -- ROUNDS`.

#![allow(unreachable_pub, clippy::expect_used, clippy::unwrap_used)]

mod kit;
#[path = "rows/server_time/mod.rs"]
mod server_time;

use std::process::ExitCode;

fn main() -> ExitCode {
    let rounds = std::env::args().filter_map(|arg| arg.parse().ok()).next().unwrap_or(15);
    let _urgent = kit::place::Urgent::become_so();
    let mut table = kit::table::Table::new();
    server_time::measure(rounds, &mut table);
    table.verdict()
}
