//! Servers that lost data: who tells them what, and who returns to its place.

use super::*;

/// A server with old data has to hear that before it grants anything, whichever request of a client comes first: the
/// others may be refused.
#[test]
fn heartbeats_and_leaves_tell_what_the_client_knows() {
    let mut machine = waiting(LockOptions::new(), 0, seconds(20.0));
    let spec = start(LockOptions::new()).1;
    acquire(&mut machine, 0.5, &spec, 2);
    sent(&mut machine, 0.5);
    disconnect(&mut machine, 1.0);
    machine.handle(at(1.0), Event::Command(Command::Abandon { id: Id(2) }));
    connect(&mut machine, 1.1);
    let calls = sent(&mut machine, 1.1);
    let [(_, Request::Heartbeat(heartbeat)), (_, Request::Leave(leave))] = &calls[..] else { panic!("{calls:?}") };
    assert_eq!((heartbeat.memory, leave.memory), (memory(5, 7), memory(5, 7)));
}

/// The renewal may be refused, and then the heartbeat of another waiter comes first.
#[test]
fn a_grant_that_only_a_message_told_is_part_of_what_the_client_knows() {
    let mut machine = waiting(LockOptions::new(), 0, seconds(20.0));
    let spec = start(LockOptions::new()).1;
    let (request, _) = acquire_sends(&mut machine, 0.5, &spec, 2);
    answer(&mut machine, 0.5, request, queued(1, seconds(20.0)));
    assert!(granted(&grant_brings(&mut machine, 1.0, 1, 9)).is_some());
    reconnect(&mut machine, 1.0, 1.1);
    let calls = sent(&mut machine, 1.1);
    let [(_, renewal), (_, Request::Heartbeat(heartbeat))] = &calls[..] else { panic!("{calls:?}") };
    assert!(is_renewal(renewal));
    assert_eq!(heartbeat.memory, memory(5, 9));
}

#[test]
fn a_reply_with_another_epoch_is_answered_at_once_with_lease_and_place() {
    let mut machine = holding(LockOptions::new());
    let spec = start(LockOptions::new()).1;
    let (request, _) = acquire_sends(&mut machine, 0.5, &spec, 2);
    answer_brings(&mut machine, 0.6, request, queued(0, seconds(29.4)));
    // A lease at another lock has nothing to do with it.
    let other = other_lock(LockOptions::new());
    let (request, _) = acquire_sends(&mut machine, 0.7, &other, 3);
    answer_brings(&mut machine, 0.8, request, Answer { epoch: 50, ..lease(Word::Granted, seconds(30.0)) });

    let (request, call) = tick_sends(&mut machine, 4.0);
    assert!(matches!(call, Request::Heartbeat(HeartbeatRequest { .. })), "{call:?}");
    answer(&mut machine, 4.1, request, Answer { epoch: 6, ..alive(0, Duration::ZERO) });
    let told = sent(&mut machine, 4.1);
    let [(_, renewal), (_, acquire)] = &told[..] else { panic!("{told:?}") };
    let Request::Renew(RenewRequest { id, seat: its, left, .. }) = renewal else { panic!("{renewal:?}") };
    assert_eq!((id.as_str(), *its, *left), ("client.1", seat(5, 7, 7), span_until(seconds(29.849 - 4.1))));
    let Request::Acquire(AcquireRequest { id, seat: its, memory: told, .. }) = acquire else { panic!("{acquire:?}") };
    assert_eq!((id.as_str(), *its, *told), ("client.2", seat(5, 6, 0), memory(6, 7)));
}

#[test]
fn a_newcomer_brings_the_newest_memory_and_a_returning_waiter_its_own_seat() {
    let mut machine = waiting(LockOptions::new(), 9, seconds(60.0));
    let spec = start(LockOptions::new()).1;
    let asks = |call: &Request, its: Seat, under| matches!(call, Request::Acquire(request) if request.seat == its && request.memory == memory(under, 7));
    let (request, call) = acquire_sends(&mut machine, 1.0, &spec, 2);
    assert!(asks(&call, Seat::NONE, 5), "{call:?}");
    answer(&mut machine, 1.1, request, Answer { epoch: 6, ticket: 8, ..queued(9, seconds(60.0)) });
    let (_, call) = one_sent(&mut machine, 1.1);
    assert!(asks(&call, seat(5, 6, 0), 6), "{call:?}");
    let (_, call) = acquire_sends(&mut machine, 1.2, &spec, 3);
    assert!(asks(&call, Seat::NONE, 6), "{call:?}");
}

#[test]
fn the_same_data_is_believed_when_a_lease_became_shorter() {
    let mut machine = waiting(LockOptions::new().liveness(seconds(30.0)), 0, seconds(60.0));
    let (request, _) = tick_sends(&mut machine, 10.0);
    answer(&mut machine, 10.1, request, alive(0, seconds(2.0)));
    assert_eq!(machine.next_due(), Some(at(10.1 + 2.0 + 0.001)));
}

