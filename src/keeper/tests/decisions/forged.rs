//! Messages that no script made: any user with the right to publish can send them, and they change nothing.

use super::*;
use crate::protocol::{AcquireRequest, LeaveRequest};

fn message(machine: &mut Machine, kind: PushKind, lock: &str, secret: &str) -> Vec<Effect> {
    let lock = LockKeys::new("fairlock", lock).lock.clone();
    // With a token far ahead, so that no later answer contradicts it.
    let push = push(kind, 1, 1 << 52, secret, lock);
    machine.handle(at(1.0), Event::Push(push));
    machine.effects(at(1.0), usize::MAX)
}

#[test]
fn a_grant_is_believed_if_it_names_the_lock_and_the_secret_of_the_waiter() {
    for (lock, secret, believed) in [("x", "s", true), ("x", "", false), ("x", "S", false), ("y", "s", false)] {
        let mut machine = waiting(LockOptions::new(), 1, seconds(2.0));
        let effects = message(&mut machine, PushKind::Grant, lock, secret);
        assert_eq!(granted(&effects).is_some(), believed, "{lock} {secret:?}");
        assert!(believed || effects.is_empty(), "{effects:?}");
    }
}

#[test]
fn a_lease_is_broken_by_a_message_if_it_names_the_lock_and_the_secret_of_the_holder() {
    for (lock, secret, believed) in [("x", "s", true), ("x", "", false), ("y", "s", false)] {
        let mut machine = holding(LockOptions::new());
        let (kind, key) = (PushKind::Break, LockKeys::new("fairlock", lock).lock.clone());
        let push = push(kind, 1, 7, secret, key);
        machine.handle(at(1.0), Event::Push(push));
        assert_eq!(
            lost(&machine.effects(at(1.0), usize::MAX)) == Some(&LostReason::Broken),
            believed,
            "{lock} {secret:?}"
        );
    }
}

/// A forged message may name the next acquire, and the connection may break before the release that it caused is
/// answered.
#[test]
fn a_forged_grant_of_an_id_to_come_takes_nothing_from_it() {
    let (mut machine, spec) = start(LockOptions::new());
    message(&mut machine, PushKind::Grant, "x", "s");
    disconnect(&mut machine, 1.1);
    acquire(&mut machine, 1.2, &spec, 1);
    connect(&mut machine, 1.3);
    let sent = sent(&mut machine, 1.3);
    assert!(matches!(&sent[..], [(_, Request::Acquire(AcquireRequest { .. }))]), "{sent:?}");
}

/// So may it while requests wait for room.
#[test]
fn a_forged_grant_of_an_id_to_come_that_waits_for_room_takes_nothing_from_it() {
    let (mut machine, spec) = start(LockOptions::new());
    machine.handle(at(1.0), Event::Push(push(PushKind::Grant, 1, 9, "s", LockKeys::new("fairlock", "x").lock.clone())));
    assert!(machine.effects(at(1.0), 0).is_empty());
    acquire(&mut machine, 1.1, &spec, 1);
    let sent = sent(&mut machine, 1.2);
    assert!(matches!(&sent[..], [(_, Request::Acquire(AcquireRequest { .. }))]), "{sent:?}");
}

/// A message about an id that this client no longer has may be true: the lease is given back, but not again and again.
#[test]
fn a_grant_that_nobody_waits_for_is_given_back_once() {
    let (mut machine, _) = start(LockOptions::new());
    let effects = message(&mut machine, PushKind::Grant, "z", "s");
    let [Effect::Send { request, call: Request::Leave(LeaveRequest { ids, .. }) }] = &effects[..] else {
        panic!("{effects:?}")
    };
    assert_eq!(ids[..], [wire_id(1)]);
    let refusal = crate::protocol::Refusal::Temporary("NOPERM".into());
    machine.handle(at(1.1), Event::Answered { request: *request, result: Err(refusal) });
    machine.effects(at(1.1), usize::MAX);
    assert!(machine.locks.is_empty(), "{machine:?}");
}
