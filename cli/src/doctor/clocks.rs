//! The clocks of the servers, against that of this machine and against each other.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::finding::Finding;
use super::node::{Node, Part};

/// The clocks of two servers may differ by this much.
const APART: Duration = Duration::from_secs(1);
/// And that of this machine by this much.
const AWAY: Duration = Duration::from_secs(10);
const TRIES: u32 = 5;

/// Compares the clock of this server with ours. Of several readings the quickest is the most exact.
pub(crate) fn read(node: &mut Node) {
    if node.part == Part::Sentinel {
        return;
    }
    for _ in 0..TRIES {
        let before = since_epoch();
        let answer = node.ask_one(&["TIME"]);
        let after = since_epoch();
        let [seconds, micros] = answer.items() else { return };
        let Some((seconds, micros)) = seconds.number().zip(micros.number()) else { return };
        let (offset, either_way) =
            (seconds as f64 + micros as f64 / 1e6 - (before + after) / 2.0, (after - before) / 2.0);
        if node.clock.is_none_or(|(_, known)| either_way < known) {
            node.clock = Some((offset, either_way));
        }
    }
    let Some((offset, either_way)) = node.clock else { return };
    let found = format!("{} from that of this machine (± {:.1} ms)", signed(offset), either_way * 1e3);
    node.findings.push(if offset.abs() - either_way > AWAY.as_secs_f64() {
        Finding::note("clock", found)
            .risk("none for locks; times in messages and logs cannot be compared")
            .fix("timedatectl set-ntp true, on both machines")
    } else {
        Finding::good("clock", found)
    });
}

/// Whether the servers that may follow each other as masters agree.
pub(crate) fn compare(nodes: &[Node]) -> Option<Finding> {
    let mut known: Vec<(f64, f64, String)> = nodes
        .iter()
        .filter_map(|node| node.clock.map(|(offset, exact)| (offset, exact, node.place.to_string())))
        .collect();
    known.sort_by(|a, b| a.0.total_cmp(&b.0));
    let [(least, some, behind), .., (most, more, ahead)] = &known[..] else { return None };
    let apart = most - least;
    if apart - some - more < APART.as_secs_f64() {
        return Some(Finding::good("clocks", format!("at most {} apart", signed(apart).trim_start_matches('+'))));
    }
    Some(
        Finding::warning("clocks", format!("{ahead} is {} ahead of {behind}", signed(apart).trim_start_matches('+')))
            .risk("a failover between them is a jump of the clock: forwards it ends leases early, backwards it can repeat tokens after a loss of data")
            .fix("timedatectl set-ntp true, on each machine"),
    )
}

fn signed(seconds: f64) -> String {
    // Adding zero makes a plain zero of a negative one.
    let rounded = |number: f64| (number * 10.0).round() / 10.0 + 0.0;
    match seconds.abs() {
        less if less < 1.0 => format!("{:+.1} ms", rounded(seconds * 1e3)),
        _ => format!("{:+.1} s", rounded(seconds)),
    }
}

fn since_epoch() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}
