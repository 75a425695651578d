//! Pending releases, and questions that end with one answer.

use std::time::Duration;

use super::*;
use crate::error::Fault;
use crate::inspect::BreakOutcome;
use crate::options::LockOptions;
use crate::protocol::{LeaveRequest, Refusal, ReleaseRequest, Request, Verdict};

// ---- giving back ----

#[test]
fn the_outcome_of_a_release_is_the_servers_and_a_repeated_one_that_finds_no_lease_counts() {
    let ask = |machine: &mut Machine, now| {
        ask(machine, now, 9, Question::Release { id: Id(1) });
        let (request, call) = one_sent(machine, now);
        assert!(matches!(&call, Request::Release(ReleaseRequest { id, .. }) if id.as_str() == "client.1"), "{call:?}");
        request
    };
    for (word, released) in [(Word::Released, true), (Word::Expired, false), (Word::Unknown, false)] {
        let mut machine = holding(LockOptions::new());
        let request = ask(&mut machine, 1.0);
        assert_eq!(machine.gives_back_until(), Some(at(29.849)));
        let effects = answer_brings(&mut machine, 1.1, request, lease(word, Duration::ZERO));
        match outcome(&effects, 9) {
            Some(Outcome::Release(Release::Released)) => assert!(released, "{word:?}"),
            Some(Outcome::Release(Release::Lost(LostReason::Ended))) => assert!(!released, "{word:?}"),
            other => panic!("{word:?}: {other:?}"),
        }
        assert!(machine.gives_back_until().is_none());
    }
    let mut machine = holding(LockOptions::new());
    ask(&mut machine, 1.0);
    reconnect(&mut machine, 2.0, 3.0);
    let (request, _) = one_sent(&mut machine, 3.0);
    answer(&mut machine, 3.1, request, lease(Word::Unknown, Duration::ZERO));
    assert!(matches!(outcome(&machine.effects(at(3.1), usize::MAX), 9), Some(Outcome::Release(Release::Released))));

    // By the local deadline there is an answer, and it goes on.
    let mut machine = holding(LockOptions::new());
    ask(&mut machine, 1.0);
    disconnect(&mut machine, 2.0);
    machine.effects(at(2.0), usize::MAX);
    assert_eq!(machine.next_due(), Some(at(29.849)));
    assert!(matches!(
        outcome(&tick_brings(&mut machine, 29.849), 9),
        Some(Outcome::Release(Release::Unknown(Some(_))))
    ));
    connect(&mut machine, 40.0);
    one_sent(&mut machine, 40.0);
}

#[test]
fn a_release_goes_on_where_it_stopped_at_its_batch_limit() {
    let mut machine = holding(LockOptions::new());
    let (request, _) = ask_sends(&mut machine, 1.0, 9, Question::Release { id: Id(1) });
    answer(&mut machine, 1.1, request, Answer { again: true, ..lease(Word::Released, Duration::ZERO) });
    let effects = machine.effects(at(1.1), usize::MAX);
    assert!(matches!(outcome(&effects, 9), Some(Outcome::Release(Release::Released))));
    // The earlier request was executed, and the lock may have been granted since.
    let seat = |effect: &Effect| match effect {
        Effect::Send { call: Request::Release(request), .. } => Some(request.seat),
        _ => None,
    };
    assert_eq!(effects.iter().find_map(seat), Some(Seat::NONE), "{effects:?}");
}

#[test]
fn waiters_that_leave_together_send_one_request_and_the_first_goes_on_for_all() {
    let (mut machine, spec) = start(LockOptions::new());
    for id in 1..=30 {
        acquire(&mut machine, 0.0, &spec, id);
    }
    machine.effects(at(0.0), usize::MAX);
    for id in 1..=30 {
        machine.handle(at(1.0), Event::Command(Command::Abandon { id: Id(id) }));
    }
    let leaves = sent(&mut machine, 1.0);
    let sizes: Vec<usize> = leaves
        .iter()
        .map(|(_, call)| if let Request::Leave(LeaveRequest { ids, .. }) = call { ids.len() } else { 0 })
        .collect();
    assert_eq!(sizes, [20, 10]);
    answer(&mut machine, 1.1, leaves[0].0, Answer { again: true, ..lease(Word::Left, Duration::ZERO) });
    let (_, call) = one_sent(&mut machine, 1.1);
    assert!(matches!(&call, Request::Leave(LeaveRequest { ids, .. }) if ids[..] == [wire_id(1)]), "{call:?}");
}

