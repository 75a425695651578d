//! Single cases in which the machine was once wrong, in a few lines each.

use std::time::Duration;

use super::alone::*;
use super::replies::{Answer, Word};
use crate::keeper::machine::*;
use crate::options::LockOptions;
use crate::protocol::{Refusal, RenewRequest, Request};

#[test]
fn a_release_that_fails_for_good_after_its_deadline_is_answered() {
    let mut machine = holding(LockOptions::new());
    ask(&mut machine, 1.0, 99, Question::Release { id: Id(1) });
    let (request, _) = sent(&mut machine, 1.0).remove(0);
    let refusal = Refusal::WrongType("WRONGTYPE".into());
    machine.handle(at(31.0), Event::Answered { request, result: Err(refusal) });
    let done = |effect: &Effect| {
        matches!(effect, Effect::Answer { question: QuestionId(99), outcome: Outcome::Release(Release::Unknown(_)) })
    };
    assert!(machine.effects(at(31.0), usize::MAX).iter().any(done));
}

#[test]
fn the_longest_hold_is_kept_over_reconnects() {
    let mut machine = holding(LockOptions::new().max_hold(Duration::from_secs(12)));
    let mut longest = Duration::from_secs(30);
    for seconds in [10.0, 18.0, 26.0] {
        machine.handle(at(seconds), Event::Disconnected { cause: "gone".into() });
        machine.handle(at(seconds), Event::Connected { can_kill: true });
        for (request, call) in sent(&mut machine, seconds) {
            let Request::Renew(RenewRequest { lease: asked, .. }) = call else { continue };
            if seconds > 12.0 {
                assert!(asked < longest, "prolonged by {asked:?} at {seconds} s");
            }
            longest = asked;
            answer(&mut machine, seconds + 0.001, request, lease(Word::Renewed, asked));
        }
        sent(&mut machine, seconds + 0.001);
    }
}

#[test]
fn a_server_that_is_silent_is_given_up_before_the_session_ends() {
    let (mut machine, spec) = start(LockOptions::new().liveness(Duration::from_secs(1)));
    acquire(&mut machine, 0.0, &spec, 1);
    let (request, _) = sent(&mut machine, 0.0).remove(0);
    let queued = Answer { ticket: 6, rank: Some(9), ..lease(Word::Queued, Duration::from_secs(30)) };
    answer(&mut machine, 0.001, request, queued);
    let mut now = 0.001;
    while !machine.effects(at(now), usize::MAX).iter().any(|effect| matches!(effect, Effect::Reconnect)) {
        now += 0.01;
        assert!(now < 1.0, "still connected to a server that has said nothing for a liveness window");
        machine.handle(at(now), Event::Tick);
    }
}

#[test]
fn a_server_that_is_slower_than_the_lease_gives_an_error_and_no_storm() {
    let (mut machine, spec) = start(LockOptions::new().lease(Duration::from_secs(1)));
    acquire(&mut machine, 0.0, &spec, 1);
    let (mut now, mut requests, mut refused) = (0.0, 0, false);
    let mut open = Vec::new();
    for _ in 0..20 {
        for effect in machine.effects(at(now), usize::MAX) {
            match effect {
                Effect::Send { request, call } => open.push((request, call)),
                Effect::NotGranted { .. } => refused = true,
                Effect::Granted { .. } => panic!("granted with nothing left of it"),
                _ => {}
            }
        }
        now += 0.01;
        if let Some((request, call)) = open.pop() {
            // The clock stood still for us, not for the lease: the answer took longer than what it gives.
            now += 1.5;
            requests += 1;
            let word = match call {
                Request::Acquire(_) => Word::Granted,
                Request::Leave(_) => Word::Left,
                _ => Word::Renewed,
            };
            answer(&mut machine, now, request, lease(word, spec.lease));
        }
    }
    assert!(refused || requests == 0, "{requests} requests and no result");
}

#[test]
fn a_late_renewal_does_not_revive_what_was_declared_lost() {
    let mut machine = holding(LockOptions::new().lease(Duration::from_secs(3)));
    machine.handle(at(1.1), Event::Tick);
    let (request, _) = sent(&mut machine, 1.1).remove(0);
    // The process was stopped; the answer and the deadline are seen at once.
    let effects = answer_brings(&mut machine, 3.5, request, lease(Word::Renewed, Duration::from_secs(3)));
    assert!(effects.iter().any(|effect| matches!(effect, Effect::Lost { id: Id(1), .. })), "{effects:?}");
    assert!(!effects.iter().any(|effect| matches!(effect, Effect::Prolonged { .. })), "{effects:?}");
}

/// A sleep does not count suspended time. An acquire's timeout of an hour is over when the machine wakes a day later.
#[test]
fn the_loop_looks_at_the_clock_every_second_while_anything_is_due() {
    use crate::keeper::{LOOK, nap};
    let now = at(10.0);
    assert_eq!(nap(now, Some(at(3610.0))), LOOK);
    assert_eq!(nap(now, Some(at(10.5))), Duration::from_millis(500));
    assert_eq!(nap(now, Some(at(9.0))), Duration::ZERO);
    assert!(nap(now, None) > LOOK);
}
