//! Locks whose grants and renewals count only once replicas have them.

use std::time::Duration;

use super::*;
use crate::keeper::machine::Mode;
use crate::options::LockOptions;
use crate::protocol::{Refusal, RenewRequest, Request};

fn asked(effects: &[Effect]) -> Vec<(RequestId, u32, Duration)> {
    let ask = |effect: &Effect| match effect {
        Effect::Replicate { request, replicas, within, .. } => Some((*request, *replicas, *within)),
        _ => None,
    };
    effects.iter().filter_map(ask).collect()
}

fn have(machine: &mut Machine, now: f64, request: RequestId, replicas: u32) {
    machine.handle(at(now), Event::Replicated { request, result: Ok(replicas) });
}

/// A machine that was granted the lock at its call, and asks replicas for it.
fn securing(options: LockOptions) -> (Machine, RequestId, Duration) {
    let (mut machine, spec) = start(options);
    acquire_in(&mut machine, 0.0, &spec, 1, Mode::Enqueue, None);
    let (request, _) = one_sent(&mut machine, 0.0);
    let effects = answer_brings(&mut machine, 0.1, request, lease(Word::Granted, spec.lease));
    assert!(granted(&effects).is_none(), "{effects:?}");
    // Should the lease run out meanwhile, the token is its place in the queue.
    assert!(
        effects
            .iter()
            .any(|effect| matches!(effect, Effect::Queued { id: Id(1), ticket: place, .. } if place.get() == 7)),
        "{effects:?}"
    );
    let [(request, 2, within)] = asked(&effects)[..] else { panic!("{effects:?}") };
    (machine, request, within)
}

fn two() -> LockOptions {
    LockOptions::new().replicas(2)
}

#[test]
fn replicas_have_as_much_time_as_does_not_look_like_silence() {
    assert_eq!(securing(two()).2, seconds(0.5));
    assert_eq!(securing(two().lease(seconds(1.2))).2, seconds(0.2));
    assert_eq!(securing(two().liveness(seconds(3.0))).2, seconds(0.25));
}

#[test]
fn a_grant_is_handed_out_once_enough_have_it_and_counts_from_its_request() {
    let (mut machine, request, _) = securing(two());
    have(&mut machine, 0.2, request, 1);
    assert!(granted(&machine.effects(at(0.2), usize::MAX)).is_none());
    assert!(machine.trouble("x").is_some() && machine.trouble("y").is_none(), "each lock has its own replicas");
    let pause = machine.next_due().unwrap().since(at(0.2));
    assert!(pause >= seconds(0.01) && pause <= seconds(0.02), "{pause:?}");
    // It goes on confirming its lease, and asks them again.
    let (request, call) = tick_sends(&mut machine, 0.3);
    assert!(matches!(call, Request::Renew(RenewRequest { .. })), "{call:?}");
    let effects = answer_brings(&mut machine, 0.4, request, lease(Word::Renewed, seconds(30.0)));
    let [(request, 2, _)] = asked(&effects)[..] else { panic!("{effects:?}") };
    have(&mut machine, 0.5, request, 2);
    assert_eq!(granted(&machine.effects(at(0.5), usize::MAX)), Some(at(0.3 + 29.849)));
}

/// That the lease was confirmed meanwhile does not make it ask more often.
#[test]
fn replicas_are_asked_again_after_pauses_that_double() {
    let (mut machine, mut request, _) = securing(two());
    let mut now = at(0.1);
    let mut last = Duration::ZERO;
    for _ in 0..7 {
        machine.handle(now, Event::Replicated { request, result: Ok(1) });
        last = machine.next_due().unwrap().since(now);
        now = now + last;
        machine.handle(now, Event::Tick);
        let confirms = machine.effects(now, usize::MAX).into_iter().find_map(|effect| match effect {
            Effect::Send { request, call: Request::Renew(RenewRequest { .. }) } => Some(request),
            _ => None,
        });
        let confirm = confirms.unwrap();
        let answered = lease(Word::Renewed, seconds(30.0)).to(&machine, confirm);
        machine.handle(now, Event::Answered { request: confirm, result: Ok(answered) });
        request = asked(&machine.effects(now, usize::MAX))[0].0;
    }
    assert!(last >= seconds(0.5), "{last:?}");
}

