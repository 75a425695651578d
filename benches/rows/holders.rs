//! Many holders of one lock: what they cost the server if they are one client's, compared with as many of other clients.
//!
//! Real clients ask, and only the CPU time of the server's main thread is compared. Leases that were lost would fail a
//! row: a server that is busy for too long costs leases, of others too.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use fairlock::{Client, Guard, LockOptions, Waiting};
use futures_util::future::join_all;
use smol::future::block_on;

use crate::kit::{client::connect, machine, stats::median, table::Table, wire::Wire};
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
    let neighbour = Neighbour::start(&server);
    let all = |of: usize, run: &dyn Fn(&[Client]) -> f64| {
        median(&(0..rounds).map(|_| run(&clients[..of])).collect::<Vec<_>>())
    };

    let readers = [1, 20, HOLDERS].map(|of| all(of, &|clients| readers_after_a_writer(&server, clients)));
    row(table, "1,000 readers after a writer: of one client, vs of 1,000", &readers, neighbour.longest());
    let usual = all(1, &|clients| renewals(&server, clients, false));
    let back = [1, 20, HOLDERS].map(|of| all(of, &|clients| renewals(&server, clients, true)));
    row(table, "1,000 holders back after a loss: of one client, vs of 1,000", &back, neighbour.longest());
    table.note("the same renewals of one client without a loss", &format!("{usual:.0} ms"));

    let hand_offs = [300, 10].map(|slots| all(1, &|clients| hand_offs(&server, clients, slots)));
    let told = format!("{:.0} and {:.0} µs of CPU", hand_offs[0] * 1000.0, hand_offs[1] * 1000.0);
    table.row("a hand-off among 300 slots of one client, vs among 10", hand_offs[0] / hand_offs[1], &told);
    let releases = [300, 10].map(|slots| all(1, &|clients| releases(&server, clients, slots)));
    let told = format!("{:.0} ms of CPU for 300, longest PING meanwhile {:.0} ms", releases[0], neighbour.longest());
    table.row("300 releases at once while 300 wait, vs 10", releases[0] / 30.0 / releases[1], &told);
    table.row("leases that a neighbour with a lease of 3 s lost meanwhile", f64::from(u8::from(neighbour.end())), "");
}

/// `of`: the CPU times, in ms, of one client, of twenty and of a thousand.
fn row(table: &mut Table, name: &str, of: &[f64; 3], ping: f64) {
    let [one, twenty, each] = of;
    let told = format!("{one:.0}, of 20 {twenty:.0}, and {each:.0} ms of CPU, longest PING meanwhile {ping:.0} ms");
    table.row(name, one / each, &told);
}

fn cpu_ms(server: &RedisServer) -> f64 {
    machine::cpu_of_main_us(server.pid()) / 1000.0
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

/// Another client with a lease of 3 s, and one that asks the server for nothing but an answer.
struct Neighbour {
    guard: Guard,
    ends: Arc<AtomicBool>,
    pings: thread::JoinHandle<()>,
    longest: Arc<std::sync::Mutex<f64>>,
}

impl Neighbour {
    fn start(server: &RedisServer) -> Neighbour {
        let client = connect(&server.tcp_url());
        let lock = client.lock_with("beside", LockOptions::new().lease(Duration::from_secs(3))).expect("a name");
        let guard = lock.acquire().blocking().expect("a grant");
        let (ends, longest) = (Arc::new(AtomicBool::new(false)), Arc::default());
        let mut wire = Wire::connect(server.port());
        let pings = {
            let (ends, longest) = (ends.clone(), Arc::<std::sync::Mutex<f64>>::clone(&longest));
            thread::spawn(move || {
                while !ends.load(Ordering::Relaxed) {
                    let start = Instant::now();
                    wire.command(&["PING"]);
                    let took = start.elapsed().as_secs_f64() * 1000.0;
                    let mut longest = longest.lock().expect("no panic");
                    *longest = longest.max(took);
                    drop(longest);
                    thread::sleep(SHORT);
                }
            })
        };
        Neighbour { guard, ends, pings, longest }
    }

    /// The longest PING since this was last asked, in ms.
    fn longest(&self) -> f64 {
        std::mem::take(&mut *self.longest.lock().expect("no panic"))
    }

    /// Whether its lease was lost.
    fn end(self) -> bool {
        self.ends.store(true, Ordering::Relaxed);
        self.pings.join().expect("no panic");
        self.guard.check().is_err()
    }
}
