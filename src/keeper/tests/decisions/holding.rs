//! Leases: how long they count, when they are renewed, and when their end is told.

use super::*;
use crate::error::Fault;
use crate::options::LockOptions;
use crate::protocol::{ReleaseRequest, RenewRequest, Request};

#[test]
fn a_lease_counts_from_its_request_and_is_renewed_every_third() {
    let (mut machine, spec) = start(LockOptions::new());
    let (request, _) = acquire_sends(&mut machine, 0.0, &spec, 1);
    answer(&mut machine, 0.5, request, lease(Word::Granted, spec.lease));
    // 0.5 % and a millisecond for clocks that drift.
    assert_eq!(granted(&machine.effects(at(0.5), usize::MAX)), Some(at(30.0 - 0.151)));
    assert_eq!(machine.next_due(), Some(at(10.0)));
    let (request, call) = tick_sends(&mut machine, 10.0);
    let Request::Renew(RenewRequest { id, seat: its, lease: asked, liveness, left, .. }) = call else {
        panic!("{call:?}")
    };
    assert_eq!((id, its), (wire_id(1), seat(5, 7, 7)));
    assert_eq!((asked, liveness, left), (seconds(30.0), seconds(10.0), span_until(seconds(19.849))));
    answer(&mut machine, 10.5, request, lease(Word::Renewed, spec.lease));
    let prolonged =
        |effect: &Effect| matches!(effect, Effect::Prolonged { id: Id(1), deadline, .. } if *deadline == at(39.849));
    assert!(machine.effects(at(10.5), usize::MAX).iter().any(prolonged));
    assert_eq!(machine.next_due(), Some(at(20.0)));
}

#[test]
fn a_claim_counts_from_the_last_sign_of_life_and_is_confirmed_after_a_tenth_of_a_second() {
    for (options, next) in [(LockOptions::new(), 1.1 + 10.0), (LockOptions::new().manual_renewal(), 1.1 + 29.849 - 3.0)]
    {
        let mut machine = waiting(options, 1, seconds(2.0));
        // Liveness of 10 s from when the acquire was sent.
        assert_eq!(granted(&grant_brings(&mut machine, 1.0, 1, 9)), Some(at(10.0 - 0.051)));
        assert_eq!(machine.next_due(), Some(at(1.1)));
        let (request, call) = tick_sends(&mut machine, 1.1);
        assert!(matches!(call, Request::Renew(RenewRequest { lease, .. }) if lease == seconds(30.0)), "{call:?}");
        answer_brings(&mut machine, 1.2, request, lease(Word::Renewed, seconds(30.0)));
        // From then on it is renewed as any other, or its end is told.
        assert_eq!(machine.next_due(), Some(at(next)));
    }
}

/// The server may have executed a heartbeat as soon as it was sent.
#[test]
fn a_claim_counts_from_when_the_last_heartbeat_was_sent() {
    let mut machine = waiting(LockOptions::new(), 1, seconds(2.0));
    let (request, call) = tick_sends(&mut machine, 3.4);
    assert!(matches!(call, Request::Heartbeat(_)), "{call:?}");
    answer_brings(&mut machine, 5.0, request, alive(0, seconds(30.0)));
    assert_eq!(granted(&grant_brings(&mut machine, 6.0, 1, 9)), Some(at(3.4 + 10.0 - 0.051)));
}

/// Also where a whole lease is no longer than the liveness: it counts from the last sign of life.
#[test]
fn a_claim_that_is_as_long_as_a_lease_is_confirmed_too() {
    for options in [LockOptions::new(), LockOptions::new().manual_renewal()] {
        let mut machine = waiting(options.lease(seconds(4.0)), 1, seconds(2.0));
        assert_eq!(granted(&grant_brings(&mut machine, 1.0, 1, 9)), Some(at(3.979)));
        let (request, call) = tick_sends(&mut machine, 1.1);
        assert!(matches!(call, Request::Renew(RenewRequest { lease, .. }) if lease == seconds(4.0)), "{call:?}");
        answer(&mut machine, 2.0, request, lease(Word::Renewed, seconds(4.0)));
        let prolonged = |effect: &Effect| matches!(effect, Effect::Prolonged { id: Id(1), .. });
        assert!(machine.effects(at(2.0), usize::MAX).iter().any(prolonged));
    }
}

