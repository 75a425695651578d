//! Acquires over the direct connection, and what the machine takes over from it.

use std::sync::Arc;

use super::*;
use crate::options::Spec;
use crate::protocol::{
    About, AcquireRequest, AcquireVerdict, ClientId, LeaveRequest, Memory, Refusal, ReleaseRequest, ReleaseVerdict,
    RenewRequest, Reply, UNBOUNDED, Verdict,
};

const ID: Id = Id::direct(0);

fn asked_at(spec: &Arc<Spec>, mode: Mode, now: f64) -> (DirectAcquire, Request) {
    asked_as(ID, spec, mode, now)
}

fn asked_as(id: Id, spec: &Arc<Spec>, mode: Mode, now: f64) -> (DirectAcquire, Request) {
    let about = About { secret: Secret::repeated("s"), label: "l".into(), owner: "o".into() };
    let (spec, timeout, called) = (spec.clone(), None, at(now));
    let command = Command::Acquire { id, spec, about, mode, timeout, called };
    let (acquire, request) = DirectAcquire::new(at(now), &ClientId::new("client").unwrap(), id, command);
    (acquire, request.unwrap())
}

fn asked(spec: &Arc<Spec>, mode: Mode) -> DirectAcquire {
    asked_at(spec, mode, 0.0).0
}

/// The reply to an acquire that is granted with so much left.
fn reply(left: Duration) -> Reply {
    let id = WireId::new(&ClientId::new("client").unwrap(), Id::direct(0));
    let own = Some(OwnLease { id, ..own(0, 7, 7) });
    let common = Answer { epoch: 5, stamp: 7, own, lease_left: left, ..Answer::default() }.common();
    Reply { common, verdict: Verdict::Acquire(AcquireVerdict::Granted) }
}

fn released(verdict: ReleaseVerdict, again: bool) -> Reply {
    let common = Answer { epoch: 5, stamp: 7, again, ..Answer::default() }.common();
    Reply { common, verdict: Verdict::Release(verdict) }
}

/// A lease that was granted at 0.
fn held(spec: &Arc<Spec>) -> DirectAcquire {
    let mut acquire = asked(spec, Mode::Wait);
    let settled = acquire.answered(at(0.0), Ok(reply(spec.lease)));
    assert!(matches!(settled, Settled::Granted { .. }), "{settled:?}");
    acquire
}

fn take_over(machine: &mut Machine, now: f64, acquire: DirectAcquire) {
    machine.handle(at(now), Event::Command(Command::TakeOver { acquire, release: None }));
}

fn take_over_released(machine: &mut Machine, now: f64, acquire: DirectAcquire) {
    let release = Some(QuestionId(9));
    machine.handle(at(now), Event::Command(Command::TakeOver { acquire, release }));
}

