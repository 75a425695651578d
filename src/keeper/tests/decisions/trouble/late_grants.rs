//! Grants that nobody wants any more, or of which little is left.

use super::*;

#[test]
fn a_grant_that_nobody_wants_any_more_is_given_back_for_as_long_as_it_lasts() {
    let (mut machine, spec) = start(LockOptions::new());
    let (request, _) = acquire_sends(&mut machine, 0.0, &spec, 1);
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
        let mut answered = Answer { stamp: 9, ..alive(1, seconds(8.0)) };
        answered.own = vec![own(id, 9, 9)];
        answer(machine, 3.5, request, answered);
        machine.effects(at(3.5), usize::MAX)
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

#[test]
fn a_grant_of_which_little_is_left_is_confirmed_before_it_is_handed_out() {
    // Of a lease of 20 s a tenth is the notice: 2 s.
    let options = || LockOptions::new().lease(seconds(20.0));
    for (answered, handed_out) in [(17.898, true), (17.9, false)] {
        let (mut machine, spec) = start(options().liveness(seconds(60.0)));
        let (request, _) = acquire_sends(&mut machine, 0.0, &spec, 1);
        let effects = answer_brings(&mut machine, answered, request, lease(Word::Granted, seconds(20.0)));
        assert_eq!(granted(&effects).is_some(), handed_out, "{answered}");
        if handed_out {
            continue;
        }
        let (request, call) = calls(effects).remove(0);
        assert!(is_renewal(&call), "{call:?}");
        answer(&mut machine, 18.5, request, lease(Word::Renewed, seconds(20.0)));
        assert_eq!(granted(&machine.effects(at(18.5), usize::MAX)), Some(at(17.9 + 20.0 - 0.101)));
    }
}

/// The process may have been stopped while the first was under way. A second one shows that it is the server.
#[test]
fn a_second_confirmation_of_which_nothing_is_left_is_an_error() {
    for (took, handed_out) in [(19.898, true), (19.899, false)] {
        let (mut machine, spec) = start(LockOptions::new().lease(seconds(20.0)).liveness(seconds(60.0)));
        let (request, _) = acquire_sends(&mut machine, 0.0, &spec, 1);
        answer(&mut machine, 19.0, request, lease(Word::Granted, seconds(20.0)));
        let (request, _) = one_sent(&mut machine, 19.0);
        answer(&mut machine, 19.0 + took, request, lease(Word::Renewed, seconds(20.0)));
        let again = 19.0 + took;
        let (request, call) = one_sent(&mut machine, again);
        assert!(is_renewal(&call), "{call:?}");
        answer(&mut machine, again + took, request, lease(Word::Renewed, seconds(20.0)));
        let effects = machine.effects(at(again + took), usize::MAX);
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
    let (request, _) = acquire_sends(&mut machine, 0.2, &spec, 2);
    answer_brings(&mut machine, 0.3, request, Answer { ticket: 8, ..queued(2, seconds(60.0)) });
    let (heartbeat, _) = tick_sends(&mut machine, 3.6);
    grant_pushed(&mut machine, 3.7, 1, 7);
    let (confirmation, call) = one_sent(&mut machine, 3.7);
    assert!(is_renewal(&call), "{call:?}");
    // Its confirmation is refused for the moment, so that nothing of it is under way.
    fail(&mut machine, 3.8, confirmation, Refusal::Temporary("LOADING".into()));
    answer(&mut machine, 3.8, heartbeat, lease(Word::Unknown, Duration::ZERO));
    let (_, call) = one_sent(&mut machine, 3.8);
    assert!(matches!(&call, Request::Acquire(AcquireRequest { id, .. }) if id.as_str() == "client.2"), "{call:?}");
}