/// A tenth of a second may be most of a short claim.
#[test]
fn a_short_claim_is_confirmed_by_a_third_of_it() {
    let mut machine = waiting(LockOptions::new().liveness(seconds(0.2)), 1, seconds(2.0));
    // Liveness of 0.2 s from when the acquire was sent, but for the margin.
    assert_eq!(granted(&grant_brings(&mut machine, 0.11, 1, 9)), Some(at(0.198)));
    assert_eq!(machine.next_due(), Some(at(0.11) + seconds(0.088) / 3));
}

/// A claim counts from the last sign of life, so little may be left of one for a short lease. Its end would be told before
/// it could be prolonged.
#[test]
fn a_claim_is_confirmed_before_it_is_handed_out_if_its_end_would_be_told_before_the_answer() {
    for (granted_at, handed_out) in [(1.58, true), (1.6, false), (1.77, false)] {
        let mut machine = waiting(LockOptions::new().lease(seconds(2.0)).manual_renewal(), 1, seconds(2.0));
        grant_pushed(&mut machine, granted_at, 1, 9);
        let effects = machine.effects(at(granted_at), usize::MAX);
        assert_eq!(granted(&effects), handed_out.then(|| at(1.989)), "{effects:?}");
        if !handed_out {
            let [Effect::Send { request, call: Request::Renew(_) }] = effects[..] else { panic!("{effects:?}") };
            answer(&mut machine, granted_at, request, lease(Word::Renewed, seconds(2.0)));
            assert_eq!(granted(&machine.effects(at(granted_at), usize::MAX)), Some(at(granted_at + 1.989)));
        }
    }
}

/// What is left of it says nothing: of a full lease, too, something is over when a reply was lost.
#[test]
fn a_reply_says_whether_what_it_grants_is_a_claim() {
    // A full lease is renewed when a third of it is over. A claim that is longer than its lease counts as the lease.
    for (claim, left, until, next) in [(true, 40.0, 29.849, 0.1 + 0.1), (false, 25.0, 24.874, 25.0 - 30.0 + 10.0)] {
        for confirms in [false, true] {
            let options = LockOptions::new();
            let (mut machine, spec) = start(if confirms { options.confirm_grants() } else { options });
            let (request, _) = acquire_sends(&mut machine, 0.0, &spec, 1);
            answer(&mut machine, 0.1, request, Answer { claim, ..lease(Word::Granted, seconds(left)) });
            let effects = machine.effects(at(0.1), usize::MAX);
            assert_eq!(granted(&effects), (!(claim && confirms)).then(|| at(until)), "{effects:?}");
            if !confirms {
                assert_eq!(machine.next_due(), Some(at(next)));
            }
        }
    }
}

#[test]
fn a_hold_that_ends_before_its_claim_is_confirmed_costs_no_renewal() {
    let mut machine = waiting(LockOptions::new(), 1, seconds(2.0));
    grant_brings(&mut machine, 1.0, 1, 9);
    machine.handle(at(1.099), Event::Command(Command::GiveBack { id: Id(1) }));
    assert!(
        matches!(one_sent(&mut machine, 1.099).1, Request::Release(ReleaseRequest { seat: its, .. }) if its == seat(5, 6, 9))
    );
    tick(&mut machine, 1.2);
    assert!(sent(&mut machine, 1.2).is_empty());
}

