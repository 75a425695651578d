//! The metrics as Prometheus scrapes them, and the dashboard's queries.

use std::{collections::BTreeSet, fs, net::TcpListener, path::Path};

use testkit::{RedisServer, SOON, eventually};

use crate::{http::ask, program::Program};

/// The names of Prometheus' own functions and words do not begin like this.
fn metrics_in(text: &str) -> BTreeSet<&str> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words.filter(|word| word.starts_with("fairlock_")).collect()
}

#[test]
fn a_scrape_has_every_metric_that_the_dashboard_shows() {
    let redis = RedisServer::builder().alone().start();
    // The exporter wants to be told its port.
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let program = Program::start(env!("CARGO_BIN_EXE_metrics"), &redis, &[&address]);
    program.says("serving ");
    // What does not happen by itself: a loss, and the end of a connection.
    let client = fairlock::Client::connect_lazy(&redis.url()).unwrap();
    let lock = client.lock("reports:nightly").unwrap();
    eventually("a lease is broken", SOON, || {
        let holder = lock.inspect().blocking().unwrap().holders.pop();
        let broken = holder.map(|holder| lock.break_lease(holder.token).blocking().unwrap());
        matches!(broken, Some(fairlock::state::BreakOutcome::Told { .. }))
    });
    let _: u64 = redis::cmd("CLIENT").arg(&["KILL", "TYPE", "pubsub"]).query(&mut redis.raw()).unwrap();

    let dashboard = Path::new(env!("CARGO_MANIFEST_DIR")).join("grafana-dashboard.json");
    let dashboard: serde_json::Value = serde_json::from_str(&fs::read_to_string(dashboard).unwrap()).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let targets = panels.iter().flat_map(|panel| panel["targets"].as_array().unwrap());
    let queries: Vec<&str> = targets.map(|target| target["expr"].as_str().unwrap()).collect();
    let shown: BTreeSet<&str> = queries.iter().flat_map(|query| metrics_in(query)).collect();
    assert!(shown.len() >= 10, "{shown:?}");
    eventually("the scrape has everything", SOON, || {
        let (status, text) = ask(&address, "GET", "/metrics");
        assert_eq!(status, 200);
        shown.is_subset(&metrics_in(&text))
    });
    let (_, text) = ask(&address, "GET", "/metrics");
    assert!(text.contains("# HELP fairlock_wait_seconds From the call"), "{text}");
    assert!(text.contains("fairlock_losses_total{lock=\"reports\",why=\"broken\"} 1"), "{text}");
    assert!(text.contains("fairlock_wait_seconds_bucket{lock=\"reports\",le=\"0.1\"}"), "{text}");
}

#[test]
fn the_dashboard_shows_every_metric_of_the_page() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = fs::read_to_string(here.join("../../docs/observability.md")).unwrap();
    let dashboard = fs::read_to_string(here.join("grafana-dashboard.json")).unwrap();
    let named = page.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
    let missing: Vec<_> = named.filter(|name| name.starts_with("fairlock_") && !dashboard.contains(name)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}
