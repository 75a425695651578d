//! Requests that wait for room on the connection, and those that do not.

use super::*;
use crate::error::Fault;
use crate::keeper::machine::Mode;
use crate::protocol::{Refusal, Request};

/// The number of an acquire, or what else it is.
fn kind(call: &Request) -> String {
    match call {
        Request::Acquire(acquire) => acquire.id.as_str().replace("client.", ""),
        Request::Renew(_) => "renew".into(),
        Request::Release(_) => "release".into(),
        Request::Leave(leave) => format!("leave {}", leave.ids.len()),
        Request::Heartbeat(_) => "heartbeat".into(),
        Request::Inspect(_) => "inspect".into(),
        other => panic!("{other:?}"),
    }
}

fn kinds(sent: &[(RequestId, Request)]) -> Vec<String> {
    sent.iter().map(|(_, call)| kind(call)).collect()
}

fn abandon(machine: &mut Machine, now: f64, id: u64) {
    machine.handle(at(now), Event::Command(Command::Abandon { id: Id(id) }));
}

fn other_lock(options: LockOptions) -> std::sync::Arc<crate::options::Spec> {
    options.of(LockKeys::new("fairlock", "y")).unwrap()
}

/// The whole burst of a client that holds a lease.
#[test]
fn a_renewal_and_a_release_are_sent_before_every_acquire_that_waits() {
    const BURST: u64 = 100_000;
    const ROOM: usize = 1000;
    let mut machine = holding(LockOptions::new().lease(seconds(5.0)));
    let spec = other_lock(LockOptions::new());
    for id in 2..2 + BURST {
        acquire(&mut machine, 1.0, &spec, id);
    }
    let first = sent_within(&mut machine, 1.0, ROOM);
    let numbers: Vec<String> = (2..2 + ROOM as u64).map(|id| id.to_string()).collect();
    assert_eq!(kinds(&first), numbers, "so many as there is room for, in the order of the calls");
    assert!(machine.has_unsent());

    // The renewal is due. There is no room, and then there is.
    tick(&mut machine, 1.7);
    assert_eq!(kinds(&sent_within(&mut machine, 1.7, 0)), ["renew"]);
    let mut machine_with_room = machine.clone();
    machine.handle(at(1.8), Event::Command(Command::GiveBack { id: Id(1) }));
    assert_eq!(kinds(&sent_within(&mut machine, 1.8, 0)), ["release"]);
    machine_with_room.handle(at(1.8), Event::Command(Command::GiveBack { id: Id(1) }));
    assert_eq!(kinds(&sent_within(&mut machine_with_room, 1.8, 2)), ["release", "1002", "1003"]);
}

#[test]
fn an_acquire_that_is_given_up_before_it_was_sent_leaves_no_trace() {
    let (mut machine, spec) = start(LockOptions::new());
    (1..=4).for_each(|id| acquire(&mut machine, 0.0, &spec, id));
    assert_eq!(kinds(&sent_within(&mut machine, 0.0, 1)), ["1"]);
    abandon(&mut machine, 0.1, 2);
    abandon(&mut machine, 0.1, 3);
    assert_eq!(machine.releases().count(), 0, "nothing is to be given back");
    assert_eq!(kinds(&sent(&mut machine, 0.1)), ["4"]);
    // One that was sent leaves.
    abandon(&mut machine, 0.2, 1);
    assert_eq!(kinds(&sent(&mut machine, 0.2)), ["leave 1"]);
    assert_eq!(machine.adds_up(), Ok(()));
}

#[test]
fn a_leave_is_sent_before_the_acquires_that_were_called_later() {
    let (mut machine, spec) = start(LockOptions::new());
    acquire(&mut machine, 0.0, &spec, 1);
    assert_eq!(kinds(&sent(&mut machine, 0.0)), ["1"]);
    abandon(&mut machine, 0.1, 1);
    acquire_in(&mut machine, 0.1, &spec, 2, Mode::Try, None);
    assert_eq!(kinds(&sent(&mut machine, 0.1)), ["leave 1", "2"]);
}

/// The answer with the grant, the word that nobody awaits it, and a try come together.
#[test]
fn a_grant_that_nobody_awaits_is_released_before_a_try_that_was_called_later() {
    let (mut machine, spec) = start(LockOptions::new());
    let (request, _) = acquire_sends(&mut machine, 0.0, &spec, 1);
    answer(&mut machine, 0.1, request, lease(Word::Granted, spec.lease));
    abandon(&mut machine, 0.1, 1);
    acquire_in(&mut machine, 0.1, &spec, 2, Mode::Try, None);
    let effects = machine.effects(at(0.1), 0);
    assert!(granted(&effects).is_some(), "{effects:?}");
    // As the loop does with a grant that has no caller.
    machine.handle(at(0.1), Event::Command(Command::GiveBack { id: Id(1) }));
    assert_eq!(kinds(&sent(&mut machine, 0.1)), ["release", "2"]);
}

