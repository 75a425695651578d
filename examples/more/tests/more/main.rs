//! The examples as programs, against servers of their own.

mod dashboard;
// The example itself. Its `main` is for people.
#[allow(dead_code)]
#[path = "../../src/bin/test_databases.rs"]
mod databases;
mod fencing;
mod http;
// The example itself. Its `main` is for people.
#[allow(dead_code)]
#[path = "../../src/bin/pool_sqlite.rs"]
mod pool_sqlite;
mod postgres;
mod program;
mod test_databases;
mod web_service;
// docs/testing.md has it, word by word.
mod without_redis;
