//! Acquires over the direct connection, and leases that the machine takes over from it.

use std::sync::Arc;

use super::*;
use crate::options::Spec;
use crate::protocol::{
    About, AcquireRequest, AcquireVerdict, ClientId, LeaveRequest, Memory, ReleaseRequest, ReleaseVerdict,
    RenewRequest, Reply, Verdict,
};

fn of(spec: &Arc<Spec>) -> DirectAcquire {
    let about = About { secret: Secret::repeated("s"), label: "l".into(), owner: "o".into() };
    DirectAcquire { id: Id::direct(0), spec: spec.clone(), about }
}

/// The reply to an acquire that is granted with so much left.
fn reply(left: Duration) -> Reply {
    let id = WireId::new(&ClientId::new("client").unwrap(), Id::direct(0));
    let own = Some(OwnLease { id, ..own(0, 7, 7) });
    let common = Answer { epoch: 5, stamp: 7, own, lease_left: left, ..Answer::default() }.common();
    Reply { common, verdict: Verdict::Acquire(AcquireVerdict::Granted) }
}

/// A lease that was granted at 0.
fn direct_lease(spec: &Arc<Spec>, state: LeaseState) -> DirectLease {
    match heard(spec, 0.0, 0.0, &reply(spec.lease)) {
        Heard::Granted(mut lease) => {
            lease.state = state;
            lease
        }
        other => panic!("{other:?}"),
    }
}

fn heard(spec: &Arc<Spec>, now: f64, sent: f64, reply: &Reply) -> Heard {
    of(spec).heard(&ClientId::new("client").unwrap(), at(now), at(sent), reply)
}

fn adopt(machine: &mut Machine, now: f64, lease: DirectLease) {
    machine.handle(at(now), Event::Command(Command::Adopt(lease)));
}

#[test]
fn the_deadline_of_a_direct_lease_counts_from_before_its_request() {
    let (_, spec) = start(LockOptions::new());
    let Heard::Granted(lease) = heard(&spec, 2.0, 1.0, &reply(spec.lease)) else { panic!("not granted") };
    assert_eq!((lease.term.deadline(), lease.granted), (at(30.849), at(2.0)));
}

#[test]
fn a_direct_grant_of_which_little_is_left_goes_back() {
    let (_, spec) = start(LockOptions::new());
    // Its holder is to be told 3 s before 29.849, and its keeper may come 5 s after it was granted.
    for (left, now, fine) in
        [(30.0, 1.0, true), (30.0, 21.8, true), (30.0, 21.9, false), (1.1, 1.0, false), (0.0, 1.0, false)]
    {
        let heard = heard(&spec, now, 0.0, &reply(seconds(left)));
        assert_eq!(matches!(heard, Heard::Granted(_)), fine, "{left}, {now}: {heard:?}");
        assert!(fine || matches!(heard, Heard::Unclear));
    }
}

#[test]
fn a_direct_acquire_is_the_try_of_a_client_that_knows_nothing_of_the_lock() {
    let (machine, spec) = start(LockOptions::new());
    let call = of(&spec).request(&machine.core.client, at(0.0)).unwrap();
    let Request::Acquire(AcquireRequest { room, heartbeat, memory, seat, .. }) = call else { panic!("{call:?}") };
    assert_eq!((room, heartbeat, memory, seat), (0, spec.liveness / 3, Memory::NONE, Seat::NONE));
}

