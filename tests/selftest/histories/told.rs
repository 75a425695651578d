//! I4: told before it is taken, by the server's clock.

use super::*;

/// The server's clock shows whole microseconds: 1000 µs are the moment 1,000,000 here. b is granted the lock at 1050 µs
/// and notices it 400 µs later. a cannot renew.
const TOLD: &str = "
999990 x - clock 1000 20
1000000 a a.1 called
1000100 a a.1 granted 1000
1010000 b b.1 called
1011000 b b.1 queued 1010
1040000 a a.1 held
1460000 a a.1 lost
1450000 b b.1 granted 1050
1500000 b b.1 released
1999990 x - clock 2000 20
";

#[test]
fn told_before_taken_accepts_a_holder_that_knew_in_time() {
    assert_eq!(history(TOLD).told_before_taken(&calm()), Ok(()));
    assert_eq!(history(TOLD).check(), Ok(()));
}

#[test]
fn told_before_taken_rejects_a_holder_that_believed_after_the_next_grant() {
    // No member noticed the overlap, so exclusion finds nothing wrong.
    let late = changed(TOLD, &[("1040000 a a.1 held", "1440000 a a.1 held")]);
    assert_eq!(late.check(), Ok(()));
    rejected(
        late.told_before_taken(&calm()),
        "a.1 (token 1000, from 1000100 to 1440000) believed in its lease 0.390 ms",
    );
    // The same holds for a release, a death, and a hold whose end is not on record.
    for end in ["1440000 a a.1 released", "1440000 a - died", ""] {
        let late = changed(TOLD, &[("1040000 a a.1 held", end), ("1460000 a a.1 lost", "")]);
        rejected(late.told_before_taken(&calm()), "a.1 (token 1000");
    }
}

#[test]
fn told_before_taken_rejects_only_what_the_clocks_prove() {
    // What the server's clock said is known to 20 ns, because its marks took as long.
    let close = |held: &str| changed(TOLD, &[("1040000 a a.1 held", held)]).told_before_taken(&calm());
    assert_eq!(close("1050010 a a.1 held"), Ok(()));
    rejected(close("1051000 a a.1 held"), "a.1");
    // Marks that took long say less: then only what the next holder noticed counts.
    let slow = [("clock 1000 20", "clock 1000 600000"), ("clock 2000 20", "clock 2000 600000")];
    let slowly = |held: &str| {
        let changes = [slow[0], slow[1], ("1040000 a a.1 held", held)];
        changed(TOLD, &changes).told_before_taken(&calm())
    };
    assert_eq!(slowly("1440000 a a.1 held"), Ok(()));
    rejected(slowly("1455000 a a.1 held"), "a.1");
}

#[test]
fn told_before_taken_needs_the_servers_clock() {
    rejected(history(GOOD).told_before_taken(&calm()), "does not tell the server's clock");
    assert_eq!(history("1 a a.1 called\n2 a a.1 granted 5\n3 a a.1 released").told_before_taken(&calm()), Ok(()));
}

#[test]
fn told_before_taken_looks_beyond_the_next_grant() {
    // c's grant came after b's, but a still believes when c has it.
    let text = "
1 x - clock 1 0
10 a a.1 called
11 a a.1 granted 9000000
12 a a.1 held
12 b b.1 called
12 c c.1 called
20 b b.1 granted 9000001
20 b b.1 lost
30 c c.1 granted 9000002
31 a a.1 held
32 c c.1 released
40 a a.1 lost
";
    rejected(history(text).told_before_taken(&calm()), "a.1");
    let in_time = text.replace("31 a a.1 held", "15 a a.1 held");
    assert_eq!(history(&in_time).told_before_taken(&calm()), Ok(()));
}

#[test]
fn told_before_taken_rejects_what_is_certain_though_a_clock_was_set() {
    let late = ("1040000 a a.1 held", "1440000 a a.1 held");
    let set = |line: &str, instead: &str| changed(TOLD, &[late, (line, instead)]).told_before_taken(&calm());
    // The clock was set before all this: a stamp that it had passed by then was not given then.
    for before in ["100", "5000"] {
        rejected(set("\n999990 x", &format!("\n899990 x - clock {before} 20\n999990 x")), "a.1");
    }
    // The clock was set back after all this: no stamp from then is as old.
    rejected(set("2000 20", "2000 20\n2099990 x - clock 1020 20"), "a.1");
    // The clock was set back between the call and the grant, so it showed that time twice, at 1050 µs and at 1170 µs.
    let twice = |held: &str| {
        let back = ("1450000 b", "1020000 x - clock 900 20\n1500000 x - clock 1380 20\n1450000 b");
        changed(TOLD, &[("1040000 a a.1 held", held), back]).told_before_taken(&calm())
    };
    assert_eq!(twice("1169000 a a.1 held"), Ok(()));
    rejected(twice("1171000 a a.1 held"), "a.1");
    // The clock was set forwards there: no later stamp is of a time before that.
    rejected(set("1450000 b", "1045000 x - clock 1900 20\n1500000 x - clock 2355 20\n1450000 b"), "a.1");
    // Between two marks the clock may have been set twice.
    assert_eq!(set("1450000 b", "1500000 x - clock 1900 20\n1450000 b"), Ok(()));
    // Stamps that count on are ahead of the clock, and say nothing.
    let ahead = [late, ("granted 1000", "granted 5000"), ("granted 1050", "granted 5001")];
    assert_eq!(changed(TOLD, &ahead).told_before_taken(&calm()), Ok(()));
}

#[test]
fn told_before_taken_excuses_what_lost_data_cannot_prevent() {
    let held = ("1040000 a a.1 held", "1440000 a a.1 held");
    // b comes as a stranger, in time to be the first that the server hears.
    let late = changed(TOLD, &[held, ("1011000 b b.1 queued 1010", "1450000 b b.1 queued 1035")]);
    let liveness = Duration::from_nanos(30_000);
    let lost = Terms { liveness, ..in_trouble(Trouble::LostData, 1_020_000, 1_030_000) };
    let lease = |ns| Terms { lease: Duration::from_nanos(ns), ..lost.clone() };
    assert_eq!(late.told_before_taken(&lease(410_000)), Ok(()));
    rejected(late.told_before_taken(&lease(409_999)), "a.1");
    // b had a place before the loss.
    rejected(changed(TOLD, &[held]).told_before_taken(&lease(410_000)), "a.1");
    let silent = Terms { lease: Duration::from_nanos(500_000), ..in_trouble(Trouble::Silent, 1_020_000, 1_030_000) };
    rejected(late.told_before_taken(&silent), "a.1");
}
