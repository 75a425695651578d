//! Several holders: how many, in which slots, in what order, and what a downgrade changes.

use super::*;

/// Two may hold it: a and b do, and c is granted the slot of a.
const TWO: &str = "
10 a a.1 called
10 a a.1 shares 2
12 a a.1 granted 100
13 b b.1 called
13 b b.1 shares 2
15 b b.1 granted 101 1
20 c c.1 called
20 c c.1 shares 2
21 c c.1 queued 201
30 a a.1 released
31 c c.1 granted 203
60 b b.1 released
70 c c.1 released
";

/// A writer lets a reader in before it is done.
const DOWNGRADE: &str = "
10 w w.1 called
12 w w.1 granted 100
20 r r.1 called
20 r r.1 shares 1000
21 r r.1 queued 201
30 w w.1 downgrades 1000
32 w w.1 downgraded
33 r r.1 granted 202 1
60 w w.1 released
70 r r.1 released
";

fn two_but(changes: &[(&str, &str)]) -> History {
    changed(TWO, changes)
}

fn downgrade_but(changes: &[(&str, &str)]) -> History {
    changed(DOWNGRADE, changes)
}

#[test]
fn several_that_fit_together_pass() {
    for text in [TWO, DOWNGRADE] {
        assert_eq!(history(&format!("{text}1 x - clock 1 1")).judge(&terms()), Ok(()));
        assert_eq!(history(text).most_at_once(), 2);
    }
    assert_eq!(history(GOOD).most_at_once(), 1);
}

#[test]
fn exclusion_rejects_one_more_than_a_holder_allows() {
    let third = [("31 c c.1 granted 203", "29 c c.1 granted 203 2")];
    rejected(two_but(&third).exclusion(&calm()), "3 hold at once, and a.1 (slot 0 of 2, token 100");
    // The newcomer may allow more than those before it, or fewer.
    let more = ("20 c c.1 shares 2", "20 c c.1 shares 5");
    rejected(two_but(&[third[0], more]).exclusion(&calm()), "3 hold at once, and a.1");
    let all_more = ("shares 2", "shares 3");
    assert_eq!(two_but(&[third[0], all_more]).exclusion(&calm()), Ok(()));
    let fewer = ("20 c c.1 shares 3", "20 c c.1 shares 2");
    rejected(two_but(&[third[0], all_more, fewer]).exclusion(&calm()), "3 hold at once, and c.1 (slot 2 of 2");
}

#[test]
fn exclusion_rejects_whoever_is_not_alone_though_it_was_promised() {
    rejected(two_but(&[("10 a a.1 shares 2", "")]).exclusion(&calm()), "two hold at once: a.1");
    rejected(two_but(&[("20 c c.1 shares 2", "")]).exclusion(&calm()), "two hold at once: b.1");
}

#[test]
fn exclusion_rejects_one_slot_for_two() {
    rejected(two_but(&[("granted 101 1", "granted 101 0")]).exclusion(&calm()), "two hold at once in one slot: a.1");
    let still_there = ("30 a a.1 released", "32 a a.1 released");
    rejected(two_but(&[still_there, ("shares 2", "shares 9")]).exclusion(&calm()), "in one slot: a.1");
}

#[test]
fn told_before_taken_counts_the_holders_too() {
    // No process noticed it, but by the server's clock c was granted the lock while a and b believed in theirs.
    let text = "
999990 x - clock 1000 20
1001000 a a.1 called
1001000 a a.1 shares 2
1001100 a a.1 granted 1001
1002000 b b.1 called
1002000 b b.1 shares 2
1002100 b b.1 granted 1002 1
1010000 c c.1 called
1010000 c c.1 shares 2
1440000 b b.1 released
1440000 a a.1 released
1450000 c c.1 granted 1050 2
1500000 c c.1 released
1999990 x - clock 2000 20
";
    assert_eq!(history(text).check(), Ok(()));
    rejected(history(text).told_before_taken(&calm()), "3 hold at once, and a.1");
    let in_time = changed(text, &[("1440000 a", "1040000 a")]);
    assert_eq!(in_time.told_before_taken(&calm()), Ok(()));
    let slot = changed(text, &[("1440000 a", "1040000 a"), ("granted 1050 2", "granted 1050 1")]);
    rejected(slot.told_before_taken(&calm()), "b.1 (slot 1 of 2, token 1002, from 1002100 to 1440000) believed");
    let alone = changed(text, &[("1440000 a", "1040000 a"), ("1010000 c c.1 shares 2", "")]);
    rejected(alone.told_before_taken(&calm()), "b.1 (slot 1 of 2");
}

