//! What each row of the benchmarks is held to, and why a bad row is bad.

/// A row of the table.
pub struct Limit {
    pub row: &'static str,
    pub unit: &'static str,
    /// A run that measures something worse has found a regression.
    pub bound: Bound,
    /// A sentence about a row that is worse than one would wish.
    pub remark: &'static str,
}

#[derive(Clone, Copy, Debug)]
pub enum Bound {
    AtMost(f64),
    AtLeast(f64),
}

impl Bound {
    /// Whether a figure keeps to it. A twentieth is forgiven: the noise of medians on a busy machine.
    pub fn holds(self, measured: f64) -> bool {
        let (Bound::AtMost(figure) | Bound::AtLeast(figure)) = self;
        let noise = 0.05 * figure.max(1.0);
        match self {
            Bound::AtMost(most) => measured <= most + noise,
            Bound::AtLeast(least) => measured >= least - noise,
        }
    }
}

const fn most(row: &'static str, unit: &'static str, most: f64) -> Limit {
    Limit { row, unit, bound: Bound::AtMost(most), remark: "" }
}

const fn least(row: &'static str, unit: &'static str, least: f64) -> Limit {
    Limit { row, unit, bound: Bound::AtLeast(least), remark: "" }
}

impl Limit {
    const fn because(mut self, remark: &'static str) -> Limit {
        self.remark = remark;
        self
    }
}

const SCRIPTS: &str = "a lock with a queue costs the server more than SET and DEL";
const WAKES: &str =
    "its own thread is woken for each request and each answer, and the server spends more than on SET and DEL";
const KEEPER: &str = "two more threads wake up for each answer than at a bare socket";
const TWO_CORES: &str = "callers, keeper, server and the client that is compared with share two cores";
const ZOMBIES: &str = "a script that examines 100 zombies takes 1.1 ms, a few in a row take longer; why was not found";

pub const LIMITS: &[Limit] = &[
    most("server time of an uncontended acquire and release, pipelined", "×", 0.42),
    most("server time of a contended cycle, pipelined", "×", 0.98),
    most("server time of an uncontended acquire and release, after idle gaps", "×", 0.47),
    most("cycle, blocking caller, split", "×", 1.45).because(KEEPER),
    most("cycle, blocking caller, same core", "×", 1.81).because(KEEPER),
    most("cycle, current-thread task, split", "×", 1.6).because(KEEPER),
    most("cycle, current-thread task, same core", "×", 2.13).because(KEEPER),
    most("cycle, multi-thread task, split", "×", 1.67).because(KEEPER),
    most("cycle, multi-thread task, same core", "×", 2.4).because(KEEPER),
    most("cycle vs SET NX PX + DEL, split", "×", 2.56).because(SCRIPTS),
    most("hand-off vs the same scripts, split", "×", 1.49).because(KEEPER),
    most("hand-off vs PUBLISH to push, split", "×", 4.41).because(SCRIPTS),
    most("memory of a waiter in the client", "B", 2048.0),
    most("memory of a waiter in Redis", "B", 350.0),
    most("calls for 100,000 idle waiters, per heartbeat", "", 1.0),
    least("grants per second with 100,000 waiters, vs 10", "×", 0.8),
    most("1,000 readers after a writer: of one client, vs of 1,000", "×", 1.5),
    most("1,000 holders back after a loss: of one client, vs of 1,000", "×", 1.5),
    most("a hand-off among 300 slots of one client, vs among 10", "×", 1.5),
    most("300 releases at once while 300 wait, vs 10", "×", 1.5),
    most("the longest PING beside 1,000 holders of one client", "ms", 100.0),
    most("leases that a neighbour with a lease of 3 s lost meanwhile", "", 0.0),
    most("10,000 leases: CPU of the client", "% of a core", 5.0),
    most("10,000 leases: the latest renewal", "s late", 1.0),
    most("renewal with nice callers and 8 busy threads", "ms later", 50.0),
    most("renewal with nice callers and a SCHED_FIFO neighbour", "ms later", 50.0),
    most("renewal during bursts of 100,000 acquires", "ms later", 150.0).because(TWO_CORES),
    least("1,000 locks and 8 processes, vs the same scripts pipelined", "×", 0.4),
    most("100,000 zombies: the longest script", "ms", 17.6).because(ZOMBIES),
    most("100,000 zombies: wait of the next, vs liveness + buffer + heartbeat", "×", 1.0),
    most("server's CPU with 20 sessions, vs predicted", "×", 1.24),
    most("server's CPU with 10000 sessions, vs predicted", "×", 1.24),
    most("memory of 1000 waiters, vs predicted", "×", 1.24),
    most("memory of 20000 waiters, vs predicted", "×", 1.24),
    // Compared with other locks.
    least("cycles per second vs redislock, split", "×", 0.75).because(WAKES),
    least("cycles per second vs redislock, same core", "×", 0.68).because(WAKES),
    least("cycles per second vs rslock, split", "×", 0.7).because(WAKES),
    least("cycles per second vs rslock, same core", "×", 0.6).because(WAKES),
    least("cycles per second vs redislock, dropped guards, split", "×", 1.3),
    least("cycles per second vs redislock, dropped guards, same core", "×", 1.09),
    least("cycles per second vs rslock, dropped guards, split", "×", 1.21),
    least("cycles per second vs rslock, dropped guards, same core", "×", 0.93),
    most("hand-off of four processes, 1 ms hold, vs redis-fifo-lock", "×", 0.45),
];
