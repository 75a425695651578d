//! Leases that operators break.

use super::*;

#[test]
fn a_broken_lease_is_kept_until_its_holder_lets_go_and_an_ended_one_is_not() {
    for (word, reason, at_once) in [(Word::Broken, LostReason::Broken, false), (Word::Lost, LostReason::Ended, true)] {
        let mut machine = holding(LockOptions::new());
        let (request, _) = tick_sends(&mut machine, 10.0);
        let effects = answer_brings(&mut machine, 10.1, request, lease(word, seconds(19.0)));
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
    match not_granted(&answer_brings(&mut machine, 1.1, request, lease(Word::Broken, seconds(5.0)))) {
        Some(NotGranted::Fault(Fault::LeaseBroken)) => {}
        other => panic!("{other:?}"),
    }
}
