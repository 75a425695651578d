//! Several leases of one lock, and writers that become readers.

use super::*;
use crate::error::Fault;
use crate::inspect::READERS;
use crate::protocol::{AcquireRequest, Refusal, ReleaseRequest, RenewRequest};

/// Releases in what is sent: of which ids, and with which seats.
fn released(effects: &[Effect]) -> Vec<(WireId, Seat)> {
    let release = |effect: &Effect| match effect {
        Effect::Send { call: Request::Release(ReleaseRequest { id, seat, .. }), .. } => Some((id.clone(), *seat)),
        _ => None,
    };
    effects.iter().filter_map(release).collect()
}

fn grants(effects: &[Effect]) -> Vec<(u64, u64, u16)> {
    let grant = |effect: &Effect| match effect {
        Effect::Granted { id, token, slot, .. } => Some((id.0, token.get(), *slot)),
        _ => None,
    };
    effects.iter().filter_map(grant).collect()
}

/// A machine that holds slot 0 as number 1, and waits as numbers 2 to 4.
fn holding_and_waiting() -> Machine {
    let mut machine = holding(LockOptions::new().slots(3));
    let spec = start(LockOptions::new().slots(3)).1;
    for id in 2..5 {
        let (request, call) = acquire_sends(&mut machine, 1.0, &spec, id);
        assert!(matches!(call, Request::Acquire(AcquireRequest { most: 3, .. })), "{call:?}");
        answer_brings(&mut machine, 1.1, request, Answer { ticket: 6 + id, ..queued(id - 2, seconds(29.0)) });
    }
    machine
}

#[test]
fn each_lease_that_an_answer_names_goes_where_it_belongs() {
    let mut machine = holding_and_waiting();
    let (heartbeat, _) = tick_sends(&mut machine, 4.4);
    let claim = |id, token, slot| OwnLease { claim: true, slot, most: 3, ..own(id, token, 7) };
    // Its own lease, a claim of the second waiter, and two that nobody here knows.
    let named = vec![claim(40, 21, 1), own(1, 7, 7), claim(3, 22, 2), claim(41, 23, 3)];
    let effects =
        answer_brings(&mut machine, 4.5, heartbeat, Answer { own: named, stamp: 23, ..alive(0, seconds(9.0)) });
    assert_eq!(grants(&effects), [(3, 22, 2)]);
    assert_eq!(released(&effects), [(wire_id(40), Seat::NONE), (wire_id(41), Seat::NONE)]);
    assert!(machine.lease(Id(1)).is_some() && lost(&effects).is_none());
}

#[test]
fn a_lease_under_a_later_token_takes_nothing_from_another_slot() {
    let mut machine = holding_and_waiting();
    grant_brings(&mut machine, 2.0, 2, 20);
    let (request, _) = tick_sends(&mut machine, 2.1);
    // Its confirmation names the lease of slot 0, too, and tells of a token above it.
    let mut confirmed = Answer { stamp: 30, most: 3, ..lease(Word::Renewed, seconds(30.0)) };
    confirmed.own = vec![own(1, 7, 7)];
    assert!(
        answer_brings(&mut machine, 2.2, request, confirmed).iter().all(|it| matches!(it, Effect::Prolonged { .. }))
    );
    assert!([1, 2].into_iter().all(|id| machine.lease(Id(id)).is_some()));
    // Under another token it is from before a loss: the server hears of the one that is held.
    let (heartbeat, _) = tick_sends(&mut machine, 4.4);
    let named = vec![own(1, 29, 7), own(2, 20, 6)];
    let effects =
        answer_brings(&mut machine, 4.5, heartbeat, Answer { own: named, stamp: 30, ..alive(0, seconds(9.0)) });
    let renewed =
        |(_, call): &(RequestId, Request)| matches!(call, Request::Renew(RenewRequest { id, .. }) if *id == wire_id(1));
    let sent = calls(effects);
    assert!(sent.len() == 1 && sent.iter().all(renewed), "{sent:?}");
}