/// The keeper asks again if the script stopped at its batch limit, or if this client's own lease is on its way back.
#[test]
fn an_answer_that_the_lock_is_busy_says_whether_to_ask_again() {
    let (_, spec) = start(LockOptions::new());
    let mine = || Some(own(1, 7, 6));
    for (again, own, asks) in [(false, None, false), (true, None, true), (false, mine(), true), (true, mine(), true)] {
        let common = Answer { waiting: 3, again, own, ..Answer::default() }.common();
        let reply = Reply { common, verdict: Verdict::Acquire(AcquireVerdict::Busy(None)) };
        match heard(&spec, 1.0, 0.0, &reply) {
            Heard::Busy(None) => assert!(asks),
            Heard::Busy(Some(NotGranted::Busy { waiting: 3, .. })) => assert!(!asks),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn the_answer_to_a_direct_release_is_understood_unless_there_is_more_to_do() {
    let (machine, spec) = start(LockOptions::new());
    let lease = direct_lease(&spec, LeaseState::Held);
    for (verdict, means) in [
        (ReleaseVerdict::Released, "Some(Released)"),
        (ReleaseVerdict::Expired, "Some(Lost(Ended))"),
        (ReleaseVerdict::Unknown, "Some(Lost(Ended))"),
    ] {
        let reply = |again| Reply {
            common: Answer { again, ..Answer::default() }.common(),
            verdict: Verdict::Release(verdict),
        };
        let released = |again| lease.released(&machine.core.client, at(1.0), &reply(again));
        assert_eq!(format!("{:?}", released(false)), means);
        assert!(released(true).is_none());
    }
}

#[test]
fn a_lease_that_is_taken_over_is_asked_about_at_once_and_renewed_in_time() {
    let (mut machine, spec) = start(LockOptions::new());
    adopt(&mut machine, 1.0, direct_lease(&spec, LeaseState::Held));
    let (request, call) = one_sent(&mut machine, 1.0);
    let Request::Renew(RenewRequest { id, seat: its, memory: told, lease: whole, .. }) = &call else {
        panic!("{call:?}")
    };
    assert_eq!((id.number_at(&machine.core.client), *whole), (Some(Id::direct(0)), spec.lease));
    assert_eq!((*its, *told), (seat(5, 7, 7), memory(5, 7)));
    answer(&mut machine, 1.1, request, lease(Word::Renewed, spec.lease));
    machine.effects(at(1.1), usize::MAX);
    assert_eq!(machine.next_due(), Some(at(11.0)));
    tick(&mut machine, 11.0);
    assert!(matches!(one_sent(&mut machine, 11.0).1, Request::Renew(_)));
}

/// The task to which it was granted may never be polled again.
#[test]
fn a_direct_lease_that_is_not_taken_within_its_time_is_asked_about() {
    let (mut machine, spec) = start(LockOptions::new());
    adopt(&mut machine, 1.0, direct_lease(&spec, LeaseState::Held));
    for now in [1.0, 11.0, 21.0] {
        tick(&mut machine, now);
        let (request, _) = one_sent(&mut machine, now);
        answer(&mut machine, now, request, lease(Word::Renewed, spec.lease));
        machine.effects(at(now), usize::MAX);
    }
    tick(&mut machine, 30.0);
    let effects = machine.effects(at(30.0), usize::MAX);
    assert!(matches!(effects[..], [Effect::CheckTaken { id }] if id == Id::direct(0)), "{effects:?}");
}

#[test]
fn a_lease_that_is_taken_over_too_late_is_lost() {
    let (mut machine, spec) = start(LockOptions::new());
    disconnect(&mut machine, 0.1);
    adopt(&mut machine, 27.0, direct_lease(&spec, LeaseState::Held));
    let effects = machine.effects(at(27.0), usize::MAX);
    assert!(matches!(lost(&effects), Some(LostReason::NotRenewed { .. })), "{effects:?}");
}

#[test]
fn a_closed_machine_gives_back_a_lease_that_comes_to_it() {
    let (mut machine, spec) = start(LockOptions::new());
    machine.handle(at(0.0), Event::Command(Command::Close { question: QuestionId(1) }));
    machine.effects(at(0.0), usize::MAX);
    adopt(&mut machine, 0.1, direct_lease(&spec, LeaseState::Held));
    let effects = machine.effects(at(0.1), usize::MAX);
    assert_eq!(lost(&effects), Some(&LostReason::Closed));
    assert!(effects.iter().any(|effect| matches!(effect, Effect::Send { call: Request::Release(_), .. })));
}

/// Whether an unknown lease was released depends on whether a release was sent before.
#[test]
fn a_lease_that_was_released_over_the_direct_connection_is_released_once_more() {
    for (state, released) in [(LeaseState::Released, false), (LeaseState::ReleaseSent, true)] {
        let (mut machine, spec) = start(LockOptions::new());
        adopt(&mut machine, 1.0, direct_lease(&spec, state));
        machine.handle(at(1.0), Event::Command(Command::Release { question: Some(QuestionId(9)), id: Id::direct(0) }));
        let (request, call) = one_sent(&mut machine, 1.0);
        // A release that may have been executed must not look like that of the last lease.
        let expected = if released { Seat::NONE } else { seat(5, 7, 7) };
        assert!(matches!(&call, Request::Release(ReleaseRequest { seat, .. }) if *seat == expected), "{call:?}");
        answer(&mut machine, 1.1, request, lease(Word::Unknown, Duration::ZERO));
        let effects = machine.effects(at(1.1), usize::MAX);
        let outcome = effects.iter().find_map(|effect| match effect {
            Effect::Answer { outcome: Outcome::Release(release), .. } => Some(release == &Release::Released),
            _ => None,
        });
        assert_eq!(outcome, Some(released), "{state:?}");
    }
}

#[test]
fn what_a_direct_acquire_may_have_been_granted_is_given_back() {
    for (unlikely, kept) in [(false, true), (true, false)] {
        let (mut machine, spec) = start(LockOptions::new());
        machine.handle(at(1.0), Event::Command(Command::GiveBack { of: of(&spec), unlikely }));
        let (request, call) = one_sent(&mut machine, 1.0);
        let Request::Leave(LeaveRequest { ids, .. }) = &call else { panic!("{call:?}") };
        assert_eq!(ids[0].number_at(&machine.core.client), Some(Id::direct(0)));
        fail(&mut machine, 1.1, request, crate::protocol::Refusal::Permanent("no".into()));
        assert_eq!(machine.gives_back_until().is_some(), kept, "unlikely: {unlikely}");
    }
}

/// Its caller has the lease, or is about to hear of it.
#[test]
fn a_direct_lease_that_the_machine_does_not_know_is_left_alone() {
    let (mut machine, spec) = start(LockOptions::new());
    let id = WireId::new(&machine.core.client, Id::direct(0));
    let grant = Push { id: id.clone(), ..push(PushKind::Grant, 1, 7, "s", spec.keys.keys[0].clone()) };
    machine.handle(at(1.0), Event::Push(grant));
    assert!(machine.effects(at(1.0), usize::MAX).is_empty());

    machine.handle(
        at(1.0),
        Event::Command(Command::Inspect { question: QuestionId(1), keys: spec.keys.clone(), after: None, count: 1 }),
    );
    let (request, _) = one_sent(&mut machine, 1.0);
    let own = OwnLease { id, ..own(0, 7, 6) };
    answer(&mut machine, 1.1, request, Answer { own: Some(own), ..lease(Word::State, spec.lease) });
    assert!(sent(&mut machine, 1.1).is_empty());
}

#[test]
fn what_is_known_of_a_lock_grows_with_a_lease_that_is_taken_over() {
    let (mut machine, spec) = start(LockOptions::new());
    adopt(&mut machine, 1.0, direct_lease(&spec, LeaseState::Held));
    machine.effects(at(1.0), usize::MAX);
    acquire(&mut machine, 2.0, &spec, 1);
    let (_, call) = one_sent(&mut machine, 2.0);
    let Request::Acquire(acquire) = &call else { panic!("{call:?}") };
    assert_eq!(acquire.memory, memory(5, 7));
}