#[test]
fn a_waiter_that_sent_nothing_leaves_nothing_to_release() {
    let spec = start(LockOptions::new()).1;
    let mut machine = machine();
    acquire(&mut machine, 0.0, &spec, 1);
    machine.handle(at(1.0), Event::Command(Command::Abandon { id: Id(1) }));
    assert!(machine.gives_back_until().is_none());
    connect(&mut machine, 2.0);
    assert!(sent(&mut machine, 2.0).is_empty());
}

/// An acquire without an answer may be executed, unlike one that was refused.
#[test]
fn a_waiter_that_leaves_unanswered_leaves_until_the_server_has_heard_it() {
    let (mut machine, spec) = start(LockOptions::new());
    acquire(&mut machine, 0.0, &spec, 1);
    machine.effects(at(0.0), usize::MAX);
    machine.handle(at(1.0), Event::Command(Command::Abandon { id: Id(1) }));
    let (request, _) = one_sent(&mut machine, 1.0);
    fail(&mut machine, 14.0, request, Refusal::Temporary("OOM".into()));
    assert_eq!((machine.releases().count(), machine.gives_back_until()), (1, Some(at(13.0))));
}

#[test]
fn closing_waits_a_second_for_what_is_given_back() {
    let mut machine = holding(LockOptions::new());
    let effects = ask_brings(&mut machine, 1.0, 9, Question::Close);
    assert!(matches!(lost(&effects), Some(LostReason::Closed)), "{effects:?}");
    assert!(outcome(&effects, 9).is_none());
    assert!(outcome(&tick_brings(&mut machine, 1.999), 9).is_none());
    assert!(matches!(outcome(&tick_brings(&mut machine, 2.0), 9), Some(Outcome::Closed)));

    // No acquire begins any more, and a close with nothing to give back is over at once.
    let (mut machine, spec) = start(LockOptions::new());
    assert!(matches!(outcome(&ask_brings(&mut machine, 1.0, 9, Question::Close), 9), Some(Outcome::Closed)));
    acquire(&mut machine, 1.1, &spec, 1);
    assert!(matches!(not_granted(&machine.effects(at(1.1), usize::MAX)), Some(NotGranted::Fault(Fault::Closed))));
    assert!(matches!(
        outcome(&ask_brings(&mut machine, 1.2, 10, breaking(&spec.keys, 7, false)), 10),
        Some(Outcome::Operator(Err(Fault::Closed)))
    ));
}

#[test]
fn closing_answers_the_questions_that_wait_for_the_server() {
    let (mut machine, spec) = start(LockOptions::new());
    ask(&mut machine, 0.0, 8, inspecting(&spec.keys, 10));
    let effects = ask_brings(&mut machine, 0.1, 9, Question::Close);
    assert!(matches!(outcome(&effects, 8), Some(Outcome::Operator(Err(Fault::Closed)))), "{effects:?}");
    assert!(matches!(outcome(&effects, 9), Some(Outcome::Closed)), "{effects:?}");
}

// ---- questions ----

#[test]
fn a_position_is_one_more_than_the_rank_and_zero_for_a_holder() {
    let mut machine = waiting(LockOptions::new(), 4, seconds(60.0));
    let (request, call) = ask_sends(&mut machine, 1.0, 9, Question::Position { id: Id(1) });
    assert!(is_acquire_with(&call, Some(6)), "{call:?}");
    answer(&mut machine, 1.1, request, queued(2, seconds(60.0)));
    assert!(matches!(outcome(&machine.effects(at(1.1), usize::MAX), 9), Some(Outcome::Position(Ok(3)))));
    let (request, _) = ask_sends(&mut machine, 2.0, 10, Question::Position { id: Id(1) });
    answer(&mut machine, 2.1, request, Answer { rank: Some(0), ..lease(Word::Granted, seconds(30.0)) });
    let effects = machine.effects(at(2.1), usize::MAX);
    assert!(matches!(outcome(&effects, 10), Some(Outcome::Position(Ok(0)))));
    assert_eq!(granted(&effects), Some(at(2.0 + 30.0 - 0.151)));
}

