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
    let known = Known {
        epoch: Epoch::new(5),
        floor: Stamp::new(7),
        longest: seconds(30.0),
        last_token: Token::new(7),
        pace: seconds(10.0) / 3,
    };
    assert_eq!((&heartbeat.known, &leave.known), (&known, &known));
    assert_eq!(leave.liveness, seconds(10.0));
}

/// The renewal may be refused, and then the heartbeat of another waiter comes first.
#[test]
fn a_grant_that_only_a_message_told_is_part_of_what_the_client_knows() {
    let mut machine = waiting(LockOptions::new(), 0, seconds(20.0));
    let spec = start(LockOptions::new()).1;
    acquire(&mut machine, 0.5, &spec, 2);
    let (request, _) = one_sent(&mut machine, 0.5);
    answer(&mut machine, 0.5, request, queued(1, seconds(20.0)));
    grant_pushed(&mut machine, 1.0, 1, 9);
    assert!(granted(&machine.effects(at(1.0), usize::MAX)).is_some());
    disconnect(&mut machine, 1.0);
    connect(&mut machine, 1.1);
    let calls = sent(&mut machine, 1.1);
    let [(_, renewal), (_, Request::Heartbeat(HeartbeatRequest { known, .. }))] = &calls[..] else {
        panic!("{calls:?}")
    };
    assert!(is_renewal(renewal));
    assert_eq!((known.floor, known.last_token), (Stamp::new(9), Token::new(9)));
}

#[test]
fn a_reply_with_another_epoch_is_answered_at_once_with_lease_and_place() {
    let mut machine = holding(LockOptions::new());
    let spec = start(LockOptions::new()).1;
    acquire(&mut machine, 0.5, &spec, 2);
    let (request, _) = one_sent(&mut machine, 0.5);
    answer(&mut machine, 0.6, request, queued(0, seconds(29.4)));
    machine.effects(at(0.6), usize::MAX);
    // A lease at another lock has nothing to do with it.
    let other = other_lock(LockOptions::new());
    acquire(&mut machine, 0.7, &other, 3);
    let (request, _) = one_sent(&mut machine, 0.7);
    answer(&mut machine, 0.8, request, Answer { epoch: 50, ..lease(Word::Granted, seconds(30.0)) });
    machine.effects(at(0.8), usize::MAX);

    tick(&mut machine, 4.0);
    let (request, call) = one_sent(&mut machine, 4.0);
    assert!(matches!(call, Request::Heartbeat(HeartbeatRequest { .. })), "{call:?}");
    answer(&mut machine, 4.1, request, Answer { epoch: 6, ..alive(0, Duration::ZERO) });
    let told = sent(&mut machine, 4.1);
    let [(_, renewal), (_, acquire)] = &told[..] else { panic!("{told:?}") };
    let Request::Renew(RenewRequest { id, token, epoch, left, .. }) = renewal else { panic!("{renewal:?}") };
    assert_eq!(
        (id.as_str(), token.get(), *epoch, *left),
        ("client.1", 7, Epoch::new(5), span_until(seconds(29.849 - 4.1)))
    );
    let Request::Acquire(AcquireRequest { id, ticket, known, .. }) = acquire else { panic!("{acquire:?}") };
    assert_eq!(
        (id.as_str(), *ticket, known.epoch, known.floor),
        ("client.2", Ticket::new(6), Epoch::new(5), Stamp::new(7))
    );
    // A whole lease may have been granted or renewed just before.
    assert_eq!(known.longest, seconds(30.0));
}

#[test]
fn a_newcomer_names_the_newest_epoch_and_a_returning_waiter_that_of_its_ticket() {
    let mut machine = waiting(LockOptions::new(), 9, seconds(60.0));
    let spec = start(LockOptions::new()).1;
    let asks = |call: &Request, ticket, under| {
        let epoch_of = |request: &AcquireRequest| request.known.epoch == Epoch::new(under);
        is_acquire_with(call, ticket) && matches!(call, Request::Acquire(request) if epoch_of(request))
    };
    acquire(&mut machine, 1.0, &spec, 2);
    let (request, call) = one_sent(&mut machine, 1.0);
    assert!(asks(&call, None, 5), "{call:?}");
    answer(&mut machine, 1.1, request, Answer { epoch: 6, ticket: 8, ..queued(9, seconds(60.0)) });
    let (_, call) = one_sent(&mut machine, 1.1);
    assert!(asks(&call, Some(6), 5), "{call:?}");
    acquire(&mut machine, 1.2, &spec, 3);
    let (_, call) = one_sent(&mut machine, 1.2);
    assert!(asks(&call, None, 6), "{call:?}");
}

#[test]
fn the_same_data_is_believed_when_a_lease_became_shorter() {
    let mut machine = waiting(LockOptions::new().liveness(seconds(30.0)), 0, seconds(60.0));
    tick(&mut machine, 10.0);
    let (request, _) = one_sent(&mut machine, 10.0);
    answer(&mut machine, 10.1, request, alive(0, seconds(2.0)));
    assert_eq!(machine.next_due(), Some(at(10.1 + 2.0 + 0.001)));
}

