//! No connection, refusals, lost data, operators, and grants that come late or have little left.

use std::sync::Arc;
use std::time::Duration;

use super::*;
use crate::error::Fault;
use crate::keeper::machine::Mode;
use crate::options::{LockOptions, Spec};
use crate::protocol::{
    AcquireRequest, ClientId, Epoch, HeartbeatRequest, Known, LeaveRequest, Refusal, ReleaseRequest, RenewRequest,
    Request, Stamp,
};

fn other_lock(options: LockOptions) -> Arc<Spec> {
    options.of(LockKeys::new("fairlock", "y")).unwrap()
}

fn calls(effects: Vec<Effect>) -> Vec<(RequestId, Request)> {
    let send = |effect| if let Effect::Send { request, call } = effect { Some((request, call)) } else { None };
    effects.into_iter().filter_map(send).collect()
}

fn inspect(question: u64) -> Command {
    Command::Inspect {
        question: QuestionId(question),
        keys: Arc::new(LockKeys::new("fairlock", "x")),
        after: None,
        count: 1,
    }
}

fn is_renewal(call: &Request) -> bool {
    matches!(call, Request::Renew(RenewRequest { .. }))
}

// ---- no connection ----

#[test]
fn without_a_connection_nothing_is_sent() {
    let (mut machine, spec) = start(LockOptions::new());
    let keys = spec.keys.clone();
    // One holds, one waits, one leaves, and a question is open.
    let mut hold = holding(LockOptions::new());
    let mut wait = waiting(LockOptions::new(), 0, seconds(2.0));
    machine.handle(at(0.0), Event::Command(Command::Abandon { id: Id(1) }));
    for machine in [&mut machine, &mut hold, &mut wait] {
        disconnect(machine, 1.0);
        machine.effects(at(1.0));
        acquire(machine, 1.0, &spec, 2);
        machine.handle(at(1.0), Event::Command(Command::Renew { question: QuestionId(9), id: Id(1), extend: None }));
        let question = Command::Inspect { question: QuestionId(10), keys: keys.clone(), after: None, count: 10 };
        machine.handle(at(1.0), Event::Command(question));
        machine.handle(at(1.0), Event::Command(Command::Position { question: QuestionId(11), id: Id(2) }));
        for now in 1..25 {
            tick(machine, f64::from(now));
        }
        machine.handle(at(25.0), Event::Command(Command::Abandon { id: Id(1) }));
        machine.handle(at(25.0), Event::Command(Command::Release { question: None, id: Id(1) }));
        tick(machine, 60.0);
        let sent = calls(machine.effects(at(60.0)));
        assert!(sent.is_empty(), "{sent:?}");
    }
}

#[test]
fn a_waiter_that_leaves_as_the_connection_breaks_leaves_over_the_next() {
    let mut machine = waiting(LockOptions::new(), 1, seconds(20.0));
    machine.handle(at(1.0), Event::Command(Command::Abandon { id: Id(1) }));
    disconnect(&mut machine, 1.0);
    assert!(sent(&mut machine, 1.0).is_empty());
    connect(&mut machine, 2.0);
    assert!(matches!(one_sent(&mut machine, 2.0).1, Request::Leave(LeaveRequest { .. })));
}

/// A request that was refused was most likely not executed: its release is repeated only for a while. One that was cut
/// off may have been executed.
#[test]
fn an_acquire_that_was_only_refused_is_not_released_for_ever() {
    for cut in [false, true] {
        let (mut machine, spec) = start(LockOptions::new());
        acquire_in(&mut machine, 0.0, &spec, 1, Mode::Wait, Some(seconds(1.0)));
        let (request, _) = one_sent(&mut machine, 0.0);
        if cut {
            disconnect(&mut machine, 0.1);
            connect(&mut machine, 0.2);
            let (request, _) = one_sent(&mut machine, 0.2);
            fail(&mut machine, 0.3, request, Refusal::Temporary("OOM".into()));
        } else {
            fail(&mut machine, 0.1, request, Refusal::Temporary("OOM".into()));
        }
        // The outcome of the repeated request is not known while it is under way.
        let again = machine.next_due().unwrap();
        machine.handle(again, Event::Tick);
        let asked = machine.effects(again).iter().find_map(|effect| match effect {
            Effect::Send { request, call: Request::Acquire(AcquireRequest { .. }) } => Some(*request),
            _ => None,
        });
        fail(&mut machine, 0.5, asked.unwrap(), Refusal::Temporary("OOM".into()));
        machine.core.timers.clear(&Timer::Acquire(Id(1)));
        tick(&mut machine, 1.0);
        // The server goes on to refuse, for longer than a session without a heartbeat lasts.
        for (asked, refused, left) in [(1.0, 11.0, 1), (12.9, 13.1, usize::from(cut))] {
            tick(&mut machine, asked);
            let (request, call) = one_sent(&mut machine, asked);
            assert!(matches!(call, Request::Leave(LeaveRequest { .. })), "{call:?}");
            fail(&mut machine, refused, request, Refusal::Temporary("OOM".into()));
            assert_eq!((machine.releases().count(), machine.locks.len()), (left, left));
        }
    }
}

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
    assert!(granted(&machine.effects(at(1.0))).is_some());
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
fn a_lease_that_was_declared_lost_is_not_renewed() {
    let mut machine = holding(LockOptions::new());
    pushed(&mut machine, 1.0, PushKind::Break, 1, 7);
    machine.effects(at(1.0));
    disconnect(&mut machine, 2.0);
    connect(&mut machine, 3.0);
    assert!(sent(&mut machine, 3.0).is_empty());
}