#[test]
fn a_waiter_near_the_front_asks_when_the_lease_ends() {
    let mut machine = waiting(LockOptions::new().liveness(seconds(30.0)), 9, seconds(15.0));
    assert_eq!(machine.next_due(), Some(at(10.0)));
    let (request, _) = tick_sends(&mut machine, 10.0);
    answer(&mut machine, 10.1, request, alive(0, seconds(5.0)));
    assert_eq!(machine.next_due(), Some(at(10.1 + 5.0 + 0.001)));
}

/// A server that was rolled back names a grant from before: it has to hear of the one that is held.
#[test]
fn a_lease_that_an_answer_names_under_another_token_is_renewed_at_once() {
    for (token, renews) in [(7, false), (6, true)] {
        let mut machine = holding(LockOptions::new());
        machine.handle(at(1.0), Event::Command(inspect(5)));
        let (request, _) = one_sent(&mut machine, 1.0);
        let mut answered = lease(Word::State, seconds(8.0));
        answered.own = vec![own(1, token, token)];
        let sent = calls(answer_brings(&mut machine, 1.1, request, answered));
        assert_eq!(sent.iter().any(|(_, call)| is_renewal(call)), renews, "{sent:?}");
    }
}

/// Two requests are under way when the server is rolled back. The reply to the first tells more than the second's.
#[test]
fn a_reply_that_tells_of_less_does_not_hide_what_was_told_before() {
    let mut machine = waiting(LockOptions::new(), 0, seconds(20.0));
    let spec = start(LockOptions::new()).1;
    let (request, _) = acquire_sends(&mut machine, 0.5, &spec, 2);
    let (older, _) = ask_sends(&mut machine, 0.6, 4, Question::Position { id: Id(1) });
    answer(&mut machine, 0.7, request, Answer { stamp: 9, ticket: 8, ..queued(1, seconds(20.0)) });
    answer(&mut machine, 0.8, older, Answer { stamp: 6, ..queued(0, seconds(20.0)) });
    reconnect(&mut machine, 1.0, 1.1);
    let (_, call) = sent(&mut machine, 1.1).remove(0);
    assert!(matches!(&call, Request::Heartbeat(heartbeat) if heartbeat.memory == memory(5, 9)), "{call:?}");
}

/// The server says for how long.
#[test]
fn what_a_client_was_told_outlasts_its_last_lease() {
    for (comes_back, knows) in [(1.0 + 29.9, true), (1.0 + 30.1, false)] {
        let mut machine = holding(LockOptions::new());
        machine.handle(at(1.0), Event::Command(Command::GiveBack { id: Id(1) }));
        let (request, _) = one_sent(&mut machine, 1.0);
        let released = lease(Word::Released, Duration::ZERO);
        answer_brings(&mut machine, 1.1, request, Answer { stamp: 8, keep: seconds(30.0), ..released });
        let spec = start(LockOptions::new()).1;
        let (_, call) = acquire_sends(&mut machine, comes_back, &spec, 2);
        let Request::Acquire(acquire) = &call else { panic!("{call:?}") };
        assert_eq!(acquire.memory, if knows { memory(5, 8) } else { Memory::NONE });
    }
}

/// Repeated, or late, it might be older than the last grant, which a server that lost its data cannot know.
#[test]
fn a_release_that_may_come_after_another_grant_names_no_lease() {
    let release = |machine: &mut Machine, now: f64| {
        machine.handle(at(now), Event::Command(Command::GiveBack { id: Id(1) }));
        let (request, call) = one_sent(machine, now);
        let Request::Release(release) = call else { panic!("{call:?}") };
        (request, release.seat)
    };
    let mut machine = holding(LockOptions::new());
    let (request, first) = release(&mut machine, 1.0);
    assert_eq!(first, seat(5, 7, 7));
    fail(&mut machine, 1.1, request, crate::protocol::Refusal::Temporary("busy".into()));
    tick(&mut machine, 3.0);
    assert!(
        matches!(&one_sent(&mut machine, 3.0).1, Request::Release(again) if again.seat == first),
        "a request that was refused was not executed"
    );
    reconnect(&mut machine, 3.1, 3.2);
    assert!(matches!(&one_sent(&mut machine, 3.2).1, Request::Release(again) if again.seat == Seat::NONE));

    let mut machine = holding(LockOptions::new());
    let (request, _) = tick_sends(&mut machine, 10.0);
    answer(&mut machine, 10.1, request, lease(Word::Broken, seconds(20.0)));
    assert_eq!(release(&mut machine, 10.2).1, Seat::NONE, "it was broken");

    let mut machine = holding(LockOptions::new().manual_renewal());
    machine.effects(at(29.9), usize::MAX);
    machine.handle(at(29.9), Event::Command(Command::GiveBack { id: Id(1) }));
    let calls = sent(&mut machine, 29.9);
    assert!(
        matches!(&calls[..], [(_, Request::Release(late))] if late.seat == Seat::NONE),
        "its deadline has passed: {calls:?}"
    );
}

