//! A server that cannot be used: which callers hear of it at once, and which wait for an operator to fix it.

use super::*;
use crate::error::{ConnectError, Fault};
use crate::keeper::machine::Mode;
use crate::protocol::{HeartbeatRequest, Refusal};

fn deny(machine: &mut Machine, now: f64, error: &ConnectError) {
    machine.handle(at(now), Event::Disconnected { cause: error.to_string().into() });
    machine.handle(at(now), Event::Unusable { error: error.clone() });
}

fn login() -> ConnectError {
    ConnectError::Authentication { address: "a".into(), cause: "WRONGPASS".into() }
}

fn no_database() -> ConnectError {
    ConnectError::Database { address: "a".into(), cause: "ERR DB index is out of range".into() }
}

fn hears(effects: &[Effect], id: Id, error: &ConnectError) -> bool {
    let hears = |effect: &Effect| match effect {
        Effect::NotGranted { id: refused, why: NotGranted::Fault(Fault::Connect(cause)) } => {
            *refused == id && cause == error
        }
        _ => false,
    };
    effects.iter().any(hears)
}

#[test]
fn an_acquire_and_a_call_fail_at_once_where_the_server_cannot_be_used() {
    let spec = start(LockOptions::new()).1;
    for error in [login(), no_database()] {
        let mut machine = machine();
        for (id, mode) in [(1, Mode::Wait), (2, Mode::Enqueue), (3, Mode::Try)] {
            acquire_in(&mut machine, 0.0, &spec, id, mode, Some(seconds(60.0)));
        }
        ask(&mut machine, 0.0, 9, inspecting(&spec.keys, 1));
        deny(&mut machine, 0.1, &error);
        let effects = machine.effects(at(0.1), usize::MAX);
        assert!((1..=3).all(|id| hears(&effects, Id(id), &error)), "{effects:?}");
        assert!(matches!(outcome(&effects, 9), Some(Outcome::Operator(Err(Fault::Connect(_))))), "{effects:?}");
        assert!(machine.next_due().is_none() && machine.gives_back_until().is_none(), "something is left");
    }
}

#[test]
fn a_waiter_keeps_its_place_while_its_user_is_disabled() {
    let mut machine = waiting(LockOptions::new(), 3, seconds(60.0));
    deny(&mut machine, 0.2, &login());
    let effects = machine.effects(at(0.2), usize::MAX);
    assert!(not_granted(&effects).is_none(), "{effects:?}");
    assert_eq!(machine.trouble("x").as_deref(), Some(login().to_string().as_str()));

    // It is still in the queue, and there is no trouble any more.
    connect(&mut machine, 0.3);
    let (request, call) = one_sent(&mut machine, 0.3);
    assert!(matches!(&call, Request::Heartbeat(HeartbeatRequest { ids, .. }) if ids[..] == [wire_id(1)]), "{call:?}");
    answer(&mut machine, 0.4, request, alive(3, seconds(60.0)));
    assert_eq!(machine.trouble("x"), None);
}

#[test]
fn a_waiter_hears_at_once_that_its_server_is_another_kind_of_server_now() {
    let mut machine = waiting(LockOptions::new(), 3, seconds(60.0));
    deny(&mut machine, 0.2, &no_database());
    let effects = machine.effects(at(0.2), usize::MAX);
    assert!(hears(&effects, Id(1), &no_database()), "{effects:?}");
}

#[test]
fn a_missing_right_fails_an_acquire_and_not_a_waiter() {
    fails_an_acquire_and_not_a_waiter(&Refusal::Denied("NOPERM".into()));
}

#[test]
fn reply_to_another_request_fails_an_acquire_and_not_a_waiter() {
    fails_an_acquire_and_not_a_waiter(&Refusal::OutOfStep("alive".into()));
}

fn fails_an_acquire_and_not_a_waiter(refusal: &Refusal) {
    let (mut machine, spec) = start(LockOptions::new());
    let (request, _) = acquire_sends(&mut machine, 0.0, &spec, 1);
    fail(&mut machine, 0.1, request, refusal.clone());
    let effects = machine.effects(at(0.1), usize::MAX);
    assert!(matches!(not_granted(&effects), Some(NotGranted::Fault(Fault::Refused { .. }))), "{effects:?}");

    let mut machine = waiting(LockOptions::new(), 3, seconds(60.0));
    let heartbeat = machine.next_due().unwrap();
    machine.handle(heartbeat, Event::Tick);
    let effects = machine.effects(heartbeat, usize::MAX);
    let Some(Effect::Send { request, .. }) = effects.first() else { panic!("{effects:?}") };
    machine.handle(heartbeat, Event::Answered { request: *request, result: Err(refusal.clone()) });
    let effects = machine.effects(heartbeat, usize::MAX);
    assert!(not_granted(&effects).is_none(), "{effects:?}");
    assert!(machine.next_due().unwrap() < heartbeat + seconds(1.0), "it asks again soon");
}

#[test]
fn a_missing_right_fails_a_question_at_once() {
    let (mut machine, spec) = start(LockOptions::new());
    let (request, _) = ask_sends(&mut machine, 0.0, 9, inspecting(&spec.keys, 10));
    fail(&mut machine, 0.1, request, Refusal::Denied("NOPERM".into()));
    let effects = machine.effects(at(0.1), usize::MAX);
    assert!(matches!(outcome(&effects, 9), Some(Outcome::Operator(Err(Fault::Refused { .. })))), "{effects:?}");
}
