//! One client with many waiters or holders of a lock: when it asks, and for whom.

use super::*;
use crate::options::LEAST;
use crate::protocol::{HeartbeatRequest, Refusal, ReleaseRequest, RenewRequest};

/// A machine whose waiters, with these livenesses, were queued at the start one after the other, behind a lease that
/// lasts.
fn queueing(livenesses: &[f64]) -> Machine {
    let mut machine = machine();
    connect(&mut machine, 0.0);
    for (id, liveness) in (1..).zip(livenesses) {
        joins(&mut machine, 0.0, id, *liveness);
    }
    machine
}

fn joins(machine: &mut Machine, now: f64, id: u64, liveness: f64) {
    let spec = LockOptions::new().liveness(seconds(liveness)).of(LockKeys::new("fairlock", "x")).unwrap();
    let (request, _) = acquire_sends(machine, now, &spec, id);
    let place = Answer { ticket: 6 + id, ..queued(id - 1, seconds(600.0)) };
    assert!(answer_brings(machine, now, request, place).iter().all(|it| !matches!(it, Effect::Send { .. })));
}

/// The only heartbeat of this time, which tells this liveness and interval: its request, and the ids that it names.
fn heartbeat(machine: &mut Machine, now: f64, told: [f64; 2]) -> (RequestId, Vec<WireId>) {
    tick(machine, now - 0.001);
    assert!(sent(machine, now - 0.001).is_empty(), "it comes at {now}");
    let (request, call) = tick_sends(machine, now);
    let Request::Heartbeat(HeartbeatRequest { liveness, heartbeat, ids, .. }) = call else { panic!("{call:?}") };
    assert_eq!([liveness, heartbeat], told.map(seconds));
    (request, ids)
}

/// The heartbeat among what is sent: its request, and the ids that it names.
fn sent_heartbeat(effects: Vec<Effect>) -> (RequestId, Vec<WireId>) {
    let heartbeat = |(request, call)| match call {
        Request::Heartbeat(HeartbeatRequest { ids, .. }) => Some((request, ids)),
        _ => None,
    };
    calls(effects).into_iter().find_map(heartbeat).expect("a heartbeat")
}

#[test]
fn heartbeats_come_as_often_as_the_quickest_waiter_needs() {
    let mut machine = queueing(&[90.0, 3.0, 30.0]);
    let (request, ids) = heartbeat(&mut machine, 1.0, [90.0, 1.0]);
    assert_eq!(ids, [1, 2, 3].map(wire_id));
    answer_brings(&mut machine, 1.0, request, alive(0, seconds(600.0)));
    // A newcomer names itself alone: the others are asked for as before.
    joins(&mut machine, 1.9, 4, 90.0);
    let (request, _) = heartbeat(&mut machine, 2.0, [90.0, 1.0]);
    answer_brings(&mut machine, 2.0, request, alive(0, seconds(600.0)));
    // The server goes by the interval that was told last until it hears of another.
    machine.handle(at(2.5), Event::Command(Command::Abandon { id: Id(2) }));
    let (leave, _) = one_sent(&mut machine, 2.5);
    answer_brings(&mut machine, 2.5, leave, lease(Word::Left, seconds(600.0)));
    let (request, _) = heartbeat(&mut machine, 3.0, [90.0, 10.0]);
    answer_brings(&mut machine, 3.0, request, alive(0, seconds(600.0)));
    heartbeat(&mut machine, 13.0, [90.0, 10.0]);
}

#[test]
fn the_next_heartbeat_goes_at_once_where_all_that_were_named_are_granted() {
    let mut machine = queueing(&[30.0; 20]);
    let (request, ids) = heartbeat(&mut machine, 10.0, [30.0, 10.0]);
    assert_eq!(ids.len(), 16);
    let granted = (1..17).map(|id| OwnLease { claim: true, ..own(id, 40 + id, 6 + id) }).collect();
    let none_waits = Answer { own: granted, stamp: 60, ..lease(Word::Alive, seconds(30.0)) };
    let effects = answer_brings(&mut machine, 10.0, request, none_waits);
    assert_eq!(effects.iter().filter(|effect| matches!(effect, Effect::Granted { .. })).count(), 16);
    let (request, ids) = sent_heartbeat(effects);
    assert_eq!(ids, [17, 18, 19, 20].map(wire_id));
    // An answer that brings nothing new is no reason to ask in circles.
    let effects = answer_brings(&mut machine, 10.0, request, lease(Word::Alive, seconds(30.0)));
    assert!(calls(effects).is_empty() && sent(&mut machine, 10.05).is_empty());
}

