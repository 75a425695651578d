//! What a server spends on each thing that clients ask for: the constants of `docs/capacity.md`. Then a mixed load and
//! long queues, compared with what the formulas of that page predict from these constants.
//!
//! Real clients ask, so the constants are those of the requests that clients really send. Only what the server counts is
//! taken: the CPU time of its main thread, its memory, its bytes. Another process on the machine disturbs these little.

use std::sync::LazyLock;
use std::time::{Duration, Instant};

use fairlock::{Client, Guard, Lock, LockOptions, Waiting};
use futures_util::future::join_all;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use smol::future::block_on;

use crate::kit::{
    client::{acquire, connect, cycle},
    machine,
    stats::median,
    table::Table,
    wire::{Wire, encode},
};
use testkit::RedisServer;

/// Each with a connection of its own, and one request at a time.
const CLIENTS: usize = 20;
/// Locks that are contended at a time; the clients share them.
const CONTENDED: usize = 4;
/// Cycles of each client in a round.
const CYCLES: usize = 200;
/// Locks at which each client has a lease, or waits.
const LOCKS: usize = 50;
const ROUNDS: usize = 5;
const DAY: Duration = Duration::from_secs(86_400);
/// What is renewed, and the sessions of waiters: often enough that a short time has many requests.
const QUICK: Duration = Duration::from_secs(3);
/// A third of [`QUICK`] is the interval of a heartbeat, and a round has two.
const WINDOW: Duration = Duration::from_secs(2);
/// The server takes back the buffers of a connection that has been quiet for some seconds.
const REST: Duration = Duration::from_secs(7);
const LABEL: &str = "worker-17:4242";

static OPTIONS: LazyLock<LockOptions> = LazyLock::new(|| LockOptions::new().label(LABEL));

pub fn measure(rounds: usize, table: &mut Table) {
    let rounds = rounds.min(ROUNDS);
    let server = RedisServer::builder().tcp().plain().start();
    let costs = costs_at(&server, rounds);
    let copied = {
        let master = RedisServer::builder().master().plain().appendonly().start();
        let _replica = master.replica();
        costs_at(&master, rounds)
    };
    for (cost, copied) in costs.each().into_iter().zip(copied.each()) {
        let measured = format!(
            "{:.0} µs of CPU, {:.0} with an append-only file and a replica; {:.2} scripts; {:.0} B in, {:.0} B out, {:.0} B \
             to a replica",
            cost.cpu_us, copied.cpu_us, cost.scripts, cost.received, cost.sent, copied.replicated
        );
        table.note(&format!("server's cost of {}", cost.of), &measured);
    }
    let memory = memory();
    for (what, bytes) in &memory {
        table.note(&format!("server's memory of {what}"), &format!("{bytes:.0} B"));
    }
    for sessions in [CLIENTS, 500 * CLIENTS] {
        mixed(sessions, &costs, table);
    }
    let waiter = memory.last().expect("the waiters are the last").1;
    for count in [1_000, 20_000] {
        let measured = of_waiters(count);
        let made = format!("{measured:.0} B each, predicted {waiter:.0}");
        table.row(&format!("memory of {count} waiters, vs predicted"), off(measured, waiter), &made);
    }
}

/// How far a prediction is off, whichever is higher.
fn off(measured: f64, predicted: f64) -> f64 {
    (measured / predicted).max(predicted / measured)
}

/// What one of something costs a server.
struct Cost {
    of: &'static str,
    cpu_us: f64,
    scripts: f64,
    received: f64,
    sent: f64,
    replicated: f64,
}

struct Costs {
    free: Cost,
    alone: Cost,
    contended: Cost,
    joining: Cost,
    renewal: Cost,
    heartbeat: Cost,
    ping: Cost,
}

impl Costs {
    fn each(&self) -> [&Cost; 7] {
        [&self.free, &self.alone, &self.contended, &self.joining, &self.renewal, &self.heartbeat, &self.ping]
    }
}

fn costs_at(server: &RedisServer, rounds: usize) -> Costs {
    let mut meter = Meter::new(server);
    let clients: Vec<Client> = (0..CLIENTS).map(|_| connect(&server.tcp_url())).collect();
    let own = locks(&clients, 1, |client, _| format!("free {client}"), &OPTIONS);
    let shared = locks(&clients, 1, |client, _| format!("shared {}", client % CONTENDED), &OPTIONS);
    cycles(&own);
    let mut wires: Vec<Wire> = clients.iter().map(|_| Wire::connect(server.port())).collect();
    let ping = meter.rounds("a PING on a connection of its own", rounds, || pings(&mut wires));
    let free = meter.rounds("a free lock's cycle", rounds, || cycles(&own));
    let alone = meter.rounds("a free lock's cycle, one at a time", rounds, || cycles(&own[..1]));
    let contended = meter.rounds("a hand-off: a contended cycle", rounds, || cycles(&shared));

    let quick = OPTIONS.clone().lease(QUICK).renew_every(QUICK / 3);
    let held = all(&locks(&clients, LOCKS, |client, lock| format!("held {client} {lock}"), &quick));
    let renewal = meter.rounds("a renewal", rounds, || scripts_in(WINDOW, server));
    release_all(held);

    let quick = OPTIONS.clone().liveness(QUICK);
    let name = |_, lock| format!("waits {lock}");
    let held = all(&locks(&clients[..1], LOCKS, name, &OPTIONS.clone().lease(DAY)));
    let mut waiting = Vec::new();
    let wait = || {
        waiting = wait_all(&locks(&clients[1..], LOCKS, name, &quick));
        waiting.len()
    };
    let joining = meter.rounds("an acquire that waits", 1, wait);
    let heartbeat = meter.rounds("a heartbeat", rounds, || scripts_in(WINDOW, server));
    // Their server ends before they could leave.
    std::mem::forget((held, waiting));
    Costs { free, alone, contended, joining, renewal, heartbeat, ping }
}

