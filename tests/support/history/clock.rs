//! The server's clock beside that of the machine: when was it, by ours, that the server gave a stamp?

/// How much clocks of one machine may differ in their pace. Far more than a time service slews.
const DRIFT: f64 = 0.001;
/// Marks further away say less than nearer ones.
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

    /// The latest moment at which the server can have given this stamp, where that is certain.
    ///
    /// Stamps are times of the server's clock, unless it was set back: then they only count on. So nothing is certain of a
    /// stamp that lies at or behind a time to which the clock was set back, nor of one which no run contains.
    pub(super) fn latest(&self, stamp: u64) -> Option<u64> {
        let ends = |run: &[Mark]| Some((run.first()?.server_us, run.last()?.server_us));
        for pair in self.runs.windows(2) {
            let (_, before) = ends(&pair[0])?;
            let (after, _) = ends(&pair[1])?;
            if after < before && stamp >= after {
                return None;
            }
        }
        let last = self.runs.len().checked_sub(1)?;
        let (_, run) = self.runs.iter().enumerate().find(|(number, run)| {
            ends(run).is_some_and(|(from, to)| {
                let before = *number == 0 && stamp < from && from - stamp <= NEAR_US;
                let after = *number == last && stamp > to && stamp - to <= NEAR_US;
                before || after || (from..=to).contains(&stamp)
            })
        })?;
        run.iter().filter(|mark| mark.server_us.abs_diff(stamp) <= NEAR_US).map(|mark| mark.latest(stamp)).min()
    }
}

impl Mark {
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
