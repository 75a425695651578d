//! I2: order.

use super::*;

#[test]
fn order_rejects_an_overtaken_waiter() {
    // c came second, and is served first.
    let swapped = good_but(&[("b b.1 queued 201", "b b.1 queued 209")]);
    rejected(swapped.order(&calm()), "c.1 (ticket 202) waited when b.1");
    // Where two servers grant, a history does not tell which of them did.
    assert_eq!(swapped.order(&in_trouble(Trouble::Divided, 30, 35)), Ok(()));
    rejected(swapped.order(&in_trouble(Trouble::Divided, 25, 30)), "c.1 (ticket 202) waited when b.1");
    assert_eq!(swapped.exclusion(&calm()), Ok(()));
    assert_eq!(swapped.tokens_rise(&calm()), Ok(()));
}

#[test]
fn order_rejects_a_waiter_that_was_never_served() {
    let starved = [("31 b b.1 granted 203", ""), ("40 b b.1 released", "")];
    rejected(good_but(&starved).order(&calm()), "b.1 (ticket 201) waited when c.1");
    // A waiter that leaves later was passed over nevertheless.
    for too_late in ["45 b b.1 left", "45 b - died", "45 b - paused"] {
        rejected(good_but(&[starved[0], ("40 b b.1 released", too_late)]).order(&calm()), "b.1 (ticket 201)");
    }
}

#[test]
fn order_rejects_a_newcomer_that_barged_in() {
    // d comes behind b and c.
    let barges = "30 d d.1 called\n31 d d.1 queued 203\n31 d d.1 granted 203\n31 d d.1 released\n32 b b.1 granted 204";
    let barged = good_but(&[("31 b b.1 granted 203", barges), ("41 c c.1 granted 204", "41 c c.1 granted 205")]);
    rejected(barged.order(&calm()), "b.1 (ticket 201)");
    // The order before the first ticket does not count, nor do tickets that are not on record.
    let first = "12 a a.1 queued 100\n12 a a.1 granted 100";
    assert_eq!(good_but(&[("12 a a.1 granted 100", first)]).order(&calm()), Ok(()));
    assert_eq!(good_but(&[("12 a a.1 granted 100", "12 a a.1 granted 202")]).order(&calm()), Ok(()));
}

#[test]
fn order_excuses_waiters_that_left_died_or_slept_before() {
    for gone in ["35 b b.1 left", "35 b - died", "35 b - paused\n60 b b.1 left", "60 b b.1 untaken"] {
        let history = good_but(&[("31 b b.1 granted 203", ""), ("40 b b.1 released", gone)]);
        assert_eq!(history.check(), Ok(()), "{gone}");
    }
}

/// A waiter that was passed over while it stood still has its place again when it is back.
#[test]
fn order_excuses_a_pause_for_as_long_as_it_takes_to_return() {
    let starved = ("31 b b.1 granted 203", "");
    let paused =
        |resumed: u64| format!("29 b - paused\n{resumed} b - resumed\n60 b b.1 granted 210\n61 b b.1 released");
    let slept_until = |resumed| good_but(&[starved, ("40 b b.1 released", &paused(resumed))]);
    // c is granted at 41.
    assert_eq!(slept_until(45).order(&calm()), Ok(()));
    rejected(slept_until(35).order(&calm()), "b.1 (ticket 201) waited when c.1");
    let slow = Terms { slack: Duration::from_nanos(10), ..calm() };
    assert_eq!(slept_until(35).order(&slow), Ok(()));
    // While the server is silent the waiter cannot return.
    let silent = |from, to| Terms {
        slack: Duration::from_nanos(2),
        admitted: in_trouble(Trouble::Silent, from, to).admitted,
        ..calm()
    };
    assert_eq!(slept_until(35).order(&silent(36, 40)), Ok(()));
    rejected(slept_until(35).order(&silent(38, 40)), "b.1 (ticket 201) waited when c.1");
}

#[test]
fn order_excuses_no_waiter_for_a_pause_before_its_call() {
    let paused = ("20 b b.1 called", "19 b - paused\n20 b b.1 called");
    let starved = [("31 b b.1 granted 203", ""), ("40 b b.1 released", "")];
    rejected(good_but(&[paused, starved[0], starved[1]]).order(&calm()), "b.1 (ticket 201)");
}

#[test]
fn order_goes_by_the_tokens_where_a_process_notices_its_grant_late() {
    // b was granted first and released, but the line of its grant came late; the server's tokens tell.
    let text = "
1 b b.1 called
2 b b.1 queued 10
3 c c.1 called
4 c c.1 queued 11
9 c c.1 granted 13
10 b b.1 granted 12
10 b b.1 lost
11 c c.1 released
";
    assert_eq!(history(text).order(&calm()), Ok(()));
    rejected(history(&text.replace("granted 12", "granted 14")).order(&calm()), "b.1 (ticket 10)");
}