/// The lock clock stands still for longer than two heartbeats: it has to know how far apart they are.
#[test]
fn a_client_behind_a_slow_network_says_how_far_apart_its_heartbeats_are() {
    let (mut machine, spec) = start(LockOptions::new().liveness(seconds(0.06)));
    let (request, _) = acquire_sends(&mut machine, 0.0, &spec, 1);
    answer(&mut machine, 0.01, request, queued(9, seconds(60.0)));
    let mut now = 0.02;
    // The clock moves by two intervals for each.
    for expected in [0.02, 0.06, 0.06] {
        let (request, call) = tick_sends(&mut machine, now);
        let Request::Heartbeat(HeartbeatRequest { heartbeat, .. }) = call else { panic!("{call:?}") };
        assert_eq!(heartbeat, seconds(expected));
        now += 0.1;
        answer(&mut machine, now, request, alive(9, seconds(60.0)));
    }
}

#[test]
fn a_memory_that_is_disbelieved_is_not_sent_again() {
    let mut machine = waiting(LockOptions::new(), 0, seconds(20.0));
    reconnect(&mut machine, 1.0, 1.1);
    let (request, _) = one_sent(&mut machine, 1.1);
    answer(&mut machine, 1.1, request, lease(Word::Unknown, Duration::ZERO));
    let (request, call) = one_sent(&mut machine, 1.1);
    assert!(is_acquire_with(&call, Some(6)), "{call:?}");
    answer(&mut machine, 1.2, request, Answer { stamp: 4, ..lease(Word::Disbelieved, Duration::ZERO) });
    let anew = sent(&mut machine, 1.2);
    let acquire = anew.iter().find_map(|(_, call)| match call {
        Request::Acquire(AcquireRequest { seat, memory, .. }) => Some((*seat, *memory)),
        _ => None,
    });
    assert_eq!(acquire, Some((Seat::NONE, memory(5, 4))), "it asks anew, with what it was told");
}

/// After a long sleep the server may have forgotten the lock, and others may have made it anew: nothing was lost.
#[test]
fn waiters_that_slept_for_more_than_a_day_are_strangers_until_they_are_answered() {
    let day = 86_400.0;
    let mut machine = waiting(LockOptions::new(), 0, seconds(20.0));
    let (request, call) = tick_sends(&mut machine, 2.0 * day);
    let Request::Heartbeat(HeartbeatRequest { memory: told, .. }) = &call else { panic!("{call:?}") };
    assert_eq!(*told, Memory::NONE);
    answer(&mut machine, 2.0 * day + 0.1, request, Answer { epoch: 50, ..lease(Word::Unknown, Duration::ZERO) });
    let (request, call) = one_sent(&mut machine, 2.0 * day + 0.1);
    let Request::Acquire(AcquireRequest { memory: told, seat: its, .. }) = &call else { panic!("{call:?}") };
    assert_eq!((*told, *its), (Memory::NONE, seat(5, 6, 0)), "with the new memory the old seat would show a loss");
    let place = Answer { epoch: 50, ..queued(0, seconds(20.0)) };
    answer(&mut machine, 2.0 * day + 0.2, request, place);
    let (_, call) = tick_sends(&mut machine, 2.0 * day + 4.0);
    let Request::Heartbeat(HeartbeatRequest { memory: told, .. }) = &call else { panic!("{call:?}") };
    assert_eq!(*told, memory(50, 7), "from then on it knows of the lock as others do");
}

/// It was sent before a loss of data, and its number is above those that were given since, because the server's clock is
/// behind.
#[test]
fn a_grant_of_another_epoch_is_confirmed_first() {
    for (epoch, handed_out) in [(5, true), (4, false), (6, false)] {
        let mut machine = waiting(LockOptions::new(), 0, seconds(20.0));
        let lock = LockKeys::new("fairlock", "x").lock.clone();
        let told = Push { known: super::super::told(epoch, 9), ..push(PushKind::Grant, 1, 9, "s", lock) };
        machine.handle(at(1.0), Event::Push(told));
        let effects = machine.effects(at(1.0), usize::MAX);
        assert_eq!(granted(&effects).is_some(), handed_out, "epoch {epoch}");
        assert_eq!(calls(effects).iter().filter(|(_, call)| is_renewal(call)).count(), usize::from(!handed_out));
    }
}
