//! Heartbeats, the return of waiters that the server does not know, timeouts, and a server that is silent.

use std::time::Duration;

use super::*;
use crate::error::Fault;
use crate::keeper::machine::Mode;
use crate::options::LockOptions;
use crate::protocol::{AcquireRequest, HeartbeatRequest, LeaveRequest, Refusal, RenewRequest, Request, UNBOUNDED};

// ---- heartbeats ----

#[test]
fn the_first_four_ask_when_the_lease_ends_and_the_others_rely_on_heartbeats() {
    let options = || LockOptions::new().liveness(seconds(30.0));
    for rank in 0..4 {
        let machine = waiting(options(), rank, seconds(2.0));
        assert_eq!(machine.next_due(), Some(at(0.1 + 2.0 + 0.001 + 0.05 * rank as f64)), "rank {rank}");
    }
    assert_eq!(waiting(options(), 4, seconds(2.0)).next_due(), Some(at(10.0)));
    // Not later than its heartbeat, however long the lease is.
    assert_eq!(waiting(options(), 0, seconds(20.0)).next_due(), Some(at(10.0)));
    // Nothing is granted while a recovery is open.
    let mut machine = waiting(options(), 0, seconds(2.0));
    let (request, _) = tick_sends(&mut machine, 2.101);
    answer(&mut machine, 2.2, request, Answer { recover_left: seconds(3.0), ..alive(0, Duration::ZERO) });
    assert_eq!(machine.next_due(), Some(at(2.2 + 3.0 + 0.001)));
}

#[test]
fn a_heartbeat_in_vain_is_not_repeated_at_once() {
    let mut machine = waiting(LockOptions::new(), 0, Duration::ZERO);
    let (request, _) = tick_sends(&mut machine, 0.101);
    answer(&mut machine, 0.102, request, alive(0, Duration::ZERO));
    assert_eq!(machine.next_due(), Some(at(0.101 + 0.02)));
}

#[test]
fn one_heartbeat_speaks_for_all_and_names_the_first_sixteen() {
    let (mut machine, spec) = start(LockOptions::new().liveness(seconds(9.0)).buffer(seconds(4.0)));
    for id in 1..=20 {
        acquire(&mut machine, 0.0, &spec, id);
    }
    // The last to call was the first to arrive.
    for (request, call) in sent(&mut machine, 0.0) {
        let Request::Acquire(AcquireRequest { id, liveness, buffer, heartbeat, room, as_claim, seat, .. }) = call
        else {
            panic!("{call:?}")
        };
        assert_eq!((liveness, buffer, heartbeat), (seconds(9.0), seconds(4.0), seconds(3.0)));
        assert_eq!((room, as_claim, seat), (UNBOUNDED, false, Seat::NONE));
        let number: u64 = id.as_str().strip_prefix("client.").unwrap().parse().unwrap();
        let placed = Answer { ticket: 100 - number, ..queued(30 - number, seconds(30.0)) };
        answer(&mut machine, 0.1, request, placed);
    }
    machine.effects(at(0.1), usize::MAX);
    assert_eq!(machine.next_due(), Some(at(3.0)));
    let (request, call) = tick_sends(&mut machine, 3.0);
    let Request::Heartbeat(HeartbeatRequest { client, liveness, buffer, heartbeat, ids, .. }) = call else {
        panic!("{call:?}")
    };
    assert_eq!((client.as_str(), liveness, buffer, heartbeat), ("client", seconds(9.0), seconds(4.0), seconds(3.0)));
    assert_eq!(ids, (5..=20).rev().map(wire_id).collect::<Vec<_>>());
    answer(&mut machine, 3.2, request, alive(10, seconds(30.0)));
    assert_eq!(machine.next_due(), Some(at(6.0)));

    // None while one is under way. The next timer is for the server's silence.
    tick_sends(&mut machine, 6.0);
    assert_eq!(machine.next_due(), Some(at(6.0 + 3.0)));
}

#[test]
fn forgotten_waiters_re_enter_in_order_as_there_is_room() {
    let (mut machine, mut open) = many_return(100, 64);
    let mut tickets = Vec::new();
    assert_eq!(open.len(), 64, "at a time");
    while !open.is_empty() {
        let (request, call) = open.remove(0);
        let Request::Acquire(AcquireRequest { seat, .. }) = call else { panic!("{call:?}") };
        let [epoch, ticket, _] = told_in(seat);
        assert_eq!(epoch, 5, "under which its ticket was confirmed");
        tickets.push(ticket);
        answer(&mut machine, 3.6, request, Answer { ticket, ..queued(ticket, seconds(30.0)) });
        // For each that is back another goes.
        let next = sent_within(&mut machine, 3.6, 1);
        assert_eq!(next.len(), usize::from(tickets.len() + open.len() < 100));
        open.extend(next);
    }
    assert_eq!(tickets, (10..110).collect::<Vec<u64>>());
}

