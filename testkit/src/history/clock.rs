//! The server's clock compared with that of the machine: when was it, by ours, that the server gave a stamp?

/// How much clocks of one machine may differ in their pace. Far more than a time service slews.
const DRIFT: f64 = 0.001;
/// Marks that are further away say less.
const NEAR_US: u64 = 2_000_000;

/// The server's clock said `server_us` at some moment between `asked` and `answered`.
#[derive(Clone, Copy, Debug)]
struct Mark {
    asked: u64,
    answered: u64,
    server_us: u64,
}

/// What the server's clock said when. It may have been set meanwhile: then it consists of runs.
#[derive(Clone, Debug, Default)]
pub(super) struct ServerClock {
    runs: Vec<Vec<Mark>>,
}

impl ServerClock {
    pub(super) fn new(marks: Vec<(u64, u64, u64)>) -> ServerClock {
        let mut runs: Vec<Vec<Mark>> = Vec::new();
        for (asked, answered, server_us) in marks {
            let mark = Mark { asked, answered, server_us };
            match runs.last_mut() {
                Some(run) if run.last().is_some_and(|last| went_on(last, &mark)) => run.push(mark),
                _ => runs.push(vec![mark]),
            }
        }
        ServerClock { runs }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// The latest moment at which the server can have given this stamp, where it did so between these two.
    ///
    /// A stamp is the time of the server's clock, or more: where that was set back, stamps count on. So it was given in
    /// a run of the clock that had not passed it yet, and before that run reached it, or ended. Between two runs the
    /// clock may have been set more than once, and shown anything.
    pub(super) fn latest(&self, stamp: u64, since: u64, until: u64) -> Option<u64> {
        let concerns = |from: u64, to: u64| from <= until && since <= to;
        let last = |number: usize| self.runs.get(number)?.last();
        let first = |number: usize| self.runs.get(number)?.first();
        let in_runs = self.runs.iter().enumerate().filter_map(|(number, run)| {
            let begins = number.checked_sub(1).and_then(last).map_or(0, |mark| mark.asked);
            let ends = first(number + 1).map_or(u64::MAX, |mark| mark.answered);
            let reached = concerns(begins, ends).then(|| reached(run, stamp))??;
            (begins <= reached).then_some(reached.min(ends))
        });
        let between = (1..self.runs.len()).filter_map(|number| {
            let ends = first(number)?.answered;
            concerns(last(number - 1)?.asked, ends).then_some(ends)
        });
        in_runs.chain(between).max()
    }
}

impl ServerClock {
    /// Whether the server's clock may have reached this stamp by that moment. If it had not, the server gave the stamp
    /// later, unless its stamps were ahead of its clock. The clock must not be set between that moment and the next
    /// mark.
    pub(super) fn may_have_reached(&self, stamp: u64, at: u64) -> bool {
        let run = self.runs.iter().find(|run| run.iter().any(|mark| mark.asked >= at));
        run.is_some_and(|run| run.iter().all(|mark| stamp as f64 <= mark.most(at)))
    }
}

/// When this run of the clock reached a time, at the latest.
fn reached(run: &[Mark], stamp: u64) -> Option<u64> {
    let nearest = run.partition_point(|mark| mark.server_us + NEAR_US < stamp).min(run.len() - 1);
    let near = run[nearest..].iter().take_while(|mark| mark.server_us <= stamp + NEAR_US);
    near.chain(run.get(nearest)).map(|mark| mark.latest(stamp)).min()
}

impl Mark {
    /// The most that the server's clock, which is not set, can have said at a moment.
    fn most(&self, at: u64) -> f64 {
        let apart_us = at.abs_diff(self.asked) as f64 / 1e3;
        let went = if at >= self.asked { apart_us * (1.0 + DRIFT) } else { -apart_us * (1.0 - DRIFT) };
        self.server_us as f64 + went + 1.0
    }

    fn latest(&self, stamp: u64) -> u64 {
        let apart_ns = stamp.abs_diff(self.server_us) as f64 * 1e3;
        if stamp >= self.server_us {
            self.answered + (apart_ns * (1.0 + DRIFT)) as u64
        } else {
            self.answered.saturating_sub((apart_ns * (1.0 - DRIFT)) as u64)
        }
    }
}

/// Whether the server's clock went on from one mark to another as time did. Microseconds are whole ones.
fn went_on(from: &Mark, to: &Mark) -> bool {
    let least = to.asked.saturating_sub(from.answered) as f64 / 1e3 * (1.0 - DRIFT) - 1.0;
    let most = to.answered.saturating_sub(from.asked) as f64 / 1e3 * (1.0 + DRIFT) + 1.0;
    let went = to.server_us as f64 - from.server_us as f64;
    least <= went && went <= most
}
