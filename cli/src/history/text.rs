//! The timeline in a terminal.

use std::collections::BTreeSet;
use std::fmt::{Display, Write as _};
use std::time::SystemTime;

use super::timeline::{End, Grant, Timeline, span};
use crate::duration::short;
use crate::output::wrap;
use crate::text::{columns, moment, printable, shorten};

/// A terminal with fewer columns shows no bars, and each grant in two lines.
const NARROW: usize = 60;
/// The columns of a slot in a row.
const SLOT: usize = 5;
/// The most slots that have a lane.
const MOST_LANES: usize = 20;

pub(crate) fn show(timeline: &Timeline, width: usize) -> String {
    let mut text = String::new();
    let name = shorten(&printable(&timeline.name), width / 2);
    let count = timeline.grants.len();
    let summary = format!(
        "{name}: {count} grant{} in {}, held {:.0} % of the time",
        if count == 1 { "" } else { "s" },
        short(timeline.span()),
        timeline.busy() * 100.0
    );
    let _ = writeln!(text, "{}", wrap(&summary, width).join("\n"));
    for (word, of) in [("waited", (|grant| grant.waited) as fn(&Grant) -> _), ("held", |grant| grant.held)] {
        let _ = writeln!(text, "{word:6} median {}, longest {}", span(timeline.median(of)), span(timeline.longest(of)));
    }
    text.push('\n');
    let lanes = lanes(timeline, width);
    if !lanes.is_empty() {
        let _ = writeln!(text, "{lanes}");
    }
    // Labels that differ come before bars.
    let width_of_rows = if lanes.is_empty() { width } else { width.saturating_sub(SLOT) };
    let room = |bars| room(width_of_rows, bars);
    let bars = [width_of_rows.saturating_sub(40) / 2, 0].into_iter().find(|bars| are_told_apart(timeline, room(*bars)));
    let Some(bars) = bars.filter(|_| width >= NARROW) else {
        timeline.grants.iter().for_each(|grant| text.push_str(&in_two_lines(grant, width)));
        return text + "\nTimes are UTC, by the server's clock.\n";
    };
    let room = room(bars);
    let slot = |shown: &dyn Display| if lanes.is_empty() { String::new() } else { format!("{shown:<SLOT$}") };
    let (first, label) = (slot(&"SLOT"), pad("LABEL", room));
    let head = format!("{:8} {first}{label}{:>8}{:>8} {:8}", "GRANTED", "WAITED", "HELD", "ENDED");
    let _ = writeln!(text, "{}", head.trim_end());
    for grant in &timeline.grants {
        let label = pad(&shorten(&printable(&grant.label), room), room);
        let waited = grant.waited().map(span).unwrap_or_default();
        let line = format!(
            "{} {}{label}{waited:>8}{:>8} {:8} {}",
            clock(grant.granted_at),
            slot(&grant.slot),
            span(grant.held),
            grant.end.word(),
            if bars > 0 { bar(timeline, grant, bars) } else { String::new() }
        );
        let _ = writeln!(text, "{}", line.trim_end());
    }
    text + "\nTimes are UTC, by the server's clock." + if bars > 0 { " ░ waited  █ held\n" } else { "\n" }
}

/// A lane for each slot: when it was held.
fn lanes(timeline: &Timeline, width: usize) -> String {
    let mut text = String::new();
    let lanes = timeline.lanes();
    for (slot, grants) in lanes.iter().take(MOST_LANES) {
        let mut lane = vec![' '; width.saturating_sub(10).max(1)];
        for grant in grants {
            let (_, granted, ended) = columns_of(timeline, grant, lane.len());
            lane[granted..=ended].fill('█');
        }
        let lane: String = lane.into_iter().collect();
        let _ = writeln!(text, "{}", format!("slot {slot:>3}  {lane}").trim_end());
    }
    if lanes.len() > MOST_LANES {
        let _ = writeln!(text, "and {} slots more", lanes.len() - MOST_LANES);
    }
    text
}

/// The columns of a label, in a row with these bars.
fn room(width: usize, bars: usize) -> usize {
    width.saturating_sub(8 + 8 + 8 + 9 + bars + 2)
}

/// Whether labels that differ still do so in this many columns.
fn are_told_apart(timeline: &Timeline, room: usize) -> bool {
    let labels: BTreeSet<String> = timeline.grants.iter().map(|grant| printable(&grant.label)).collect();
    labels.iter().map(|label| shorten(label, room)).collect::<BTreeSet<_>>().len() == labels.len()
}

fn in_two_lines(grant: &Grant, width: usize) -> String {
    let label = shorten(&printable(&grant.label), width.saturating_sub(9));
    let waited = grant.waited().map_or_else(String::new, |waited| format!("waited {}, ", span(waited)));
    let ended = if grant.end == End::Held { String::new() } else { format!(", {}", grant.end.word()) };
    format!("{} {label}\n  {waited}held {}{ended}\n", clock(grant.granted_at), span(grant.held))
}