#[test]
fn a_lock_that_its_own_client_is_giving_back_is_asked_for_again() {
    for (options, mode) in [(LockOptions::new(), Mode::Try), (LockOptions::new().max_waiting(0), Mode::Wait)] {
        let mut machine = holding(options.clone());
        let spec = options.of(LockKeys::new("fairlock", "x")).unwrap();
        acquire_in(&mut machine, 1.0, &spec, 2, mode, None);
        let (overtakes, _) = one_sent(&mut machine, 1.0);
        machine.handle(at(1.0), Event::Command(Command::GiveBack { id: Id(1) }));
        let (release, _) = one_sent(&mut machine, 1.0);
        let busy = || lease(Word::Busy, seconds(29.0));
        let effects = answer_brings(&mut machine, 1.1, overtakes, busy());
        assert!(not_granted(&effects).is_none(), "{effects:?}");
        let again = effects.iter().find_map(|effect| match effect {
            Effect::Send { request, call: Request::Acquire(_) } => Some(*request),
            _ => None,
        });
        // A release that the server refuses does not make it ask in circles.
        fail(&mut machine, 1.2, release, Refusal::Temporary("LOADING".into()));
        let effects = answer_brings(&mut machine, 1.2, again.unwrap(), busy());
        assert!(not_granted(&effects).is_some(), "{effects:?}");
    }
}

#[test]
fn waiters_that_return_are_sent_before_newcomers() {
    let (mut machine, none) = many_return(3, 0);
    assert!(none.is_empty());
    let spec = other_lock(LockOptions::new());
    acquire(&mut machine, 3.6, &spec, 4);
    // One of them is gone by now.
    abandon(&mut machine, 3.6, 2);
    assert_eq!(kinds(&sent(&mut machine, 3.6)), ["leave 1", "1", "3", "4"]);
    assert_eq!(machine.adds_up(), Ok(()));
}

#[test]
fn a_question_does_not_wait_for_acquires_and_one_for_a_position_is_answered_by_one() {
    let (mut machine, none) = many_return(2, 0);
    assert!(none.is_empty());
    ask(&mut machine, 3.6, 8, Question::Position { id: Id(2) });
    let keys = LockKeys::new("fairlock", "x");
    ask(&mut machine, 3.6, 9, inspecting(&keys.into(), 1));
    let sent_now = sent(&mut machine, 3.6);
    assert_eq!(kinds(&sent_now), ["inspect", "1", "2"]);
    for (request, _) in &sent_now[1..] {
        answer(&mut machine, 3.7, *request, queued(3, seconds(30.0)));
    }
    let effects = machine.effects(at(3.7), usize::MAX);
    assert!(matches!(outcome(&effects, 8), Some(Outcome::Position(Ok(4)))), "{effects:?}");
}

#[test]
fn an_acquire_that_waits_for_room_ends_with_its_timeout_and_says_why() {
    let (mut machine, spec) = start(LockOptions::new());
    acquire(&mut machine, 0.0, &spec, 1);
    acquire_in(&mut machine, 0.0, &spec, 2, Mode::Wait, Some(seconds(0.1)));
    acquire_in(&mut machine, 0.0, &spec, 3, Mode::Try, None);
    assert_eq!(kinds(&sent_within(&mut machine, 0.0, 1)), ["1"]);
    tick(&mut machine, 0.1);
    let effects = machine.effects(at(0.1), 0);
    let Some(NotGranted::Timeout { cause: Some(cause), position: None, .. }) = not_granted(&effects) else {
        panic!("{effects:?}")
    };
    assert!(cause.contains("earlier requests"), "{cause}");
    // Nothing was sent of it, so nothing is given back.
    assert_eq!(machine.releases().count(), 0);
    // The server that is silent is given up before.
    tick(&mut machine, 3.34);
    machine.effects(at(3.34), 0);
    tick(&mut machine, 3.4);
    assert!(reconnects(&machine.effects(at(3.4), 0)));
    connect(&mut machine, 3.5);
    assert_eq!(kinds(&sent_within(&mut machine, 3.5, 1)), ["1"], "all that waits is asked again, once");
    tick(&mut machine, 5.0);
    let effects = machine.effects(at(5.0), 0);
    assert!(matches!(not_granted(&effects), Some(NotGranted::Fault(Fault::Unavailable { .. }))), "{effects:?}");
    assert_eq!(machine.adds_up(), Ok(()));
}

/// The process did not run from before the question for its position until after the timeout.
#[test]
fn a_timeout_after_a_pause_of_the_process_does_not_blame_the_server() {
    let (mut machine, spec) = start(LockOptions::new());
    acquire_in(&mut machine, 0.0, &spec, 1, Mode::Wait, Some(seconds(0.7)));
    let (request, _) = one_sent(&mut machine, 0.0);
    answer_brings(&mut machine, 0.1, request, queued(4, seconds(60.0)));
    let effects = tick_brings(&mut machine, 0.9);
    let Some(NotGranted::Timeout { cause, .. }) = not_granted(&effects) else { panic!("{effects:?}") };
    assert_eq!(*cause, None);
}

#[test]
fn leaves_wait_for_room_and_one_that_waits_is_not_sent_twice() {
    let (mut machine, spec) = start(LockOptions::new());
    (1..=30).for_each(|id| acquire(&mut machine, 0.0, &spec, id));
    assert_eq!(sent(&mut machine, 0.0).len(), 30);
    (1..=30).for_each(|id| abandon(&mut machine, 0.1, id));
    assert_eq!(kinds(&sent_within(&mut machine, 0.1, 0)), [""; 0]);
    assert_eq!(kinds(&sent_within(&mut machine, 0.1, 1)), ["leave 20"]);
    reconnect(&mut machine, 0.2, 0.3);
    assert_eq!(kinds(&sent(&mut machine, 0.3)), ["leave 20", "leave 10"]);
    assert!(!machine.has_unsent());
}
