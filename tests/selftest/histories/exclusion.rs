//! I1 and I3: exclusion, and tokens.

use super::*;

#[test]
fn exclusion_rejects_two_holders() {
    rejected(good_but(&[("30 a a.1 released", "32 a a.1 released")]).exclusion(&calm()), "two hold at once: a.1");
    // A member that never says that its hold ended still holds.
    rejected(good_but(&[("30 a a.1 released", "")]).exclusion(&calm()), "two hold at once: a.1");
    // One long hold over two short ones that do not touch each other.
    rejected(good_but(&[("30 a a.1 released", "45 a a.1 released")]).exclusion(&calm()), "two hold at once: a.1");
}

#[test]
fn a_hold_ends_with_the_first_of_its_reasons() {
    // A member that heard of its loss in time may release at any later time. One that heard of it too late may not.
    let lost = ("30 a a.1 released", "30 a a.1 lost\n60 a a.1 released");
    assert_eq!(good_but(&[lost]).exclusion(&calm()), Ok(()));
    rejected(good_but(&[("30 a a.1 released", "33 a a.1 lost")]).exclusion(&calm()), "two hold at once");
    assert_eq!(good_but(&[("30 a a.1 released", "30 a - died")]).check(), Ok(()));
    assert_eq!(good_but(&[("30 a a.1 released", "30 a - paused\n60 a a.1 lost")]).check(), Ok(()));
    // The death of another process ends no hold of this one.
    rejected(good_but(&[("30 a a.1 released", "30 d - died")]).exclusion(&calm()), "two hold at once");
}

#[test]
fn a_hold_with_marks_ends_with_the_last_of_them() {
    // The member was told late, but its own check failed in time.
    let told_late = "29 a a.1 held\n45 a a.1 lost";
    assert_eq!(good_but(&[("30 a a.1 released", told_late)]).check(), Ok(()));
    rejected(good_but(&[("30 a a.1 released", "32 a a.1 held\n45 a a.1 lost")]).exclusion(&calm()), "two hold at once");
    // A pause or a death does not end what a mark shows to have gone on.
    for end in ["25 a - paused", "25 a - paused\n60 a a.1 lost", "45 a - died"] {
        let marks = format!("32 a a.1 held\n{end}");
        rejected(good_but(&[("30 a a.1 released", &marks)]).exclusion(&calm()), "two hold at once");
    }
    // A release comes after the last mark.
    rejected(
        good_but(&[("30 a a.1 released", "29 a a.1 held\n32 a a.1 released")]).exclusion(&calm()),
        "two hold at once",
    );
}

#[test]
fn a_grant_after_a_pause_is_a_hold_again() {
    let paused = ("10 a a.1 called", "10 a a.1 called\n11 a - paused");
    assert_eq!(good_but(&[paused]).check(), Ok(()));
    rejected(good_but(&[paused, ("30 a a.1 released", "")]).exclusion(&calm()), "two hold at once");
}

#[test]
fn a_hold_may_begin_at_the_moment_in_which_another_ends() {
    assert_eq!(good_but(&[("31 b b.1 granted 203", "30 b b.1 granted 203")]).check(), Ok(()));
}

#[test]
fn a_member_that_never_believed_in_its_grant_held_nothing() {
    // a hears of its grant, and that it is over, while b holds.
    let late = [("12 a a.1 granted 100", ""), ("30 a a.1 released", "35 a a.1 granted 100\n35 a a.1 lost")];
    assert_eq!(good_but(&late).check(), Ok(()));
    let believed = ("30 a a.1 released", "35 a a.1 granted 100\n36 a a.1 held\n37 a a.1 lost");
    rejected(good_but(&[late[0], believed]).exclusion(&calm()), "two hold at once");
}

#[test]
fn a_hold_may_be_as_short_as_one_mark() {
    // The process was stopped as soon as it had the lock, and heard of the loss when it continued.
    let stopped = "12 a a.1 held\n11 a - paused\n90 a a.1 lost\n90 a - resumed";
    assert_eq!(good_but(&[("30 a a.1 released", stopped)]).check(), Ok(()));
    // Even one moment is too long in the middle of another hold.
    let moment = "35 d d.1 called\n35 d d.1 granted 210\n35 d d.1 held\n36 d d.1 lost\n40 b b.1 released";
    rejected(good_but(&[("40 b b.1 released", moment)]).exclusion(&calm()), "two hold at once: b.1");
}

