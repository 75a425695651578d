//! The stale write of a paused holder is refused by the database.

use rustix::process::Signal;
use testkit::{RedisServer, keys_left};

use crate::{postgres::Postgres, program::Program};

/// Two processes write into one database; the first is stopped while it holds the lock.
fn a_paused_holder(program: &str, database: &str) {
    let redis = RedisServer::start();
    let token =
        |program: &Program| -> u64 { program.says("granted with token ").split(';').next().unwrap().parse().unwrap() };
    let mut first = Program::start(program, &redis, &[database, "of the first"]);
    let old = token(&first);
    first.signal(Signal::STOP);

    // It gets the lock when the lease of the first one has ended.
    let mut second = Program::start(program, &redis, &[database, "of the second"]);
    let new = token(&second);
    assert!(new > old, "{new} after {old}");
    second.press_enter();
    second.says("written");
    second.ends();

    first.press_enter();
    first.signal(Signal::CONT);
    first.says("refused");
    first.ends();
    keys_left(&redis);
}

#[test]
fn sqlite_refuses_a_paused_holder() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("report.db");
    a_paused_holder(env!("CARGO_BIN_EXE_fenced_sqlite"), path.to_str().unwrap());
    let database = rusqlite::Connection::open(path).unwrap();
    let text: String = database.query_row("SELECT text FROM report", [], |row| row.get(0)).unwrap();
    assert_eq!(text, "of the second");
}

#[test]
fn postgres_refuses_a_paused_holder() {
    let server = Postgres::start();
    a_paused_holder(env!("CARGO_BIN_EXE_fenced_postgres"), &server.address());
    let mut database = ::postgres::Client::connect(&server.address(), ::postgres::NoTls).unwrap();
    let text: String = database.query_one("SELECT text FROM report", &[]).unwrap().get(0);
    assert_eq!(text, "of the second");
}