#[test]
fn all_return_again_after_a_connection_that_broke_while_they_did() {
    let (mut machine, open) = many_return(70, 64);
    assert_eq!(open.len(), 64);
    reconnect(&mut machine, 3.6, 3.7);
    let again = sent(&mut machine, 3.7);
    let acquires = again.iter().filter(|(_, call)| matches!(call, Request::Acquire(AcquireRequest { .. }))).count();
    let heartbeats =
        again.iter().filter(|(_, call)| matches!(call, Request::Heartbeat(HeartbeatRequest { .. }))).count();
    assert_eq!((acquires, heartbeats), (70, 1), "at once");
}

// ---- timeouts ----

#[test]
fn timeouts_count_from_the_call_and_need_no_server() {
    let spec = start(LockOptions::new()).1;
    for (mode, timeout, due) in [
        (Mode::Wait, Some(7.0), Some(7.0)),
        (Mode::Enqueue, Some(3.0), Some(3.0)),
        (Mode::Enqueue, Some(9.0), Some(9.0)),
        (Mode::Enqueue, None, None),
        (Mode::Try, None, Some(5.0)),
        (Mode::Wait, None, None),
    ] {
        let mut machine = machine();
        acquire_in(&mut machine, 0.0, &spec, 1, mode, timeout.map(seconds));
        machine.effects(at(0.0), usize::MAX);
        assert_eq!(machine.next_due(), due.map(at), "{mode:?} {timeout:?}");
        let Some(due) = due else { continue };
        tick(&mut machine, due - 0.001);
        assert!(machine.effects(at(due - 0.001), usize::MAX).is_empty());
        let effects = tick_brings(&mut machine, due);
        let (waited, cause) = match not_granted(&effects) {
            Some(NotGranted::Timeout { waited, position: None, cause }) if timeout == Some(due) => {
                (waited, cause.as_ref().map(ToString::to_string))
            }
            Some(NotGranted::Fault(Fault::Unavailable { waited, cause })) if timeout != Some(due) => {
                (waited, cause.as_ref().map(ToString::to_string))
            }
            _ => panic!("{mode:?} {timeout:?}: {effects:?}"),
        };
        assert_eq!(*waited, seconds(due));
        assert!(cause.as_ref().is_some_and(|cause| cause.contains("no connection")), "{cause:?}");
        assert!(machine.next_due().is_none() && machine.gives_back_until().is_none());
    }
}

#[test]
fn a_timeout_tells_the_position_and_leaves() {
    let (mut machine, spec) = start(LockOptions::new());
    acquire_in(&mut machine, 0.0, &spec, 1, Mode::Enqueue, Some(seconds(9.0)));
    let (request, _) = one_sent(&mut machine, 0.0);
    answer_brings(&mut machine, 0.1, request, queued(4, seconds(60.0)));
    // It asks for its position shortly before.
    tick(&mut machine, 8.75);
    let calls = sent(&mut machine, 8.75);
    let asked: Vec<_> = calls.iter().filter(|(_, call)| matches!(call, Request::Acquire(_))).collect();
    let &[&(request, _)] = &asked[..] else { panic!("{calls:?}") };
    answer(&mut machine, 8.8, request, queued(1, seconds(60.0)));
    let effects = tick_brings(&mut machine, 9.0);
    let timeout = |effect: &Effect| matches!(effect, Effect::NotGranted { id: Id(1), why: NotGranted::Timeout { position: Some((2, age)), .. } } if *age == seconds(0.2));
    assert!(effects.iter().any(timeout), "{effects:?}");
    let leaves = |effect: &Effect| matches!(effect, Effect::Send { call: Request::Leave(LeaveRequest { ids, .. }), .. } if ids[..] == [wire_id(1)]);
    assert!(effects.iter().any(leaves), "{effects:?}");
    // The server forgets it by itself after liveness and buffer.
    assert_eq!(machine.gives_back_until(), Some(at(9.0 + 12.0)));
}

#[test]
fn a_timeout_names_a_silence_that_is_worth_a_word() {
    for (timeout, named) in [(0.249, false), (0.25, true)] {
        let (mut machine, spec) = start(LockOptions::new());
        acquire_in(&mut machine, 0.0, &spec, 1, Mode::Wait, Some(seconds(timeout)));
        machine.effects(at(0.0), usize::MAX);
        let effects = tick_brings(&mut machine, timeout);
        let Some(NotGranted::Timeout { cause, .. }) = not_granted(&effects) else { panic!("{effects:?}") };
        assert_eq!(
            cause.as_ref().is_some_and(|cause| cause.contains("has not answered for 250ms")),
            named,
            "{cause:?}"
        );
    }
}