#[test]
fn a_lock_that_confirms_grants_hands_out_whole_leases_only() {
    let mut machine = waiting(LockOptions::new().confirm_grants(), 1, seconds(2.0));
    let effects = grant_brings(&mut machine, 1.0, 1, 9);
    assert!(granted(&effects).is_none(), "{effects:?}");
    let [Effect::Send { request, call: Request::Renew(RenewRequest { seat: renewed, .. }) }] = effects[..] else {
        panic!("{effects:?}")
    };
    assert_eq!(renewed, seat(5, 6, 9));
    answer(&mut machine, 1.2, request, lease(Word::Renewed, seconds(30.0)));
    assert_eq!(granted(&machine.effects(at(1.2), usize::MAX)), Some(at(1.0 + 30.0 - 0.151)));

    // A claim that is over when it is to be confirmed: the wait goes on in the old place.
    let mut machine = waiting(LockOptions::new().confirm_grants(), 1, seconds(2.0));
    grant_pushed(&mut machine, 1.0, 1, 9);
    let (request, _) = one_sent(&mut machine, 1.0);
    answer(&mut machine, 1.2, request, lease(Word::Lost, Duration::ZERO));
    assert!(is_acquire_with(&one_sent(&mut machine, 1.2).1, Some(6)));

    // What the reply to an acquire grants is whole.
    let (mut machine, spec) = start(LockOptions::new().confirm_grants());
    let (request, _) = acquire_sends(&mut machine, 0.0, &spec, 1);
    assert!(granted(&answer_brings(&mut machine, 0.1, request, lease(Word::Granted, spec.lease))).is_some());
}

#[test]
fn a_claim_that_is_not_confirmed_is_lost_a_tenth_before_its_end() {
    let mut machine = waiting(LockOptions::new(), 1, seconds(2.0));
    grant_pushed(&mut machine, 1.0, 1, 9);
    disconnect(&mut machine, 2.0);
    machine.effects(at(2.0), usize::MAX);
    assert!(lost(&tick_brings(&mut machine, 8.948)).is_none());
    assert!(matches!(lost(&tick_brings(&mut machine, 8.949)), Some(LostReason::NotRenewed { cause: Some(_) })));
    assert_eq!(machine.next_due(), Some(at(9.949)), "it is given back");
}

#[test]
fn a_message_that_is_older_than_an_answer_is_made_sure_of() {
    for token in [6, 7] {
        let mut machine = waiting(LockOptions::new(), 1, seconds(2.0));
        let effects = grant_brings(&mut machine, 1.0, 1, token);
        assert!(granted(&effects).is_none(), "token {token}, and an answer named 7");
        assert!(
            matches!(&effects[..], [Effect::Send { call: Request::Renew(RenewRequest { .. }), .. }]),
            "{effects:?}"
        );
        // Told once more, it is not asked about once more.
        grant_pushed(&mut machine, 1.1, 1, token);
        assert!(sent(&mut machine, 1.1).is_empty());
    }
}

#[test]
fn a_lease_that_is_not_renewed_is_told_a_notice_before_its_end_and_then_given_back() {
    let mut machine = holding(LockOptions::new().manual_renewal().notice(seconds(4.0)));
    assert_eq!(machine.next_due(), Some(at(29.849 - 4.0)));
    let effects = tick_brings(&mut machine, 25.849);
    assert!(matches!(lost(&effects), Some(LostReason::NotRenewed { cause: None })), "{effects:?}");
    assert!(!effects.iter().any(|effect| matches!(effect, Effect::Send { .. })), "{effects:?}");
    assert_eq!(machine.next_due(), Some(at(29.849)));
    assert!(matches!(tick_sends(&mut machine, 29.849).1, Request::Release(ReleaseRequest { .. })));
}

#[test]
fn the_longest_hold_ends_renewal_and_is_the_reason_that_is_told() {
    // Held since a millisecond; the second renewal would come at 20 s, and not if that is the longest hold.
    for (longest, renewals) in [(19.999, 1), (20.0, 2)] {
        let mut machine = holding(LockOptions::new().max_hold(seconds(longest)));
        let mut renewed = 0;
        let mut now = 0.001;
        let mut reason = None;
        // A machine that never comes to an end fails, and does not hang.
        for _ in 0..20 {
            let due = machine.next_due().unwrap();
            now = (due.0 as f64 / 1e9 - 1000.0).max(now);
            let effects = tick_brings(&mut machine, now);
            reason = lost(&effects).cloned();
            if reason.is_some() {
                break;
            }
            for effect in effects {
                if let Effect::Send { request, call: Request::Renew(RenewRequest { lease: asked, .. }) } = effect {
                    renewed += 1;
                    assert_eq!(asked, seconds(30.0), "as long as it is prolonged, it is by a whole lease");
                    answer(&mut machine, now, request, lease(Word::Renewed, asked));
                }
            }
        }
        assert_eq!((reason, renewed), (Some(LostReason::MaxHold), renewals), "{longest}");
    }
}

