//! A lock of a random name is taken and released, as a job would; then its keys are removed.

use std::time::{Duration, Instant};

use fairlock::{Client, ClientBuilder, error::TryAcquireError};

use super::finding::{Finding, Level};
use super::node::{Node, PATIENCE, Part};
use crate::duration::shown;

/// Only if nothing was found that forbids it: otherwise its error would tell the same again.
pub(crate) fn run(client: ClientBuilder, nodes: &mut [Node], prefix: &str, name: &str) -> Option<Finding> {
    let is_hopeless = |node: &Node| {
        let blocks = |check: &str| ["reach", "rights", "role", "cluster", "snapshot"].contains(&check);
        node.findings.iter().any(|finding| finding.level == Level::Fault && blocks(finding.check))
    };
    let locks = |node: &&Node| matches!(node.part, Part::Server | Part::Master);
    if nodes.iter().filter(locks).any(is_hopeless) || nodes.iter().find(locks).is_none() {
        return None;
    }
    let tried = cycle(client, name);
    for node in nodes.iter_mut().filter(|node| node.part != Part::Sentinel) {
        let keys = ["lock", "waiters"].map(|what| format!("{prefix}:{{{name}}}:{what}"));
        // At a node that does not have them, and on a replica, this is refused.
        node.ask_one(&["DEL", &keys[0], &keys[1]]);
    }
    Some(match tried {
        Ok((granted, released)) => Finding::good(
            "trial",
            format!("a lock was granted in {}, and released in {}", shown(granted), shown(released)),
        ),
        Err(error) => Finding::fault("trial", error).risk("this is what jobs will hear"),
    })
}

fn cycle(client: ClientBuilder, name: &str) -> Result<(Duration, Duration), String> {
    let client: Client = client.connect().blocking().map_err(|error| error.to_string())?;
    let lock = client.lock(name).map_err(|error| error.to_string())?;
    let start = Instant::now();
    let guard = lock.try_acquire().timeout(PATIENCE).label("fairlock doctor").blocking();
    let guard = guard.map_err(|error: TryAcquireError| error.to_string())?;
    let granted = start.elapsed();
    guard.release().blocking().map_err(|error| error.to_string())?;
    Ok((granted, start.elapsed() - granted))
}
