//! What happened to processes that contended for the slots of one semaphore, or for one read-write lock, whichever it
//! was. They write the same events as those that contend for a lock, see `contention.rs`.

use super::contention::Turn;

/// One turn, and whether it was that of a writer.
#[derive(Debug, Clone, Copy)]
pub struct Shared {
    pub turn: Turn,
    pub writer: bool,
}

/// Callers within this time of each other count as simultaneous: many processes share few cores, and the order in
/// which their requests reached the server is not known.
const SIMULTANEOUS_NS: u64 = 5_000_000;

/// What can be said of it. Every turn counts: where some are kept waiting until others are done, that is a finding.
#[derive(Debug, Clone, PartialEq)]
pub struct Sharing {
    /// From the first call to the last release.
    pub grants_per_second: f64,
    /// Grants while as many held it as may, or while a writer held it, or to a writer while anybody did.
    pub too_many: usize,
    /// The share of turns that were over before another caller, who had called earlier, was granted one.
    pub out_of_order: f64,
    /// The mean and not the median, which is 0 if most callers take again at once what they gave back.
    pub mean_wait_ms: f64,
    pub longest_wait_ms: f64,
    /// Of writers alone; 0 if there were none.
    pub longest_write_ms: f64,
}

/// Judges the turns of each caller. `most` may hold at once, writers alone.
pub fn judge(callers: &[Vec<Shared>], most: usize) -> Result<Sharing, String> {
    if callers.len() < 2 || callers.iter().any(|turns| turns.is_empty() || turns.len() != callers[0].len()) {
        return Err("not as many turns for each of several callers".into());
    }
    let all: Vec<Shared> = callers.concat();
    let start = all.iter().map(|shared| shared.turn.called).min().unwrap_or(0);
    let end = all.iter().map(|shared| shared.turn.released).max().unwrap_or(0);

    let too_many = |this: &&Shared| {
        let at = this.turn.got;
        let holds = |other: &&Shared| other.turn.got < at && at < other.turn.released;
        let holders = || all.iter().filter(holds);
        let alone = this.writer || holders().any(|other| other.writer);
        holders().count() >= if alone { 1 } else { most }
    };
    let overtook = |this: &&Shared| {
        all.iter()
            .any(|other| other.turn.called + SIMULTANEOUS_NS < this.turn.called && other.turn.got > this.turn.released)
    };
    let wait = |shared: &Shared| (shared.turn.got - shared.turn.called) as f64 / 1e6;
    Ok(Sharing {
        grants_per_second: all.len() as f64 / ((end - start) as f64 / 1e9),
        too_many: all.iter().filter(too_many).count(),
        out_of_order: all.iter().filter(overtook).count() as f64 / all.len() as f64,
        mean_wait_ms: all.iter().map(wait).sum::<f64>() / all.len() as f64,
        longest_wait_ms: all.iter().map(wait).fold(0.0, f64::max),
        longest_write_ms: all.iter().filter(|shared| shared.writer).map(wait).fold(0.0, f64::max),
    })
}