#[test]
fn a_waiter_whose_grant_is_being_confirmed_makes_room_for_others_in_a_heartbeat() {
    let spec = |id: u64| {
        let options = LockOptions::new().liveness(seconds(30.0)).lease(seconds(if id < 17 { 0.1 } else { 30.0 }));
        options.of(LockKeys::new("fairlock", "x")).unwrap()
    };
    let mut machine = machine();
    connect(&mut machine, 0.0);
    for id in 1..=18 {
        let (request, _) = acquire_sends(&mut machine, 0.0, &spec(id), id);
        answer_brings(&mut machine, 0.0, request, Answer { ticket: 6 + id, ..queued(id - 1, seconds(600.0)) });
    }
    let (request, call) = tick_sends(&mut machine, 10.0);
    let Request::Heartbeat(HeartbeatRequest { ids, .. }) = call else { panic!("{call:?}") };
    assert_eq!(ids.len(), 16);
    // So little is left of their leases that they are confirmed first.
    let granted = (1..17).map(|id| OwnLease { claim: true, ..own(id, 40 + id, 6 + id) }).collect();
    let effects = answer_brings(
        &mut machine,
        10.05,
        request,
        Answer { own: granted, stamp: 60, ..lease(Word::Alive, seconds(0.05)) },
    );
    // They are named, too: a lost confirmation is made up for.
    let named = [17, 18].into_iter().chain(1..=14).map(wire_id).collect::<Vec<_>>();
    assert_eq!(sent_heartbeat(effects).1, named);
}

/// The grants of its own waiters are those before the next ones.
#[test]
fn the_next_waiter_asks_at_the_end_of_a_lease_although_it_has_heard_of_no_rank_since() {
    let mut machine = queueing(&[90.0; 8]);
    let (request, _) = heartbeat(&mut machine, 30.0, [90.0, 30.0]);
    answer_brings(&mut machine, 30.0, request, alive(0, seconds(5.0)));
    // At each end a request goes out, which brings the grant of the first, and tells of the next end.
    let mut now = 35.001;
    for id in 1..=6 {
        let (request, ids) = heartbeat(&mut machine, now, [90.0, 30.0]);
        assert_eq!(ids[0], wire_id(id));
        let granted = vec![own(id, 40 + id, 6 + id)];
        let held = Answer { own: granted, stamp: 40 + id, ..lease(Word::Alive, seconds(600.0)) };
        let effects = answer_brings(&mut machine, now, request, held);
        assert!(super::granted(&effects).is_some(), "{effects:?}");
        // Where all that were named may be granted it asks on, and hears when the next lease ends.
        let (request, _) = sent_heartbeat(effects);
        answer_brings(&mut machine, now, request, alive(0, seconds(1.5)));
        now += 1.501;
    }
    // A message tells no ends of leases: the one that it knows of still counts.
    grant_brings(&mut machine, now - 1.0, 7, 60);
    assert_eq!(sent_heartbeat(tick_brings(&mut machine, now)).1, [wire_id(8)]);
}

/// What is heard of the first one counts for those behind it.
#[test]
fn waiters_move_up_with_the_first_one_of_their_client() {
    let queue = |machine: &mut Machine, now, id: u64, rank| {
        let spec = LockOptions::new().liveness(seconds(90.0)).of(LockKeys::new("fairlock", "x")).unwrap();
        let (request, _) = acquire_sends(machine, now, &spec, id);
        let place = Answer { ticket: 6 + id, ..queued(rank, seconds(35.0 - now)) };
        let effects = answer_brings(machine, now, request, place);
        let told =
            effects.iter().find_map(|effect| if let Effect::Queued { rank, .. } = effect { *rank } else { None });
        assert_eq!(told, Some(rank));
    };
    let mut machine = machine();
    connect(&mut machine, 0.0);
    queue(&mut machine, 0.0, 1, 5);
    queue(&mut machine, 0.0, 2, 6);
    let (request, _) = heartbeat(&mut machine, 30.0, [90.0, 30.0]);
    answer_brings(&mut machine, 30.0, request, alive(0, seconds(5.0)));
    queue(&mut machine, 30.5, 3, 2);
    grant_brings(&mut machine, 31.0, 1, 60);
    // The second is the first now, so it asks at the end of the lease.
    assert_eq!(sent_heartbeat(tick_brings(&mut machine, 35.001)).1, [2, 3].map(wire_id));
}

#[test]
fn a_try_does_not_wait_for_the_places_that_its_client_gives_up() {
    let mut machine = queueing(&[30.0]);
    acquire_in(&mut machine, 1.0, &start(LockOptions::new()).1, 2, Mode::Try, None);
    let (request, _) = one_sent(&mut machine, 1.0);
    machine.handle(at(1.0), Event::Command(Command::Abandon { id: Id(1) }));
    one_sent(&mut machine, 1.0);
    let effects = answer_brings(&mut machine, 1.1, request, lease(Word::Busy, seconds(29.0)));
    assert!(not_granted(&effects).is_some(), "{effects:?}");
}

