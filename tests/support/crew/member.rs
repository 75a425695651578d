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
    turn::{Panic, Turn},
};

/// The waiters of a process that are threads.
const THREADS: usize = 2;

/// What a member is told by the conductor.
#[derive(Clone, Debug)]
pub struct Orders {
    pub url: String,
    pub lock: String,
    pub history: PathBuf,
    /// Its name in the history, which no other process ever had.
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
}

impl Orders {
    pub fn name(&self) -> String {
        format!("p{}", self.number)
    }

    /// When there is such a file, nobody begins anything new.
    pub fn stop(history: &Path) -> PathBuf {
        history.with_extension("stop")
    }

    pub fn options(&self) -> LockOptions {
        LockOptions::new().lease(self.lease).liveness(self.liveness).buffer(self.buffer).replicas(self.replicas)
    }

    /// A pause that may cost a process its place: one in which it could miss more than a heartbeat.
    pub fn long_pause(&self) -> Duration {
        self.liveness / 3
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
        ]
    }

    fn from_args(args: &[String]) -> Option<Orders> {
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
        })
    }
}

/// The role of a member.
pub fn member(args: &[String]) {
    let orders = Arc::new(Orders::from_args(args).expect("what the conductor wrote"));
    let notes = Notes::open(&orders.history, &orders.name());
    notes.witness(orders.lease, orders.long_pause());

    // Every other member has but one thread for its tasks, so that one of them blocks all.
    let mut runtime = if orders.number.is_multiple_of(2) {
        tokio::runtime::Builder::new_current_thread()
    } else {
        tokio::runtime::Builder::new_multi_thread()
    };
    let runtime = runtime.worker_threads(2).enable_all().build().expect("a runtime");
    // The server may be down just now.
    let client = Client::connect_lazy(&orders.url).expect("a client");
    let lock = client.lock_with(&orders.lock, orders.options()).expect("a lock");

    let threads: Vec<_> = (0..THREADS.min(orders.waiters))
        .map(|slot| {
            let waiter = Waiter::new(&orders, &notes, &lock, slot);
            std::thread::spawn(move || waiter.live_on_thread())
        })
        .collect();
    runtime.block_on(async {
        let mut tasks = tokio::task::JoinSet::new();
        for slot in THREADS..orders.waiters {
            tasks.spawn(Waiter::new(&orders, &notes, &lock, slot).live());
        }
        while let Some(ended) = tasks.join_next().await {
            ended.expect("a waiter goes on to the end");
        }
    });
    for thread in threads {
        thread.join().expect("a waiter goes on to the end");
    }
    // Half of them say good-bye, the others leave that to their drops.
    if orders.number.is_multiple_of(2) {
        runtime.block_on(client.close());
    }
}

struct Waiter {
    orders: Arc<Orders>,
    notes: Arc<Notes>,
    lock: Lock,
    slot: usize,
    turns: usize,
    rng: Rng,
}

impl Waiter {
    fn new(orders: &Arc<Orders>, notes: &Arc<Notes>, lock: &Lock, slot: usize) -> Waiter {
        let seed = orders.seed ^ ((orders.number as u64) << 32) ^ ((slot as u64) << 16);
        let (orders, notes, lock) = (orders.clone(), notes.clone(), lock.clone());
        Waiter { orders, notes, lock, slot, turns: 0, rng: Rng::with_seed(seed) }
    }

    /// What to do next, until nothing is to be begun any more.
    fn next(&mut self) -> Option<(Turn, String)> {
        if Orders::stop(&self.orders.history).exists() {
            return None;
        }
        self.turns += 1;
        let turn = Turn::draw(&mut self.rng, self.orders.lease, self.orders.long_of);
        let turn = if self.slot < THREADS { turn.on_thread() } else { turn };
        let waiter = format!("{}.{}.{}-{}", self.orders.name(), self.slot, self.turns, turn.name());
        Some((turn, waiter))
    }

    async fn live(mut self) {
        while let Some((turn, waiter)) = self.next() {
            tokio::time::sleep(turn.rest).await;
            let (lock, notes) = (self.lock.clone(), self.notes.clone());
            // A task of its own, to be aborted and to panic.
            let mut task = tokio::spawn(async move {
                let call = notes.call(waiter, turn.due());
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
            let call = self.notes.call(waiter, turn.due());
            let ended = std::panic::catch_unwind(AssertUnwindSafe(|| turn.take_on_thread(&self.lock, &call)));
            match ended {
                Err(panic) if !panic.is::<Panic>() => std::panic::resume_unwind(panic),
                _ => {}
            }
        }
    }
}