/// c is granted the lock in a new state, and the older holder does not know yet.
const OVERLAP: (&str, &str) = ("40 b b.1 released", "100 b b.1 lost");

#[test]
fn exclusion_excuses_what_lost_data_cannot_prevent() {
    let stranger = ("23 c c.1 queued 202", "37 c c.1 queued 202");
    let history = good_but(&[OVERLAP, stranger]);
    rejected(history.exclusion(&terms()), "two hold at once: b.1");
    assert_eq!(history.exclusion(&in_trouble(Trouble::LostData, 35, 36)), Ok(()));
    // Silence of the server is no excuse.
    rejected(history.exclusion(&in_trouble(Trouble::Silent, 35, 36)), "two hold at once: b.1");
    // Nor is a failover that forgot no lease, nor another server that granted none.
    rejected(history.exclusion(&in_trouble(Trouble::LostPlaces, 35, 36)), "two hold at once: b.1");
    rejected(history.exclusion(&in_trouble(Trouble::Divided, 35, 36)), "two hold at once: b.1");
    // A jump of the clock is an excuse.
    assert_eq!(history.exclusion(&in_trouble(Trouble::Jumped, 35, 36)), Ok(()));
    // A loss before the first grant, or after the second, does not explain the overlap.
    rejected(history.exclusion(&in_trouble(Trouble::LostData, 20, 30)), "two hold at once: b.1");
    rejected(history.exclusion(&in_trouble(Trouble::LostData, 42, 43)), "two hold at once: b.1");
    // The older holder knew at its local deadline at the latest.
    let late = good_but(&[(OVERLAP.0, "137 b b.1 lost"), stranger]);
    rejected(late.exclusion(&in_trouble(Trouble::LostData, 35, 36)), "two hold at once: b.1");
    assert_eq!(late.exclusion(&in_trouble(Trouble::LostData, 35, 37)), Ok(()));
    // If c's grant is lost in turn, b's lease goes on.
    let mut twice = in_trouble(Trouble::LostData, 35, 36);
    twice.admitted.extend(in_trouble(Trouble::LostData, 45, 46).admitted);
    let long = good_but(&[(OVERLAP.0, "200 b b.1 lost"), stranger]);
    assert_eq!(long.exclusion(&twice), Ok(()));
    twice.admitted[1] = admitted(Trouble::LostData, 37, 38);
    rejected(long.exclusion(&twice), "two hold at once: b.1");
    // One excused pair excuses no third.
    let third = good_but(&[OVERLAP, stranger, ("30 a a.1 released", "45 a a.1 released")]);
    rejected(third.exclusion(&in_trouble(Trouble::LostData, 35, 36)), "two hold at once: a.1");
}

