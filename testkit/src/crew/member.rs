//! One process of the crew: some of its waiters are tasks of one runtime, some are threads.

use std::{
    panic::AssertUnwindSafe,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use fairlock::{Client, Lock, LockOptions};
use fastrand::Rng;

use super::{
    notes::Notes,
    turn::{Brief, Panic, Turn},
};

/// How many waiters of a process are threads.
const THREADS: usize = 2;

/// The factor by which some durations are shorter than others.
const BRIEF: f64 = 0.6;

/// The longest lease, liveness and buffer.
pub(super) const LONGEST: Duration = Duration::from_secs(30 * 24 * 3600);

/// How many readers hold a lock together.
pub(super) const READERS: u32 = 1000;

/// What the conductor tells a member.
#[derive(Clone, Debug)]
pub struct Orders {
    pub url: String,
    pub lock: String,
    pub history: PathBuf,
    /// Its name in the history, which no other process has had.
    pub number: usize,
    pub seed: u64,
    pub waiters: usize,
    pub lease: Duration,
    pub liveness: Duration,
    pub buffer: Duration,
    /// How many of 200 hold the lock for longer than a lease.
    pub long_of: u32,
    /// How many replicas must have a grant.
    pub replicas: u32,
    /// Each turn has a lease, liveness and buffer of its own, from these up to the longest that options allow.
    pub any_times: bool,
    /// Each turn takes one of these: how many may hold the lock together with its lease.
    pub mosts: Vec<u32>,
    /// Its waiters hold the lock together for most of the time.
    pub is_crowd: bool,
}

impl Orders {
    pub fn name(&self) -> String {
        format!("p{}", self.number)
    }

    /// When this file exists, no waiter begins anything new.
    pub fn stop(history: &Path) -> PathBuf {
        history.with_extension("stop")
    }

    /// Of a driver, all of whose acquires are of one kind.
    pub fn most(&self) -> u32 {
        self.mosts[self.number % self.mosts.len()]
    }

    /// Whether writers become readers.
    fn downgrades(&self) -> bool {
        self.mosts.contains(&1) && self.mosts.contains(&READERS)
    }

    pub fn options(&self, brief: Brief) -> LockOptions {
        if self.any_times {
            let Brief { parts: [lease, liveness, buffer], .. } = brief;
            let upwards = |least: Duration, part: f64| {
                least.mul_f64((LONGEST.as_secs_f64() / least.as_secs_f64()).powf(part)).min(LONGEST)
            };
            let options = LockOptions::new().lease(upwards(self.lease, lease)).replicas(self.replicas);
            return options.liveness(upwards(self.liveness, liveness)).buffer(upwards(self.buffer, buffer));
        }
        let of = |span: Duration, brief| if brief { span.mul_f64(BRIEF) } else { span };
        // The longest liveness of a process is the one that counts at the server: some processes have no long one.
        let liveness = of(self.liveness, brief.liveness || self.number % 3 == 1);
        let options = LockOptions::new().lease(of(self.lease, brief.lease)).liveness(liveness);
        options.buffer(of(self.buffer, brief.buffer)).replicas(self.replicas)
    }

    /// The shortest liveness of all waiters.
    pub fn shortest(&self) -> Duration {
        if self.any_times { self.liveness } else { self.liveness.mul_f64(BRIEF) }
    }

    /// A pause that may cost a process its place: one in which it could miss more than a heartbeat.
    pub fn long_pause(&self) -> Duration {
        self.shortest() / 3
    }

    pub fn to_args(&self) -> Vec<String> {
        let nanos = |span: Duration| span.as_nanos().to_string();
        vec![
            self.url.clone(),
            self.lock.clone(),
            self.history.to_str().expect("a path of this project's own").to_owned(),
            self.number.to_string(),
            self.seed.to_string(),
            self.waiters.to_string(),
            nanos(self.lease),
            nanos(self.liveness),
            nanos(self.buffer),
            self.long_of.to_string(),
            self.replicas.to_string(),
            u8::from(self.any_times).to_string(),
            self.mosts.iter().map(u32::to_string).collect::<Vec<_>>().join(","),
            u8::from(self.is_crowd).to_string(),
        ]
    }

    fn from_args(args: &[String]) -> Option<Orders> {
        let (args, [any_times, mosts, is_crowd]) = args.split_last_chunk()?;
        let [url, lock, history, number, seed, waiters, lease, liveness, buffer, long_of, replicas] = args else {
            return None;
        };
        let nanos = |text: &String| text.parse().ok().map(Duration::from_nanos);
        Some(Orders {
            url: url.clone(),
            lock: lock.clone(),
            history: history.into(),
            number: number.parse().ok()?,
            seed: seed.parse().ok()?,
            waiters: waiters.parse().ok()?,
            lease: nanos(lease)?,
            liveness: nanos(liveness)?,
            buffer: nanos(buffer)?,
            long_of: long_of.parse().ok()?,
            replicas: replicas.parse().ok()?,
            any_times: any_times == "1",
            mosts: mosts.split(',').map(|most| most.parse().ok()).collect::<Option<_>>()?,
            is_crowd: is_crowd == "1",
        })
    }
}

/// The role of a member.
pub fn member(args: &[String]) {
    let orders = Arc::new(Orders::from_args(args).expect("what the conductor wrote"));
    let notes = Notes::open(&orders.history, &orders.name());
    notes.witness(orders.lease, orders.long_pause());

    // Every other member has only one thread for its tasks, so that one of them blocks all.
    let mut runtime = if orders.number.is_multiple_of(2) {
        tokio::runtime::Builder::new_current_thread()
    } else {
        tokio::runtime::Builder::new_multi_thread()
    };
    let runtime = runtime.worker_threads(2).enable_all().build().expect("a runtime");
    // The server may be down just now.
    let client = Client::connect_lazy(&orders.url).expect("a client");

    let threads: Vec<_> = (0..THREADS.min(orders.waiters))
        .map(|slot| {
            let waiter = Waiter::new(&orders, &notes, &client, slot);
            std::thread::spawn(move || waiter.live_on_thread())
        })
        .collect();
    runtime.block_on(async {
        let mut tasks = tokio::task::JoinSet::new();
        for slot in THREADS..orders.waiters {
            tasks.spawn(Waiter::new(&orders, &notes, &client, slot).live());
        }
        while let Some(ended) = tasks.join_next().await {
            ended.expect("a waiter goes on to the end");
        }
    });
    for thread in threads {
        thread.join().expect("a waiter goes on to the end");
    }
    // Half of them call `close`, the others leave that to their drops.
    if orders.number.is_multiple_of(2) {
        runtime.block_on(client.close());
    }
}

struct Waiter {
    orders: Arc<Orders>,
    notes: Arc<Notes>,
    client: Client,
    slot: usize,
    turns: usize,
    rng: Rng,
    /// For what it takes, so that a seed means the same in all crews otherwise.
    kinds: Rng,
}

impl Waiter {
    fn new(orders: &Arc<Orders>, notes: &Arc<Notes>, client: &Client, slot: usize) -> Waiter {
        let seed = orders.seed ^ ((orders.number as u64) << 32) ^ ((slot as u64) << 16);
        let (orders, notes, client) = (orders.clone(), notes.clone(), client.clone());
        Waiter { orders, notes, client, slot, turns: 0, rng: Rng::with_seed(seed), kinds: Rng::with_seed(!seed) }
    }

    /// What to do next, until nothing more is to be begun.
    fn next(&mut self) -> Option<(Turn, String)> {
        if Orders::stop(&self.orders.history).exists() {
            return None;
        }
        self.turns += 1;
        let mut turn = Turn::draw(&mut self.rng, self.orders.lease, self.orders.long_of);
        if self.orders.any_times {
            // The shortest ones are those that faults concern.
            turn.brief.parts = std::array::from_fn(|_| if self.rng.bool() { self.rng.f64() } else { 0.0 });
        }
        turn.most = self.orders.mosts[self.kinds.usize(..self.orders.mosts.len())];
        turn.downgrades = turn.most == 1 && self.orders.downgrades() && self.kinds.bool();
        let turn = if self.orders.is_crowd { turn.in_crowd(&mut self.rng, self.orders.lease) } else { turn };
        let turn = if self.slot < THREADS { turn.on_thread() } else { turn };
        let waiter = format!("{}.{}.{}-{}", self.orders.name(), self.slot, self.turns, turn.name());
        Some((turn, waiter))
    }

    fn lock(&self, turn: &Turn) -> Lock {
        let options = self.orders.options(turn.brief).slots(turn.most);
        self.client.lock_with(&self.orders.lock, options).expect("a lock")
    }

    async fn live(mut self) {
        while let Some((turn, waiter)) = self.next() {
            tokio::time::sleep(turn.rest).await;
            let (lock, notes) = (self.lock(&turn), self.notes.clone());
            // A separate task, to be aborted and to panic.
            let mut task = tokio::spawn(async move {
                let call = notes.call(waiter, turn.due(), turn.most);
                turn.take(&lock, call).await;
            });
            let ended = match turn.abort {
                Some(after) => match tokio::time::timeout(after, &mut task).await {
                    Ok(ended) => ended,
                    Err(_) => {
                        task.abort();
                        task.await
                    }
                },
                None => task.await,
            };
            match ended.map_err(tokio::task::JoinError::try_into_panic) {
                Err(Ok(panic)) if !panic.is::<Panic>() => std::panic::resume_unwind(panic),
                _ => {}
            }
        }
    }

    fn live_on_thread(mut self) {
        while let Some((turn, waiter)) = self.next() {
            std::thread::sleep(turn.rest);
            let (lock, call) = (self.lock(&turn), self.notes.call(waiter, turn.due(), turn.most));
            let ended = std::panic::catch_unwind(AssertUnwindSafe(|| turn.take_on_thread(&lock, &call)));
            match ended {
                Err(panic) if !panic.is::<Panic>() => std::panic::resume_unwind(panic),
                _ => {}
            }
        }
    }
}
