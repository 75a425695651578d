//! A hundred thousand waiters of one client: their memory, what they cost while nothing happens, and how fast the lock goes
//! from one to the next.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use fairlock::{Guard, Lock, LockOptions, Waiting};
use futures_util::{StreamExt as _, TryStreamExt as _, stream};

use smol::future::block_on;

use crate::kit::{
    client::{acquire, connect, release},
    place::counted,
    roles::{Helper, serve},
    stats::{median, ratio, us},
    table::Table,
    wire::Wire,
};
use testkit::RedisServer;

const MANY: usize = 100_000;
const FEW: usize = 10;
const GRANTS: usize = 200;
const HEARTBEAT: Duration = Duration::from_secs(2);
const IDLE_HEARTBEATS: u32 = 5;

pub fn measure(rounds: usize, table: &mut Table) {
    idle(table);
    grants(rounds, table);
}

fn idle(table: &mut Table) {
    let server = RedisServer::builder().tcp().plain().start();
    let mut wire = Wire::connect(server.port());
    let day = Duration::from_secs(86_400);
    let guard = acquire(&connect(&server.tcp_url()).lock_with("many", LockOptions::new().lease(day)).expect("a name"));
    let mut helper = Helper::start("waiters", &[&server.tcp_url()]);
    helper.ask("1");
    let before = (counted(helper.pid()).rss_bytes, used_memory(&mut wire));
    helper.ask(&MANY.to_string());
    let after = (counted(helper.pid()).rss_bytes, used_memory(&mut wire));
    let of_each = |after: u64, before: u64| after.saturating_sub(before) as f64 / MANY as f64;
    table.row("memory of a waiter in the client", of_each(after.0, before.0), "a tokio task that awaits its acquire");
    table.row("memory of a waiter in Redis", of_each(after.1, before.1), "");

    let cpu = counted(helper.pid()).cpu_ms;
    wire.command(&["CONFIG", "RESETSTAT"]);
    std::thread::sleep(IDLE_HEARTBEATS * HEARTBEAT);
    let cpu = (counted(helper.pid()).cpu_ms - cpu) / (IDLE_HEARTBEATS * HEARTBEAT).as_secs_f64() / 10.0;
    let calls = evalsha_calls(&mut wire);
    // A window of five beats can hold a sixth.
    let of_each = calls.saturating_sub(1) as f64 / f64::from(IDLE_HEARTBEATS);
    let made = format!("{calls} in the time of {IDLE_HEARTBEATS} heartbeats, {cpu:.1} % of a core in the client");
    table.row("calls for 100,000 idle waiters, per heartbeat", of_each, &made);
    drop(helper);
    release(guard);
}

fn used_memory(wire: &mut Wire) -> u64 {
    let info = wire.command(&["INFO", "memory"]);
    let used = info.text().lines().find_map(|line| line.strip_prefix("used_memory:")).expect("the memory in use");
    used.parse().expect("a number")
}

fn evalsha_calls(wire: &mut Wire) -> u64 {
    let info = wire.command(&["INFO", "commandstats"]);
    let line = info.text().lines().find_map(|line| line.strip_prefix("cmdstat_evalsha:calls=")).unwrap_or("0,");
    line.split(',').next().and_then(|calls| calls.parse().ok()).expect("a number of calls")
}

/// The helper: has so many tasks that wait.
pub fn waiters(arguments: &[&str]) {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime");
    let options = LockOptions::new().liveness(3 * HEARTBEAT);
    let lock = connect(arguments[0]).lock_with("many", options).expect("a name");
    let mut started = 0;
    serve(|count| {
        let count: u64 = count.parse().expect("a number");
        for _ in started..count {
            let lock = lock.clone();
            runtime.spawn(async move { lock.acquire().await });
        }
        started = count;
        // An inspection fails while it stands behind too many acquires.
        while lock.inspect().blocking().map_or(0, |state| state.waiting) < count {
            std::thread::sleep(Duration::from_millis(20));
        }
        Some("waiting".to_owned())
    });
    std::process::exit(0);
}

fn grants(rounds: usize, table: &mut Table) {
    let server = RedisServer::builder().tcp().plain().start();
    let mut queues = [("many", MANY), ("few", FEW)].map(|(name, count)| Queue::new(&server, name, count));
    let mut times = [const { (Vec::new(), Vec::new()) }; 2];
    for _ in 0..rounds {
        for (queue, times) in queues.iter_mut().zip(&mut times) {
            let steps: Vec<(f64, f64)> = (0..GRANTS).map(|_| queue.step()).collect();
            times.0.push(median(&steps.iter().map(|step| step.0).collect::<Vec<_>>()));
            times.1.push(median(&steps.iter().map(|step| step.1).collect::<Vec<_>>()));
        }
    }
    let [many, few] = &times;
    let made = format!(
        "a grant in {:.0} µs vs {:.0}, a new place in {:.0} µs vs {:.0}",
        median(&many.0),
        median(&few.0),
        median(&many.1),
        median(&few.1)
    );
    table.row("grants per second with 100,000 waiters, vs 10", 1.0 / ratio(&many.0, &few.0), &made);
    // A hundred thousand waiters leave more slowly than this process ends.
    queues.into_iter().for_each(std::mem::forget);
}

/// A lock that goes from one waiter to the next, who then waits again behind all others.
struct Queue {
    lock: Lock,
    holder: Option<Guard>,
    waiters: VecDeque<Waiting>,
}

impl Queue {
    fn new(server: &RedisServer, name: &str, count: usize) -> Queue {
        let lock = connect(&server.tcp_url()).lock(name).expect("a name");
        let holder = Some(acquire(&lock));
        let start = Instant::now();
        let enqueues = stream::iter(0..count).map(|_| lock.enqueue().into_future());
        let mut waiters: Vec<Waiting> = block_on(enqueues.buffer_unordered(500).try_collect()).expect("places");
        eprintln!("{count} places in {:.1} s", start.elapsed().as_secs_f64());
        waiters.sort_by_key(Waiting::ticket);
        Queue { lock, holder, waiters: waiters.into() }
    }

    /// The time from a release to the next grant, and that of joining the queue, in microseconds.
    fn step(&mut self) -> (f64, f64) {
        block_on(async {
            let start = Instant::now();
            self.waiters.push_back(self.lock.enqueue().await.expect("a place"));
            let joined = Instant::now();
            let next = self.waiters.pop_front().expect("a waiter");
            let released = self.holder.take().expect("a holder").release();
            let (released, granted) = futures_util::future::join(released, next).await;
            released.expect("a lease that is still held");
            self.holder = Some(granted.expect("a grant"));
            (us(joined.elapsed()), us(joined - start))
        })
    }
}