#[test]
fn exclusion_excuses_strangers_alone_where_data_was_lost() {
    // c has forgotten nothing, and is granted the lock before b could be back.
    let lost = |to| in_trouble(Trouble::LostData, 35, to);
    let history = good_but(&[OVERLAP]);
    rejected(history.exclusion(&lost(36)), "two hold at once: b.1");
    // c had not heard of its place; or it had given the place up, and comes anew while d, of the same process, waits.
    let stranger = ("23 c c.1 queued 202", "37 c c.1 queued 202");
    assert_eq!(good_but(&[OVERLAP, stranger]).exclusion(&lost(36)), Ok(()));
    let another = ("23 c c.1 queued 202", "24 c d.1 called\n25 c d.1 queued 201\n37 c c.1 queued 202\n90 c d.1 left");
    rejected(good_but(&[OVERLAP, another]).exclusion(&lost(36)), "two hold at once: b.1");
    // After a liveness window all clients have had the time to return, and b was there all the time.
    let later = |granted: u64, changes: &[(&str, &str)]| {
        let at = format!("{granted} c c.1 granted 204\n99 c c.1");
        good_but(&[&[OVERLAP, ("41 c c.1 granted 204\n50 c c.1", &at)], changes].concat())
    };
    rejected(later(65, &[]).exclusion(&lost(36)), "two hold at once: b.1");
    rejected(later(67, &[]).exclusion(&lost(36)), "two hold at once: b.1");
    // It was not there if its process stood still, or if no request came through.
    let paused = [("31 b b.1 granted 203", "31 b b.1 granted 203\n34 b - paused\n60 b - resumed\n99 b b.1 held")];
    assert_eq!(later(67, &paused).exclusion(&lost(36)), Ok(()));
    rejected(later(65, &paused).exclusion(&lost(36)), "two hold at once: b.1");
    let mut silent = lost(36);
    silent.admitted.extend(in_trouble(Trouble::Silent, 40, 50).admitted);
    assert_eq!(later(67, &[]).exclusion(&silent), Ok(()));
    rejected(later(65, &[]).exclusion(&silent), "two hold at once: b.1");
    silent.admitted[1] = admitted(Trouble::Silent, 68, 70);
    rejected(later(67, &[]).exclusion(&silent), "two hold at once: b.1");
    // A stranger may have been the first client that the server heard, and then it did not have to wait.
    let stranger = |called: u64, ended: u64| format!("22 c c.1 called\n{called} d d.1 called\n{ended} d d.1 left");
    let came = |called, ended| later(67, &[("22 c c.1 called", &stranger(called, ended))]).exclusion(&lost(36));
    assert_eq!(came(40, 60), Ok(()));
    assert_eq!(came(30, 36), Ok(()));
    rejected(came(30, 35), "two hold at once: b.1");
    rejected(came(67, 90), "two hold at once: b.1");
    // Of two servers, one has lost nothing.
    let mut divided = lost(36);
    divided.admitted.extend(in_trouble(Trouble::Divided, 30, 45).admitted);
    assert_eq!(history.exclusion(&divided), Ok(()));
}

/// b was granted the lock before the data was lost, and hears of it when c has it, a stranger to the emptied server.
#[test]
fn a_grant_from_before_a_loss_counts_first_even_if_heard_late() {
    let text = "
999990 x - clock 1000 20
1005000 b b.1 called
1006000 b b.1 queued 1005
1060000 c c.1 called
1060900 c c.1 granted 1060
1450000 b b.1 granted 1041
1455000 b b.1 lost
1460000 c c.1 released
1999990 x - clock 2000 20
";
    let lost = Terms {
        lease: Duration::from_nanos(500_000),
        liveness: Duration::from_nanos(20_000),
        ..in_trouble(Trouble::LostData, 1_050_000, 1_051_000)
    };
    assert_eq!(history(text).exclusion(&lost), Ok(()));
    assert_eq!(history(text).tokens_rise(&lost), Ok(()));
    rejected(history(text).exclusion(&calm()), "two hold at once");
    // This grant came after the loss; this one may have come before the end of the loss, as closely as the clock tells.
    rejected(changed(text, &[("granted 1041", "granted 1053")]).exclusion(&lost), "two hold at once");
    assert_eq!(changed(text, &[("granted 1041", "granted 1052")]).exclusion(&lost), Ok(()));
    // c may have been granted before b.
    rejected(changed(text, &[("1060000 c", "1040000 c")]).tokens_rise(&lost), "did not rise from c.1");
}

/// a was granted the lock before the server's clock jumped forwards, and heard of it after the jump. Its stamp tells.
#[test]
fn a_grant_from_before_a_jump_of_the_clock_counts_as_one_even_if_heard_late() {
    let text = "
999990 x - clock 1000 20
1005000 a a.1 called
1006000 b b.1 called
1006000 b b.1 queued 1006
1101500 a a.1 granted 1040
1109000 b b.1 granted 91109
1110000 b b.1 released
1150000 a a.1 lost
1199990 x - clock 91200 20
";
    let jump = Terms { lease: Duration::from_nanos(500_000), ..in_trouble(Trouble::Jumped, 1_100_000, 1_101_000) };
    assert_eq!(history(text).exclusion(&jump), Ok(()));
    rejected(history(text).exclusion(&calm()), "two hold at once");
    // This grant came after the jump.
    rejected(changed(text, &[("granted 1040", "granted 91103")]).exclusion(&jump), "two hold at once");
}

