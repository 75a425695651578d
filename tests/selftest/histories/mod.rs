//! The judges of histories, tested: hand-written histories that they must reject, and some that they must accept.

mod ends;
mod exclusion;
mod losses;
mod order;
mod sharing;
mod stalls;
mod told;

use std::time::Duration;

use testkit::history::{Admitted, History, Terms, Trouble};

/// Three waiters in turn, one of which found the lock free.
const GOOD: &str = "
10 a a.1 called
12 a a.1 granted 100
20 b b.1 called
21 b b.1 queued 201
22 c c.1 called
23 c c.1 queued 202
30 a a.1 released
31 b b.1 granted 203
40 b b.1 released
41 c c.1 granted 204
50 c c.1 released
";

fn history(text: &str) -> History {
    History::parse(text).expect("a history that can be read")
}

/// `text` with lines exchanged for others.
fn changed(text: &str, changes: &[(&str, &str)]) -> History {
    let mut text = text.to_owned();
    for (line, instead) in changes {
        assert!(text.contains(line), "the history has no line {line:?}");
        text = text.replace(line, instead);
    }
    history(&text)
}

fn good_but(changes: &[(&str, &str)]) -> History {
    changed(GOOD, changes)
}

#[track_caller]
fn rejected(verdict: Result<(), String>, because: &str) {
    let complaint = verdict.expect_err("this history must be rejected");
    assert!(complaint.contains(because), "rejected for another reason: {complaint}");
}

fn calm() -> Terms {
    Terms::default()
}

/// Durations as short as the times in these histories: a heartbeat is 10, the window of the dead 45.
fn terms() -> Terms {
    let ns = Duration::from_nanos;
    Terms { lease: ns(100), liveness: ns(30), buffer: ns(5), shortest: ns(30), ..Terms::default() }
}

fn in_trouble(trouble: Trouble, from_ns: u64, to_ns: u64) -> Terms {
    Terms { admitted: vec![admitted(trouble, from_ns, to_ns)], ..terms() }
}

/// Nothing is lost of what was before it.
fn admitted(trouble: Trouble, from_ns: u64, to_ns: u64) -> Admitted {
    Admitted { trouble, lost_since_ns: from_ns, from_ns, to_ns }
}

#[test]
fn a_good_history_passes() {
    assert_eq!(history(GOOD).check(), Ok(()));
    assert_eq!(history("").check(), Ok(()));
    assert_eq!(history("").judge(&terms()), Ok(()));
    assert_eq!(history(GOOD).waits().len(), 3);
    assert_eq!(history(&format!("{GOOD}\n1 c - clock 1 1")).judge(&terms()), Ok(()));
}

#[test]
fn lines_may_come_in_any_order() {
    let reversed: Vec<&str> = GOOD.lines().rev().collect();
    assert_eq!(history(&reversed.join("\n")).check(), Ok(()));
}

#[test]
fn an_impossible_history_cannot_be_read() {
    for (text, because) in [
        ("1 a a.1 called\n2 a a.1 called", "called twice"),
        ("1 a a.1 called\n2 a a.1 called 5", "called twice"),
        ("1 a a.1 called\n2 a a.1 granted 5\n3 a a.1 granted 6", "granted 6 twice"),
        // A waiter keeps its ticket (I7).
        ("1 a a.1 called\n2 a a.1 queued 5\n3 a a.1 queued 6", "a.1 had ticket 5 and was queued 6"),
        ("5 a a.1 called\n2 a a.1 granted 5", "before it called"),
        ("2 a a.1 granted 5", "before it called"),
        ("1 a a.1 calle", "line 1 is not an event"),
        ("1 a a.1 granted", "line 1 is not an event"),
        ("1 a a.1 died", "line 1 is not an event"),
        ("1 a a.1 clock 5 6", "line 1 is not an event"),
        ("1 c - clock 5", "line 1 is not an event"),
        ("1 a", "line 1 is not an event"),
    ] {
        rejected(History::parse(text).map(|_| ()), because);
    }
    assert!(History::parse("# a remark\n1 a a.1 called\n2 a a.1 queued 5\n3 a a.1 queued 5").is_ok());
}