#[test]
fn a_waiter_near_the_front_asks_when_the_lease_ends() {
    let mut machine = waiting(LockOptions::new().liveness(seconds(30.0)), 9, seconds(15.0));
    assert_eq!(machine.next_due(), Some(at(10.0)));
    tick(&mut machine, 10.0);
    let (request, _) = one_sent(&mut machine, 10.0);
    answer(&mut machine, 10.1, request, alive(0, seconds(5.0)));
    assert_eq!(machine.next_due(), Some(at(10.1 + 5.0 + 0.001)));
}

/// Its server was rolled back, and names a grant from before: it has to hear of the one that is held.
#[test]
fn a_lease_that_an_answer_names_under_another_token_is_renewed_at_once() {
    for (token, renews) in [(7, false), (6, true)] {
        let mut machine = holding(LockOptions::new());
        machine.handle(at(1.0), Event::Command(inspect(5)));
        let (request, _) = one_sent(&mut machine, 1.0);
        let mut answered = lease(Word::State, seconds(8.0));
        answered.own = Some(own(1, token, token));
        answer(&mut machine, 1.1, request, answered);
        let sent = calls(machine.effects(at(1.1), usize::MAX));
        assert_eq!(sent.iter().any(|(_, call)| is_renewal(call)), renews, "{sent:?}");
    }
}

/// Another lease may have been granted, or renewed, since the last answer: only the longest of all is sure to be over.
#[test]
fn a_returning_waiter_tells_the_longest_lease_and_the_slowest_heartbeat_that_it_ever_heard_of() {
    let mut machine = waiting(LockOptions::new(), 1, seconds(20.0));
    let told = |machine: &mut Machine, now: f64| {
        disconnect(machine, now);
        connect(machine, now);
        let (request, call) = sent(machine, now).remove(0);
        let Request::Heartbeat(HeartbeatRequest { known, .. }) = call else { panic!("{call:?}") };
        (request, known.longest, known.last_token, known.pace)
    };
    let (request, longest, last_token, pace) = told(&mut machine, 1.0);
    assert_eq!(
        (longest, last_token, pace),
        (seconds(30.0), Token::new(7), seconds(10.0) / 3),
        "its own, of which no reply told"
    );
    let of_others = Answer { longest: seconds(90.0), pace: seconds(5.0), ..alive(1, seconds(20.0)) };
    answer(&mut machine, 1.1, request, of_others);
    // An emptied server knows nothing of them.
    for now in [2.0, 3.0] {
        let (request, longest, last_token, pace) = told(&mut machine, now);
        assert_eq!((longest, last_token, pace), (seconds(90.0), Token::new(7), seconds(5.0)));
        answer(&mut machine, now + 0.1, request, Answer { epoch: 8, stamp: 0, token: 0, ..alive(0, Duration::ZERO) });
        for (_, call) in sent(&mut machine, now + 0.1) {
            let Request::Acquire(AcquireRequest { known, .. }) = call else { panic!("{call:?}") };
            assert_eq!((known.longest, known.last_token, known.pace), (longest, last_token, pace));
        }
    }
}

/// The lock clock stands still for longer than two heartbeats: it has to know how far apart they are.
#[test]
fn a_client_behind_a_slow_network_says_how_far_apart_its_heartbeats_are() {
    let (mut machine, spec) = start(LockOptions::new().liveness(seconds(0.06)));
    acquire(&mut machine, 0.0, &spec, 1);
    let (request, _) = one_sent(&mut machine, 0.0);
    answer(&mut machine, 0.01, request, queued(9, seconds(60.0)));
    let mut now = 0.02;
    // The clock moves by two intervals for each.
    for expected in [0.02, 0.06, 0.06] {
        tick(&mut machine, now);
        let (request, call) = one_sent(&mut machine, now);
        let Request::Heartbeat(HeartbeatRequest { heartbeat, .. }) = call else { panic!("{call:?}") };
        assert_eq!(heartbeat, seconds(expected));
        now += 0.1;
        answer(&mut machine, now, request, alive(9, seconds(60.0)));
    }
}

#[test]
fn disbelieved_stamps_are_not_sent_again() {
    let mut machine = waiting(LockOptions::new(), 0, seconds(20.0));
    disconnect(&mut machine, 1.0);
    connect(&mut machine, 1.1);
    let (request, _) = one_sent(&mut machine, 1.1);
    answer(&mut machine, 1.1, request, lease(Word::Unknown, Duration::ZERO));
    let (request, call) = one_sent(&mut machine, 1.1);
    assert!(is_acquire_with(&call, Some(6)), "{call:?}");
    answer(&mut machine, 1.2, request, lease(Word::Disbelieved, Duration::ZERO));
    let anew = sent(&mut machine, 1.2);
    let acquire = anew.iter().find_map(|(_, call)| match call {
        Request::Acquire(AcquireRequest { ticket, known, .. }) => Some((*ticket, known.epoch, known.floor)),
        _ => None,
    });
    let (ticket, _, floor) = acquire.expect("it asks anew");
    assert_eq!((ticket, floor), (None, None));
}
