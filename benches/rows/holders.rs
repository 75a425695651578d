//! Many holders of one lock: what they cost the server if they are one client's, compared with as many of other clients.
//!
//! Real clients ask, and only the CPU time of the server's main thread is compared. Leases that were lost would fail a
//! row: a server that is busy for too long costs leases, of others too. So would a long PING: that is what the other
//! users of the server wait.

use std::fmt;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use fairlock::{Client, Guard, LockOptions, Waiting};
use futures_util::future::join_all;
use smol::future::block_on;

use crate::kit::{
    client::{acquire, connect},
    machine,
    place::may_be_urgent,
    roles::{Helper, serve},
    stats::median,
    table::Table,
    wire::Wire,
};
use testkit::RedisServer;

const HOLDERS: usize = 1000;
const ROUNDS: usize = 3;
/// Longer than a claim, so that a holder can see that it has confirmed.
const LEASE: Duration = Duration::from_secs(30);
const CLAIM: Duration = Duration::from_secs(11);
/// For waiting: nothing here takes as long.
const LONG: Duration = Duration::from_secs(60);
const SHORT: Duration = Duration::from_millis(2);

pub fn measure(rounds: usize, table: &mut Table) {
    let rounds = rounds.min(ROUNDS);
    let server = RedisServer::builder().tcp().plain().start();
    let url = server.tcp_url();
    let clients: Vec<Client> = (0..HOLDERS).map(|_| connect(&url)).collect();
    let beside = LockOptions::new().lease(Duration::from_secs(3));
    let beside = acquire(&connect(&url).lock_with("beside", beside).expect("a name"));
    let mut pings = Pings::start(&server);
    let mut worst = Ping::default();
    let mut all = |of: usize, run: &dyn Fn(&[Client]) -> f64| {
        pings.longest();
        let cpu = median(&(0..rounds).map(|_| run(&clients[..of])).collect::<Vec<_>>());
        let longest = pings.longest();
        // From many connections the server takes all that they have sent before it looks at one more, whoever they are.
        if of == 1 && longest.took() > worst.took() {
            worst = longest;
        }
        (cpu, longest)
    };

    let readers = [1, 20, HOLDERS].map(|of| all(of, &|clients| readers_after_a_writer(&server, clients)));
    row(table, "1,000 readers after a writer: of one client, vs of 1,000", &readers);
    let usual = all(1, &|clients| renewals(&server, clients, false));
    let back = [1, 20, HOLDERS].map(|of| all(of, &|clients| renewals(&server, clients, true)));
    row(table, "1,000 holders back after a loss: of one client, vs of 1,000", &back);
    table.note("the same renewals of one client without a loss", &format!("{:.0} ms, {}", usual.0, usual.1));

    let hand_offs = [300, 10].map(|slots| all(1, &|clients| hand_offs(&server, clients, slots)).0);
    let told = format!("{:.0} and {:.0} µs of CPU", hand_offs[0] * 1000.0, hand_offs[1] * 1000.0);
    table.row("a hand-off among 300 slots of one client, vs among 10", hand_offs[0] / hand_offs[1], &told);
    let releases = [300, 10].map(|slots| all(1, &|clients| releases(&server, clients, slots)));
    let told = format!("{:.0} ms of CPU for 300, {}", releases[0].0, releases[0].1);
    table.row("300 releases at once while 300 wait, vs 10", releases[0].0 / 30.0 / releases[1].0, &told);
    table.row("the longest PING beside 1,000 holders of one client", worst.took(), &worst.to_string());
    let lost = f64::from(u8::from(beside.check().is_err()));
    table.row("leases that a neighbour with a lease of 3 s lost meanwhile", lost, "");
}

/// `of`: the CPU times, in ms, of one client, of twenty and of a thousand.
fn row(table: &mut Table, name: &str, of: &[(f64, Ping); 3]) {
    let [(one, of_one), (twenty, of_twenty), (each, of_each)] = of;
    let told =
        format!("{one:.0} ms of CPU, {of_one}; of 20 {twenty:.0} ms, {of_twenty}; of 1,000 {each:.0} ms, {of_each}");
    table.row(name, one / each, &told);
}

fn cpu_ms(server: &RedisServer) -> f64 {
    machine::main_us(server.pid())[0] / 1000.0
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < LONG, "{what}");
        thread::sleep(SHORT);
    }
}

/// A name that was not used before.
fn name() -> String {
    format!("holders {}", fastrand::u64(..))
}

fn enqueued(clients: &[Client], count: usize, name: &str, most: u16) -> Vec<Waiting> {
    let options = LockOptions::new().lease(LEASE).slots(most.into());
    let queue = |at: usize| {
        let lock = clients[at % clients.len()].lock_with(name, options.clone()).expect("a name");
        lock.enqueue().into_future()
    };
    let waiting = block_on(join_all((0..count).map(queue)));
    waiting.into_iter().map(|waiting| waiting.expect("a place")).collect()
}

fn granted(waiting: Vec<Waiting>) -> Vec<Guard> {
    let guards = block_on(join_all(waiting.into_iter().map(Waiting::into_future)));
    guards.into_iter().map(|guard| guard.expect("a grant")).collect()
}

fn release_all(guards: Vec<Guard>) {
    block_on(join_all(guards.into_iter().map(|guard| guard.release().into_future())))
        .into_iter()
        .for_each(|released| released.expect("no lease is lost"));
}

