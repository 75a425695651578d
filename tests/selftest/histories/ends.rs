//! I8 and I9: every acquire ends by its timeout and leaves nothing behind.

use super::*;
use testkit::promises::nothing_left;

#[test]
fn all_finished_rejects_a_member_that_did_not_finish() {
    rejected(good_but(&[("50 c c.1 released", "")]).all_finished(), "c.1");
    rejected(good_but(&[("41 c c.1 granted 204", ""), ("50 c c.1 released", "")]).all_finished(), "c.1");
    // A pause is no end of an acquire, nor is a mark, nor a caller that goes on without saying that it left.
    rejected(good_but(&[("50 c c.1 released", "50 c - paused")]).all_finished(), "c.1");
    rejected(good_but(&[("50 c c.1 released", "50 c c.1 held")]).all_finished(), "c.1");
    rejected(
        good_but(&[("41 c c.1 granted 204", ""), ("50 c c.1 released", "50 c c.1 returned")]).all_finished(),
        "c.1",
    );
    assert_eq!(good_but(&[("50 c c.1 released", "50 c - died")]).all_finished(), Ok(()));
    assert_eq!(good_but(&[("50 c c.1 released", "50 c - died\n51 c c.2 called")]).all_finished(), Ok(()));
    for end in ["left", "untaken"] {
        let ended = [("41 c c.1 granted 204", ""), ("50 c c.1 released", &*format!("50 c c.1 {end}"))];
        assert_eq!(good_but(&ended).all_finished(), Ok(()));
    }
}

/// The timeout of b is 10, and it gives up at 30.
const TIMEOUT: &str = "
10 a a.1 called
12 a a.1 granted 100
20 b b.1 called 10
21 b b.1 queued 201
30 b b.1 left
AT b b.1 returned
60 a a.1 released
";

fn returned_at(at: u64, changes: &[(&str, &str)]) -> Result<(), String> {
    let slack = Terms { lateness: Duration::from_nanos(5), slack: Duration::from_nanos(50), ..terms() };
    let history = changed(&TIMEOUT.replace("AT", &at.to_string()), changes);
    assert_eq!(history.check(), Ok(()), "only the time may be wrong here");
    history.by_their_timeouts(&slack)
}

#[test]
fn an_acquire_returns_by_its_timeout() {
    assert_eq!(returned_at(30, &[]), Ok(()));
    assert_eq!(returned_at(35, &[]), Ok(()));
    rejected(returned_at(36, &[]), "b.1 returned 0.000 ms after its timeout");
    // No trouble of the server excuses it.
    let history = history(&TIMEOUT.replace("AT", "36"));
    for trouble in [Trouble::Silent, Trouble::LostData] {
        rejected(history.by_their_timeouts(&in_trouble(trouble, 20, 40)), "b.1 returned");
    }
    // A pause of its own process excuses it. A pause of another process does not, nor does a later one.
    assert_eq!(returned_at(50, &[("30 b b.1 left", "29 b - paused\n30 b b.1 left")]), Ok(()));
    assert_eq!(returned_at(50, &[("30 b b.1 left", "30 b b.1 left\n31 b - paused\n49 b - resumed")]), Ok(()));
    rejected(returned_at(50, &[("30 b b.1 left", "29 a - paused\n30 b b.1 left")]), "b.1 returned");
    rejected(returned_at(50, &[("30 b b.1 left", "30 b b.1 left\n55 b - paused")]), "b.1 returned");
    // A caller that called while its process was being stopped stood still with it. A later caller did not.
    let stopping = |until: u64| format!("19 b - paused\n{until} b - resumed\n20 b b.1 called 10");
    assert_eq!(returned_at(50, &[("20 b b.1 called 10", &stopping(49))]), Ok(()));
    rejected(returned_at(50, &[("20 b b.1 called 10", &stopping(19))]), "b.1 returned");
    assert_eq!(history.latest(), Duration::from_nanos(6));
    // An acquire without a timeout may return at any time.
    assert_eq!(returned_at(500, &[("called 10", "called")]), Ok(()));
}

#[test]
fn an_acquire_with_a_timeout_is_granted_by_then_too() {
    let granted = |at: u64| {
        let left = "30 b b.1 left\nAT b b.1 returned".replace("AT", &at.to_string());
        let granted = format!("{at} b b.1 granted 203\n70 b b.1 released");
        returned_at(at, &[("60 a a.1 released", "22 a a.1 released"), (&left, &granted)])
    };
    assert_eq!(granted(35), Ok(()));
    rejected(granted(36), "b.1 returned");
}

#[test]
fn an_acquire_that_fails_before_its_timeout_is_rejected() {
    rejected(returned_at(29, &[]), "b.1 gave up 1ns before its timeout");
    // A caller that cancels, or hears of another error, may return at any time.
    assert_eq!(returned_at(26, &[("30 b b.1 left", "25 b b.1 left")]), Ok(()));
}

#[test]
fn nothing_is_left_but_states_that_expire() {
    let keys = |keys: &[(&str, i64, usize)]| nothing_left(keys);
    assert_eq!(keys(&[]), Ok(()));
    assert_eq!(keys(&[("fairlock:{a}:lock", 3_600_000, 1), ("fairlock:{b}:lock", -2, 0)]), Ok(()));
    assert_eq!(keys(&[("fairlock:{a}:lock", -1, 1)]), Err(vec!["fairlock:{a}:lock".to_owned()]));
    assert_eq!(keys(&[("fairlock:{a}:lock", 5, 2)]), Err(vec!["fairlock:{a}:lock".to_owned()]));
    let waiters = "fairlock:{a}:waiters";
    assert_eq!(keys(&[("fairlock:{a}:lock", 5, 1), (waiters, 86_400_000, 0)]), Err(vec![waiters.to_owned()]));
}

#[test]
fn a_lease_is_lost_for_nothing_if_nothing_befell_it() {
    let lost = |more: &str| good_but(&[("40 b b.1 released", &format!("40 b b.1 lost\n{more}"))]);
    assert_eq!(history(GOOD).lost_for_nothing(&terms()), 0);
    assert_eq!(lost("").lost_for_nothing(&terms()), 1);
    // Pauses and faults of another time, or of others, are no reason.
    for (more, count) in
        [("35 b - paused\n38 b - resumed", 0), ("5 b - paused\n8 b - resumed", 1), ("35 a - paused", 1)]
    {
        assert_eq!(lost(more).lost_for_nothing(&terms()), count, "{more}");
    }
    for (from, to, count) in [(35, 38, 0), (5, 25, 0), (5, 15, 1), (41, 45, 1)] {
        assert_eq!(lost("").lost_for_nothing(&in_trouble(Trouble::Silent, from, to)), count, "{from} to {to}");
    }
}