fn locks(clients: &[Client], each: usize, name: impl Fn(usize, usize) -> String, options: &LockOptions) -> Vec<Lock> {
    let lock = |(client, nth)| -> Lock {
        let handle: &Client = &clients[client];
        handle.lock_with(&name(client, nth), options.clone()).expect("a name")
    };
    (0..clients.len()).flat_map(|client| (0..each).map(move |nth| (client, nth))).map(lock).collect()
}

/// All clients at once; how many cycles they made.
fn cycles(locks: &[Lock]) -> usize {
    let client = |lock| async move {
        for _ in 0..CYCLES {
            cycle(lock).await;
        }
    };
    block_on(join_all(locks.iter().map(client)));
    locks.len() * CYCLES
}

/// The least that a request costs which is the only one on its connection.
fn pings(wires: &mut [Wire]) -> usize {
    let ping = encode(&["PING"]);
    for _ in 0..CYCLES {
        wires.iter_mut().for_each(|wire| wire.send(&ping));
        wires.iter_mut().for_each(|wire| drop(wire.receive()));
    }
    wires.len() * CYCLES
}

fn all(locks: &[Lock]) -> Vec<Guard> {
    let acquires = stream::iter(locks).map(|lock| lock.acquire().into_future());
    block_on(acquires.buffer_unordered(100).try_collect()).expect("grants")
}

fn wait_all(locks: &[Lock]) -> Vec<Waiting> {
    let enqueues = stream::iter(locks).map(|lock| lock.enqueue().into_future());
    block_on(enqueues.buffer_unordered(100).try_collect()).expect("places")
}

fn release_all(guards: Vec<Guard>) {
    for released in block_on(join_all(guards.into_iter().map(|guard| guard.release().into_future()))) {
        released.expect("a lease that is still held");
    }
}

/// How many scripts clients call in a time without anything else.
fn scripts_in(time: Duration, server: &RedisServer) -> usize {
    let mut wire = Wire::connect(server.port());
    let before = scripts(&mut wire);
    std::thread::sleep(time);
    (scripts(&mut wire) - before) as usize
}

/// Hand-offs while so many sessions wait elsewhere, compared with the sum of both.
fn mixed(sessions: usize, costs: &Costs, table: &mut Table) {
    let server = RedisServer::builder().tcp().plain().start();
    let clients: Vec<Client> = (0..=CLIENTS).map(|_| connect(&server.tcp_url())).collect();
    let options = OPTIONS.clone().lease(DAY).liveness(5 * QUICK);
    let name = |_, lock| format!("waits {lock}");
    let each = sessions / CLIENTS;
    let held = all(&locks(&clients[..1], each, name, &options));
    let waiting = wait_all(&locks(&clients[1..], each, name, &options));
    let shared = locks(&clients[1..], 1, |client, _| format!("shared {}", client % CONTENDED), &OPTIONS);

    let (start, before) = (Instant::now(), cpu_us(&server));
    let mut grants = 0;
    // Whole intervals of the heartbeat, and a little.
    while start.elapsed() < 5 * QUICK / 3 * 2 {
        grants += cycles(&shared);
    }
    let (time, used) = (start.elapsed().as_secs_f64(), cpu_us(&server) - before);
    let beats = sessions as f64 * time / (5.0 * QUICK.as_secs_f64() / 3.0);
    let predicted = grants as f64 * costs.contended.cpu_us + beats * costs.heartbeat.cpu_us;
    let percent = |us: f64| us / time / 10_000.0;
    let made = format!(
        "{:.0} hand-offs/s and {:.0} heartbeats/s in {:.0} % of a core, predicted {:.0} %",
        grants as f64 / time,
        beats / time,
        percent(used),
        percent(predicted)
    );
    table.row(&format!("server's CPU with {sessions} sessions, vs predicted"), off(used, predicted), &made);
    std::mem::forget((held, waiting));
}

