//! Refusals: what is asked again, when, and until when.

use super::*;

#[test]
fn a_renewal_that_is_refused_is_asked_again_and_its_loss_has_that_cause() {
    let mut machine = holding(LockOptions::new());
    let (request, _) = tick_sends(&mut machine, 10.0);
    fail(&mut machine, 10.1, request, Refusal::Temporary("OOM".into()));
    let again = machine.next_due().unwrap().since(at(10.1));
    assert!(again >= seconds(0.01) && again <= seconds(0.02), "{again:?}");
    let (request, call) = tick_sends(&mut machine, 10.15);
    assert!(is_renewal(&call), "{call:?}");
    fail(&mut machine, 10.2, request, Refusal::Temporary("OOM".into()));
    // Requests about another lock are answered meanwhile: the server refuses this one alone.
    let other = other_lock(LockOptions::new());
    let (request, _) = acquire_sends(&mut machine, 10.2, &other, 2);
    answer(&mut machine, 10.21, request, queued(3, seconds(60.0)));
    disconnect(&mut machine, 10.22);
    machine.effects(at(10.22), usize::MAX);
    match lost(&tick_brings(&mut machine, 29.0)) {
        Some(LostReason::NotRenewed { cause: Some(cause) }) => assert_eq!(cause.to_string(), "OOM"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_key_of_another_type_ends_the_acquires_of_its_lock_alone() {
    let mut machine = waiting(LockOptions::new(), 9, seconds(60.0));
    let other = other_lock(LockOptions::new());
    let (request, _) = acquire_sends(&mut machine, 1.0, &other, 2);
    answer(&mut machine, 1.1, request, queued(9, seconds(60.0)));
    let heartbeats = calls(tick_brings(&mut machine, 3.4));
    assert_eq!(heartbeats.len(), 1, "{heartbeats:?}");
    fail(&mut machine, 3.5, heartbeats[0].0, Refusal::WrongType("WRONGTYPE".into()));
    let refused: Vec<Id> = machine
        .effects(at(3.5), usize::MAX)
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
    machine.handle(at(1.0), Event::Command(Command::GiveBack { id: Id(1) }));
    let (request, _) = one_sent(&mut machine, 1.0);
    fail(&mut machine, 1.1, request, Refusal::WrongType("WRONGTYPE".into()));
    assert_eq!(machine.gives_back_until(), Some(at(29.849)), "the key may be gone by then");
    let (request, _) = tick_sends(&mut machine, 1.2);
    fail(&mut machine, 29.849, request, Refusal::WrongType("WRONGTYPE".into()));
    assert_eq!(machine.gives_back_until(), None);
}

/// The acquire has written nothing, so there is nothing to give up: an end of the client need not wait for it.
#[test]
fn a_waiter_that_was_refused_for_good_leaves_once() {
    let (mut machine, spec) = start(LockOptions::new());
    let (request, _) = acquire_sends(&mut machine, 1.0, &spec, 1);
    fail(&mut machine, 1.1, request, Refusal::OtherLayout("OTHERLAYOUT".into()));
    let (request, _) = one_sent(&mut machine, 1.1);
    fail(&mut machine, 1.2, request, Refusal::OtherLayout("OTHERLAYOUT".into()));
    assert_eq!(machine.gives_back_until(), None);
    assert!(tick_brings(&mut machine, 60.0).is_empty());
}

#[test]
fn many_clients_that_are_refused_do_not_ask_again_in_step() {
    let pauses: std::collections::BTreeSet<Duration> = (0..20)
        .map(|seed| {
            let (mut machine, spec) =
                (Machine::new(ClientId::new("client").unwrap(), "fairlock".into(), seed), start(LockOptions::new()).1);
            connect(&mut machine, 0.0);
            let (request, _) = acquire_sends(&mut machine, 0.0, &spec, 1);
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
            let (request, call) = tick_sends(&mut machine, now);
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
/// The longest pause between requests of this kind while everything is refused, in seconds.
fn longest_pause(mut machine: Machine, is_such: impl Fn(&Request) -> bool) -> f64 {
    let (mut now, mut asked, mut longest) = (0.0, 0.0, 0.0_f64);
    for _ in 0..40 {
        tick(&mut machine, now);
        for (request, call) in sent(&mut machine, now) {
            if is_such(&call) {
                longest = longest.max(now - asked);
                asked = now;
            }
            fail(&mut machine, now, request, Refusal::Temporary("CLUSTERDOWN".into()));
        }
        now += machine.next_due().unwrap().since(at(now)).as_secs_f64();
    }
    longest
}

#[test]
fn a_waiter_with_a_place_that_is_refused_asks_again_before_the_others_have_returned() {
    for has_place in [true, false] {
        let (mut machine, spec) = start(LockOptions::new().lease(seconds(3.0)).liveness(seconds(3.0)));
        acquire(&mut machine, 0.0, &spec, 1);
        if has_place {
            let (request, _) = one_sent(&mut machine, 0.0);
            answer(&mut machine, 0.0, request, queued(9, seconds(60.0)));
            reconnect(&mut machine, 0.0, 0.0);
            // The server has lost its place, and then refuses that it returns.
            let (request, _) = one_sent(&mut machine, 0.0);
            answer(&mut machine, 0.0, request, lease(Word::Unknown, Duration::ZERO));
        }
        let longest = longest_pause(machine, |call| matches!(call, Request::Acquire(_)));
        assert!(if has_place { 0.0 < longest && longest <= 0.26 } else { longest > 0.6 }, "{longest}");
    }
}

/// The claim ends with the liveness.
#[test]
fn a_confirmation_that_is_refused_is_asked_for_again_in_time() {
    let mut machine = waiting(LockOptions::new().lease(seconds(3.0)).liveness(seconds(3.0)), 0, seconds(60.0));
    grant_pushed(&mut machine, 0.0, 1, 7);
    let longest = longest_pause(machine, is_renewal);
    assert!(0.0 < longest && longest <= 0.26, "{longest}");
}
