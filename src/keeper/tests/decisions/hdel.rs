//! Releases that begin with an HDEL, because the grant left the lock calm.

use rmpv::ValueRef;

use super::*;
use crate::keeper::machine::Mode;
use crate::protocol::{Refusal, ReleaseRequest, Reply};

/// A machine whose grant left the lock calm.
fn calm(options: LockOptions) -> Machine {
    holding_after(options, |granted| Answer { calm: true, keep: seconds(30.0), ..granted })
}

/// The only request that is sent now: a release, whether by an HDEL, and with which seat.
fn releases(machine: &mut Machine, now: f64) -> (RequestId, Request, (bool, Seat)) {
    let (request, call) = one_sent(machine, now);
    let Request::Release(ReleaseRequest { by_hdel, seat, memory: brought, .. }) = &call else { panic!("{call:?}") };
    assert_eq!(brought.as_bytes().is_empty(), *by_hdel, "an HDEL brings no memory, a script does");
    let how = (*by_hdel, *seat);
    (request, call, how)
}

/// The first request of a release at this time.
fn released_by(machine: &mut Machine, now: f64) -> (bool, Seat) {
    ask(machine, now, 9, Question::Release { id: Id(1) });
    releases(machine, now).2
}

/// An HDEL is answered with the number of fields that it removed.
fn removed(machine: &mut Machine, now: f64, request: RequestId, call: &Request, fields: i64) {
    let reply = Reply::to(call, &ValueRef::from(fields)).unwrap();
    machine.handle(at(now), Event::Answered { request, result: Ok(reply) });
}

/// The HDEL with which a release begins, sent a second after the grant.
fn first(machine: &mut Machine) -> (RequestId, Request) {
    ask(machine, 1.0, 9, Question::Release { id: Id(1) });
    let (request, call, how) = releases(machine, 1.0);
    assert_eq!(how, HDEL);
    (request, call)
}

const HDEL: (bool, Seat) = (true, Seat::NONE);
const WITHOUT_SEAT: (bool, Seat) = (false, Seat::NONE);

fn with_seat() -> (bool, Seat) {
    (false, seat(5, 7, 7))
}

fn is_released(effects: &[Effect]) -> bool {
    matches!(outcome(effects, 9), Some(Outcome::Release(Release::Released)))
}

#[test]
fn an_hdel_that_removes_the_lease_is_the_whole_release() {
    let mut machine = calm(LockOptions::new());
    let (request, call) = first(&mut machine);
    removed(&mut machine, 1.1, request, &call, 1);
    let effects = machine.effects(at(1.1), usize::MAX);
    assert!(is_released(&effects) && calls(effects).is_empty());
    assert_eq!(machine.gives_back_until(), None);
    // What the grant told is kept, as if the HDEL had told it.
    let spec = start(LockOptions::new()).1;
    for (comes_back, brings) in [(30.9, memory(5, 7)), (31.0, Memory::NONE)] {
        let (_, call) = acquire_sends(&mut machine.clone(), comes_back, &spec, 2);
        assert_eq!(call.memory(), brings);
    }
    // A grant that did not say so is given back by the script.
    assert_eq!(released_by(&mut holding(LockOptions::new()), 1.0), with_seat());
}

#[test]
fn an_hdel_that_removes_nothing_is_followed_by_the_release() {
    for (word, released) in [(Word::Released, true), (Word::Unknown, false)] {
        let mut machine = calm(LockOptions::new());
        let (request, call) = first(&mut machine);
        removed(&mut machine, 1.1, request, &call, 0);
        let (request, _, how) = releases(&mut machine, 1.1);
        assert_eq!(how, with_seat(), "nothing was done");
        let effects = answer_brings(&mut machine, 1.2, request, lease(word, Duration::ZERO));
        assert_eq!(is_released(&effects), released, "{word:?}");
        assert_eq!(machine.gives_back_until(), None);
    }
    // Refused, the script is asked again, and not the HDEL.
    let mut machine = calm(LockOptions::new());
    let (request, call) = first(&mut machine);
    removed(&mut machine, 1.1, request, &call, 0);
    let (request, ..) = releases(&mut machine, 1.1);
    fail(&mut machine, 1.2, request, Refusal::Temporary("busy".into()));
    tick(&mut machine, 3.0);
    assert_eq!(releases(&mut machine, 3.0).2, with_seat());
}