/// b believes in a lease from before a loss when c is granted the lock, long after the recovery can have begun. Only a
/// stranger can be the reason; whether d was one, its ticket tells, though it was put on record later.
#[test]
fn a_waiter_with_a_ticket_before_a_loss_was_no_stranger() {
    let text = "
999990 x - clock 1000 20
1005000 b b.1 called
1006000 b b.1 granted 1005
1010000 c c.1 called
1011000 c c.1 queued 1010
1012000 d d.1 called
1400000 c c.1 granted 1390
1450000 b b.1 released
1460000 c c.1 released
1500000 d d.1 queued 1013
1510000 d d.1 left
1999990 x - clock 2000 20
";
    let lost = Terms {
        lease: Duration::from_nanos(500_000),
        liveness: Duration::from_nanos(60_000),
        ..in_trouble(Trouble::LostData, 1_050_000, 1_051_000)
    };
    rejected(history(text).exclusion(&lost), "two hold at once: b.1");
    // The client may not have heard of this ticket when the data was lost.
    let late = ("queued 1013", "queued 1045");
    assert_eq!(changed(text, &[late]).exclusion(&lost), Ok(()));
    // The first client that an emptied server hears is granted the lock at once.
    let granted =
        |token: u64| changed(text, &[late, ("1510000 d d.1 left", &format!("1500000 d d.1 granted {token}"))]);
    assert_eq!(granted(1100).exclusion(&lost), Ok(()));
    rejected(granted(1120).exclusion(&lost), "two hold at once: b.1");
}

#[test]
fn tokens_must_rise() {
    rejected(good_but(&[("granted 204", "granted 203")]).tokens_rise(&calm()), "did not rise from b.1");
    rejected(good_but(&[("granted 204", "granted 99")]).tokens_rise(&calm()), "did not rise from b.1");
    // Of two servers that grant at once, each has its own.
    let late = good_but(&[("granted 204", "granted 199")]);
    let both = |from, to| {
        let mut terms = in_trouble(Trouble::LostData, 30, 45);
        terms.admitted.extend(in_trouble(Trouble::Divided, from, to).admitted);
        terms
    };
    assert_eq!(late.tokens_rise(&both(30, 45)), Ok(()));
    rejected(late.tokens_rise(&both(30, 35)), "did not rise from b.1");
    rejected(late.tokens_rise(&in_trouble(Trouble::Divided, 30, 45)), "did not rise from b.1");
    rejected(late.tokens_rise(&in_trouble(Trouble::LostData, 30, 45)), "did not rise from b.1");
    // A jump of the clock ended a lease while its grant was on its way: two hold at once, and notice it in either order.
    let both_hold = ("40 b b.1 released\n41 c c.1 granted 204", "41 c c.1 granted 199\n45 b b.1 released");
    let late_by_jump = good_but(&[both_hold]);
    assert_eq!(late_by_jump.tokens_rise(&in_trouble(Trouble::Jumped, 30, 45)), Ok(()));
    rejected(late_by_jump.tokens_rise(&in_trouble(Trouble::Jumped, 30, 40)), "did not rise from b.1");
    rejected(late.tokens_rise(&in_trouble(Trouble::Jumped, 30, 45)), "did not rise from b.1");
    // A process that is slow may notice it only when the next holder is done.
    let slow = |ns| Terms { lateness: Duration::from_nanos(ns), ..in_trouble(Trouble::Jumped, 30, 45) };
    assert_eq!(late.tokens_rise(&slow(2)), Ok(()));
    rejected(late.tokens_rise(&slow(1)), "did not rise from b.1");
    rejected(late.tokens_rise(&Terms { lateness: Duration::from_nanos(9), ..calm() }), "did not rise from b.1");
    // Tokens need not rise by one.
    assert_eq!(good_but(&[("granted 204", "granted 9999")]).tokens_rise(&calm()), Ok(()));
    // Two grants under one token are two, also if one of them was never believed.
    let twice = ("31 b b.1 granted 203", "31 b b.1 granted 204\n31 b b.1 lost");
    rejected(good_but(&[twice, ("40 b b.1 released", "")]).tokens_rise(&calm()), "did not rise from b.1");
}