/// The server refuses a lease that nobody may ask for.
#[test]
fn what_is_left_of_a_lease_is_asked_for_as_the_least_that_there_is() {
    let options = LockOptions::new().lease(seconds(1.0)).manual_renewal().notice(seconds(0.001));
    let mut machine = holding(options);
    reconnect(&mut machine, 0.96, 0.96);
    let (renewal, call) = one_sent(&mut machine, 0.96);
    assert!(matches!(call, Request::Renew(RenewRequest { lease, .. }) if lease == LEAST), "{call:?}");
    // Nobody counts on more than what was left.
    let before = machine.lease(Id(1)).unwrap().deadline();
    answer_brings(&mut machine, 0.96, renewal, lease(Word::Renewed, LEAST));
    assert!(
        machine.lease(Id(1)).unwrap().deadline().since(before) < Duration::from_millis(1),
        "but for what is rounded"
    );
}

#[test]
fn some_request_goes_on_where_a_renewal_stopped() {
    let goes_on = |effects: Vec<Effect>| {
        let sent = calls(effects);
        let nobody = |call: &Request| matches!(call, Request::Release(ReleaseRequest { seat: Seat::NONE, .. }));
        assert!(sent.iter().any(|(_, call)| nobody(call)), "{sent:?}");
    };
    let stopped = || Answer { again: true, ..lease(Word::Renewed, seconds(30.0)) };
    let mut machine = holding(LockOptions::new());
    let (renewal, _) = tick_sends(&mut machine, 10.0);
    goes_on(answer_brings(&mut machine, 10.1, renewal, stopped()));

    let mut machine = queueing(&[10.0]);
    let confirms = LockOptions::new().confirm_grants().of(LockKeys::new("fairlock", "x")).unwrap();
    let (request, _) = acquire_sends(&mut machine, 0.0, &confirms, 2);
    answer_brings(&mut machine, 0.0, request, Answer { ticket: 6, ..queued(0, seconds(600.0)) });
    let (confirmation, _) = calls(grant_brings(&mut machine, 1.0, 2, 20)).remove(0);
    goes_on(answer_brings(&mut machine, 1.1, confirmation, Answer { granted_token: 20, ..stopped() }));
}

/// Its program would undo what it did under the lock.
#[test]
fn a_release_that_may_have_been_executed_is_not_lost_because_its_answer_was_not_understood() {
    type Makes = fn(std::sync::Arc<str>) -> Refusal;
    for (refusal, expected) in [
        (Refusal::OutOfStep as Makes, Release::Released),
        (Refusal::NotUnderstood, Release::Released),
        (Refusal::Temporary, Release::Lost(LostReason::Ended)),
    ] {
        let mut machine = holding(LockOptions::new());
        let (first, call) = ask_sends(&mut machine, 1.0, 9, Question::Release { id: Id(1) });
        assert!(matches!(call, Request::Release(ReleaseRequest { seat, .. }) if seat != Seat::NONE));
        fail(&mut machine, 1.1, first, refusal("what".into()));
        let (second, call) = tick_sends(&mut machine, 2.0);
        let brings_seat = matches!(call, Request::Release(ReleaseRequest { seat, .. }) if seat != Seat::NONE);
        assert_eq!(brings_seat, expected != Release::Released, "as it may have been executed");
        let effects = answer_brings(&mut machine, 2.1, second, lease(Word::Unknown, Duration::ZERO));
        assert!(
            matches!(outcome(&effects, 9), Some(Outcome::Release(answer)) if *answer == expected),
            "{expected:?}: {effects:?}"
        );
    }
}

/// It has not come to the answers yet.
#[test]
fn a_client_that_is_busy_with_what_the_server_sent_does_not_call_it_silent() {
    let (mut machine, spec) = start(LockOptions::new());
    acquire(&mut machine, 0.0, &spec, 1);
    let (request, _) = one_sent(&mut machine, 0.0);
    for message in 0..100 {
        let now = 3.0 + f64::from(message) / 10.0;
        let stranger = push(PushKind::Break, 77, 7, "s", LockKeys::new("fairlock", "y").lock.clone());
        machine.handle(at(now), Event::Push(stranger));
        assert!(!reconnects(&machine.effects(at(now), usize::MAX)), "{now}");
    }
    // Where each round brings something, the tick that follows it judges.
    let mut noisy = machine.clone();
    let mut gave_up = false;
    for message in 0..100 {
        let now = 13.0 + f64::from(message) / 1000.0;
        let stranger = push(PushKind::Break, 77, 7, "s", LockKeys::new("fairlock", "y").lock.clone());
        noisy.handle(at(now), Event::Push(stranger));
        gave_up |= reconnects(&tick_brings(&mut noisy, now));
    }
    assert!(gave_up);
    let mut silent = machine.clone();
    answer(&mut machine, 13.0, request, queued(0, seconds(30.0)));
    assert!(!reconnects(&tick_brings(&mut machine, 13.0)));
    tick_brings(&mut silent, 13.0);
    assert!(reconnects(&tick_brings(&mut silent, 13.06)), "all is taken in, and there was no answer");
}
