//! The longest delay of a renewal while the machine is busy and the callers of the same client are as unimportant as can be,
//! and while they ask for a hundred thousand locks at once, compared with a client without callers under the same load.

use std::future::IntoFuture as _;
use std::time::{Duration, Instant};

use fairlock::{Client, Guard, LockOptions};

use crate::kit::{
    client::{acquire, connect, release},
    place::{be_nice, may_be_urgent},
    roles::{Helper, say, serve},
    scripts::{Scripts, Values},
    table::Table,
    wire::{Reply, Wire, encode},
};
use testkit::{RedisServer, poll_once};

const INTERVAL: Duration = Duration::from_millis(200);
const WATCHED: Duration = Duration::from_secs(15);
const CALLERS: usize = 4;
const BURST: usize = 100_000;
/// From one burst to the next, and how long it waits.
const APART: Duration = Duration::from_secs(2);

pub fn measure(_rounds: usize, table: &mut Table) {
    let server = RedisServer::builder().tcp().plain().start();
    let loads = [("8 busy threads", true), ("a SCHED_FIFO neighbour", may_be_urgent())];
    for (load, possible) in loads {
        let row = format!("renewal with nice callers and {load}");
        if !possible {
            table.skipped(&row, "chrt may not make one here");
            continue;
        }
        let mut clients = [("crowded", CALLERS), ("quiet", 0)].map(|(name, callers)| {
            let mut helper = Helper::start("renews", &[&server.tcp_url(), name, &callers.to_string()]);
            assert_eq!(helper.hear(), "holding");
            (name, helper)
        });
        let neighbour = match load {
            "8 busy threads" => Helper::start("busy", &["8"]),
            _ => Helper::start_by(&["chrt", "-f", "1", "taskset", "-c", "0"], "busy", &["1"]),
        };
        compare(&row, &server, &mut clients, table);
        drop(neighbour);
    }
    let mut clients = [("bursting", "bursts"), ("calm", "renews")].map(|(name, role)| {
        let mut helper = Helper::start(role, &[&server.tcp_url(), name, "0"]);
        assert_eq!(helper.hear(), "holding");
        (name, helper)
    });
    compare("renewal during bursts of 100,000 acquires", &server, &mut clients, table);
}

/// The first of two clients compared with the second.
fn compare(row: &str, server: &RedisServer, clients: &mut [(&str, Helper); 2], table: &mut Table) {
    let [crowded, quiet] = longest_gaps(server, [clients[0].0, clients[1].0]);
    let late = |gap: Duration| gap.saturating_sub(INTERVAL).as_secs_f64() * 1000.0;
    let made = format!("{:.0} ms late, without callers {:.0}", late(crowded), late(quiet));
    table.row(row, late(crowded) - late(quiet), &made);
    for (name, helper) in clients {
        assert_eq!(helper.ask("held?"), "held", "{name}");
    }
}

/// The longest time between two renewals of each lock. The server knows: a renewal moves the end of the lease. It is enough to
/// see each end at some time before the next, however late this process looks.
fn longest_gaps(server: &RedisServer, names: [&str; 2]) -> [Duration; 2] {
    let mut wire = Wire::connect(server.port());
    let scripts = Scripts::of_this_build("fairlock", &mut wire);
    let page = Values::default().set("count", 1);
    let asks = names.map(|name| [encode(&["TIME"]), scripts.call("inspect", name, &page, &[])]);
    let mut seen = [(0, 0); 2];
    let start = Instant::now();
    while start.elapsed() < WATCHED {
        for (ask, (last, longest)) in asks.iter().zip(&mut seen) {
            let end = end_of_lease(&wire.pipeline(ask));
            // Two readings of one end differ by the time between the two commands.
            if end > *last + HALF_AN_INTERVAL_US {
                *longest = if *last == 0 { 0 } else { end.abs_diff(*last).max(*longest) };
                *last = end;
            }
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    seen.map(|(_, longest)| Duration::from_micros(longest))
}

const HALF_AN_INTERVAL_US: u64 = INTERVAL.as_micros() as u64 / 2;

/// By the server's clock, from its time and what is left of the lease.
fn end_of_lease(replies: &[Reply]) -> u64 {
    let [seconds, micros] = replies[0].list() else { panic!("{replies:?}") };
    let left = replies[1].unpacked().field("lease_left_us").expect("every reply names it").number();
    assert!(left > 0, "the lease was lost");
    seconds.number() * 1_000_000 + micros.number() + left
}

/// The helper: holds a lock, while callers of the same client use others all the time.
pub fn renews(arguments: &[&str]) {
    let [url, name, callers] = arguments else { panic!("{arguments:?}") };
    let client = connect(url);
    let guard = hold(&client, name);
    for caller in 0..callers.parse().expect("a number") {
        let lock = client.lock(&format!("{name} caller {caller}")).expect("a name");
        std::thread::spawn(move || {
            be_nice();
            loop {
                release(acquire(&lock));
            }
        });
    }
    answer_for(&guard);
}

/// The helper: holds a lock, while the same client has burst after burst of acquires of another one, which nobody gets.
pub fn bursts(arguments: &[&str]) {
    let [url, name, _] = arguments else { panic!("{arguments:?}") };
    let client = connect(url);
    let guard = hold(&client, name);
    let wanted = format!("{name} wanted");
    let lock = client.lock(&wanted).expect("a name");
    let taken = acquire(&connect(url).lock(&wanted).expect("a name"));
    std::thread::spawn(move || {
        loop {
            let call = |_| {
                let mut acquire = Box::pin(lock.acquire().into_future());
                assert!(poll_once(&mut acquire).is_pending());
                acquire
            };
            let waiting: Vec<_> = (0..BURST).map(call).collect();
            std::thread::sleep(APART);
            drop(waiting);
        }
    });
    answer_for(&guard);
    drop(taken);
}

fn hold(client: &Client, name: &str) -> Guard {
    let options = LockOptions::new().lease(10 * INTERVAL).renew_every(INTERVAL).notice(INTERVAL);
    acquire(&client.lock_with(name, options).expect("a name"))
}

/// Says whether the lease is still held, as often as it is asked.
fn answer_for(guard: &Guard) {
    say("holding");
    serve(|_| Some(if guard.check().is_ok() { "held" } else { "lost" }.to_owned()));
    std::process::exit(0);
}

/// The helper: so many threads that never wait.
pub fn busy(arguments: &[&str]) {
    for _ in 0..arguments[0].parse().expect("a number") {
        std::thread::spawn(|| {
            loop {
                std::hint::spin_loop();
            }
        });
    }
    serve(|_| None);
    std::process::exit(0);
}
