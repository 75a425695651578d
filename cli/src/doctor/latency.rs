//! How long a round trip takes, and how long at most.

use std::time::{Duration, Instant};

use super::finding::Finding;
use super::node::{Node, Part};
use crate::duration::shown;

/// How many round trips are measured at each server, at most.
const SAMPLES: usize = 100;
/// No more are measured once they took this long together: a slow server is seen after a few.
const ENOUGH: Duration = Duration::from_secs(3);

pub(crate) fn measure(node: &mut Node, lease: Duration) {
    if node.part == Part::Sentinel || node.line.is_none() {
        return;
    }
    let start = Instant::now();
    while node.round_trips.len() < SAMPLES && start.elapsed() < ENOUGH {
        let before = Instant::now();
        node.ask_one(&["TIME"]);
        node.round_trips.push(before.elapsed());
    }
    node.round_trips.sort();
    if node.line.is_none() {
        return;
    }
    let [half, nine, last] = [0.5, 0.9, 1.0].map(|share| quantile(&node.round_trips, share));
    let found = format!(
        "half of {} round trips took {}, 90 % {}, the slowest {}",
        node.round_trips.len(),
        shown(half),
        shown(nine),
        shown(last)
    );
    let of_lease = shown(lease);
    node.findings.push(if last > lease / 10 {
        Finding::fault("latency", found)
            .risk(format!("a renewal that takes this long is too late for a lease of {of_lease}: jobs are ended"))
            .fix(format!(
                "fairlock run --lease {}s …, or find what delays the server: {}",
                // One word, and no less than what is no warning any more.
                (last * 30).as_secs() + 1,
                node.shell("LATENCY DOCTOR")
            ))
    } else if last > lease / 30 {
        Finding::warning("latency", found)
            .risk(format!("a renewal of a lease of {of_lease} has little time left"))
            .fix(format!("find what delays the server: {}", node.shell("LATENCY DOCTOR")))
    } else {
        Finding::good("latency", found)
    });
}

/// Of durations in rising order.
pub(crate) fn quantile(sorted: &[Duration], share: f64) -> Duration {
    let last = sorted.len().saturating_sub(1);
    sorted.get((last as f64 * share).round() as usize).copied().unwrap_or_default()
}
