//! Test databases that are handed out by slot.

use std::{
    collections::BTreeSet,
    sync::{Barrier, Mutex},
    thread,
};

use fairlock::Client;
use testkit::{RedisServer, keys_left_after};

use crate::{databases::with_database, postgres::Postgres};

#[test]
fn each_of_eight_runs_has_one_of_four_databases_alone_and_empty() {
    let (redis, server) = (RedisServer::start(), Postgres::start());
    let client = Client::connect(&redis.url()).blocking().unwrap();
    // Four at once, twice.
    let (all, seen) = (Barrier::new(4), Mutex::new(Vec::new()));
    let run = || {
        with_database(&client, &server.address(), |database, _| {
            // The table of another run would be in the way.
            database.batch_execute("CREATE TABLE users (name TEXT)")?;
            seen.lock().unwrap().push(database.query_one("SELECT current_database()::TEXT", &[])?.get::<_, String>(0));
            all.wait();
            Ok(())
        })
    };
    thread::scope(|scope| {
        let runs: Vec<_> = (0..8).map(|_| scope.spawn(run)).collect();
        runs.into_iter().for_each(|run| run.join().unwrap().unwrap());
    });
    let seen = seen.into_inner().unwrap();
    let names: BTreeSet<&str> = seen.iter().map(String::as_str).collect();
    assert_eq!((seen.len(), Vec::from_iter(names)), (8, vec!["test_0", "test_1", "test_2", "test_3"]));
    keys_left_after(client, &redis);
}

#[test]
fn a_run_that_has_lost_its_lease_writes_nothing_into_the_database_of_the_next() {
    let (redis, server) = (RedisServer::start(), Postgres::start());
    let [client, other] = [(); 2].map(|()| Client::connect(&redis.url()).blocking().unwrap());
    let lost = with_database(&client, &server.address(), |database, held| {
        database.batch_execute("CREATE TABLE users (name TEXT)")?;
        other.lock(held.name())?.force_break_lease(held.token()).blocking()?;
        let next = with_database(&other, &server.address(), |_, next| Ok((next.slot(), next.token())));
        let (slot, token) = next.unwrap();
        assert!(slot == held.slot() && token > held.token());
        let written = database.batch_execute("INSERT INTO users VALUES ('late')");
        assert!(written.is_err(), "a late write");
        Ok(())
    });
    let lost = lost.unwrap_err().to_string();
    assert!(lost.contains("test databases"), "{lost}");
    keys_left_after((client, other), &redis);
}