fn outcome_of_release(effects: &[Effect]) -> Option<&Release> {
    match outcome(effects, 9)? {
        Outcome::Release(release) => Some(release),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_direct_acquire_joins_the_queue_as_the_first_of_a_client_that_knows_nothing_of_the_lock() {
    let (_, spec) = start(LockOptions::new());
    for (mode, has_room) in [(Mode::Wait, UNBOUNDED), (Mode::Try, 0)] {
        let (_, call) = asked_at(&spec, mode, 0.0);
        let Request::Acquire(AcquireRequest { room, heartbeat, memory, seat, as_claim, .. }) = call else {
            panic!("{call:?}")
        };
        assert_eq!((room, heartbeat, as_claim), (has_room, spec.liveness / 3, false));
        assert_eq!((memory, seat), (Memory::NONE, Seat::NONE));
    }
}

#[test]
fn the_deadline_of_a_direct_lease_counts_from_before_its_request() {
    let (_, spec) = start(LockOptions::new());
    let mut acquire = asked_at(&spec, Mode::Wait, 1.0).0;
    let Settled::Granted { deadline, .. } = acquire.answered(at(2.0), Ok(reply(spec.lease))) else {
        panic!("not granted")
    };
    assert_eq!(deadline, at(30.849));
}

/// Its caller has it then from the keeper, which renews it at once.
#[test]
fn a_direct_grant_of_which_little_is_left_is_for_the_keeper() {
    // Its holder is to be told 3 s before 29.849, and its keeper may come 5 s after it was granted.
    for (left, now, fine) in
        [(30.0, 1.0, true), (30.0, 21.8, true), (30.0, 21.9, false), (1.1, 1.0, false), (0.0, 1.0, false)]
    {
        let (mut machine, spec) = start(LockOptions::new());
        let mut acquire = asked(&spec, Mode::Wait);
        let settled = acquire.answered(at(now), Ok(reply(seconds(left))));
        assert_eq!(matches!(settled, Settled::Granted { .. }), fine, "{left}, {now}: {settled:?}");
        if !fine {
            take_over(&mut machine, now, acquire);
            let effects = machine.effects(at(now), usize::MAX);
            assert_eq!(granted(&effects).is_some(), left == 30.0, "{effects:?}");
            let renews = |effect: &Effect| matches!(effect, Effect::Send { call: Request::Renew(_), .. });
            assert!(effects.iter().any(renews), "{effects:?}");
        }
    }
}

#[test]
fn a_place_that_is_taken_over_is_kept_alive_and_granted_by_a_message() {
    let (mut machine, spec) = start(LockOptions::new());
    let mut acquire = asked(&spec, Mode::Wait);
    // A lease of its client that is on its way back, with which it has nothing to do.
    let named = Answer { own: Some(own(1, 7, 6)), ..queued(3, seconds(20.0)) };
    let settled = acquire.answered(at(0.1), Ok(named.answer_to_acquire()));
    assert!(matches!(settled, Settled::Open), "{settled:?}");
    take_over(&mut machine, 0.2, acquire);
    let effects = machine.effects(at(0.2), usize::MAX);
    assert!(effects.iter().all(|effect| !matches!(effect, Effect::Send { .. })), "{effects:?}");
    let told = effects.iter().find_map(|effect| match effect {
        Effect::Queued { id, ticket, .. } => Some((*id, *ticket)),
        _ => None,
    });
    assert_eq!(told, Some((ID, ticket(6))));
    let due = machine.next_due().unwrap();
    assert!(due <= at(0.0) + spec.liveness / 3, "{due:?}");
    grant_pushed(&mut machine, 1.0, ID.0, 9);
    // From the last sign of life, which was the acquire.
    assert_eq!(granted(&machine.effects(at(1.0), usize::MAX)), Some(at(9.949)));
}

/// The answers of the direct connection and the messages come over two connections. The keeper may hear of several
/// places at once, each of a thread that blocks.
#[test]
fn messages_that_come_before_their_places_are_taken_over_count_then() {
    let (mut machine, spec) = start(LockOptions::new());
    let places = [0, 1].map(|nth| {
        let mut acquire = asked_as(Id::direct(nth), &spec, Mode::Wait, 0.0).0;
        let _ = acquire.answered(at(0.1), Ok(queued(0, seconds(20.0)).answer_to_acquire()));
        grant_pushed(&mut machine, 0.2, acquire.id.0, 9 + nth);
        acquire
    });
    assert!(machine.effects(at(0.2), usize::MAX).is_empty());
    for place in places {
        take_over(&mut machine, 0.3, place);
        assert!(granted(&machine.effects(at(0.3), usize::MAX)).is_some());
    }
}

/// A server that was rolled back may know a place that its waiter has left.
#[test]
fn a_message_about_a_direct_acquire_that_is_over_has_it_given_back() {
    let (mut machine, spec) = start(LockOptions::new());
    take_over(&mut machine, 1.0, held(&spec));
    machine.handle(at(1.0), Event::Command(Command::Release { question: None, id: ID }));
    for (request, call) in sent(&mut machine, 1.0) {
        let word = if matches!(call, Request::Release(_)) { Word::Released } else { Word::Lost };
        answer(&mut machine, 1.1, request, lease(word, Duration::ZERO));
    }
    grant_pushed(&mut machine, 2.0, ID.0, 9);
    assert!(matches!(one_sent(&mut machine, 2.0).1, Request::Leave(_)));
}

/// The keeper asks again if the script stopped at its batch limit, or if this client's own lease is on its way back.
#[test]
fn an_answer_that_the_lock_is_busy_counts_unless_its_own_client_has_it() {
    let (_, spec) = start(LockOptions::new());
    let mine = || Some(own(1, 7, 6));
    for (again, own, asks) in [(false, None, false), (true, None, true), (false, mine(), true), (true, mine(), true)] {
        let common = Answer { waiting: 3, again, own, ..Answer::default() }.common();
        let reply = Reply { common, verdict: Verdict::Acquire(AcquireVerdict::Busy(None)) };
        let (mut acquire, (mut machine, _)) = (asked(&spec, Mode::Try), start(LockOptions::new()));
        match acquire.answered(at(1.0), Ok(reply)) {
            Settled::NotGranted(NotGranted::Busy { waiting: 3, .. }) => assert!(!asks),
            Settled::Open => {
                assert!(asks);
                take_over(&mut machine, 1.0, acquire);
                assert!(matches!(one_sent(&mut machine, 1.0).1, Request::Acquire(AcquireRequest { room: 0, .. })));
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn the_answer_to_a_direct_release_is_understood_unless_there_is_more_to_do() {
    let (_, spec) = start(LockOptions::new());
    for (verdict, means) in [
        (ReleaseVerdict::Released, Release::Released),
        (ReleaseVerdict::Expired, Release::Lost(LostReason::Ended)),
        (ReleaseVerdict::Unknown, Release::Lost(LostReason::Ended)),
    ] {
        for again in [false, true] {
            let mut acquire = held(&spec);
            let call = acquire.release(at(1.0));
            assert!(matches!(&call, Some(Request::Release(release)) if release.seat == seat(5, 7, 7)), "{call:?}");
            match acquire.answered(at(1.1), Ok(released(verdict, again))) {
                Settled::Released(release) => assert_eq!((again, release), (false, means.clone())),
                Settled::Open => assert!(again),
                other => panic!("{other:?}"),
            }
        }
    }
}

#[test]
fn a_lease_that_is_taken_over_is_asked_about_at_once_and_renewed_in_time() {
    let (mut machine, spec) = start(LockOptions::new());
    take_over(&mut machine, 1.0, held(&spec));
    let (request, call) = one_sent(&mut machine, 1.0);
    let Request::Renew(RenewRequest { id, seat: its, memory: told, lease: whole, .. }) = &call else {
        panic!("{call:?}")
    };
    assert_eq!((id.number_at(&machine.core.client), *whole), (Some(ID), spec.lease));
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
    take_over(&mut machine, 1.0, held(&spec));
    for now in [1.0, 11.0, 21.0] {
        tick(&mut machine, now);
        let (request, _) = one_sent(&mut machine, now);
        answer(&mut machine, now, request, lease(Word::Renewed, spec.lease));
        machine.effects(at(now), usize::MAX);
    }
    tick(&mut machine, 30.0);
    let effects = machine.effects(at(30.0), usize::MAX);
    assert!(matches!(effects[..], [Effect::CheckTaken { id }] if id == ID), "{effects:?}");
}

#[test]
fn a_lease_that_is_taken_over_too_late_is_lost() {
    let (mut machine, spec) = start(LockOptions::new());
    disconnect(&mut machine, 0.1);
    take_over(&mut machine, 27.0, held(&spec));
    let effects = machine.effects(at(27.0), usize::MAX);
    assert!(matches!(lost(&effects), Some(LostReason::NotRenewed { .. })), "{effects:?}");
}

#[test]
fn a_closed_machine_gives_back_what_comes_to_it() {
    let (mut machine, spec) = start(LockOptions::new());
    machine.handle(at(0.0), Event::Command(Command::Close { question: QuestionId(1) }));
    machine.effects(at(0.0), usize::MAX);
    take_over(&mut machine, 0.1, held(&spec));
    let effects = machine.effects(at(0.1), usize::MAX);
    assert_eq!(lost(&effects), Some(&LostReason::Closed));
    assert!(effects.iter().any(|effect| matches!(effect, Effect::Send { call: Request::Release(_), .. })));

    let mut acquire = asked(&spec, Mode::Wait);
    acquire.unanswered();
    take_over(&mut machine, 0.2, acquire);
    let effects = machine.effects(at(0.2), usize::MAX);
    assert!(matches!(not_granted(&effects), Some(NotGranted::Fault(crate::error::Fault::Closed))), "{effects:?}");
    assert!(effects.iter().any(|effect| matches!(effect, Effect::Send { call: Request::Leave(_), .. })));
}

/// Whether an unknown lease was released depends on whether a release was sent before.
#[test]
fn a_lease_whose_direct_release_has_no_answer_is_released_once_more() {
    let refused = || Err(Refusal::Temporary("LOADING".into()));
    let again = || Ok(released(ReleaseVerdict::Released, true));
    for (answered, counts) in [(None, true), (Some(refused()), false), (Some(again()), true)] {
        let (mut machine, spec) = start(LockOptions::new());
        let mut acquire = held(&spec);
        acquire.release(at(1.0));
        match answered {
            Some(answered) => assert!(matches!(acquire.answered(at(1.0), answered), Settled::Open)),
            None => acquire.unanswered(),
        }
        take_over_released(&mut machine, 1.0, acquire);
        let effects = machine.effects(at(1.0), usize::MAX);
        let request = effects.iter().find_map(|effect| match effect {
            Effect::Send { request, call: Request::Release(ReleaseRequest { .. }) } => Some(*request),
            _ => None,
        });
        answer(&mut machine, 1.1, request.unwrap(), lease(Word::Unknown, Duration::ZERO));
        let effects = [effects, machine.effects(at(1.1), usize::MAX)].concat();
        let expected = if counts { Release::Released } else { Release::Lost(LostReason::Ended) };
        assert_eq!(outcome_of_release(&effects), Some(&expected));
    }
}

#[test]
fn a_lease_that_is_taken_over_to_be_released_is_not_renewed() {
    let (mut machine, spec) = start(LockOptions::new());
    take_over_released(&mut machine, 1.0, held(&spec));
    let (request, call) = one_sent(&mut machine, 1.0);
    assert!(matches!(&call, Request::Release(release) if release.seat == seat(5, 7, 7)), "{call:?}");
    answer(&mut machine, 1.1, request, lease(Word::Released, Duration::ZERO));
    assert_eq!(outcome_of_release(&machine.effects(at(1.1), usize::MAX)), Some(&Release::Released));
}

/// The process was suspended, and its keeper did not come in time.
#[test]
fn the_direct_release_of_a_lease_that_is_over_is_answered() {
    let (mut machine, spec) = start(LockOptions::new());
    let mut acquire = held(&spec);
    acquire.release(at(60.0));
    let settled = acquire.answered(at(60.1), Ok(released(ReleaseVerdict::Unknown, false)));
    assert!(matches!(settled, Settled::Released(Release::Lost(_))), "{settled:?}");
    take_over_released(&mut machine, 60.2, acquire);
    assert!(matches!(outcome_of_release(&machine.effects(at(60.2), usize::MAX)), Some(Release::Lost(_))));
}

#[test]
fn a_direct_acquire_without_an_answer_is_asked_again_and_given_back_when_nobody_wants_it() {
    for (refused, kept) in [(false, true), (true, false)] {
        let (mut machine, spec) = start(LockOptions::new());
        let mut acquire = asked(&spec, Mode::Wait);
        if refused {
            let _ = acquire.answered(at(0.5), Err(Refusal::Temporary("OOM".into())));
        } else {
            acquire.unanswered();
        }
        disconnect(&mut machine, 0.6);
        take_over(&mut machine, 1.0, acquire.clone());
        machine.handle(at(1.0), Event::Command(Command::Abandon { id: ID }));
        machine.handle(at(1.0), Event::Connected { can_kill: true });
        let (request, call) = one_sent(&mut machine, 1.0);
        let Request::Leave(LeaveRequest { ids, .. }) = &call else { panic!("{call:?}") };
        assert_eq!(ids[0].number_at(&machine.core.client), Some(ID));
        fail(&mut machine, 30.1, request, Refusal::Temporary("no".into()));
        assert_eq!(machine.gives_back_until().is_some(), kept, "refused: {refused}");

        let (mut machine, _) = start(LockOptions::new());
        take_over(&mut machine, 1.0, acquire);
        let (_, call) = one_sent(&mut machine, 1.0);
        let Request::Acquire(AcquireRequest { id, .. }) = &call else { panic!("{call:?}") };
        assert_eq!(id.number_at(&machine.core.client), Some(ID));
    }
}

/// Its caller has the lease, or is about to hear of it.
#[test]
fn a_direct_lease_that_the_machine_does_not_know_is_left_alone() {
    let (mut machine, spec) = start(LockOptions::new());
    machine.handle(
        at(1.0),
        Event::Command(Command::Inspect { question: QuestionId(1), keys: spec.keys.clone(), after: None, count: 1 }),
    );
    let (request, _) = one_sent(&mut machine, 1.0);
    let id = WireId::new(&machine.core.client, ID);
    let own = OwnLease { id, ..own(0, 7, 6) };
    answer(&mut machine, 1.1, request, Answer { own: Some(own), ..lease(Word::State, spec.lease) });
    assert!(sent(&mut machine, 1.1).is_empty());
}

#[test]
fn what_is_known_of_a_lock_grows_with_a_lease_that_is_taken_over() {
    let (mut machine, spec) = start(LockOptions::new());
    take_over(&mut machine, 1.0, held(&spec));
    machine.effects(at(1.0), usize::MAX);
    acquire(&mut machine, 2.0, &spec, 1);
    let (_, call) = one_sent(&mut machine, 2.0);
    let Request::Acquire(acquire) = &call else { panic!("{call:?}") };
    assert_eq!(acquire.memory, memory(5, 7));
}