#[test]
fn a_position_is_asked_for_again_if_the_waiter_has_lost_its_place() {
    let mut machine = waiting(LockOptions::new(), 4, seconds(60.0));
    let (request, _) = ask_sends(&mut machine, 1.0, 9, Question::Position { id: Id(1) });
    let effects = answer_brings(&mut machine, 1.1, request, Answer { word: Word::Disbelieved, ..Answer::default() });
    assert!(outcome(&effects, 9).is_none(), "it waits: {effects:?}");
    // It asks for a place anew, and the answer to that tells its position, too.
    let sent = calls(effects);
    let [(request, call)] = &sent[..] else { panic!("{sent:?}") };
    assert!(is_acquire_with(call, None), "{call:?}");
    answer(&mut machine, 1.9, *request, queued(6, seconds(60.0)));
    assert!(matches!(outcome(&machine.effects(at(1.9), usize::MAX), 9), Some(Outcome::Position(Ok(7)))));

    // A waiter that a full queue has refused waits no longer.
    let (mut machine, spec) = start(LockOptions::new().max_waiting(1));
    let (request, _) = acquire_sends(&mut machine, 1.0, &spec, 1);
    ask(&mut machine, 1.1, 9, Question::Position { id: Id(1) });
    answer(&mut machine, 1.2, request, Answer { word: Word::Busy, ..Answer::default() });
    assert!(matches!(outcome(&machine.effects(at(1.2), usize::MAX), 9), Some(Outcome::Position(Ok(0)))));
}

#[test]
fn breaking_a_lease_is_answered_with_its_outcome() {
    let (mut machine, spec) = start(LockOptions::new());
    for (call, word, expected) in [
        (9, Word::Told, BreakOutcome::Told { remaining: seconds(3.0) }),
        (10, Word::Ended, BreakOutcome::Ended),
        (11, Word::Unknown, BreakOutcome::Unknown),
    ] {
        let (request, _) = ask_sends(&mut machine, 1.0, call, breaking(&spec.keys, 7, false));
        match outcome(&answer_brings(&mut machine, 1.1, request, lease(word, seconds(3.0))), call) {
            Some(Outcome::Operator(Ok(reply))) => assert_eq!(reply.verdict, Verdict::Break(expected)),
            other => panic!("{word:?}: {other:?}"),
        }
    }
}

#[test]
fn a_holder_is_told_of_a_broken_lease_if_it_is_its_own() {
    for (token, told) in [(6, false), (7, true), (8, false)] {
        let mut machine = holding(LockOptions::new());
        pushed(&mut machine, 1.0, PushKind::Break, 1, token);
        assert_eq!(
            matches!(lost(&machine.effects(at(1.0), usize::MAX)), Some(LostReason::Broken)),
            told,
            "token {token}"
        );
    }
}

#[test]
fn a_lost_lease_lasts_until_its_deadline_unless_the_server_has_ended_it() {
    let mut machine = holding(LockOptions::new());
    pushed(&mut machine, 1.0, PushKind::Break, 1, 7);
    assert_eq!(lost_at(&machine.effects(at(1.0), usize::MAX)), Some(at(29.849)), "its holder can finish");

    let mut machine = holding(LockOptions::new());
    let (request, _) = tick_sends(&mut machine, 10.0);
    assert_eq!(lost_at(&answer_brings(&mut machine, 10.1, request, lease(Word::Lost, Duration::ZERO))), Some(at(10.1)));

    let mut machine = holding(LockOptions::new());
    assert_eq!(lost_at(&ask_brings(&mut machine, 1.0, 9, Question::Close)), Some(at(1.0)), "it is released at once");
}

#[test]
fn an_inspection_is_answered_with_what_was_seen() {
    let (mut machine, spec) = start(LockOptions::new());
    let (request, _) = ask_sends(&mut machine, 0.0, 9, inspecting(&spec.keys, 10));
    answer(&mut machine, 0.1, request, Answer { waiting: 3, ..lease(Word::State, seconds(20.0)) });
    match outcome(&machine.effects(at(0.1), usize::MAX), 9) {
        Some(Outcome::Operator(Ok(reply))) => {
            let Verdict::Inspect(seen) = reply.verdict.clone() else { panic!("{reply:?}") };
            let page = seen.state(&reply.common);
            assert_eq!((page.waiting, page.recovering_for), (3, None));
        }
        other => panic!("{other:?}"),
    }
}