/// A writer of another client releases before these readers, until all have confirmed their leases.
fn readers_after_a_writer(server: &RedisServer, clients: &[Client]) -> f64 {
    let (name, other) = (name(), connect(&server.tcp_url()));
    let writer = other.lock(&name).expect("a name").acquire().blocking().expect("a grant");
    let waiting = enqueued(clients, HOLDERS, &name, HOLDERS as u16);
    let before = cpu_ms(server);
    writer.release().blocking().expect("no lease is lost");
    let guards = granted(waiting);
    until("all readers confirm", || guards.iter().all(|guard| guard.remaining() > CLAIM));
    let cpu = cpu_ms(server) - before;
    release_all(guards);
    cpu
}

/// A renewal of each holder until it is answered, after the server has lost everything, or as usual.
fn renewals(server: &RedisServer, clients: &[Client], after_a_loss: bool) -> f64 {
    let name = name();
    let guards = granted(enqueued(clients, HOLDERS, &name, HOLDERS as u16));
    until("all holders confirm", || guards.iter().all(|guard| guard.remaining() > CLAIM));
    if after_a_loss {
        server.flush();
    }
    let before = cpu_ms(server);
    let renewed = block_on(join_all(guards.iter().map(|guard| guard.renew().into_future())));
    renewed.into_iter().for_each(|renewed| renewed.expect("no lease is lost"));
    let cpu = cpu_ms(server) - before;
    release_all(guards);
    cpu
}

/// Slots that are all held. The CPU of a hand-off, of those which follow each other so quickly that their grants are not
/// confirmed meanwhile.
fn hand_offs(server: &RedisServer, clients: &[Client], slots: usize) -> f64 {
    const HAND_OFFS: usize = 50;
    const TIMES: usize = 6;
    let name = name();
    let mut guards = granted(enqueued(clients, slots, &name, slots as u16));
    let mut cpu = 0.0;
    for _ in 0..TIMES {
        until("all holders confirm", || guards.iter().all(|guard| guard.remaining() > CLAIM));
        let waiting = enqueued(clients, HAND_OFFS, &name, slots as u16);
        let before = cpu_ms(server);
        for next in waiting {
            guards.remove(0).release().blocking().expect("no lease is lost");
            guards.push(block_on(next.into_future()).expect("a grant"));
        }
        cpu += cpu_ms(server) - before;
    }
    release_all(guards);
    cpu / (TIMES * HAND_OFFS) as f64
}

/// All slots are given back at once while as many wait, until those have confirmed.
fn releases(server: &RedisServer, clients: &[Client], slots: usize) -> f64 {
    let name = name();
    let guards = granted(enqueued(clients, slots, &name, slots as u16));
    let waiting = enqueued(clients, slots, &name, slots as u16);
    let before = cpu_ms(server);
    release_all(guards);
    let guards = granted(waiting);
    until("all holders confirm", || guards.iter().all(|guard| guard.remaining() > CLAIM));
    let cpu = cpu_ms(server) - before;
    release_all(guards);
    cpu
}

/// The longest PING of a process that asks the server for nothing else. What runs beside it should not make it wait for a
/// core: it is preferred where it may be.
struct Pings(Helper);

/// How long it took, and what the server did meanwhile: computed, or waited for a core. All in ms.
#[derive(Clone, Copy, Default)]
struct Ping([f64; 3]);

impl Pings {
    fn start(server: &RedisServer) -> Pings {
        let urgent: &[&str] = if may_be_urgent() { &["chrt", "-f", "1"] } else { &[] };
        Pings(Helper::start_by(urgent, "pings", &[&server.port().to_string(), &server.pid().to_string()]))
    }

    /// Since this was last asked.
    fn longest(&mut self) -> Ping {
        let said = self.0.ask("longest");
        let mut times = said.split(' ').map(|time| time.parse().expect("a time"));
        Ping(std::array::from_fn(|_| times.next().expect("three times")))
    }
}

impl Ping {
    fn took(&self) -> f64 {
        self.0[0]
    }
}

impl fmt::Display for Ping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Ping([took, computed, waited]) = self;
        write!(f, "longest PING {took:.0} (server: {computed:.0} computing, {waited:.0} waiting for a core)")
    }
}

/// The helper: asks again and again, and says how long the longest PING took.
pub fn pings(arguments: &[&str]) {
    let [port, server] = arguments else { panic!("{arguments:?}") };
    let (port, server) = (port.parse().expect("a port"), server.parse().expect("a process"));
    let longest = Arc::<Mutex<Ping>>::default();
    let found = longest.clone();
    thread::spawn(move || {
        let mut wire = Wire::connect(port);
        loop {
            let (start, before) = (Instant::now(), machine::main_us(server));
            wire.command(&["PING"]);
            let took = start.elapsed().as_secs_f64() * 1000.0;
            let after = machine::main_us(server);
            let [computed, waited] = [0, 1].map(|at| (after[at] - before[at]) / 1000.0);
            let mut longest = found.lock().expect("no panic");
            if took > longest.took() {
                *longest = Ping([took, computed, waited]);
            }
            drop(longest);
            thread::sleep(SHORT);
        }
    });
    serve(|_| {
        let Ping(times) = std::mem::take(&mut *longest.lock().expect("no panic"));
        Some(times.map(|time| time.to_string()).join(" "))
    });
    std::process::exit(0);
}
