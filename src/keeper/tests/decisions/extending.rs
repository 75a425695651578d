//! Leases that are extended, and whose automatic renewal is switched while they are held.

use super::*;
use crate::protocol::{RenewRequest, Request};

fn extend(machine: &mut Machine, now: f64, question: u64, by: f64) {
    let extend = Some(seconds(by));
    ask(machine, now, question, Question::Renew { id: Id(1), extend });
}

fn switch(machine: &mut Machine, now: f64, on: bool) {
    machine.handle(at(now), Event::Command(Command::Automatic { id: Id(1), on }));
}

fn asked(call: &Request) -> Duration {
    let Request::Renew(RenewRequest { lease, .. }) = call else { panic!("{call:?}") };
    *lease
}

fn prolonged(effects: &[Effect]) -> Option<Time> {
    effects
        .iter()
        .find_map(|effect| if let Effect::Prolonged { deadline, .. } = effect { Some(*deadline) } else { None })
}

fn is_answered(effects: &[Effect], question: u64) -> bool {
    matches!(outcome(effects, question), Some(Outcome::Renewal(Ok(Renewal::Renewed))))
}

/// The deadline moves by what was asked for, and not by a microsecond less.
#[test]
fn an_extension_counts_from_the_end_that_the_lease_has() {
    let mut machine = holding(LockOptions::new());
    extend(&mut machine, 5.0, 9, 60.0);
    let (request, call) = one_sent(&mut machine, 5.0);
    // 0.5 % and a millisecond for clocks that drift.
    let until = at(29.849) + seconds(60.0);
    let least = until.since(at(5.0));
    assert!(asked(&call) > least && asked(&call) < least + seconds(0.5), "{call:?}");
    let effects = answer_brings(&mut machine, 5.1, request, lease(Word::Renewed, asked(&call)));
    let deadline = prolonged(&effects).unwrap();
    assert!(deadline >= until && deadline < until + seconds(0.001), "{deadline:?}");
    assert!(is_answered(&effects, 9), "{effects:?}");
}

/// Otherwise the holder would not hear of a loss of data for as long as the extension lasts.
#[test]
fn an_extended_lease_is_renewed_as_often_as_before_and_never_for_less() {
    let mut machine = holding(LockOptions::new());
    extend(&mut machine, 5.0, 9, 600.0);
    let (request, call) = one_sent(&mut machine, 5.0);
    let extended = asked(&call);
    let deadline = prolonged(&answer_brings(&mut machine, 5.0, request, lease(Word::Renewed, extended))).unwrap();
    assert_eq!(machine.next_due(), Some(at(15.0)));
    let (request, call) = tick_sends(&mut machine, 15.0);
    assert_eq!(asked(&call), span_until(deadline.since(at(15.0))), "a recovery must wait for that long");
    // The server leaves its end where it is, and clocks can drift less in what is left.
    answer(&mut machine, 15.0, request, lease(Word::Renewed, extended - seconds(10.0)));
    let later = prolonged(&machine.effects(at(15.0), usize::MAX)).unwrap();
    assert!(later > deadline && later < deadline + seconds(0.1), "{deadline:?} {later:?}");
    assert_eq!(machine.next_due(), Some(at(25.0)));
}

/// The server's clock may have run faster than the holder's. Then a renewal moves no deadline, for as long as the
/// extension lasts.
#[test]
fn an_extended_lease_whose_deadline_does_not_move_is_renewed_as_often_as_before() {
    let mut machine = holding(LockOptions::new());
    extend(&mut machine, 5.0, 9, 600.0);
    let (request, call) = one_sent(&mut machine, 5.0);
    let deadline = prolonged(&answer_brings(&mut machine, 5.0, request, lease(Word::Renewed, asked(&call)))).unwrap();
    for now in [15.0, 25.0] {
        assert_eq!(machine.next_due(), Some(at(now)));
        let (request, call) = tick_sends(&mut machine, now);
        let effects = answer_brings(&mut machine, now, request, lease(Word::Renewed, asked(&call) - seconds(0.01)));
        assert_eq!(prolonged(&effects), Some(deadline), "its holder is told: {effects:?}");
    }
}

