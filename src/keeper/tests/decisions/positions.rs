//! Questions for a waiter's position: each is answered by the next answer to its acquire, which is sent for that if it
//! waits in the queue.

use super::*;
use crate::error::Fault;
use crate::keeper::machine::Mode;
use crate::options::LockOptions;
use crate::protocol::{AcquireRequest, Refusal, Request};

const QUESTION: Question = Question::Position { id: Id(1) };

fn position(effects: &[Effect]) -> Option<Result<u64, String>> {
    match outcome(effects, 9)? {
        Outcome::Position(position) => Some(position.clone().map_err(|fault| format!("{fault:?}"))),
        other => panic!("{other:?}"),
    }
}

/// The acquires that this time brings, and all effects.
fn due(machine: &mut Machine) -> Vec<(RequestId, Request)> {
    let due = machine.next_due().unwrap();
    machine.handle(due, Event::Tick);
    let sent = calls(machine.effects(due, usize::MAX));
    sent.into_iter().filter(|(_, call)| matches!(call, Request::Acquire(AcquireRequest { .. }))).collect()
}

#[test]
fn a_question_that_is_refused_is_asked_again_right_after_the_place_was_heard_too() {
    let mut machine = waiting(LockOptions::new(), 4, seconds(60.0));
    let (request, _) = ask_sends(&mut machine, 0.11, 9, QUESTION);
    fail(&mut machine, 0.12, request, Refusal::Temporary("LOADING".into()));
    let again = due(&mut machine);
    assert_eq!(again.len(), 1, "{again:?}");
    assert_eq!(position(&answer_brings(&mut machine, 0.2, again[0].0, queued(3, seconds(60.0)))), Some(Ok(4)));
}

#[test]
fn a_question_that_is_refused_for_good_is_not_repeated_and_costs_no_place() {
    let mut machine = waiting(LockOptions::new(), 4, seconds(60.0));
    let (request, _) = ask_sends(&mut machine, 1.0, 9, QUESTION);
    fail(&mut machine, 1.1, request, Refusal::Denied("NOPERM".into()));
    assert!(position(&machine.effects(at(1.1), usize::MAX)).is_some_and(|position| position.is_err()));
    while machine.next_due().unwrap() < at(3.4) {
        assert_eq!(due(&mut machine).len(), 0, "its heartbeat comes next");
    }
}

/// The answer to a question tells a waiter of a loss, and the question of another one is on its way.
#[test]
fn a_waiter_whose_question_is_refused_returns_after_a_loss() {
    let (mut machine, spec) = start(LockOptions::new());
    (1..=2).for_each(|id| acquire(&mut machine, 0.0, &spec, id));
    for (index, (request, _)) in sent(&mut machine, 0.0).into_iter().enumerate() {
        answer(&mut machine, 0.1, request, Answer { ticket: 10 + index as u64, ..queued(9, seconds(30.0)) });
    }
    let (other, _) = ask_sends(&mut machine, 1.0, 8, Question::Position { id: Id(2) });
    let (request, _) = ask_sends(&mut machine, 1.0, 9, QUESTION);
    answer(&mut machine, 1.1, other, Answer { epoch: 6, stamp: 9, ticket: 11, ..queued(1, seconds(30.0)) });
    fail(&mut machine, 1.1, request, Refusal::Denied("NOPERM".into()));
    machine.effects(at(1.1), usize::MAX);
    assert_eq!(due(&mut machine).len(), 1, "it takes its place again");
}

#[test]
fn a_waiter_that_has_heard_of_its_grant_has_position_0() {
    let options = LockOptions::new().confirm_grants();
    let mut machine = waiting(options.clone(), 4, seconds(60.0));
    grant_brings(&mut machine, 1.0, 1, 9);
    assert_eq!(position(&ask_brings(&mut machine, 1.1, 9, QUESTION)), Some(Ok(0)));

    let mut machine = waiting(options, 4, seconds(60.0));
    ask_brings(&mut machine, 1.0, 9, QUESTION);
    assert_eq!(position(&grant_brings(&mut machine, 1.1, 1, 9)), Some(Ok(0)));
}

#[test]
fn a_closed_client_does_not_say_that_its_waiters_have_the_lock() {
    let mut machine = waiting(LockOptions::new(), 4, seconds(60.0));
    ask_brings(&mut machine, 1.0, 9, QUESTION);
    let effects = ask_brings(&mut machine, 1.1, 10, Question::Close);
    assert!(matches!(outcome(&effects, 9), Some(Outcome::Position(Err(Fault::Closed)))), "{effects:?}");
}

#[test]
fn a_position_that_a_timeout_is_to_tell_is_asked_for_again_after_an_outage() {
    let (mut machine, spec) = start(LockOptions::new());
    acquire_in(&mut machine, 0.0, &spec, 1, Mode::Wait, Some(seconds(2.0)));
    let (request, _) = one_sent(&mut machine, 0.0);
    answer(&mut machine, 0.1, request, queued(4, seconds(60.0)));
    machine.effects(at(0.1), usize::MAX);
    assert_eq!((machine.next_due(), due(&mut machine).len()), (Some(at(1.75)), 1));
    reconnect(&mut machine, 1.76, 1.8);
    let sent = sent(&mut machine, 1.8);
    assert!(matches!(sent[..], [(_, Request::Heartbeat(_)), (_, Request::Acquire(_))]), "{sent:?}");
}
