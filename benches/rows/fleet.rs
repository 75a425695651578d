//! A thousand locks, each wanted by eight processes all the time, compared with the same scripts on bare sockets that never wait for
//! one reply before the next request.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use crate::kit::{
    bare::{CHANGING, Known, values},
    client::{connect, cycle},
    place::counted,
    roles::{Helper, say, serve},
    scripts::{Scripts, Template},
    stats::{median, ratio},
    table::Table,
    wire::Wire,
};
use testkit::RedisServer;

const LOCKS: usize = 1000;
const PROCESSES: usize = 8;
const RAMP_UP: Duration = Duration::from_secs(1);
const COUNTED: Duration = Duration::from_secs(3);
/// Each of them starts all processes anew.
const ROUNDS: usize = 3;
/// Bare sockets, so that one asks while another reads.
const SOCKETS: usize = 2;

pub fn measure(rounds: usize, table: &mut Table) {
    let server = RedisServer::builder().tcp().plain().start();
    let (mut fleet, mut bare, mut share) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..rounds.min(ROUNDS) {
        bare.push(pipelined(&server));
        let (grants, server_share) = of_processes(&server);
        fleet.push(grants);
        share.push(server_share);
    }
    let made = format!(
        "{:.0} grants/s vs {:.0}; {:.0} % of the CPU time is the server's",
        median(&fleet),
        median(&bare),
        100.0 * median(&share)
    );
    table.row("1,000 locks and 8 processes, vs the same scripts pipelined", ratio(&fleet, &bare), &made);
}

/// Grants per second, and the server's share of the CPU time.
fn of_processes(server: &RedisServer) -> (f64, f64) {
    let mut members: Vec<Helper> =
        (0..PROCESSES).map(|_| Helper::start("fleet", &[&server.tcp_url(), &LOCKS.to_string()])).collect();
    members.iter_mut().for_each(|member| assert_eq!(member.hear(), "ready"));
    std::thread::sleep(RAMP_UP);
    let mut so_far = || {
        let grants: u64 = members.iter_mut().map(|member| member.ask("grants").parse::<u64>().expect("a number")).sum();
        let clients: f64 = members.iter().map(|member| counted(member.pid()).cpu_ms).sum();
        (Instant::now(), grants, clients, counted(server.pid()).cpu_ms)
    };
    let before = so_far();
    std::thread::sleep(COUNTED);
    let after = so_far();
    let (clients, server) = (after.2 - before.2, after.3 - before.3);
    ((after.1 - before.1) as f64 / (after.0 - before.0).as_secs_f64(), server / (clients + server))
}

/// The helper: a task for each lock.
pub fn member(arguments: &[&str]) {
    let [url, locks] = arguments else { panic!("{arguments:?}") };
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime");
    let client = connect(url);
    let grants = Arc::new(AtomicU64::new(0));
    for number in 0..locks.parse().expect("a number") {
        let lock = client.lock(&format!("fleet {number}")).expect("a name");
        let grants = Arc::clone(&grants);
        runtime.spawn(async move {
            loop {
                cycle(&lock).await;
                grants.fetch_add(1, Relaxed);
            }
        });
    }
    say("ready");
    serve(|_| Some(grants.load(Relaxed).to_string()));
    std::process::exit(0);
}

/// Grants per second by bare sockets, where each lock has a holder and seven waiters.
fn pipelined(server: &RedisServer) -> f64 {
    Wire::connect(server.port()).command(&["FLUSHALL"]);
    let threads: Vec<_> = (0..SOCKETS)
        .map(|nth| {
            let port = server.port();
            std::thread::spawn(move || {
                let mut wire = Wire::connect(port);
                let scripts = Scripts::of_this_build("bare", &mut wire);
                let names = (0..LOCKS / SOCKETS).map(|number| format!("fleet {nth} {number}"));
                let mut locks: Vec<Pipelined> = names.map(|name| Pipelined::new(&scripts, &name, &mut wire)).collect();
                let (start, mut grants) = (Instant::now(), 0);
                while start.elapsed() < COUNTED {
                    hand_all_off(&mut locks, &mut wire);
                    grants += locks.len();
                }
                grants as f64 / start.elapsed().as_secs_f64()
            })
        })
        .collect();
    threads.into_iter().map(|thread| thread.join().expect("a thread that does not panic")).sum()
}

/// A lock as bare sockets use it: the ids of its holder and its waiters.
struct Pipelined {
    enqueue: Template,
    release: Template,
    client: String,
    /// Of all ids, the number of the holder's; the waiters come behind it.
    holder: u64,
    known: Known,
}

impl Pipelined {
    fn new(scripts: &Scripts, name: &str, wire: &mut Wire) -> Pipelined {
        let client = format!("{:032x}", fastrand::u128(..));
        let template = |script| scripts.template(script, name, &values(&client), &CHANGING);
        let (enqueue, release) = (template("acquire"), template("release"));
        let mut lock = Pipelined { enqueue, release, client, holder: 0, known: Known::default() };
        for number in 0..PROCESSES as u64 {
            let mut request = Vec::new();
            lock.enqueue(number, &mut request);
            let reply = wire.call(&request);
            lock.known.learn(&reply, if number == 0 { "granted" } else { "queued" });
        }
        lock
    }

    fn enqueue(&self, number: u64, request: &mut Vec<u8>) {
        self.enqueue.fill(&self.known.of_newcomer(&self.id(number)), request);
    }

    fn release(&self, request: &mut Vec<u8>) {
        self.release.fill(&self.known.of_holder(&self.id(self.holder)), request);
    }

    fn id(&self, number: u64) -> String {
        format!("{}.{number}", self.client)
    }
}

/// Each holder hands off, and each of them waits again: two requests for a grant, as by a client whose holds are short.
fn hand_all_off(locks: &mut [Pipelined], wire: &mut Wire) {
    let mut requests = Vec::new();
    for lock in locks.iter() {
        lock.release(&mut requests);
        lock.enqueue(lock.holder + PROCESSES as u64, &mut requests);
    }
    wire.send(&requests);
    for lock in locks {
        lock.known.learn(&wire.receive(), "released");
        lock.known.learn(&wire.receive(), "queued");
        lock.holder += 1;
    }
}
