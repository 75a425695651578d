//! What happened to processes that contended for one lock, whichever lock that was: `make bench-peers` measures every
//! lock by this.
//!
//! Each process writes the turns that it had, one event in a line, by a clock that all processes of a machine share
//! (`CLOCK_MONOTONIC`):
//!
//! ```text
//! called 118200345     it asks for the lock
//! got 118300000        it has it
//! released 118350000   it begins to give it back
//! ```
//!
//! Here nothing is promised, so an overlap or a barging caller is a figure, and no failure.

/// One turn of one process, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Turn {
    pub called: u64,
    pub got: u64,
    pub released: u64,
}

/// Callers within this time of each other count as simultaneous: the order in which their requests reached the
/// server is not known.
const SIMULTANEOUS_NS: u64 = 1_000_000;

/// What can be said of a contention, while all processes took part in it.
#[derive(Debug, Clone, PartialEq)]
pub struct Contention {
    pub grants: usize,
    pub grants_per_second: f64,
    /// From the beginning of a release to the grant of a process that waited by then: median and 99th percentile in
    /// milliseconds. None if there were fewer than ten, whose percentiles say nothing.
    pub hand_off_ms: Option<(f64, f64)>,
    /// Grants while another process still held the lock.
    pub overlaps: usize,
    /// The share of grants before which another process had been waiting for longer.
    pub out_of_order: f64,
    pub longest_wait_ms: f64,
    /// How long the first process took for its turns, compared with the last: 1 if all were served alike.
    pub first_to_last: f64,
}

/// Reads the lines of one process.
pub fn turns(text: &str) -> Result<Vec<Turn>, String> {
    let mut times = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let wrong = |what: &str| format!("line {}, {line:?}: {what}", number + 1);
        let expected = ["called", "got", "released"][number % 3];
        let time = line.strip_prefix(expected).and_then(|rest| rest.strip_prefix(' '));
        let time: u64 =
            time.ok_or_else(|| wrong(&format!("not `{expected} NS`")))?.parse().map_err(|_| wrong("no time"))?;
        if times.last().is_some_and(|before| *before > time) {
            return Err(wrong("the time goes back"));
        }
        times.push(time);
    }
    if times.is_empty() || times.len() % 3 != 0 {
        return Err(format!("{} lines are no whole number of turns", times.len()));
    }
    Ok(times.chunks(3).map(|turn| Turn { called: turn[0], got: turn[1], released: turn[2] }).collect())
}

/// Judges the turns of each process.
pub fn judge(processes: &[Vec<Turn>]) -> Result<Contention, String> {
    let counts = processes.iter().map(Vec::len);
    if processes.len() < 2 || counts.clone().min() != counts.clone().max() || counts.clone().min() == Some(0) {
        return Err(format!("not as many turns for each of several processes: {:?}", counts.collect::<Vec<_>>()));
    }
    let firsts = || processes.iter().map(|turns| turns[0].called);
    let lasts = || processes.iter().map(|turns| turns[turns.len() - 1].released);
    let (start, all_called) = (firsts().min().unwrap_or(0), firsts().max().unwrap_or(0));
    let (first_done, last_done) = (lasts().min().unwrap_or(0), lasts().max().unwrap_or(0));
    let mut all: Vec<(usize, Turn)> = processes
        .iter()
        .enumerate()
        .flat_map(|(process, turns)| turns.iter().map(move |turn| (process, *turn)))
        .collect();
    all.sort_unstable_by_key(|(_, turn)| turn.got);
    // Only while all take part: afterwards it is another contention.
    let counted: Vec<(usize, Turn)> =
        all.iter().copied().filter(|(_, turn)| turn.got >= all_called && turn.released <= first_done).collect();
    if counted.len() < 2 {
        return Err("the processes hardly took part at the same time".into());
    }

    let mut hand_offs = Vec::new();
    let mut overlaps = 0;
    // The latest end of a hold so far.
    let mut free_at = 0;
    for (_, turn) in &counted {
        overlaps += usize::from(turn.got < free_at);
        if free_at > 0 && turn.called <= free_at && turn.got >= free_at {
            hand_offs.push((turn.got - free_at) as f64 / 1e6);
        }
        free_at = free_at.max(turn.released);
    }
    let overtook = |(process, turn): &&(usize, Turn)| {
        all.iter().any(|(other, waiting)| {
            other != process && waiting.called + SIMULTANEOUS_NS < turn.called && waiting.got > turn.got
        })
    };
    let span = counted[counted.len() - 1].1.got - counted[0].1.got;
    let longest = all.iter().map(|(_, turn)| turn.got - turn.called).max().unwrap_or(0);
    hand_offs.sort_by(f64::total_cmp);
    let quantile = |part: f64| {
        let last = hand_offs.len().checked_sub(1).filter(|last| *last >= 9)?;
        Some(hand_offs[(last as f64 * part).round() as usize])
    };
    Ok(Contention {
        grants: counted.len(),
        grants_per_second: (counted.len() - 1) as f64 / (span as f64 / 1e9),
        hand_off_ms: quantile(0.5).zip(quantile(0.99)),
        overlaps,
        out_of_order: counted.iter().filter(overtook).count() as f64 / counted.len() as f64,
        longest_wait_ms: longest as f64 / 1e6,
        first_to_last: (first_done - start) as f64 / (last_done - start) as f64,
    })
}