#[test]
fn grants_of_one_script_are_handed_out_without_asking() {
    let script = |id: u64, token| {
        let lock = LockKeys::new("fairlock", "x").lock.clone();
        Push { known: told(5, 22), slot: id as u16 - 1, ..push(PushKind::Grant, id, token, "s", lock) }
    };
    let hear = |machine: &mut Machine, now, push| {
        machine.handle(at(now), Event::Push(push));
        grants(&machine.effects(at(now), usize::MAX))
    };
    let mut machine = holding_and_waiting();
    assert_eq!(hear(&mut machine, 2.0, script(3, 22)), [(3, 22, 2)]);
    assert_eq!(hear(&mut machine, 2.0, script(2, 21)), [(2, 21, 1)], "it came in the same script");
    let late = Push { known: told(5, 19), ..script(4, 19) };
    assert_eq!(hear(&mut machine, 2.0, late), [], "that was before");

    // A reply counts a claim from a request that came after the script, maybe.
    let mut machine = holding_and_waiting();
    assert_eq!(hear(&mut machine, 2.0, script(3, 22)), [(3, 22, 2)]);
    let (renewal, _) = tick_sends(&mut machine, 2.1);
    answer_brings(&mut machine, 2.2, renewal, Answer { stamp: 22, most: 3, ..lease(Word::Renewed, seconds(30.0)) });
    assert_eq!(hear(&mut machine, 2.3, script(2, 21)), []);
}

#[test]
fn a_busy_lock_of_which_this_client_gives_a_lease_back_is_asked_for_again() {
    let mut machine = holding(LockOptions::new().slots(2));
    let spec = start(LockOptions::new().slots(2)).1;
    let (second, _) = acquire_sends(&mut machine, 0.5, &spec, 3);
    answer_brings(&mut machine, 0.6, second, Answer { granted_token: 8, stamp: 8, ..lease(Word::Granted, spec.lease) });
    acquire_in(&mut machine, 1.0, &spec, 2, Mode::Try, None);
    let (request, _) = one_sent(&mut machine, 1.0);
    ask_sends(&mut machine, 1.0, 9, Question::Release { id: Id(1) });
    let effects = answer_brings(&mut machine, 1.1, request, lease(Word::Busy, seconds(29.0)));
    assert!(not_granted(&effects).is_none());
    let (again, _) = calls(effects).into_iter().find(|(_, call)| matches!(call, Request::Acquire(_))).unwrap();
    // It asks again once: others of its client may take slots and give them back for ever.
    ask_sends(&mut machine, 1.2, 10, Question::Release { id: Id(3) });
    let effects = answer_brings(&mut machine, 1.3, again, lease(Word::Busy, seconds(29.0)));
    assert!(not_granted(&effects).is_some(), "{effects:?}");
}

// ---- downgrades ----

const DOWNGRADE: Question = Question::Downgrade { id: Id(1) };

fn most(call: &Request) -> u16 {
    let Request::Renew(RenewRequest { most, .. }) = call else { panic!("{call:?}") };
    *most
}

fn renewed(most: u16) -> Answer {
    Answer { most, ..lease(Word::Renewed, seconds(30.0)) }
}

fn outcome_is(effects: &[Effect], question: u64, expected: &Renewal) -> bool {
    matches!(outcome(effects, question), Some(Outcome::Renewal(Ok(renewal))) if renewal == expected)
}

#[test]
fn a_writer_becomes_a_reader_once_the_server_says_so() {
    let mut machine = holding(LockOptions::new());
    let (renewal, call) = tick_sends(&mut machine, 10.0);
    assert_eq!(most(&call), 1);
    ask(&mut machine, 10.1, 9, DOWNGRADE);
    ask(&mut machine, 10.1, 10, Question::Renew { id: Id(1), extend: None });
    assert!(sent(&mut machine, 10.1).is_empty(), "one renewal at a time");
    // The renewal from before was of a writer, and is all that the other question needs.
    let effects = answer_brings(&mut machine, 10.2, renewal, renewed(1));
    assert!(outcome(&effects, 9).is_none() && outcome_is(&effects, 10, &Renewal::Renewed), "{effects:?}");
    let (renewal, call) = calls(effects).remove(0);
    assert_eq!(most(&call), READERS);
    let effects = answer_brings(&mut machine, 10.3, renewal, renewed(READERS));
    assert!(outcome_is(&effects, 9, &Renewal::Renewed), "{effects:?}");
    assert!(!effects.iter().any(|effect| matches!(effect, Effect::Granted { .. } | Effect::Forgotten { .. })));
    // It stays so, and another one changes nothing.
    let (renewal, call) = ask_sends(&mut machine, 11.0, 11, DOWNGRADE);
    assert_eq!(most(&call), READERS);
    assert!(outcome_is(&answer_brings(&mut machine, 11.1, renewal, renewed(READERS)), 11, &Renewal::Renewed));
    assert_eq!(most(&tick_sends(&mut machine, 21.0).1), READERS);
}

