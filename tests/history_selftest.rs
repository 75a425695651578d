//! The judges of histories, judged: hand-written histories that they must reject, and some that they must accept.

#![allow(clippy::expect_used, clippy::unwrap_used)]

mod support;

use support::history::{Event, History, Recorder, now_ns};

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

/// `GOOD` with lines exchanged for others.
fn good_but(changes: &[(&str, &str)]) -> History {
    let mut text = GOOD.to_owned();
    for (line, instead) in changes {
        assert!(text.contains(line), "GOOD has no line {line:?}");
        text = text.replace(line, instead);
    }
    history(&text)
}

#[track_caller]
fn rejected(verdict: Result<(), String>, because: &str) {
    let complaint = verdict.expect_err("this history must be rejected");
    assert!(complaint.contains(because), "rejected for another reason: {complaint}");
}

#[test]
fn a_good_history_passes() {
    assert_eq!(history(GOOD).check(), Ok(()));
    assert_eq!(history("").check(), Ok(()));
    assert_eq!(history(GOOD).waits().len(), 3);
}

#[test]
fn lines_may_come_in_any_order() {
    let reversed: Vec<&str> = GOOD.lines().rev().collect();
    assert_eq!(history(&reversed.join("\n")).check(), Ok(()));
}

#[test]
fn exclusion_rejects_two_holders() {
    rejected(good_but(&[("30 a a.1 released", "32 a a.1 released")]).exclusion(), "two hold at once: a.1");
    // Somebody who never says that the hold ended still holds.
    rejected(good_but(&[("30 a a.1 released", "")]).exclusion(), "two hold at once: a.1");
    // One long hold over two short ones that do not touch each other.
    rejected(good_but(&[("30 a a.1 released", "45 a a.1 released")]).exclusion(), "two hold at once: a.1");
}

#[test]
fn a_hold_ends_with_the_first_of_its_reasons() {
    // Told that it is lost, it may release whenever it likes, and may not if it is told too late.
    let lost = ("30 a a.1 released", "30 a a.1 lost\n60 a a.1 released");
    assert_eq!(good_but(&[lost]).exclusion(), Ok(()));
    rejected(good_but(&[("30 a a.1 released", "33 a a.1 lost")]).exclusion(), "two hold at once");
    assert_eq!(good_but(&[("30 a a.1 released", "30 a - died")]).check(), Ok(()));
    assert_eq!(good_but(&[("30 a a.1 released", "30 a - paused\n60 a a.1 lost")]).check(), Ok(()));
    // The death of another process ends nothing here.
    rejected(good_but(&[("30 a a.1 released", "30 d - died")]).exclusion(), "two hold at once");
}

#[test]
fn a_hold_may_begin_at_the_moment_in_which_another_ends() {
    assert_eq!(good_but(&[("31 b b.1 granted 203", "30 b b.1 granted 203")]).check(), Ok(()));
}

#[test]
fn tokens_must_rise() {
    rejected(good_but(&[("granted 204", "granted 203")]).tokens_rise(), "did not rise from b.1");
    rejected(good_but(&[("granted 204", "granted 99")]).tokens_rise(), "did not rise from b.1");
    // It need not rise by one.
    assert_eq!(good_but(&[("granted 204", "granted 9999")]).tokens_rise(), Ok(()));
}

#[test]
fn order_rejects_who_was_overtaken() {
    // c, who came second, is served first.
    let swapped = good_but(&[("b b.1 queued 201", "b b.1 queued 209")]);
    rejected(swapped.order(), "c.1 (ticket 202) waited when b.1");
    assert_eq!(swapped.exclusion(), Ok(()));
    assert_eq!(swapped.tokens_rise(), Ok(()));
}

#[test]
fn order_rejects_who_was_never_served() {
    let starved = [("31 b b.1 granted 203", ""), ("40 b b.1 released", "")];
    rejected(good_but(&starved).order(), "b.1 (ticket 201) waited when c.1");
    // Leaving later does not excuse that it was passed over before.
    rejected(good_but(&[starved[0], ("40 b b.1 released", "45 b b.1 left")]).order(), "b.1 (ticket 201)");
    rejected(good_but(&[starved[0], ("40 b b.1 released", "45 b - died")]).order(), "b.1 (ticket 201)");
}

#[test]
fn order_excuses_who_left_died_or_slept_before() {
    for gone in ["35 b b.1 left", "35 b - died", "35 b - paused\n60 b b.1 left"] {
        let history = good_but(&[("31 b b.1 granted 203", ""), ("40 b b.1 released", gone)]);
        assert_eq!(history.check(), Ok(()), "{gone}");
    }
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
    assert_eq!(history(text).order(), Ok(()));
    rejected(history(&text.replace("granted 12", "granted 14")).order(), "b.1 (ticket 10)");
}

#[test]
fn all_finished_rejects_who_did_not() {
    rejected(good_but(&[("50 c c.1 released", "")]).all_finished(), "c.1");
    rejected(good_but(&[("41 c c.1 granted 204", ""), ("50 c c.1 released", "")]).all_finished(), "c.1");
    // A pause is no end.
    rejected(good_but(&[("50 c c.1 released", "50 c - paused")]).all_finished(), "c.1");
    assert_eq!(good_but(&[("50 c c.1 released", "50 c - died")]).all_finished(), Ok(()));
    assert_eq!(
        good_but(&[("41 c c.1 granted 204", ""), ("50 c c.1 released", "50 c c.1 left")]).all_finished(),
        Ok(())
    );
}

#[test]
fn what_cannot_have_happened_cannot_be_read() {
    for (text, because) in [
        ("1 a a.1 called\n2 a a.1 called", "called twice"),
        ("1 a a.1 called\n2 a a.1 granted 5\n3 a a.1 granted 6", "granted 6 twice"),
        ("1 a a.1 called\n2 a a.1 queued 5\n3 a a.1 queued 6", "queued 6 twice"),
        ("5 a a.1 called\n2 a a.1 granted 5", "before it called"),
        ("2 a a.1 granted 5", "before it called"),
        ("1 a a.1 calle", "line 1 is not an event"),
        ("1 a a.1 granted", "line 1 is not an event"),
        ("1 a a.1 died", "line 1 is not an event"),
        ("1 a", "line 1 is not an event"),
    ] {
        rejected(History::parse(text).map(|_| ()), because);
    }
}

#[test]
fn what_many_threads_record_is_read_back_whole() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("history");
    std::thread::scope(|scope| {
        for process in 0..8 {
            let recorder = Recorder::open(&path, &format!("p{process}")).unwrap();
            scope.spawn(move || {
                for wait in 0..100 {
                    let waiter = format!("p{process}.{wait}");
                    recorder.note(&waiter, Event::Called);
                    recorder.note(&waiter, Event::Queued { ticket: wait });
                    recorder.note_at(now_ns(), &waiter, Event::Left);
                }
                recorder.note_process(Event::Died);
            });
        }
    });
    let history = History::read(&path).unwrap();
    assert_eq!(history.waits().len(), 800);
    assert_eq!(history.check(), Ok(()));
    assert!(history.waits().iter().all(|wait| wait.died_ns.is_some() && wait.ticket.is_some()));
}