/// a cannot know that its lease is over when the server's clock jumps. But b, of the same time, has renewed its own.
#[test]
fn an_excused_holder_is_not_counted() {
    let third = [("31 c c.1 granted 203", "29 c c.1 granted 203 2"), ("60 b", "160 b")];
    let jump = in_trouble(Trouble::Jumped, 22, 28);
    assert_eq!(two_but(&third).exclusion(&jump), Ok(()));
    rejected(two_but(&third).exclusion(&in_trouble(Trouble::Silent, 22, 28)), "3 hold at once");
    // A jump after all were granted excuses none.
    rejected(two_but(&third).exclusion(&in_trouble(Trouble::Jumped, 30, 40)), "3 hold at once");
    // One is excused, and four hold.
    let fourth = "29 d d.1 called\n29 d d.1 shares 2\n30 d d.1 granted 204 3\n50 d d.1 released\n30 a a.1 released";
    rejected(two_but(&[third[0], third[1], ("30 a a.1 released", fourth)]).exclusion(&jump), "3 hold at once, and b.1");
}

#[test]
fn a_downgrade_lets_in_others_from_its_call_on() {
    let early = ("33 r r.1 granted 202 1", "29 r r.1 granted 202 1");
    rejected(downgrade_but(&[early]).exclusion(&calm()), "two hold at once: w.1");
    let none = [("30 w w.1 downgrades 1000", ""), ("32 w w.1 downgraded", "")];
    rejected(downgrade_but(&none).exclusion(&calm()), "two hold at once: w.1");
    // Other writers are not let in.
    rejected(downgrade_but(&[("20 r r.1 shares 1000", "")]).exclusion(&calm()), "two hold at once: w.1");
    // It may have been done though its answer never came.
    assert_eq!(downgrade_but(&[none[1]]).exclusion(&calm()), Ok(()));
}

#[test]
fn nothing_but_a_downgrade_raises_a_number() {
    let seen = |text: &str, seen: &str| history(&format!("{text}{seen}")).raised_by_downgrades_alone();
    for fits in ["25 x - seen 101 1 2", "25 x - seen 101 1 1", "25 x - seen 999 7 1000"] {
        assert_eq!(seen(TWO, fits), Ok(()));
    }
    rejected(seen(TWO, "25 x - seen 101 1 3"), "b.1 allows 2, and the server showed 3");
    rejected(seen(TWO, "25 x - seen 101 2 2"), "b.1 was granted slot 1, and the server showed it in slot 2");
    assert_eq!(seen(DOWNGRADE, "30 x - seen 100 0 1000\n40 x - seen 100 0 1000"), Ok(()));
    rejected(seen(DOWNGRADE, "29 x - seen 100 0 1000"), "w.1 allows 1, and the server showed 1000");
    rejected(seen(DOWNGRADE, "40 x - seen 100 0 1001"), "w.1 allows 1000, and the server showed 1001");
}

#[test]
fn tokens_of_those_that_hold_together_may_be_noticed_in_any_order() {
    let late = [("granted 101 1", "granted 99 1"), ("13 b b.1 called", "11 b b.1 called")];
    assert_eq!(two_but(&late).tokens_rise(&calm()), Ok(()));
    // But not by one that called when the other had been granted the lock.
    rejected(two_but(&[late[0]]).tokens_rise(&calm()), "did not rise from a.1");
    // In each slot they rise, and so they do for whoever is alone.
    let of_slot = [("20 c c.1 called", "11 c c.1 called"), ("granted 203", "granted 99")];
    rejected(two_but(&of_slot).tokens_rise(&calm()), "did not rise from a.1");
    let alone = [of_slot[0], ("20 c c.1 shares 2", ""), ("granted 203", "granted 99 5")];
    rejected(two_but(&alone).tokens_rise(&calm()), "did not rise from b.1");
}

#[test]
fn order_rejects_a_reader_that_overtakes_a_writer() {
    // The writer does not fit, and d, behind it, does.
    let writer = ("20 c c.1 shares 2", "");
    let overtaken =
        "22 d d.1 called\n22 d d.1 shares 2\n23 d d.1 queued 202\n31 d d.1 granted 203 1\n41 d d.1 released";
    let text = [writer, ("31 c c.1 granted 203", overtaken), ("70 c c.1 released", "80 c c.1 left")];
    rejected(two_but(&text).order(&calm()), "c.1 (ticket 201) waited when d.1");
}

/// The reply that granted b the lock crossed its giving up.
#[test]
fn order_excuses_one_that_may_have_held_it_unheard() {
    let unheard = |left: &str| {
        let left = format!("20 d d.1 called\n20 d d.1 shares 2\n21 d d.1 queued 200\n{left}");
        two_but(&[("20 c c.1 called", &format!("{left}\n20 c c.1 called"))])
    };
    assert_eq!(unheard("41 d d.1 left").order(&terms()), Ok(()));
    rejected(unheard("42 d d.1 left").order(&terms()), "d.1 (ticket 200) waited when c.1");
    rejected(unheard("41 d d.1 granted 210 2\n42 d d.1 released").order(&terms()), "d.1 (ticket 200)");
}