fn pad(text: &str, width: usize) -> String {
    format!("{text}{}", " ".repeat(width.saturating_sub(columns(text))))
}

/// `12:01:07` of a moment.
fn clock(granted_at: SystemTime) -> String {
    let moment = moment(granted_at);
    moment.split_once(' ').map_or("", |(_, clock)| clock).to_owned()
}

/// The columns, of so many, in which the wait and the hold begin, and in which the hold ends.
fn columns_of(timeline: &Timeline, grant: &Grant, width: usize) -> (usize, usize, usize) {
    let column = |moment| ((timeline.at(moment) * width as f64) as usize).min(width - 1);
    (column(grant.queued_at()), column(grant.granted_at), column(grant.ended_at()))
}

fn bar(timeline: &Timeline, grant: &Grant, width: usize) -> String {
    let (queued, granted, ended) = columns_of(timeline, grant, width);
    // However short it was held, it is seen.
    format!("{}{}{}", " ".repeat(queued), "░".repeat(granted - queued), "█".repeat(ended - granted + 1))
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use super::super::timeline::{End, Grant, Timeline};
    use super::show;

    fn grant(label: &str, at: u64, waited: u64, held: u64, end: End) -> Grant {
        let granted_at = SystemTime::UNIX_EPOCH + Duration::from_secs(43_200 + at);
        let (waited, held) = (Duration::from_secs(waited), Duration::from_secs(held));
        Grant { label: label.to_owned(), owner: String::new(), token: at, slot: 0, granted_at, waited, held, end }
    }

    #[test]
    fn each_slot_has_a_lane() {
        let grants = [
            grant("a", 0, 0, 60, End::Released),
            Grant { slot: 1, ..grant("b", 30, 30, 30, End::Released) },
            grant("c", 100, 50, 20, End::Held),
        ];
        let text = show(&Timeline::new("gpu", grants.into()).unwrap(), 70);
        assert_eq!(
            text,
            "\
gpu: 3 grants in 2m 00s, held 67 % of the time
waited median 30s, longest 50s
held   median 30s, longest 1m 00s

slot   0  ███████████████████████████████                   ██████████
slot   1                 ████████████████

GRANTED  SLOT LABEL               WAITED    HELD ENDED
12:00:00 0    a                           1m 00s released ███████
12:00:30 1    b                      30s     30s released ░░░████
12:01:40 0    c                      50s     20s held          ░░░░░██

Times are UTC, by the server's clock. ░ waited  █ held
"
        );
    }

    #[test]
    fn grants_are_bars_on_one_axis() {
        let grants = vec![
            grant("日本語 b", 60, 50, 540, End::Expired),
            grant("a", 0, 0, 60, End::Released),
            grant("c \u{1b}[2J", 600, 300, 0, End::Held),
        ];
        let timeline = Timeline::new("deploy", grants).unwrap();
        assert_eq!(
            show(&timeline, 80),
            "\
deploy: 3 grants in 10m 00s, held 100 % of the time
waited median 50s, longest 5m 00s
held   median 1m 00s, longest 9m 00s

GRANTED  LABEL                      WAITED    HELD ENDED
12:00:00 a                                  1m 00s released ███
12:01:00 日本語 b                      50s  9m 00s expired  ░░██████████████████
12:10:00 c \\u{1b}[2J                5m 00s     0ms held               ░░░░░░░░░█

Times are UTC, by the server's clock. ░ waited  █ held
"
        );
        // Rows without bars, and two lines for each grant, have more room for labels that differ in the middle.
        const LONG: &str = "ops@ip-10-0-12-34.eu-central-1.compute.internal:N14 backup-all-databases.sh";
        for (label, columns, shown, has_bars) in [
            ("ops@ip-10-0-12-34:N14 backup-db.sh", 100, "34:114 backup-db.sh  ", true),
            ("ops@ip-10-0-12-34:N14 backup-db.sh", 80, "34:114 backup-db.sh  ", false),
            (LONG, 80, ":114 backup-all-databases.sh\n  held 1m 00s, released\n", false),
        ] {
            let label = |number: u64| label.replace('N', &number.to_string());
            let alike = [1, 2, 3].map(|number| grant(&label(number), 60 * number, 0, 60, End::Released));
            let text = show(&Timeline::new("x", alike.into()).unwrap(), columns);
            assert!(text.contains(shown) && text.contains('█') == has_bars, "{text}");
            assert!(text.lines().all(|line| line.chars().count() <= columns), "{text}");
        }
        assert_eq!(
            show(&timeline, 40),
            "\
deploy: 3 grants in 10m 00s, held 100 %
of the time
waited median 50s, longest 5m 00s
held   median 1m 00s, longest 9m 00s

12:00:00 a
  held 1m 00s, released
12:01:00 日本語 b
  waited 50s, held 9m 00s, expired
12:10:00 c \\u{1b}[2J
  waited 5m 00s, held 0ms

Times are UTC, by the server's clock.
"
        );
    }
}