#[test]
fn order_goes_by_the_servers_clock_where_a_process_notices_its_grant_late() {
    // c's grant at 1050 µs was noticed at 1450 µs. b, who left at 1400 µs, was passed over before.
    let text = "
999990 x - clock 1000 20
1001000 b b.1 called
1002000 b b.1 queued 1001
1003000 c c.1 called
1004000 c c.1 queued 1003
1400000 b b.1 left
1450000 c c.1 granted 1050
1460000 c c.1 released
";
    rejected(history(text).order(&calm()), "b.1 (ticket 1001)");
    assert_eq!(changed(text, &[("1400000 b b.1 left", "1040000 b b.1 left")]).order(&calm()), Ok(()));
    // Without the server's clock, b could have left in time.
    assert_eq!(changed(text, &[("999990 x - clock 1000 20", "")]).order(&calm()), Ok(()));
}

#[test]
fn order_excuses_strangers_who_come_first_to_an_emptied_server() {
    // b waits when the data is lost, and d, a stranger, is granted the lock before b is back.
    let text = "
10 a a.1 called
12 a a.1 granted 100
20 b b.1 called
21 b b.1 queued 201
25 a a.1 lost
30 d d.1 called
31 d d.1 queued 302
31 d d.1 granted 302
32 d d.1 released
40 b b.1 granted 303
41 b b.1 released
";
    rejected(history(text).order(&terms()), "b.1 (ticket 201) waited when d.1");
    assert_eq!(history(text).order(&in_trouble(Trouble::LostData, 26, 28)), Ok(()));
    assert_eq!(history(text).order(&in_trouble(Trouble::LostPlaces, 26, 28)), Ok(()));
    rejected(history(text).order(&in_trouble(Trouble::Silent, 26, 28)), "b.1");
    rejected(history(text).order(&in_trouble(Trouble::Jumped, 26, 28)), "b.1");
    // All had to be back after a liveness window.
    let late = changed(
        text,
        &[("31 d d.1 granted", "59 d d.1 granted"), ("32 d d.1", "60 d d.1"), ("40 b", "70 b"), ("41 b", "71 b")],
    );
    rejected(late.order(&in_trouble(Trouble::LostData, 26, 28)), "b.1");
    // A grant before the loss has no excuse.
    rejected(history(text).order(&in_trouble(Trouble::LostData, 35, 36)), "b.1");
    // Waiters that the server went on to refuse had no time to return. They had it if the server was well for long
    // enough.
    let refused = |from, to| {
        let mut terms = in_trouble(Trouble::LostData, 26, 28);
        terms.admitted.push(admitted(Trouble::Silent, from, to));
        terms
    };
    assert_eq!(late.order(&refused(29, 58)), Ok(()));
    rejected(late.order(&refused(20, 28)), "b.1");
    let long_after = changed(
        text,
        &[
            ("30 d d.1", "190 d d.1"),
            ("31 d d.1 queued", "191 d d.1 queued"),
            ("31 d d.1 granted", "192 d d.1 granted"),
            ("32 d d.1", "193 d d.1"),
            ("40 b", "200 b"),
            ("41 b", "201 b"),
        ],
    );
    rejected(long_after.order(&refused(29, 58)), "b.1");
    // A process that used the lock before is no stranger, whatever it wants next.
    let known =
        changed(text, &[("30 d d.1 called", "15 d d.0 called\n16 d d.0 queued 200\n60 d d.0 left\n30 d d.1 called")]);
    rejected(known.order(&in_trouble(Trouble::LostData, 26, 28)), "waited when d.1");
    // But a process that had not heard of its place knows no more than a stranger.
    for queued in ["", "27 d d.0 queued 305\n"] {
        let before = format!("15 d d.0 called\n{queued}60 d d.0 left\n30 d d.1 called");
        let untold = changed(text, &[("30 d d.1 called", &before)]);
        assert_eq!(untold.order(&in_trouble(Trouble::LostData, 26, 28)), Ok(()));
    }
    // A process that has nothing left is a stranger again, because it has forgotten what it knew.
    for end in [17, 27] {
        let before = format!("15 d d.0 called\n16 d d.0 queued 200\n{end} d d.0 left\n30 d d.1 called");
        let forgotten = changed(text, &[("30 d d.1 called", &before)]);
        assert_eq!(forgotten.order(&in_trouble(Trouble::LostData, 26, 28)), Ok(()));
    }
}

#[test]
fn order_is_not_excused_by_answers_that_were_lost() {
    // c hears nothing of its ticket until it is granted, and takes its token for it.
    let text = "
10 c c.1 called
20 b b.1 called
21 b b.1 queued 201
30 c c.1 queued 302
30 c c.1 granted 302
31 c c.1 released
40 b b.1 granted 303
41 b b.1 released
";
    rejected(history(text).order(&terms()), "b.1 (ticket 201) waited when c.1");
    rejected(history(text).order(&in_trouble(Trouble::Silent, 5, 12)), "b.1 (ticket 201) waited when c.1");
}