#[test]
fn a_renewal_that_is_overdue_when_the_longest_hold_is_over_is_not_repeated() {
    let mut machine = holding(LockOptions::new().max_hold(seconds(20.0)));
    reconnect(&mut machine, 9.0, 25.0);
    let mut renewed = 0;
    for tick in 0..5 {
        let now = 25.0 + f64::from(tick) / 100.0;
        for effect in tick_brings(&mut machine, now) {
            if let Effect::Send { request, call: Request::Renew(RenewRequest { lease: asked, .. }) } = effect {
                renewed += 1;
                answer(&mut machine, now, request, lease(Word::Renewed, asked));
            }
        }
    }
    assert!(renewed <= 1, "{renewed} renewals of a lease that is not prolonged");
}

#[test]
fn a_renewal_by_hand_prolongs_and_is_answered_once_it_has() {
    let mut machine = holding(LockOptions::new().manual_renewal());
    let (request, call) = ask_sends(&mut machine, 5.0, 9, Question::Renew { id: Id(1), extend: None });
    assert!(matches!(call, Request::Renew(RenewRequest { lease, .. }) if lease == seconds(30.0)), "{call:?}");
    answer(&mut machine, 5.1, request, lease(Word::Renewed, seconds(30.0)));
    assert!(matches!(outcome(&machine.effects(at(5.1), usize::MAX), 9), Some(Outcome::Renewal(Ok(Renewal::Renewed)))));

    // One that is re-asserted after a reconnect asks for what is left, and a caller's goes after it.
    reconnect(&mut machine, 6.0, 6.0);
    let (request, call) = one_sent(&mut machine, 6.0);
    let left = span_until(seconds(5.0 + 29.849 - 6.0));
    assert!(matches!(call, Request::Renew(RenewRequest { lease, .. }) if lease == left), "{call:?}");
    ask(&mut machine, 6.1, 10, Question::Renew { id: Id(1), extend: None });
    assert!(sent(&mut machine, 6.1).is_empty());
    let effects = answer_brings(&mut machine, 6.2, request, lease(Word::Renewed, left));
    assert!(outcome(&effects, 10).is_none());
    let asks = |effect: &Effect| matches!(effect, Effect::Send { call: Request::Renew(RenewRequest { lease, .. }), .. } if *lease == seconds(30.0));
    assert!(effects.iter().any(asks), "{effects:?}");
    // It has five seconds in all.
    assert!(matches!(
        outcome(&tick_brings(&mut machine, 11.1), 10),
        Some(Outcome::Renewal(Err(Fault::Unavailable { .. })))
    ));

    assert!(matches!(
        outcome(&ask_brings(&mut machine, 11.2, 11, Question::Renew { id: Id(2), extend: None }), 11),
        Some(Outcome::Renewal(Ok(Renewal::Lost(LostReason::Ended))))
    ));
}

#[test]
fn a_guard_knows_of_its_loss_before_a_renewal_tells_it() {
    let mut machine = holding(LockOptions::new().manual_renewal());
    ask(&mut machine, 5.0, 9, Question::Renew { id: Id(1), extend: None });
    let (request, _) = one_sent(&mut machine, 5.0);
    answer(&mut machine, 5.1, request, lease(Word::Lost, Duration::ZERO));
    let effects = machine.effects(at(5.1), usize::MAX);
    let first = |is: fn(&Effect) -> bool| effects.iter().position(is).unwrap();
    let told = first(|effect| matches!(effect, Effect::Lost { .. }));
    assert!(told < first(|effect| matches!(effect, Effect::Answer { .. })), "{effects:?}");
}