/// The lock may have been granted since, and with its seat a release says that the lease lasted until now.
#[test]
fn a_release_after_the_deadline_brings_no_seat_whatever_was_tried_before() {
    let mut machine = calm(LockOptions::new().manual_renewal());
    ask(&mut machine, 26.0, 9, Question::Release { id: Id(1) });
    let (request, call, how) = releases(&mut machine, 26.0);
    assert_eq!(how, HDEL);
    let mut late = machine.clone();
    removed(&mut late, 29.9, request, &call, 0);
    let effects = late.effects(at(29.9), usize::MAX);
    let seat = |(_, call): &(RequestId, Request)| {
        if let Request::Release(release) = call { Some((release.by_hdel, release.seat)) } else { None }
    };
    assert_eq!(calls(effects).iter().find_map(seat), Some(WITHOUT_SEAT));

    removed(&mut machine, 26.1, request, &call, 0);
    let (request, _, how) = releases(&mut machine, 26.1);
    assert_eq!(how, with_seat());
    fail(&mut machine, 29.8, request, Refusal::Temporary("busy".into()));
    tick(&mut machine, 31.0);
    assert_eq!(calls(machine.effects(at(31.0), usize::MAX)).iter().find_map(seat), Some(WITHOUT_SEAT));
}

#[test]
fn an_hdel_that_may_have_been_executed_is_followed_by_a_release_without_a_seat() {
    let mut machine = calm(LockOptions::new());
    first(&mut machine);
    reconnect(&mut machine, 1.1, 1.2);
    let (request, _, how) = releases(&mut machine, 1.2);
    assert_eq!(how, WITHOUT_SEAT);
    assert!(
        is_released(&answer_brings(&mut machine, 1.3, request, lease(Word::Unknown, Duration::ZERO))),
        "the HDEL was it"
    );

    // One that was refused was not executed. The user may lack the right to it, but not to the script.
    let mut machine = calm(LockOptions::new());
    let (request, _) = first(&mut machine);
    fail(&mut machine, 1.1, request, Refusal::Temporary("busy".into()));
    tick(&mut machine, 3.0);
    assert_eq!(releases(&mut machine, 3.0).2, with_seat());
}

#[test]
fn a_lease_that_was_to_be_renewed_is_released_by_the_script() {
    let mut machine = calm(LockOptions::new());
    let (request, _) = tick_sends(&mut machine, 10.0);
    assert_eq!(released_by(&mut machine.clone(), 10.1), with_seat(), "the renewal may have been executed");
    answer(&mut machine, 10.1, request, lease(Word::Renewed, seconds(30.0)));
    machine.effects(at(10.1), usize::MAX);
    assert_eq!(released_by(&mut machine, 10.2), with_seat());

    // After a connection that broke leases are renewed first.
    let mut machine = calm(LockOptions::new());
    reconnect(&mut machine, 1.0, 2.0);
    one_sent(&mut machine, 2.0);
    assert_eq!(released_by(&mut machine, 2.1), with_seat());
}

/// The state that has this lease as that of a calm lock has all that this client knows: it shows no loss.
#[test]
fn a_release_that_waits_for_a_connection_begins_with_an_hdel() {
    let mut machine = calm(LockOptions::new());
    disconnect(&mut machine, 1.0);
    ask(&mut machine, 1.1, 9, Question::Release { id: Id(1) });
    assert!(sent(&mut machine, 1.1).is_empty());
    connect(&mut machine, 2.0);
    assert_eq!(releases(&mut machine, 2.0).2, HDEL);
}