#[test]
fn a_refused_acquire_is_repeated_after_pauses_that_double() {
    let (mut machine, spec) = start(LockOptions::new().lease(seconds(60.0)).liveness(seconds(60.0)));
    acquire(&mut machine, 0.0, &spec, 1);
    let mut now = 0.0;
    for refusals in 1..12 {
        let (request, _) = one_sent(&mut machine, now);
        fail(&mut machine, now, request, Refusal::Temporary("LOADING".into()));
        let pause = machine.next_due().unwrap().since(at(now));
        let ceiling = Duration::from_millis(10 << u32::min(refusals, 7));
        assert!(pause >= ceiling / 2 && pause <= ceiling, "{pause:?} after {refusals} refusals");
        now += pause.as_secs_f64();
        tick(&mut machine, now);
    }
    // An answer ends the series of failures.
    let (request, _) = one_sent(&mut machine, now);
    answer(&mut machine, now, request, queued(4, seconds(60.0)));
    now += 20.0;
    let (request, _) = tick_sends(&mut machine, now);
    fail(&mut machine, now, request, Refusal::Temporary("LOADING".into()));
    assert!(machine.next_due().unwrap().since(at(now)) <= seconds(0.02));
}

// ---- a server that is silent ----

#[test]
fn the_patience_is_as_short_as_the_most_urgent_member_needs() {
    let (mut machine, _) = start(LockOptions::new());
    assert_eq!(machine.patience(), seconds(5.0));
    let spec = |liveness: f64| start(LockOptions::new().liveness(seconds(liveness))).1;
    acquire(&mut machine, 0.0, &spec(60.0), 1);
    assert_eq!(machine.patience(), seconds(5.0));
    acquire(&mut machine, 0.0, &spec(9.0), 2);
    assert_eq!(machine.patience(), seconds(3.0));
    acquire(&mut machine, 0.0, &spec(0.15), 3);
    assert_eq!(machine.patience(), seconds(0.1), "a network has a latency");
    acquire(&mut machine, 0.0, &spec(9.0), 4);
    assert_eq!(machine.patience(), seconds(0.1));
    for id in 1..=4 {
        machine.handle(at(0.0), Event::Command(Command::Abandon { id: Id(id) }));
    }
    acquire(&mut machine, 0.0, &spec(9.0), 5);
    assert_eq!(machine.patience(), seconds(3.0), "forgotten with those who needed it");
    assert_eq!(holding(LockOptions::new().lease(seconds(6.0)).liveness(seconds(30.0))).patience(), seconds(2.0));
}

#[test]
fn routes_are_told_of_every_change_of_the_patience_and_of_nothing_else() {
    let told = |machine: &mut Machine, now: f64| -> Vec<Duration> {
        let patience = |effect| if let Effect::Patience(patience) = effect { Some(patience) } else { None };
        machine.effects(at(now), usize::MAX).into_iter().filter_map(patience).collect()
    };
    let (mut machine, spec) = start(LockOptions::new().liveness(seconds(9.0)));
    assert!(told(&mut machine, 0.0).is_empty());
    acquire(&mut machine, 0.0, &spec, 1);
    assert_eq!(told(&mut machine, 0.0), [seconds(3.0)]);
    acquire(&mut machine, 0.0, &spec, 2);
    assert!(told(&mut machine, 0.0).is_empty());
    tick(&mut machine, 3.0);
    tick(&mut machine, 3.05);
    assert_eq!(told(&mut machine, 3.05), [seconds(5.0)], "twice as long, but no longer than a caller waits");
}

#[test]
fn silence_is_looked_at_twice_and_then_the_connection_is_given_up() {
    let options = || LockOptions::new().liveness(seconds(9.0));
    let (mut machine, spec) = start(options());
    acquire(&mut machine, 0.0, &spec, 1);
    machine.effects(at(0.0), usize::MAX);
    assert_eq!(machine.next_due(), Some(at(3.0)));
    assert!(tick_brings(&mut machine, 3.0).is_empty(), "its answers may be waiting to be read");
    assert_eq!(machine.next_due(), Some(at(3.05)));
    assert!(reconnects(&tick_brings(&mut machine, 3.05)));

    // An answer to anything shows that it is alive; a request that goes after another does not.
    let (mut machine, spec) = start(options());
    let (first, _) = acquire_sends(&mut machine, 0.0, &spec, 1);
    acquire_sends(&mut machine, 1.0, &spec, 2);
    assert_eq!(machine.next_due(), Some(at(3.0)));
    tick(&mut machine, 3.0);
    answer(&mut machine, 3.01, first, queued(4, seconds(60.0)));
    assert_eq!(machine.next_due(), Some(at(3.01 + 3.0)));
    assert!(!reconnects(&tick_brings(&mut machine, 6.0)));
}