#[test]
fn a_grant_that_is_not_taken_within_its_lease_is_asked_about() {
    let mut machine = holding(LockOptions::new().lease(seconds(3.0)).manual_renewal().notice(seconds(0.5)));
    let (request, _) = ask_sends(&mut machine, 2.0, 9, Question::Renew { id: Id(1), extend: None });
    answer_brings(&mut machine, 2.0, request, lease(Word::Renewed, seconds(3.0)));
    assert!(tick_brings(&mut machine, 3.0).is_empty());
    assert!(matches!(tick_brings(&mut machine, 3.001)[..], [Effect::CheckTaken { id: Id(1) }]));
}

#[test]
fn a_lease_that_ends_long_before_its_longest_hold_has_another_reason() {
    let mut machine = holding(LockOptions::new().manual_renewal().max_hold(seconds(3600.0)));
    assert_eq!(lost(&tick_brings(&mut machine, 26.849)), Some(&LostReason::NotRenewed { cause: None }));
}

#[test]
fn a_renewal_by_hand_that_had_its_time_leaves_the_others_theirs() {
    let mut machine = holding(LockOptions::new().manual_renewal());
    let (request, _) = ask_sends(&mut machine, 5.0, 9, Question::Renew { id: Id(1), extend: None });
    // Something else is answered, so that the server is not taken for dead.
    for second in 6..10 {
        let now = f64::from(second);
        let keys = start(LockOptions::new()).1.keys.clone();
        let (request, _) = ask_sends(&mut machine, now, 100 + second as u64, inspecting(&keys, 1));
        answer_brings(&mut machine, now, request, lease(Word::State, seconds(20.0)));
    }
    ask(&mut machine, 9.5, 10, Question::Renew { id: Id(1), extend: None });
    let effects = tick_brings(&mut machine, 10.0);
    assert!(matches!(outcome(&effects, 9), Some(Outcome::Renewal(Err(Fault::Unavailable { .. })))), "{effects:?}");
    let effects = answer_brings(&mut machine, 10.1, request, lease(Word::Renewed, seconds(30.0)));
    assert!(outcome(&effects, 9).is_none(), "it was answered before");
    assert!(matches!(outcome(&effects, 10), Some(Outcome::Renewal(Ok(Renewal::Renewed)))), "{effects:?}");
}

#[test]
fn an_answer_that_prolongs_nothing_leaves_the_notice_as_long_as_it_was() {
    let mut machine = holding(LockOptions::new().manual_renewal());
    reconnect(&mut machine, 9.95, 9.95);
    let (request, _) = one_sent(&mut machine, 9.95);
    // 20 s less what clocks may drift in them: it ends just when it would have ended.
    assert!(answer_brings(&mut machine, 10.0, request, lease(Word::Renewed, seconds(20.0))).is_empty());
    assert_eq!(machine.next_due(), Some(at(29.849 - 3.0)));
}

#[test]
fn a_renewal_tells_what_was_seen_and_what_is_left() {
    let mut machine = holding(LockOptions::new());
    match tick_sends(&mut machine, 10.0).1 {
        Request::Renew(RenewRequest { seat: its, memory: told, left, .. })
            if (its, told) == (seat(5, 7, 7), memory(5, 7)) =>
        {
            assert_eq!(left, span_until(seconds(29.849 - 10.0)))
        }
        call => panic!("{call:?}"),
    }
}

#[test]
fn a_closed_machine_renews_nothing_for_a_caller() {
    let mut machine = holding(LockOptions::new());
    ask_brings(&mut machine, 1.0, 8, Question::Close);
    let effects = ask_brings(&mut machine, 1.1, 9, Question::Renew { id: Id(1), extend: None });
    assert!(matches!(outcome(&effects, 9), Some(Outcome::Renewal(Err(Fault::Closed)))), "{effects:?}");
}

#[test]
fn a_renewal_that_was_cut_off_is_sent_again_over_the_next_connection() {
    let mut machine = holding(LockOptions::new());
    assert!(matches!(tick_sends(&mut machine, 10.0).1, Request::Renew(_)));
    reconnect(&mut machine, 10.1, 10.2);
    assert!(matches!(one_sent(&mut machine, 10.2).1, Request::Renew(_)));
}
