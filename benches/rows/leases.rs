//! Ten thousand leases of one client: renewed in time, and at which cost.

use std::time::{Duration, Instant};

use fairlock::{Guard, LockOptions};
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use smol::future::block_on;

use crate::kit::{
    client::connect,
    place::counted,
    roles::{Helper, serve},
    table::Table,
};
use testkit::RedisServer;

const LEASES: usize = 10_000;
const LEASE: Duration = Duration::from_secs(30);
const RENEWED_EVERY: Duration = Duration::from_secs(10);

pub fn measure(_rounds: usize, table: &mut Table) {
    let server = RedisServer::builder().tcp().plain().start();
    let mut helper = Helper::start("leases", &[&server.tcp_url()]);
    assert_eq!(helper.ask("acquire"), "done");
    let (start, before) = (Instant::now(), counted(helper.pid()));
    let least_left: f64 = helper.ask("watch").parse().expect("seconds");
    let cpu = (counted(helper.pid()).cpu_ms - before.cpu_ms) / start.elapsed().as_secs_f64() / 10.0;
    let late = (LEASE - RENEWED_EVERY).as_secs_f64() - least_left;
    table.row("10,000 leases: CPU of the client", cpu, "a lease of 30 s, renewed every 10 s, over 25 s");
    table.row("10,000 leases: the latest renewal", late, &format!("{least_left:.2} s were left of that lease"));
    helper.end();
}

/// The helper: acquires all, or says how little was ever left of one of them.
pub fn leases(arguments: &[&str]) {
    let client = connect(arguments[0]);
    let options = LockOptions::new().lease(LEASE).renew_every(RENEWED_EVERY);
    let mut guards: Vec<Guard> = Vec::new();
    serve(|line| {
        if line == "acquire" {
            let locks = (0..LEASES).map(|number| client.lock_with(&format!("lease {number}"), options.clone()));
            let acquires = stream::iter(locks).map(|lock| lock.expect("a name").acquire().into_future());
            guards = block_on(acquires.buffer_unordered(200).try_collect()).expect("grants");
            return Some("done".to_owned());
        }
        let start = Instant::now();
        let mut least = LEASE;
        while start.elapsed() < Duration::from_secs(25) {
            std::thread::sleep(Duration::from_millis(500));
            least = guards.iter().map(|guard| guard.remaining()).min().expect("some leases").min(least);
        }
        guards.iter().for_each(|guard| guard.check().expect("a lease that is still held"));
        Some(least.as_secs_f64().to_string())
    });
    std::process::exit(0);
}
