//! What each row of the benchmarks must not exceed: the promise, and where it is not kept yet, the figure and the reason.

/// A row of the table.
pub struct Limit {
    pub row: &'static str,
    pub must: f64,
    /// What was measured where the row misses its limit, and why. It must not get worse than that.
    pub known: Option<(f64, &'static str)>,
}

/// How much a figure may be beyond its limit before the benchmark fails: the noise of medians on a busy machine.
pub const TOLERANCE: f64 = 0.05;

const fn must(row: &'static str, must: f64) -> Limit {
    Limit { row, must, known: None }
}

const fn short(row: &'static str, must: f64, measured: f64, reason: &'static str) -> Limit {
    Limit { row, must, known: Some((measured, reason)) }
}

const SCRIPTS_AS_BEFORE: &str = "the scripts still keep their state in five keys";

pub const LIMITS: &[Limit] = &[
    short("server time of a contended cycle, pipelined", 0.65, 1.1, SCRIPTS_AS_BEFORE),
    short("server time of a contended cycle, after idle gaps", 0.7, 1.1, SCRIPTS_AS_BEFORE),
    short("server time of the slowest verb, pipelined", 0.8, 1.2, SCRIPTS_AS_BEFORE),
    short("server time of the slowest verb, after idle gaps", 0.8, 1.2, SCRIPTS_AS_BEFORE),
];