/// Also if the machine has run for less time than the lease lasts: its clock does not go below zero.
#[test]
fn a_lease_of_which_a_part_was_brought_back_is_renewed_at_once() {
    let day = 24.0 * 3600.0;
    let mut machine = holding(LockOptions::new().lease(seconds(30.0 * day)));
    reconnect(&mut machine, 5.0, 5.0);
    let (request, _) = one_sent(&mut machine, 5.0);
    answer(&mut machine, 5.1, request, lease(Word::Renewed, seconds(day)));
    assert_eq!(asked(&one_sent(&mut machine, 5.1).1), seconds(30.0 * day));
}

#[test]
fn extensions_that_are_asked_for_together_add_up() {
    let mut machine = holding(LockOptions::new());
    extend(&mut machine, 5.0, 9, 60.0);
    let (request, first) = one_sent(&mut machine, 5.0);
    extend(&mut machine, 5.0, 10, 7.0);
    assert!(sent(&mut machine, 5.0).is_empty());
    let effects = answer_brings(&mut machine, 5.1, request, lease(Word::Renewed, asked(&first)));
    assert!(is_answered(&effects, 9) && outcome(&effects, 10).is_none(), "{effects:?}");
    let sent = effects
        .iter()
        .find_map(|it| if let Effect::Send { request, call } = it { Some((request, call)) } else { None });
    let (request, second) = sent.unwrap();
    let effects = answer_brings(&mut machine, 5.2, *request, lease(Word::Renewed, asked(second)));
    assert!(is_answered(&effects, 10) && prolonged(&effects).unwrap() >= at(29.849 + 67.0), "{effects:?}");
}

#[test]
fn extensions_that_are_asked_for_together_leave_30_days_at_most() {
    let day = 24.0 * 3600.0;
    let mut machine = holding(LockOptions::new());
    for question in 9..12 {
        extend(&mut machine, 5.0, question, 25.0 * day);
    }
    let effects = machine.effects(at(5.0), usize::MAX);
    for question in 10..12 {
        let outcome = outcome(&effects, question);
        assert!(
            matches!(outcome, Some(Outcome::Renewal(Ok(Renewal::TooLong { left }))) if *left > seconds(50.0 * day))
        );
    }
    let sent = effects.iter().find_map(|effect| match effect {
        Effect::Send { request, call } => Some((*request, asked(call))),
        _ => None,
    });
    let (request, asked) = sent.unwrap();
    assert!(asked < seconds(26.0 * day));
    assert!(is_answered(&answer_brings(&mut machine, 5.1, request, lease(Word::Renewed, asked)), 9));
    extend(&mut machine, 5.2, 12, 4.0 * day);
    one_sent(&mut machine, 5.2);
}

#[test]
fn renewal_that_is_switched_off_and_on_again() {
    let mut machine = holding(LockOptions::new());
    switch(&mut machine, 5.0, false);
    assert_eq!(machine.next_due(), Some(at(29.849 - 3.0)), "its end is told");
    // Asked for by a reconnect, it prolongs nothing.
    reconnect(&mut machine, 6.0, 6.0);
    let (request, call) = one_sent(&mut machine, 6.0);
    assert_eq!(asked(&call), span_until(seconds(23.849)));
    answer_brings(&mut machine, 6.0, request, lease(Word::Renewed, asked(&call)));
    switch(&mut machine, 20.0, true);
    let (request, call) = tick_sends(&mut machine, 20.0);
    assert_eq!(asked(&call), seconds(30.0), "at once: a third of it was over long ago");
    answer_brings(&mut machine, 20.0, request, lease(Word::Renewed, seconds(30.0)));
    assert_eq!(machine.next_due(), Some(at(30.0)));
}

#[test]
fn renewal_that_is_switched_on_for_a_manual_lease_comes_every_third() {
    let mut machine = holding(LockOptions::new().manual_renewal());
    switch(&mut machine, 1.0, true);
    assert_eq!(machine.next_due(), Some(at(10.0)));
    // A long notice leaves less time.
    let mut machine = holding(LockOptions::new().manual_renewal().notice(seconds(24.0)));
    switch(&mut machine, 1.0, true);
    assert_eq!(machine.next_due(), Some(at(3.0)));
}