// ---- refusals ----

#[test]
fn a_renewal_that_is_refused_is_asked_again_and_its_loss_has_that_cause() {
    let mut machine = holding(LockOptions::new());
    tick(&mut machine, 10.0);
    let (request, _) = one_sent(&mut machine, 10.0);
    fail(&mut machine, 10.1, request, Refusal::Temporary("OOM".into()));
    let again = machine.next_due().unwrap().since(at(10.1));
    assert!(again >= seconds(0.01) && again <= seconds(0.02), "{again:?}");
    tick(&mut machine, 10.15);
    let (request, call) = one_sent(&mut machine, 10.15);
    assert!(is_renewal(&call), "{call:?}");
    fail(&mut machine, 10.2, request, Refusal::Temporary("OOM".into()));
    // Requests about another lock are answered meanwhile: the server refuses this one alone.
    let other = other_lock(LockOptions::new());
    acquire(&mut machine, 10.2, &other, 2);
    let (request, _) = one_sent(&mut machine, 10.2);
    answer(&mut machine, 10.21, request, queued(3, seconds(60.0)));
    disconnect(&mut machine, 10.22);
    machine.effects(at(10.22));
    tick(&mut machine, 29.0);
    match lost(&machine.effects(at(29.0))) {
        Some(LostReason::NotRenewed { cause: Some(cause) }) => assert_eq!(cause.to_string(), "OOM"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_key_of_another_type_ends_the_acquires_of_its_lock_alone() {
    let mut machine = waiting(LockOptions::new(), 9, seconds(60.0));
    let other = other_lock(LockOptions::new());
    acquire(&mut machine, 1.0, &other, 2);
    let (request, _) = one_sent(&mut machine, 1.0);
    answer(&mut machine, 1.1, request, queued(9, seconds(60.0)));
    tick(&mut machine, 3.4);
    let heartbeats = calls(machine.effects(at(3.4)));
    assert_eq!(heartbeats.len(), 1, "{heartbeats:?}");
    fail(&mut machine, 3.5, heartbeats[0].0, Refusal::WrongType("WRONGTYPE".into()));
    let refused: Vec<Id> = machine
        .effects(at(3.5))
        .into_iter()
        .filter_map(|effect| match effect {
            Effect::NotGranted { id, why: NotGranted::Fault(Fault::WrongType { .. }) } => Some(id),
            _ => None,
        })
        .collect();
    assert_eq!(refused, [Id(1)]);
}

#[test]
fn a_refused_release_is_repeated_until_the_lease_is_over() {
    let mut machine = holding(LockOptions::new());
    machine.handle(at(1.0), Event::Command(Command::Release { question: None, id: Id(1) }));
    let (request, _) = one_sent(&mut machine, 1.0);
    fail(&mut machine, 1.1, request, Refusal::WrongType("WRONGTYPE".into()));
    assert_eq!(machine.gives_back_until(), Some(at(29.849)), "the key may be gone by then");
    tick(&mut machine, 1.2);
    let (request, _) = one_sent(&mut machine, 1.2);
    fail(&mut machine, 29.849, request, Refusal::WrongType("WRONGTYPE".into()));
    assert_eq!(machine.gives_back_until(), None);
}

#[test]
fn many_clients_that_are_refused_do_not_ask_again_in_step() {
    let pauses: std::collections::BTreeSet<Duration> = (0..20)
        .map(|seed| {
            let (mut machine, spec) =
                (Machine::new(ClientId::new("client").unwrap(), "fairlock".into(), seed), start(LockOptions::new()).1);
            connect(&mut machine, 0.0);
            acquire(&mut machine, 0.0, &spec, 1);
            let (request, _) = one_sent(&mut machine, 0.0);
            fail(&mut machine, 0.0, request, Refusal::Temporary("LOADING".into()));
            machine.next_due().unwrap().since(at(0.0))
        })
        .collect();
    assert!(pauses.len() > 4, "{pauses:?}");
}

/// The pauses after refusals double, but not beyond what a session or a lease can spare.
#[test]
fn refused_heartbeats_and_renewals_are_repeated_before_session_or_lease_ends() {
    let brief = || LockOptions::new().lease(seconds(3.0)).liveness(seconds(3.0));
    let mut waits = start(brief()).0;
    acquire(&mut waits, 0.0, &start(brief()).1, 1);
    let (request, _) = one_sent(&mut waits, 0.0);
    answer(&mut waits, 0.0, request, queued(9, seconds(60.0)));
    for (mut machine, mut now) in [(waits, 1.0), (holding(brief()), 1.2)] {
        let longest = (0..10).map(|_| {
            tick(&mut machine, now);
            let (request, call) = one_sent(&mut machine, now);
            assert!(
                matches!(call, Request::Heartbeat(HeartbeatRequest { .. }) | Request::Renew(RenewRequest { .. })),
                "{call:?}"
            );
            fail(&mut machine, now, request, Refusal::Temporary("BUSY".into()));
            let pause = machine.next_due().unwrap().since(at(now));
            now += pause.as_secs_f64();
            pause
        });
        assert_eq!(longest.max(), Some(seconds(0.25)));
    }
}

/// A server that was rolled back is ready for all clients at the same time. A waiter that returns late finds newcomers
/// served.
#[test]
fn a_waiter_with_a_place_that_is_refused_asks_again_before_the_others_have_returned() {
    for has_place in [true, false] {
        let (mut machine, spec) = start(LockOptions::new().lease(seconds(3.0)).liveness(seconds(3.0)));
        acquire(&mut machine, 0.0, &spec, 1);
        if has_place {
            let (request, _) = one_sent(&mut machine, 0.0);
            answer(&mut machine, 0.0, request, queued(9, seconds(60.0)));
            disconnect(&mut machine, 0.0);
            connect(&mut machine, 0.0);
            // The server has lost its place, and then refuses that it returns.
            let (request, _) = one_sent(&mut machine, 0.0);
            answer(&mut machine, 0.0, request, lease(Word::Unknown, Duration::ZERO));
        }
        let (mut now, mut asked, mut longest) = (0.0, 0.0, 0.0_f64);
        for _ in 0..40 {
            tick(&mut machine, now);
            for (request, call) in sent(&mut machine, now) {
                if let Request::Acquire(_) = call {
                    longest = longest.max(now - asked);
                    asked = now;
                }
                fail(&mut machine, now, request, Refusal::Temporary("CLUSTERDOWN".into()));
            }
            now += machine.next_due().unwrap().since(at(now)).as_secs_f64();
        }
        assert!(if has_place { 0.0 < longest && longest <= 0.26 } else { longest > 0.6 }, "{longest}");
    }
}

/// The claim ends with the liveness.
#[test]
fn a_confirmation_that_is_refused_is_asked_for_again_in_time() {
    let mut machine = waiting(LockOptions::new().lease(seconds(3.0)).liveness(seconds(3.0)), 0, seconds(60.0));
    grant_pushed(&mut machine, 0.0, 1, 7);
    let (mut now, mut asked, mut longest) = (0.0, 0.0, 0.0_f64);
    for _ in 0..40 {
        tick(&mut machine, now);
        for (request, call) in sent(&mut machine, now) {
            if is_renewal(&call) {
                longest = longest.max(now - asked);
                asked = now;
            }
            fail(&mut machine, now, request, Refusal::Temporary("CLUSTERDOWN".into()));
        }
        now += machine.next_due().unwrap().since(at(now)).as_secs_f64();
    }
    assert!(0.0 < longest && longest <= 0.26, "{longest}");
}

#[test]
fn a_try_that_stopped_at_its_batch_limit_goes_on() {
    let (mut machine, spec) = start(LockOptions::new());
    acquire_in(&mut machine, 0.0, &spec, 1, Mode::Try, None);
    let (request, call) = one_sent(&mut machine, 0.0);
    assert!(matches!(call, Request::Acquire(AcquireRequest { room: 0, .. })), "{call:?}");
    answer(&mut machine, 0.1, request, Answer { again: true, ..lease(Word::Busy, Duration::ZERO) });
    let (request, call) = one_sent(&mut machine, 0.1);
    assert!(matches!(call, Request::Acquire(AcquireRequest { .. })), "{call:?}");
    answer(&mut machine, 0.2, request, Answer { waiting: 3, ..lease(Word::Busy, Duration::ZERO) });
    assert!(matches!(not_granted(&machine.effects(at(0.2))), Some(NotGranted::Busy { waiting: 3, .. })));
    assert_eq!(machine.adds_up(), Ok(()));
}

// ---- lost data ----

#[test]
fn a_reply_with_another_epoch_is_answered_at_once_with_lease_and_place() {
    let mut machine = holding(LockOptions::new());
    let spec = start(LockOptions::new()).1;
    acquire(&mut machine, 0.5, &spec, 2);
    let (request, _) = one_sent(&mut machine, 0.5);
    answer(&mut machine, 0.6, request, queued(0, seconds(29.4)));
    machine.effects(at(0.6));
    // A lease at another lock has nothing to do with it.
    let other = other_lock(LockOptions::new());
    acquire(&mut machine, 0.7, &other, 3);
    let (request, _) = one_sent(&mut machine, 0.7);
    answer(&mut machine, 0.8, request, Answer { epoch: 50, ..lease(Word::Granted, seconds(30.0)) });
    machine.effects(at(0.8));

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

#[test]
fn a_waiter_that_gives_up_while_it_re_enters_makes_room_for_the_next() {
    let (mut machine, open) = many_return(100);
    assert_eq!(open.len(), 64);
    for id in 90..=99 {
        machine.handle(at(3.5), Event::Command(Command::Abandon { id: Id(id) }));
    }
    machine.effects(at(3.5));
    let back = |ticket| Answer { ticket, ..queued(9, seconds(30.0)) };
    answer(&mut machine, 3.6, open[0].0, back(10));
    assert_eq!(sent(&mut machine, 3.6).len(), 1, "those who had not gone had no room");
    machine.handle(at(3.7), Event::Command(Command::Abandon { id: Id(2) }));
    machine.effects(at(3.7));
    answer(&mut machine, 3.8, open[2].0, back(12));
    assert_eq!(sent(&mut machine, 3.8).len(), 2, "the one who was on its way had");
}

// ---- operators ----

#[test]
fn a_broken_lease_is_kept_until_its_holder_lets_go_and_an_ended_one_is_not() {
    for (word, reason, at_once) in [(Word::Broken, LostReason::Broken, false), (Word::Lost, LostReason::Ended, true)] {
        let mut machine = holding(LockOptions::new());
        tick(&mut machine, 10.0);
        let (request, _) = one_sent(&mut machine, 10.0);
        answer(&mut machine, 10.1, request, lease(word, seconds(19.0)));
        let effects = machine.effects(at(10.1));
        assert_eq!(lost(&effects), Some(&reason));
        let given_back = calls(effects).iter().any(|(_, call)| matches!(call, Request::Release(ReleaseRequest { .. })));
        assert_eq!(given_back, at_once, "{word:?}");
        assert_eq!(machine.gives_back_until().is_some(), at_once, "{word:?}");
    }
}

#[test]
fn a_grant_that_was_broken_before_it_was_handed_out_is_an_error() {
    let mut machine = waiting(LockOptions::new(), 1, seconds(2.0));
    grant_pushed(&mut machine, 1.0, 1, 7);
    let (request, _) = one_sent(&mut machine, 1.0);
    answer(&mut machine, 1.1, request, lease(Word::Broken, seconds(5.0)));
    match not_granted(&machine.effects(at(1.1))) {
        Some(NotGranted::Fault(Fault::LeaseBroken)) => {}
        other => panic!("{other:?}"),
    }
}

// ---- grants that come late ----

#[test]
fn a_grant_that_nobody_wants_any_more_is_given_back_for_as_long_as_it_lasts() {
    let (mut machine, spec) = start(LockOptions::new());
    acquire(&mut machine, 0.0, &spec, 1);
    let (request, _) = one_sent(&mut machine, 0.0);
    machine.handle(at(0.1), Event::Command(Command::Abandon { id: Id(1) }));
    let (leave, _) = one_sent(&mut machine, 0.1);
    answer(&mut machine, 0.2, leave, lease(Word::Left, Duration::ZERO));
    assert_eq!(machine.gives_back_until(), None);
    answer(&mut machine, 0.3, request, lease(Word::Granted, seconds(30.0)));
    let (_, call) = one_sent(&mut machine, 0.3);
    assert!(matches!(&call, Request::Leave(LeaveRequest { ids, .. }) if ids[..] == [wire_id(1)]), "{call:?}");
    assert_eq!(machine.gives_back_until(), Some(at(30.3)));
}

#[test]
fn a_lease_that_an_answer_names_is_taken_or_given_back() {
    let ask = |machine: &mut Machine, id| {
        tick(machine, 3.4);
        let (request, _) = one_sent(machine, 3.4);
        let mut answered = Answer { token: 9, ..alive(1, seconds(8.0)) };
        answered.own = Some(own(id, 9, 9));
        answer(machine, 3.5, request, answered);
        machine.effects(at(3.5))
    };
    let mut machine = waiting(LockOptions::new(), 1, seconds(60.0));
    assert_eq!(granted(&ask(&mut machine, 1)), Some(at(3.4 + 8.0 - 0.041)));

    let mut machine = waiting(LockOptions::new(), 1, seconds(60.0));
    let effects = ask(&mut machine, 40);
    assert!(granted(&effects).is_none());
    let releases = |(_, call): &(RequestId, Request)| matches!(call, Request::Release(ReleaseRequest { id, .. }) if id.as_str() == "client.40");
    assert!(calls(effects).iter().any(releases));
    assert_eq!(machine.gives_back_until(), Some(at(3.5 + 8.0)));
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
        let sent = calls(machine.effects(at(1.1)));
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

/// Returns are made in batches, and each that is over makes room for the next.
#[test]
fn a_return_that_is_overtaken_by_a_confirmation_makes_room() {
    let (mut machine, sent_first) = many_return(70);
    assert_eq!(sent_first.len(), 64);
    // A message as old as an answer has to be confirmed.
    grant_pushed(&mut machine, 3.6, 1, 7);
    let (confirm, call) = sent(&mut machine, 3.6).remove(0);
    assert!(is_renewal(&call), "{call:?}");
    answer(&mut machine, 3.7, sent_first[0].0, Answer { ticket: 10, ..queued(0, seconds(30.0)) });
    answer(&mut machine, 3.8, confirm, lease(Word::Renewed, seconds(30.0)));
    let name: Arc<str> = "x".into();
    assert_eq!(machine.locks[&name].reentering.len(), 63);
    for (request, _) in &sent_first[1..] {
        answer(&mut machine, 3.9, *request, Answer { ticket: 11, ..queued(0, seconds(30.0)) });
    }
    assert_eq!(machine.locks[&name].reentering.len(), 6, "the last six were sent");
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
fn a_grant_of_which_little_is_left_is_confirmed_before_it_is_handed_out() {
    // Of a lease of 20 s a tenth is the notice: 2 s.
    let options = || LockOptions::new().lease(seconds(20.0));
    for (answered, handed_out) in [(17.898, true), (17.9, false)] {
        let (mut machine, spec) = start(options().liveness(seconds(60.0)));
        acquire(&mut machine, 0.0, &spec, 1);
        let (request, _) = one_sent(&mut machine, 0.0);
        answer(&mut machine, answered, request, lease(Word::Granted, seconds(20.0)));
        let effects = machine.effects(at(answered));
        assert_eq!(granted(&effects).is_some(), handed_out, "{answered}");
        if handed_out {
            continue;
        }
        let (request, call) = calls(effects).remove(0);
        assert!(is_renewal(&call), "{call:?}");
        answer(&mut machine, 18.5, request, lease(Word::Renewed, seconds(20.0)));
        assert_eq!(granted(&machine.effects(at(18.5))), Some(at(17.9 + 20.0 - 0.101)));
    }
}

/// The process may have been stopped while the first was under way. A second one shows that it is the server.
#[test]
fn a_second_confirmation_of_which_nothing_is_left_is_an_error() {
    for (took, handed_out) in [(19.898, true), (19.899, false)] {
        let (mut machine, spec) = start(LockOptions::new().lease(seconds(20.0)).liveness(seconds(60.0)));
        acquire(&mut machine, 0.0, &spec, 1);
        let (request, _) = one_sent(&mut machine, 0.0);
        answer(&mut machine, 19.0, request, lease(Word::Granted, seconds(20.0)));
        let (request, _) = one_sent(&mut machine, 19.0);
        answer(&mut machine, 19.0 + took, request, lease(Word::Renewed, seconds(20.0)));
        let again = 19.0 + took;
        let (request, call) = one_sent(&mut machine, again);
        assert!(is_renewal(&call), "{call:?}");
        answer(&mut machine, again + took, request, lease(Word::Renewed, seconds(20.0)));
        let effects = machine.effects(at(again + took));
        assert_eq!(granted(&effects).is_some(), handed_out, "{took}");
        assert_eq!(
            matches!(not_granted(&effects), Some(NotGranted::Fault(Fault::TooSlow { .. }))),
            !handed_out,
            "{took}"
        );
    }
}

#[test]
fn a_waiter_whose_grant_is_being_confirmed_does_not_return_to_the_queue() {
    let mut machine = waiting(LockOptions::new(), 1, seconds(60.0));
    let spec = start(LockOptions::new()).1;
    acquire(&mut machine, 0.2, &spec, 2);
    let (request, _) = one_sent(&mut machine, 0.2);
    answer(&mut machine, 0.3, request, Answer { ticket: 8, ..queued(2, seconds(60.0)) });
    machine.effects(at(0.3));
    tick(&mut machine, 3.6);
    let (heartbeat, _) = one_sent(&mut machine, 3.6);
    grant_pushed(&mut machine, 3.7, 1, 7);
    let (confirmation, call) = one_sent(&mut machine, 3.7);
    assert!(is_renewal(&call), "{call:?}");
    // Its confirmation is refused for the moment, so that nothing of it is under way.
    fail(&mut machine, 3.8, confirmation, Refusal::Temporary("LOADING".into()));
    answer(&mut machine, 3.8, heartbeat, lease(Word::Unknown, Duration::ZERO));
    let (_, call) = one_sent(&mut machine, 3.8);
    assert!(matches!(&call, Request::Acquire(AcquireRequest { id, .. }) if id.as_str() == "client.2"), "{call:?}");
}

// ---- scripts that stop at their batch limit ----

#[test]
fn a_script_that_stopped_at_its_batch_limit_is_asked_to_go_on() {
    // A heartbeat: by another at once.
    let mut machine = waiting(LockOptions::new(), 0, seconds(0.5));
    let heartbeat = (0..10).find_map(|_| {
        let due = machine.next_due().unwrap();
        machine.handle(due, Event::Tick);
        machine.effects(due).into_iter().find_map(|effect| match effect {
            Effect::Send { request, call: Request::Heartbeat(HeartbeatRequest { .. }) } => {
                Some((request, due.since(Time(0)).as_secs_f64() - 1000.0))
            }
            _ => None,
        })
    });
    let (heartbeat, now) = heartbeat.expect("a heartbeat");
    answer(&mut machine, now, heartbeat, Answer { again: true, ..alive(0, seconds(0.5)) });
    let (_, call) = one_sent(&mut machine, now);
    assert!(matches!(call, Request::Heartbeat(HeartbeatRequest { .. })), "{call:?}");

    // An operator's call: by a release of an id that nobody has.
    let (mut machine, spec) = start(LockOptions::new());
    let keys = spec.keys.clone();
    machine.handle(
        at(0.0),
        Event::Command(Command::Break { question: QuestionId(9), keys, token: Token::new(7), force: true }),
    );
    let (question, _) = one_sent(&mut machine, 0.0);
    answer(&mut machine, 0.1, question, Answer { again: true, ..lease(Word::Ended, Duration::ZERO) });
    let effects = machine.effects(at(0.1));
    assert!(outcome(&effects, 9).is_some(), "{effects:?}");
    let goes_on = |effects: &[Effect]| {
        effects
            .iter()
            .any(|effect| matches!(effect, Effect::Send { call: Request::Release(ReleaseRequest { .. }), .. }))
    };
    assert!(goes_on(&effects), "{effects:?}");
    // Another call beside it has its own.
    machine.handle(
        at(0.1),
        Event::Command(Command::Break {
            question: QuestionId(10),
            keys: spec.keys.clone(),
            token: Token::new(8),
            force: true,
        }),
    );
    let (question, _) = one_sent(&mut machine, 0.1);
    answer(&mut machine, 0.2, question, Answer { again: true, ..lease(Word::Ended, Duration::ZERO) });
    assert!(goes_on(&machine.effects(at(0.2))));
    assert_eq!(machine.releases().count(), 2);
    assert!(machine.releases().all(|id| id > Id::of_no_acquire(10)), "they are counted from the other end");
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
