//! Stalls: what dead processes and lost messages cost. A lease is 100 here, a heartbeat 10, liveness plus buffer 45.

use super::*;

/// a releases at 30; b has waited since 20, and is granted the lock at `AT`.
const HAND_OFF: &str = "
10 a a.1 called
12 a a.1 granted 100
15 d d.1 called
16 d d.1 queued 150
17 d d.1 left
17 d d.1 returned
20 b b.1 called
21 b b.1 queued 201
30 a a.1 released
AT b b.1 granted 203
400 b b.1 released
";

fn hand_off(at: u64, changes: &[(&str, &str)]) -> Result<(), String> {
    stall_of(at, changes, &terms())
}

fn stall_of(at: u64, changes: &[(&str, &str)], terms: &Terms) -> Result<(), String> {
    let history = changed(&HAND_OFF.replace("AT", &at.to_string()), changes);
    assert_eq!(history.check(), Ok(()), "only the stall may be wrong here");
    history.no_stall(terms)
}

/// A grant is accepted until `latest`, and rejected from then on.
#[track_caller]
fn granted_by(latest: u64, changes: &[(&str, &str)]) {
    assert_eq!(hand_off(latest, changes), Ok(()));
    rejected(hand_off(latest + 1, changes), "until it was granted to b.1");
}

#[test]
fn a_lost_message_costs_a_heartbeat() {
    granted_by(40, &[]);
    let slack = Terms { slack: Duration::from_nanos(3), ..terms() };
    assert_eq!(stall_of(43, &[], &slack), Ok(()));
    rejected(stall_of(44, &[], &slack), "until it was granted to b.1");
}

#[test]
fn a_holder_that_died_costs_what_is_left_of_its_lease() {
    granted_by(130, &[("30 a a.1 released", "30 a - died")]);
    granted_by(130, &[("30 a a.1 released", "30 a a.1 lost")]);
    granted_by(130, &[("30 a a.1 released", "30 a - paused\n300 a a.1 lost")]);
    // The holder believed in its lease until its last mark, whenever it was told.
    granted_by(128, &[("30 a a.1 released", "28 a a.1 held\n300 a a.1 lost")]);
}

#[test]
fn waiters_that_died_cost_one_window_in_all() {
    let dead = |count: u64, at: u64| -> String {
        (1..=count)
            .map(|n| format!("12 e{n} e{n}.1 called\n13 e{n} e{n}.1 queued {}\n{at} e{n} - died\n", 100 + n))
            .collect()
    };
    for count in [1, 9] {
        granted_by(74, &[("10 a a.1 called", &format!("10 a a.1 called\n{}", dead(count, 29)))]);
    }
    // The window of dead waiters counts from their death, not from their turn.
    granted_by(60, &[("10 a a.1 called", &format!("10 a a.1 called\n{}", dead(9, 15)))]);
    // Waiters that died meanwhile count too.
    granted_by(80, &[("10 a a.1 called", &format!("10 a a.1 called\n{}", dead(1, 35)))]);
    // A pause counts as a death until it is over.
    let paused = dead(1, 29).replace("died", "paused") + "390 e1 e1.1 left\n";
    granted_by(74, &[("10 a a.1 called", &format!("10 a a.1 called\n{paused}"))]);
}

#[test]
fn only_dead_waiters_ahead_in_the_queue_excuse_a_stall() {
    // e stands behind b in the queue.
    granted_by(40, &[("20 b b.1 called", "20 b b.1 called\n22 e e.1 called\n23 e e.1 queued 202\n29 e - died")]);
    // d had returned when its process died.
    granted_by(40, &[("17 d d.1 returned", "17 d d.1 returned\n29 d - died")]);
    // The place of a waiter that died before it heard of its ticket is not known.
    granted_by(74, &[("20 b b.1 called", "19 e e.1 called\n29 e - died\n20 b b.1 called")]);
}

#[test]
fn a_grant_that_nobody_took_costs_a_lease() {
    granted_by(140, &[("17 d d.1 left\n17 d d.1 returned", "390 d d.1 untaken")]);
    granted_by(40, &[("17 d d.1 left\n17 d d.1 returned", "29 d d.1 untaken")]);
}

#[test]
fn only_the_time_in_which_somebody_waits_is_a_stall() {
    // b comes later.
    let later = [("20 b b.1 called", "290 b b.1 called"), ("21 b b.1 queued 201", "291 b b.1 queued 201")];
    granted_by(300, &later);
    // But others waited in vain before, whether or not they heard of a ticket.
    let in_vain = "17 d d.1 returned\n50 e e.1 called\n60 e e.1 left\n60 e e.1 returned";
    granted_by(
        290,
        &[later[0], later[1], ("17 d d.1 returned", in_vain)].map(|change| match change.0 {
            "20 b b.1 called" => ("20 b b.1 called", "290 b b.1 called"),
            "21 b b.1 queued 201" => ("21 b b.1 queued 201", "290 b b.1 queued 201"),
            _ => change,
        }),
    );
    // Waits that overlap are counted once.
    let together = "17 d d.1 returned\n50 e e.1 called\n59 e e.1 left\n51 f f.1 called\n59 f f.1 left";
    assert_eq!(hand_off(291, &[later[0], later[1], ("17 d d.1 returned", together)]), Ok(()));
    // The pause of a waiter is no wait.
    let paused = [("21 b b.1 queued 201", "21 b b.1 queued 201\n35 b - paused")];
    assert_eq!(hand_off(300, &paused), Ok(()));
}

#[test]
fn a_forgotten_waiter_is_noticed_without_any_grant() {
    let forgotten = [("300 b b.1 granted 203", "300 b b.1 left"), ("400 b b.1 released", "")];
    rejected(hand_off(300, &forgotten), "until it was granted to nobody");
    // A stall at the beginning is noticed, too.
    rejected(
        history("1 a a.1 called\n2 a a.1 queued 5\n30 a a.1 granted 6\n31 a a.1 released").no_stall(&terms()),
        "a.1",
    );
    rejected(history("1 a a.1 called\n30 a a.1 left").no_stall(&terms()), "nobody");
}

#[test]
fn a_silence_of_the_server_costs_its_time_and_two_heartbeats() {
    let silent = |at, from, to| stall_of(at, &[], &in_trouble(Trouble::Silent, from, to));
    assert_eq!(silent(160, 30, 130), Ok(()));
    rejected(silent(161, 30, 130), "b.1");
    // A silence excuses nothing at other times.
    rejected(silent(60, 100, 300), "b.1");
    // A lease that ran when the server fell silent goes on after it.
    let died = [("30 a a.1 released", "30 a - died")];
    assert_eq!(stall_of(250, &died, &in_trouble(Trouble::Silent, 25, 125)), Ok(()));
    rejected(stall_of(251, &died, &in_trouble(Trouble::Silent, 25, 125)), "b.1");
}

#[test]
fn lost_data_costs_a_recovery() {
    let lost = |at, from, to| stall_of(at, &[], &in_trouble(Trouble::LostData, from, to));
    assert_eq!(lost(145, 32, 35), Ok(()));
    rejected(lost(146, 32, 35), "b.1");
    rejected(lost(60, 100, 300), "b.1");
}

#[test]
fn stalls_are_measured() {
    let history = history(&HAND_OFF.replace("AT", "35"));
    let stalls = history.stalls(&terms());
    let waits: Vec<(u64, u64)> = stalls.iter().map(|stall| (stall.from_ns, stall.waited.as_nanos() as u64)).collect();
    assert_eq!(waits, [(10, 2), (30, 5)]);
}
