//! The page for users names every event and every metric, and no other.

use std::{collections::BTreeSet, fs, path::Path};

use testkit::child::alone;

use crate::recorder::Recorded;

fn page() -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/observability.md")).unwrap()
}

/// The first cells of the rows under this heading, without their ticks.
fn first_cells(page: &str, heading: &str) -> BTreeSet<String> {
    let (_, part) = page.split_once(heading).unwrap_or_else(|| panic!("no {heading:?}"));
    let part = part.split("\n## ").next().unwrap();
    let rows = part.lines().filter(|line| line.starts_with("| `"));
    rows.map(|row| row.split('`').nth(1).unwrap().to_owned()).collect()
}

#[test]
fn every_metric_is_on_the_page() {
    alone("every_metric_is_on_the_page", || {
        let recorded = Recorded::start();
        drop(fairlock::Client::connect_lazy("redis://127.0.0.1:1/").unwrap());
        let described = recorded.described();
        let page = page();
        let named = first_cells(&page, "## Metrics");
        let names = described.iter().map(|line| line.split_once(' ').unwrap().0.to_owned());
        assert_eq!(named, names.collect());
        for line in described {
            let (name, kind) = line.split_once(' ').unwrap();
            assert!(page.contains(&format!("| `{name}` | {kind} |")), "{name} is a {kind}");
        }
    });
}

/// Read from the source, because some events are rare.
#[test]
fn every_event_is_on_the_page() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/keeper/observe.rs");
    let source = fs::read_to_string(source).unwrap();
    let calls = source.split("tracing::").skip(1).filter(|call| call.contains("!(target: TARGET"));
    let text = |call: &str| call.split('"').nth(1).unwrap().split(" (").next().unwrap().to_owned();
    let told: BTreeSet<String> = calls.map(text).filter(|text| !text.starts_with('{')).collect();
    let page = page();
    let named: BTreeSet<String> =
        ["## Events", "## Spans"].iter().flat_map(|heading| first_cells(&page, heading)).collect();
    assert_eq!(named, told);
}
