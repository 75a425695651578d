//! What each row of the benchmarks must keep to, and where it does not yet: the figure, and the reason.

/// A row of the table.
pub struct Limit {
    pub row: &'static str,
    pub must: Bound,
    pub unit: &'static str,
    /// What was measured where the row misses its limit, and why. It must not get worse than that.
    pub known: Option<(f64, &'static str)>,
}

#[derive(Clone, Copy)]
pub enum Bound {
    AtMost(f64),
    AtLeast(f64),
}

impl Bound {
    /// Whether a figure keeps to it, if so much is forgiven.
    pub fn holds(self, measured: f64, tolerance: f64) -> bool {
        match self {
            Bound::AtMost(most) => measured <= most + tolerance,
            Bound::AtLeast(least) => measured >= least - tolerance,
        }
    }

    pub fn figure(self) -> f64 {
        let (Bound::AtMost(figure) | Bound::AtLeast(figure)) = self;
        figure
    }

    /// The same direction with another figure.
    pub fn at(self, figure: f64) -> Bound {
        match self {
            Bound::AtMost(_) => Bound::AtMost(figure),
            Bound::AtLeast(_) => Bound::AtLeast(figure),
        }
    }

    /// How far a figure may be beyond the limit before the benchmark fails: the noise of medians on a busy machine.
    pub fn tolerance(self) -> f64 {
        0.05 * self.figure().max(1.0)
    }
}

const fn most(row: &'static str, unit: &'static str, most: f64) -> Limit {
    Limit { row, must: Bound::AtMost(most), unit, known: None }
}

const fn least(row: &'static str, unit: &'static str, least: f64) -> Limit {
    Limit { row, must: Bound::AtLeast(least), unit, known: None }
}

impl Limit {
    const fn short(mut self, measured: f64, reason: &'static str) -> Limit {
        self.known = Some((measured, reason));
        self
    }
}

/// Why rows miss their limits, in a word and in full.
pub const REASONS: &[(&str, &str)] = &[
    (
        SCRIPTS,
        "a lock with a queue costs the server more than SET and DEL. Over a bare socket these scripts take 1.2 to 1.5 times \
         as long on a fast processor (AMD EPYC), 1.9 times on a slow one (an Intel Xeon of a shared host), and up to \
         2.9 times on one core, which is above the limit too",
    ),
    (
        KEEPER,
        "a caller asks the keeper, and the keeper asks the server: for each answer two threads more wake up than at a bare \
         socket (docs/design.md says why callers have no connection of their own)",
    ),
    (
        PLACEMENT,
        "whoever shares a core with the server makes three times as many cycles as on a core of its own, and the kernel \
         decides that for either lock; the rows with the same placement for both judge the locks",
    ),
    (TWO_CORES, "a thread that calls, the keeper, the server, and the client that is compared with share two cores"),
    (
        ZOMBIES,
        "a script that examines 100 zombies takes 1.1 ms on the slow processor. A few in a row take longer, those of layout 1 \
         as well (8.7 ms); why was not found",
    ),
];
const SCRIPTS: &str = "scripts";
const KEEPER: &str = "through the keeper";
const PLACEMENT: &str = "placement";
const TWO_CORES: &str = "two cores";
const ZOMBIES: &str = "zombies";

pub const LIMITS: &[Limit] = &[
    most("server time of an uncontended acquire and release, pipelined", "×", 0.8).short(0.92, SCRIPTS),
    most("server time of a contended cycle, pipelined", "×", 0.97),
    most("server time of an uncontended acquire and release, after idle gaps", "×", 0.9),
    most("cycle, blocking caller, split", "×", 1.15).short(1.45, KEEPER),
    most("cycle, blocking caller, same core", "×", 1.25).short(1.64, KEEPER),
    most("cycle, blocking caller, free", "×", 1.15).short(1.59, KEEPER),
    most("cycle, current-thread task, split", "×", 1.25).short(1.6, KEEPER),
    most("cycle, current-thread task, same core", "×", 1.6).short(1.84, KEEPER),
    most("cycle, current-thread task, free", "×", 1.4).short(2.42, KEEPER),
    most("cycle, multi-thread task, split", "×", 1.25).short(1.67, KEEPER),
    most("cycle, multi-thread task, same core", "×", 1.6).short(2.03, KEEPER),
    most("cycle, multi-thread task, free", "×", 1.4).short(1.96, KEEPER),
    most("cycle vs SET NX PX + DEL, split", "×", 1.35).short(2.56, SCRIPTS),
    most("hand-off vs the same scripts, split", "×", 1.2).short(1.49, KEEPER),
    most("hand-off vs PUBLISH to push, split", "×", 1.8).short(4.41, SCRIPTS),
    most("system calls of a cycle", "", 8.0).short(14.02, KEEPER),
    most("context switches of a cycle", "", 3.0).short(4.5, KEEPER),
    most("threads of a client", "", 1.0),
    most("threads of a process that belong to no client", "", 1.0),
    most("connections of a client", "", 1.0),
    most("round trips from connect to the first grant", "", 4.0),
    most("memory of a waiter in the client", "B", 2048.0),
    most("memory of a waiter in Redis", "B", 350.0),
    most("calls for 100,000 idle waiters, per heartbeat", "", 1.0),
    least("grants per second with 100,000 waiters, vs 10", "×", 0.8),
    most("10,000 leases: CPU of the client", "% of a core", 5.0),
    most("10,000 leases: the latest renewal", "s late", 1.0),
    most("renewal with nice callers and 8 busy threads", "ms later", 50.0),
    most("renewal with nice callers and a SCHED_FIFO neighbour", "ms later", 50.0),
    most("renewal during bursts of 100,000 acquires", "ms later", 100.0).short(199.0, TWO_CORES),
    least("1,000 locks and 8 processes, vs the same scripts pipelined", "×", 0.4),
    most("100,000 zombies: the longest script", "ms", 10.0).short(17.6, ZOMBIES),
    most("100,000 zombies: wait of the next, vs liveness + buffer + heartbeat", "×", 1.0),
    // Compared with other locks.
    least("cycles per second vs redislock, split", "×", 0.7).short(0.65, SCRIPTS),
    least("cycles per second vs redislock, same core", "×", 0.7).short(0.52, SCRIPTS),
    least("cycles per second vs redislock, free", "×", 0.7).short(0.25, PLACEMENT),
    least("cycles per second vs rslock, split", "×", 0.9).short(0.5, SCRIPTS),
    least("cycles per second vs rslock, same core", "×", 0.9).short(0.42, SCRIPTS),
    least("cycles per second vs rslock, free", "×", 0.9).short(0.25, PLACEMENT),
    most("hand-off of four processes, 1 ms hold, vs redis-fifo-lock", "×", 0.45),
];