/// If it failed while it may yet be executed, the caller would not know what it is.
#[test]
fn a_downgrade_has_no_answer_before_the_server_or_the_end_of_the_lease_gives_one() {
    let mut machine = holding(LockOptions::new());
    ask_sends(&mut machine, 1.0, 9, DOWNGRADE);
    disconnect(&mut machine, 2.0);
    for second in 3..20 {
        assert!(outcome(&tick_brings(&mut machine, f64::from(second)), 9).is_none(), "{second}");
    }
    connect(&mut machine, 20.0);
    let (renewal, call) = one_sent(&mut machine, 20.0);
    assert_eq!(most(&call), READERS);
    let refusal = Refusal::Temporary("OOM".into());
    fail(&mut machine, 20.1, renewal, refusal);
    assert!(outcome(&machine.effects(at(20.1), usize::MAX), 9).is_none());
    assert_eq!(most(&tick_sends(&mut machine, 21.2).1), READERS);
    disconnect(&mut machine, 21.3);
    let effects = tick_brings(&mut machine, 26.849);
    assert!(matches!(lost(&effects), Some(LostReason::NotRenewed { .. })), "{effects:?}");
    assert!(matches!(outcome(&effects, 9), Some(Outcome::Renewal(Ok(Renewal::Lost(_))))), "{effects:?}");
}

#[test]
fn a_lease_that_is_over_is_not_downgraded() {
    let mut machine = holding(LockOptions::new());
    pushed(&mut machine, 1.0, PushKind::Break, 1, 7);
    machine.effects(at(1.0), usize::MAX);
    let ended = Renewal::Lost(LostReason::Ended);
    assert!(outcome_is(&ask_brings(&mut machine, 1.1, 9, DOWNGRADE), 9, &ended));
    assert!(outcome_is(&ask_brings(&mut machine, 1.2, 10, Question::Downgrade { id: Id(2) }), 10, &ended));
    ask_brings(&mut machine, 1.3, 11, Question::Close);
    let effects = ask_brings(&mut machine, 1.4, 12, DOWNGRADE);
    assert!(matches!(outcome(&effects, 12), Some(Outcome::Renewal(Err(Fault::Closed)))), "{effects:?}");
}

/// Its seat says that nobody else holds the lock. A server that has lost its data would believe it.
#[test]
fn a_release_after_a_downgrade_that_was_not_answered_has_no_seat() {
    let give_back = |machine: &mut Machine, now| {
        machine.handle(at(now), Event::Command(Command::GiveBack { id: Id(1) }));
        released(&machine.effects(at(now), usize::MAX)).remove(0).1
    };
    let mut machine = holding(LockOptions::new());
    let (renewal, _) = ask_sends(&mut machine, 1.0, 9, DOWNGRADE);
    let mut answered = machine.clone();
    answer_brings(&mut answered, 1.1, renewal, renewed(READERS));
    assert_eq!(give_back(&mut answered, 2.0), seat(5, 7, 7));
    let mut cut_off = machine.clone();
    reconnect(&mut cut_off, 1.1, 1.2);
    cut_off.effects(at(1.2), usize::MAX);
    assert_eq!(give_back(&mut cut_off, 2.0), Seat::NONE);
    assert_eq!(give_back(&mut machine, 2.0), Seat::NONE);
}