/// Accepted until `latest`, and rejected from then on.
#[track_caller]
fn granted_by(latest: u64, text: &str, grant: &str) {
    let at = |at: u64| changed(text, &[(grant, &format!("{at}{}", &grant[2..]))]);
    assert_eq!(at(latest).check(), Ok(()), "only the stall may be wrong here");
    assert_eq!(at(latest).no_stall(&terms()), Ok(()));
    rejected(at(latest + 1).no_stall(&terms()), "on the lock was free for one more");
}

#[test]
fn a_free_slot_is_not_forgotten_while_others_hold() {
    let longer = |text: &str| text.replace("60 b", "300 b").replace("60 w", "300 w").replace("70 ", "400 ");
    let grant = "31 c c.1 granted 203";
    granted_by(40, &longer(TWO), grant);
    // The holder that died costs the rest of its lease, and the one that goes on holding costs nothing.
    granted_by(130, &longer(TWO).replace("30 a a.1 released", "30 a - died"), grant);
    // Who wants to be alone has to wait for both; who is behind it as well, until it leaves.
    let writer = longer(TWO).replace("300 b b.1 released", "80 b b.1 released").replace("20 c c.1 shares 2\n", "");
    granted_by(90, &writer.replace(grant, "81 c c.1 granted 203"), "81 c c.1 granted 203");
    let behind = "20 d d.1 called\n21 d d.1 queued 200\n50 d d.1 left\n50 d d.1 returned\n20 c c.1 called";
    let behind = longer(TWO).replace("20 c c.1 called", behind);
    granted_by(60, &behind.replace(grant, "51 c c.1 granted 203"), "51 c c.1 granted 203");
    // A downgrade ends the wait of readers, once it is done.
    granted_by(42, &longer(DOWNGRADE), "33 r r.1 granted 202 1");
    let unknown = longer(DOWNGRADE).replace("32 w w.1 downgraded\n", "").replace("300 w", "50 w");
    granted_by(60, &unknown, "33 r r.1 granted 202 1");
}

/// b was granted slot 1 after 30, and had not heard of it when it was stopped. The claim is over when it is back.
const UNHEARD: &str = "
10 a a.1 called
10 a a.1 shares 2
11 a a.1 granted 100
12 z z.1 called
12 z z.1 shares 2
12 z z.1 granted 101 1
20 b b.1 called
20 b b.1 shares 2
21 b b.1 queued 201
22 c c.1 called
22 c c.1 shares 2
23 c c.1 queued 202
30 z z.1 released
35 a a.1 released
36 c c.1 granted 260
37 c c.1 released
38 b - paused
200 b - resumed
201 b b.1 granted 300 1
202 b b.1 released
";

#[test]
fn order_excuses_a_claim_that_its_waiter_had_not_heard_of() {
    assert_eq!(history(UNHEARD).order(&terms()), Ok(()));
    // The data was lost before it heard.
    let lost = [("38 b - paused", ""), ("200 b - resumed", "")];
    assert_eq!(changed(UNHEARD, &lost).order(&in_trouble(Trouble::LostData, 38, 40)), Ok(()));
    let complaint = "b.1 (ticket 201) waited when c.1";
    rejected(changed(UNHEARD, &lost).order(&terms()), complaint);
    // A heartbeat after c's grant it had heard.
    rejected(changed(UNHEARD, &[("38 b - paused", "47 b - paused")]).order(&terms()), complaint);
    rejected(changed(UNHEARD, &lost).order(&in_trouble(Trouble::LostData, 47, 48)), complaint);
    // Nobody holds a lock beside a claim.
    for alone in ["20 b b.1 shares 2", "22 c c.1 shares 2"] {
        rejected(changed(UNHEARD, &[(alone, "")]).order(&terms()), complaint);
    }
}

/// All data is lost at 27, and d, a stranger, has the slot of a for a moment before a is back.
const BACK: &str = "
10 a a.1 called
10 a a.1 shares 2
12 a a.1 granted 100
31 d d.1 called
31 d d.1 shares 2
32 d d.1 granted 302
34 d d.1 released
199 a a.1 held
200 a a.1 released
1 x - clock 1 1
";

#[test]
fn a_holder_that_comes_back_to_its_slot_after_a_stranger_goes_on() {
    let lost = in_trouble(Trouble::LostData, 26, 28);
    assert_eq!(history(BACK).judge(&lost), Ok(()));
    // Without a loss the slot was not d's. The lease of a lock, and one that a jump of the clock ended, do not go on.
    rejected(history(BACK).exclusion(&terms()), "two hold at once in one slot: a.1");
    rejected(history(BACK).exclusion(&in_trouble(Trouble::Jumped, 26, 28)), "two hold at once in one slot: a.1");
    rejected(changed(BACK, &[("10 a a.1 shares 2", "")]).exclusion(&lost), "two hold at once: a.1");
    // d still has the slot when the lease of before is over.
    rejected(changed(BACK, &[("34 d d.1", "134 d d.1")]).exclusion(&lost), "two hold at once in one slot: a.1");
}
