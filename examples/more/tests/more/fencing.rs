//! The stale write of a paused holder is refused by the database.

use rustix::process::Signal;
use testkit::{RedisServer, keys_left};

use crate::{pool_sqlite::Store, postgres::Postgres, program::Program};

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

#[test]
fn a_pool_does_each_job_once() {
    let redis = RedisServer::start();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("jobs.db").to_str().unwrap().to_owned();
    let worker = |name| Program::start(env!("CARGO_BIN_EXE_pool_sqlite"), &redis, &[&path, name]);
    let mut workers = ["one", "two", "three"].map(worker);
    workers.iter_mut().for_each(Program::ends);
    let mut did: Vec<u32> =
        workers.iter().flat_map(Program::all_said).map(|job| job["did ".len()..].parse().unwrap()).collect();
    did.sort_unstable();
    assert_eq!(did, (1..=12).collect::<Vec<_>>());
    assert_eq!(Store::open(&path).unwrap().next().unwrap(), None);
    keys_left(&redis);
}

/// A former holder that has read before it was paused, and writes after the next one has read.
#[test]
fn who_reads_first_writes_its_token_first() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("jobs.db");
    let store = || Store::open(path.to_str().unwrap()).unwrap();
    let (former, present) = (store(), store());
    assert!(former.begin(1).unwrap());
    let job = former.next().unwrap().unwrap();
    assert!(present.begin(2).unwrap());
    assert_eq!(present.next().unwrap(), Some(job));
    assert!(!former.finish(1, job, "former").unwrap(), "the present holder has read");
    assert!(!former.begin(1).unwrap());
    assert!(present.finish(2, job, "present").unwrap());
    assert_eq!(present.next().unwrap(), Some(job + 1));
}