/// What a server keeps for each of something.
fn memory() -> Vec<(&'static str, f64)> {
    const MANY: usize = 1_000;
    let server = RedisServer::builder().tcp().plain().start();
    let connect = || connect(&server.tcp_url());
    let options = OPTIONS.clone().lease(DAY);
    let named = |clients: &[Client], each, name| locks(clients, each, |_, lock| format!("{name} {lock}"), &options);
    // The server has the scripts from here on.
    release_all(all(&named(&[connect()], 1, "first")));

    let mut memory = Memory::new(&server);
    let clients: Vec<Client> = (0..CLIENTS).map(|_| connect()).collect();
    release_all(all(&locks(&clients, 1, |client, _| format!("own {client}"), &options)));
    let connection = memory.of_each(CLIENTS);
    let many = named(&clients[..1], MANY, "lock");
    // A lock that is used again and again may be kept in another form than after its first grant.
    (0..3).for_each(|_| release_all(all(&many)));
    let idle = memory.of_each(MANY);
    let held = all(&many);
    let more = memory.of_each(MANY);
    let several = options.clone().slots(MANY as u32);
    let slots = all(&vec![clients[0].lock_with("several", several).expect("a name"); MANY]);
    let slot = memory.of_each(MANY);
    let waits = wait_all(&named(&clients[1..2], MANY, "lock"));
    let first = memory.of_each(MANY);
    let others = wait_all(&named(&clients[2..6], MANY, "lock"));
    let short = memory.of_each(4 * MANY);
    std::mem::forget((held, slots, waits, others));
    vec![
        ("a client's connection at rest", connection - idle),
        ("an idle lock", idle),
        ("a lock that is held", idle + more),
        ("another holder of a lock", slot),
        ("the first waiter of a lock", first),
        ("a waiter of another client in a short queue", short),
        ("a waiter in a long queue", of_waiters(5_000)),
    ]
}

/// What a server keeps for each of so many waiters of one lock.
fn of_waiters(count: usize) -> f64 {
    let server = RedisServer::builder().tcp().plain().start();
    let lock = connect(&server.tcp_url()).lock_with("queue", OPTIONS.clone().lease(DAY)).expect("a name");
    let held = acquire(&lock);
    let first = wait_all(std::slice::from_ref(&lock));
    let mut memory = Memory::new(&server);
    let waiting = wait_all(&vec![lock; count]);
    let each = memory.of_each(count);
    std::mem::forget((held, first, waiting));
    each
}

struct Memory {
    wire: Wire,
    before: f64,
}

impl Memory {
    fn new(server: &RedisServer) -> Memory {
        let mut memory = Memory { wire: Wire::connect(server.port()), before: 0.0 };
        memory.of_each(1);
        memory
    }

    /// How much more it is than the last time, for each of so many that came.
    fn of_each(&mut self, count: usize) -> f64 {
        std::thread::sleep(REST);
        let now = info_field(self.wire.command(&["INFO", "memory"]).text(), "used_memory:");
        (now - std::mem::replace(&mut self.before, now)) / count as f64
    }
}

struct Meter<'a> {
    server: &'a RedisServer,
    wire: Wire,
}

impl Meter<'_> {
    fn new(server: &RedisServer) -> Meter<'_> {
        Meter { server, wire: Wire::connect(server.port()) }
    }

    /// What one of something costs, the median over the rounds. `work` tells how many there were.
    fn rounds(&mut self, of: &'static str, rounds: usize, mut work: impl FnMut() -> usize) -> Cost {
        let mut series: [Vec<f64>; 5] = Default::default();
        for _ in 0..rounds {
            let before = self.counts();
            let count = work() as f64;
            let after = self.counts();
            for (series, (after, before)) in series.iter_mut().zip(after.into_iter().zip(before)) {
                series.push((after - before) / count);
            }
        }
        let [cpu_us, scripts, received, sent, replicated] = series.map(|series| median(&series));
        Cost { of, cpu_us, scripts, received, sent, replicated }
    }

    /// What the server has counted so far.
    fn counts(&mut self) -> [f64; 5] {
        let info = self.wire.command(&["INFO"]).text().to_owned();
        let number = |name| info_field(&info, name);
        let [received, sent] = ["total_net_input_bytes:", "total_net_output_bytes:"].map(number);
        [cpu_us(self.server), scripts(&mut self.wire), received, sent, number("master_repl_offset:")]
    }
}

/// The CPU time of the server's main thread so far, which runs all commands.
fn cpu_us(server: &RedisServer) -> f64 {
    machine::main_us(server.pid())[0]
}

/// How many scripts clients have called.
fn scripts(wire: &mut Wire) -> f64 {
    info_field(wire.command(&["INFO", "commandstats"]).text(), "cmdstat_evalsha:calls=")
}

/// A number of `INFO`, 0 if it is not there.
fn info_field(info: &str, name: &str) -> f64 {
    let line = info.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
    line.split(',').next().and_then(|number| number.parse().ok()).unwrap_or(0.0)
}
