//! A server that comes back with the state of an earlier moment than that of its end.

use super::*;

/// a has a ticket, and stands still. The server gives it a claim (1005), which is the last that its replica hears of;
/// then it takes a for dead, and grants the lock to b (1020). The replica takes over, and a is the first there.
const CLAIMED: &str = "
999990 x - clock 1000 20
1000000 a a.1 called
1001000 a a.1 queued 1001
1002000 a - paused
1003000 b b.1 called
1004000 b b.1 queued 1004
1020100 b b.1 granted 1020
1055000 a - resumed
1061000 a a.1 granted 1005
1070000 a a.1 released
1080000 b b.1 released
1999990 x - clock 2000 20
";
const UNLINKED: u64 = 1_010_000;
const KILLED: u64 = 1_050_000;
const OVER: u64 = 1_060_000;

/// Killed then, after so much was not replicated.
fn promoted(lost_since_ns: u64, from_ns: u64) -> Terms {
    let lost = |trouble| Admitted { lost_since_ns, ..admitted(trouble, from_ns, OVER) };
    let ns = Duration::from_nanos;
    let admitted = vec![lost(Trouble::Silent), lost(Trouble::LostData)];
    Terms { lease: ns(500_000), liveness: ns(20_000), shortest: ns(20_000), admitted, ..Terms::default() }
}

/// All that judge such a pair. Each of them finds fault with it alone, so they must agree.
#[track_caller]
fn verdict(history: &History, terms: &Terms) -> Result<(), String> {
    let verdicts = [history.exclusion(terms), history.told_before_taken(terms), history.tokens_rise(terms)];
    assert!(verdicts.iter().all(|verdict| verdict.is_ok() == verdicts[0].is_ok()), "they disagree: {verdicts:?}");
    verdicts.into_iter().collect()
}

#[test]
fn a_claim_that_was_taken_back_may_be_confirmed_where_that_was_lost() {
    let history = history(CLAIMED);
    assert_eq!(verdict(&history, &promoted(UNLINKED, KILLED)), Ok(()));
    assert_eq!(history.judge(&promoted(UNLINKED, KILLED)), Ok(()));
    rejected(verdict(&history, &calm()), "two hold at once: b.1");
    // Only a loss that forgets leases does that.
    for trouble in [Trouble::Silent, Trouble::LostPlaces, Trouble::Divided] {
        let mut other = promoted(UNLINKED, KILLED);
        other.admitted[1].trouble = trouble;
        rejected(verdict(&history, &other), "two hold at once: b.1");
    }
}

#[test]
fn a_grant_that_was_not_lost_excuses_no_claim() {
    // It was made before the replica was cut off, or no replica was.
    for lost_since in [1_020_500, KILLED] {
        rejected(verdict(&history(CLAIMED), &promoted(lost_since, KILLED)), "two hold at once: b.1");
    }
    // Or after the kill, to a client that knew of its place.
    rejected(verdict(&history(CLAIMED), &promoted(UNLINKED, 1_020_000)), "two hold at once: b.1");
}

#[test]
fn a_claim_from_after_a_loss_is_not_excused_by_it() {
    // Stamps that are ahead of the clock, such as b's here, say nothing of the order.
    let claimed = |token: u64| {
        let claim = format!("1061000 a a.1 granted {token}");
        changed(CLAIMED, &[("granted 1020", "granted 5000"), ("1061000 a a.1 granted 1005", &claim)])
    };
    assert_eq!(claimed(1049).exclusion(&promoted(UNLINKED, KILLED)), Ok(()));
    rejected(claimed(1055).exclusion(&promoted(UNLINKED, KILLED)), "two hold at once: b.1");
}

#[test]
fn a_claim_that_was_told_before_the_loss_is_not_excused_by_it() {
    let earlier = [("1055000 a - resumed", "1030000 a - resumed"), ("1061000 a a.1", "1049000 a a.1")];
    rejected(verdict(&changed(CLAIMED, &earlier), &promoted(UNLINKED, KILLED)), "two hold at once: b.1");
    assert_eq!(verdict(&changed(CLAIMED, &earlier), &promoted(UNLINKED, 1_049_000)), Ok(()));
}

#[test]
fn a_confirmed_claim_ends_when_clients_are_back() {
    let lease = |ns| Terms { lease: Duration::from_nanos(ns), ..promoted(UNLINKED, KILLED) };
    assert_eq!(verdict(&history(CLAIMED), &lease(10_000)), Ok(()));
    rejected(verdict(&history(CLAIMED), &lease(9_999)), "two hold at once: b.1");
    // One that lets in others goes on if nobody brings the later lease back.
    let ended = |at| {
        let shares = ("1000000 a a.1 called", "1000000 a a.1 called\n1000000 a a.1 shares 5");
        let released = format!("{at} b b.1 released");
        verdict(&changed(CLAIMED, &[shares, ("1080000 b b.1 released", &released)]), &lease(9_999))
    };
    assert_eq!(ended(1_069_999), Ok(()));
    rejected(ended(1_070_000), "two hold at once: b.1");
    let alone = changed(CLAIMED, &[("1080000 b b.1 released", "1069999 b b.1 released")]);
    rejected(verdict(&alone, &lease(9_999)), "two hold at once: b.1");
}

#[test]
fn no_claim_is_taken_back_from_a_client_that_is_there() {
    let lost = promoted(UNLINKED, KILLED);
    let paused = |from: &str, to: &str| {
        let resumed = if to.is_empty() { String::new() } else { format!("{to} a - resumed") };
        let paused = if from.is_empty() { String::new() } else { format!("{from} a - paused") };
        changed(CLAIMED, &[("1002000 a - paused", &paused), ("1055000 a - resumed", &resumed)])
    };
    // Not at all, until before the replica was cut off, and since b has the lock.
    for (from, to) in [("", ""), ("1002000", "1009000"), ("1021000", "1055000")] {
        rejected(verdict(&paused(from, to), &lost), "two hold at once: b.1");
    }
    assert_eq!(verdict(&paused("1002000", "1010000"), &lost), Ok(()));
    // Where the server was silent before, nobody was there.
    let mut silent = lost.clone();
    silent.admitted.push(admitted(Trouble::Silent, 1_005_000, 1_012_000));
    assert_eq!(verdict(&paused("", ""), &silent), Ok(()));
    silent.admitted[2] = admitted(Trouble::Silent, 1_005_000, 1_009_000);
    rejected(verdict(&paused("", ""), &silent), "two hold at once: b.1");
}
