//! A hundred thousand dead waiters before a live one: how long the server is blocked by one script, and when the live one is
//! granted the lock.

use std::time::{Duration, Instant};

use fairlock::LockOptions;

use crate::kit::{
    bare::values,
    client::{connect, release},
    scripts::Scripts,
    table::Table,
    wire::{Reply, Wire},
};
use testkit::RedisServer;

const ZOMBIES: usize = 100_000;
const BATCH: usize = 1000;
/// All of them are heard of within this time: they are alive when the last of them comes.
const LIVENESS: Duration = Duration::from_secs(12);
const BUFFER: Duration = Duration::from_secs(1);

pub fn measure(_rounds: usize, table: &mut Table) {
    let server = RedisServer::builder().tcp().plain().config("slowlog-max-len 10000").start();
    let mut wire = Wire::connect(server.port());
    let scripts = Scripts::of_this_build("fairlock", &mut wire);
    let known = |client: &str| {
        let us = |span: Duration| span.as_micros();
        values(client)
            .set("lease_us", us(LIVENESS))
            .set("liveness_us", us(LIVENESS))
            .set("buffer_us", us(BUFFER))
            .set("heartbeat_us", us(LIVENESS / 3))
    };
    let start = Instant::now();
    // One of them holds the lock, and dies with the others.
    for batch in 0..ZOMBIES / BATCH {
        let call = |nth| {
            // A client each: that is the most that there is to clean up.
            let client = format!("{:032x}", batch * BATCH + nth);
            scripts.call("acquire", "dead", &known(&client).set("id", format!("{client}.1")), &[])
        };
        let calls: Vec<Vec<u8>> = (0..BATCH).map(call).collect();
        let replies = wire.pipeline(&calls);
        assert!(!replies.iter().any(|reply| matches!(reply, Reply::Error(_))), "{:?}", replies[0]);
    }
    let died = Instant::now();
    eprintln!("{ZOMBIES} zombies in {:.1} s", (died - start).as_secs_f64());

    wire.command(&["CONFIG", "SET", "slowlog-log-slower-than", "1000"]);
    wire.command(&["SLOWLOG", "RESET"]);
    let lock = connect(&server.tcp_url()).lock_with("dead", LockOptions::new().liveness(LIVENESS).buffer(BUFFER));
    let guard = lock.expect("a name").acquire().blocking().expect("a grant");
    let waited = died.elapsed();
    let window = LIVENESS + BUFFER + LIVENESS / 3;
    table.row(
        "100,000 zombies: wait of the next, vs liveness + buffer + heartbeat",
        waited.as_secs_f64() / window.as_secs_f64(),
        &format!("{:.1} s of {:.1}", waited.as_secs_f64(), window.as_secs_f64()),
    );
    let log = wire.command(&["SLOWLOG", "GET", "10000"]);
    let scripts = log.list().iter().filter(|entry| entry.list()[3].list()[0].text().eq_ignore_ascii_case("EVALSHA"));
    let slow: Vec<u64> = scripts.map(|entry| entry.list()[2].number()).collect();
    let longest = slow.iter().max().map_or(1.0, |longest| *longest as f64 / 1000.0);
    table.row("100,000 zombies: the longest script", longest, &format!("{} took more than 1 ms", slow.len()));
    release(guard);
}