#[test]
fn replicas_are_not_asked_again_while_a_question_is_under_way() {
    let (mut machine, request, _) = securing(two());
    let keys = start(two()).1.keys.clone();
    let (question, _) = ask_sends(&mut machine, 0.2, 9, inspecting(&keys, 1));
    let mut named = lease(Word::State, seconds(29.0));
    named.own = vec![own(1, 7, 7)];
    assert!(asked(&answer_brings(&mut machine, 0.3, question, named)).is_empty());
    have(&mut machine, 0.4, request, 2);
    assert_eq!(granted(&machine.effects(at(0.4), usize::MAX)), Some(at(29.849)));
}

#[test]
fn a_grant_that_took_its_replicas_too_long_is_confirmed_anew() {
    // Its notice is a tenth of the lease: a holder that is told at once that it is lost cannot use it.
    for (now, handed_out) in [(26.848, true), (26.849, false)] {
        let (mut machine, request, _) = securing(two().liveness(seconds(60.0)));
        have(&mut machine, now, request, 2);
        let effects = machine.effects(at(now), usize::MAX);
        assert_eq!(granted(&effects).is_some(), handed_out, "{now}");
        let confirms = effects
            .iter()
            .any(|effect| matches!(effect, Effect::Send { call: Request::Renew(RenewRequest { .. }), .. }));
        assert!(confirms || handed_out, "{effects:?}");
    }
}

#[test]
fn a_renewal_that_lacks_replicas_is_repeated_before_its_lease_is_over() {
    let (mut machine, request, _) = securing(two().lease(seconds(3.0)));
    have(&mut machine, 0.2, request, 2);
    machine.effects(at(0.2), usize::MAX);
    let mut now = 1.2;
    let mut pause_after = |replicas| {
        let (request, _) = tick_sends(&mut machine, now);
        let (request, ..) = asked(&answer_brings(&mut machine, now, request, lease(Word::Renewed, seconds(3.0))))[0];
        have(&mut machine, now, request, replicas);
        machine.effects(at(now), usize::MAX);
        let pause = machine.next_due().unwrap().since(at(now));
        now += pause.as_secs_f64();
        pause
    };
    assert_eq!((0..7).map(|_| pause_after(1)).max(), Some(seconds(0.25)));
    // A success ends the series of failures.
    assert_eq!(pause_after(2), seconds(1.0));
    assert!(pause_after(1) <= seconds(0.02));
}

#[test]
fn a_renewal_counts_once_enough_have_it() {
    let (mut machine, request, _) = securing(two());
    have(&mut machine, 0.2, request, 2);
    machine.effects(at(0.2), usize::MAX);
    let prolonged = |effects: &[Effect]| effects.iter().any(|effect| matches!(effect, Effect::Prolonged { .. }));
    let renew = |machine: &mut Machine, now| {
        tick(machine, now);
        let (request, _) = one_sent(machine, now);
        answer(machine, now, request, lease(Word::Renewed, seconds(30.0)));
        let effects = machine.effects(at(now), usize::MAX);
        assert!(!prolonged(&effects), "{effects:?}");
        asked(&effects)[0].0
    };
    let request = renew(&mut machine, 10.0);
    machine.handle(at(10.1), Event::Replicated { request, result: Err(Refusal::Temporary("gone".into())) });
    assert!(!prolonged(&machine.effects(at(10.1), usize::MAX)));
    let pause = machine.next_due().unwrap().since(at(10.1));
    assert!(pause >= seconds(0.01) && pause <= seconds(0.02), "{pause:?}");
    let request = renew(&mut machine, 10.2);
    // An answer to another request is none to this one.
    have(&mut machine, 10.3, RequestId(request.0 + 1), 2);
    assert!(!prolonged(&machine.effects(at(10.3), usize::MAX)));
    have(&mut machine, 10.4, request, 2);
    let effects = machine.effects(at(10.4), usize::MAX);
    let until =
        |effect: &Effect| matches!(effect, Effect::Prolonged { deadline, .. } if *deadline == at(10.2 + 29.849));
    assert!(effects.iter().any(until), "{effects:?}");
}