#[test]
fn patience_doubles_with_each_connection_given_up_until_an_answer() {
    let (mut machine, spec) = start(LockOptions::new().liveness(seconds(3.0)));
    acquire(&mut machine, 0.0, &spec, 1);
    let mut now = 0.0;
    // However often.
    for patience in [1.0, 2.0, 4.0].into_iter().chain([5.0; 40]) {
        assert_eq!((machine.patience(), sent(&mut machine, now).len()), (seconds(patience), 1));
        now += patience;
        assert!(!reconnects(&tick_brings(&mut machine, now)), "each connection is looked at twice");
        now += 0.05;
        assert!(reconnects(&tick_brings(&mut machine, now)));
        connect(&mut machine, now);
    }
    let (request, _) = one_sent(&mut machine, now);
    answer(&mut machine, now, request, queued(4, seconds(60.0)));
    assert_eq!(machine.patience(), seconds(1.0));
}

/// The ticket with which a waiter returns whose claim was over when it was to be confirmed.
#[track_caller]
fn returns_after_its_claim(mut machine: Machine, now: f64) -> u64 {
    let (request, call) = one_sent(&mut machine, now);
    assert!(matches!(call, Request::Renew(RenewRequest { .. })), "{call:?}");
    answer(&mut machine, now + 0.1, request, lease(Word::Lost, Duration::ZERO));
    match one_sent(&mut machine, now + 0.1).1 {
        Request::Acquire(AcquireRequest { seat, .. }) => told_in(seat)[1],
        call => panic!("{call:?}"),
    }
}

#[test]
fn a_waiter_that_never_heard_of_its_place_re_enters_there_after_a_lost_grant() {
    // The grant comes by message, and the reply with the ticket never does.
    let (mut machine, spec) = start(LockOptions::new());
    acquire_sends(&mut machine, 0.0, &spec, 1);
    grant_pushed(&mut machine, 0.1, 1, 7);
    assert_eq!(returns_after_its_claim(machine, 0.1), 6);

    // The same, named by the reply to another question.
    let (mut machine, spec) = start(LockOptions::new());
    acquire_sends(&mut machine, 0.0, &spec, 1);
    let (question, _) = ask_sends(&mut machine, 0.1, 9, inspecting(&spec.keys, 1));
    let claim = OwnLease { claim: true, ..own(1, 7, 6) };
    answer(&mut machine, 0.2, question, Answer { own: vec![claim], ..lease(Word::State, seconds(0.1)) });
    assert_eq!(returns_after_its_claim(machine, 0.2), 6);

    // Or by the reply to its own acquire, which was repeated: its guard knows the place, too.
    let (mut machine, spec) = start(LockOptions::new());
    let (request, _) = acquire_sends(&mut machine, 0.0, &spec, 1);
    let claim = OwnLease { claim: true, ..own(1, 7, 6) };
    answer(&mut machine, 0.1, request, Answer { own: vec![claim], ..lease(Word::Granted, spec.lease) });
    let effects = machine.effects(at(0.1), usize::MAX);
    let names = effects.iter().find_map(|effect| match effect {
        Effect::Granted { token, ticket, .. } => Some((*token, *ticket)),
        _ => None,
    });
    assert_eq!(names, Some((token(7), ticket(6))));
}

#[test]
fn a_newcomer_to_a_full_queue_is_told_so_and_leaves() {
    let (mut machine, spec) = start(LockOptions::new().max_waiting(3));
    let (request, call) = acquire_sends(&mut machine, 0.0, &spec, 1);
    assert!(matches!(call, Request::Acquire(AcquireRequest { room: 3, .. })), "{call:?}");
    let effects = answer_brings(&mut machine, 0.1, request, Answer { waiting: 3, ..lease(Word::Busy, seconds(20.0)) });
    assert!(matches!(not_granted(&effects), Some(NotGranted::QueueFull { waiting: 3 })), "{effects:?}");
    // An earlier request of the same acquire may be executed late, and take a place for nobody.
    let leaves = |effect: &Effect| matches!(effect, Effect::Send { call: Request::Leave(_), .. });
    assert!(effects.iter().any(leaves), "{effects:?}");

    // A try joins no queue, whatever its bound.
    acquire_in(&mut machine, 1.0, &spec, 2, Mode::Try, None);
    let calls = sent(&mut machine, 1.0);
    assert!(matches!(&calls[..], [(_, Request::Acquire(AcquireRequest { room: 0, .. }))]), "{calls:?}");
}