#[test]
fn a_lease_that_is_over_is_released_by_the_script_without_a_seat() {
    let mut machine = calm(LockOptions::new());
    pushed(&mut machine, 1.0, PushKind::Break, 1, 7);
    machine.effects(at(1.0), usize::MAX);
    assert_eq!(released_by(&mut machine, 1.1), WITHOUT_SEAT, "an operator has broken it");

    let mut machine = calm(LockOptions::new().manual_renewal());
    machine.effects(at(29.9), usize::MAX);
    assert_eq!(released_by(&mut machine, 29.9), WITHOUT_SEAT, "its deadline has passed");
}

#[test]
fn news_of_the_lock_means_a_release_by_the_script() {
    // Another waiter of this client.
    let mut machine = calm(LockOptions::new());
    let spec = start(LockOptions::new()).1;
    let (request, _) = acquire_sends(&mut machine, 0.5, &spec, 2);
    assert_eq!(released_by(&mut machine.clone(), 0.55), HDEL, "nothing is known of its acquire");
    answer(&mut machine, 0.6, request, queued(0, seconds(29.0)));
    machine.effects(at(0.6), usize::MAX);
    assert_eq!(released_by(&mut machine, 0.7), with_seat());

    // A message, also if it comes before the older reply.
    for is_first in [false, true] {
        let (mut machine, spec) = start(LockOptions::new());
        let (request, _) = acquire_sends(&mut machine, 0.0, &spec, 1);
        acquire_sends(&mut machine, 0.0, &spec, 2);
        if is_first {
            grant_brings(&mut machine, 0.1, 2, 8);
        }
        answer(&mut machine, 0.2, request, Answer { calm: true, ..lease(Word::Granted, spec.lease) });
        grant_brings(&mut machine, 0.3, 2, 8);
        assert_eq!(released_by(&mut machine, 0.4), with_seat(), "{is_first}");
    }

    // Another epoch: data was lost.
    let mut machine = calm(LockOptions::new());
    let (request, _) = ask_sends(&mut machine, 0.5, 8, inspecting(&spec.keys, 10));
    answer(&mut machine, 0.6, request, Answer { epoch: 6, stamp: 8, ..lease(Word::State, seconds(20.0)) });
    machine.effects(at(0.6), usize::MAX);
    assert_eq!(released_by(&mut machine, 0.7), with_seat());
}

/// The question to replicas writes.
#[test]
fn a_grant_that_replicas_have_is_released_by_the_script() {
    let (mut machine, spec) = start(LockOptions::new().replicas(1));
    let (request, _) = acquire_sends(&mut machine, 0.0, &spec, 1);
    let effects = answer_brings(&mut machine, 0.1, request, Answer { calm: true, ..lease(Word::Granted, spec.lease) });
    let asked = |effect: &Effect| if let Effect::Replicate { request, .. } = effect { Some(*request) } else { None };
    let request = effects.iter().find_map(asked).unwrap();
    machine.handle(at(0.2), Event::Replicated { request, result: Ok(1) });
    assert!(granted(&machine.effects(at(0.2), usize::MAX)).is_some());
    assert_eq!(released_by(&mut machine, 1.0), with_seat());
}

/// Some client has looked for the lock meanwhile, so the HDEL did nothing, and the try came before the release.
#[test]
fn a_try_behind_an_hdel_that_did_nothing_is_made_again() {
    let mut machine = calm(LockOptions::new());
    let (hdel, call) = first(&mut machine);
    let spec = start(LockOptions::new()).1;
    acquire_in(&mut machine, 1.0, &spec, 2, Mode::Try, None);
    let (request, _) = one_sent(&mut machine, 1.0);
    removed(&mut machine, 1.1, hdel, &call, 0);
    let (release, ..) = releases(&mut machine, 1.1);
    let busy = || lease(Word::Busy, seconds(29.0));
    let effects = answer_brings(&mut machine, 1.1, request, busy());
    assert!(not_granted(&effects).is_none(), "{effects:?}");
    let (request, again) = calls(effects).remove(0);
    assert!(is_acquire_with(&again, None), "{again:?}");
    answer(&mut machine, 1.2, release, lease(Word::Released, Duration::ZERO));
    let effects = answer_brings(&mut machine, 1.2, request, busy());
    assert!(matches!(not_granted(&effects), Some(NotGranted::Busy { .. })), "now it is another's: {effects:?}");
}
