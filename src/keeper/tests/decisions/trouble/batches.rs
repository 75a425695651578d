//! Scripts that stop at their batch limit and are asked to go on.

use super::*;

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
    assert!(matches!(not_granted(&machine.effects(at(0.2), usize::MAX)), Some(NotGranted::Busy { waiting: 3, .. })));
    assert_eq!(machine.adds_up(), Ok(()));
}

#[test]
fn a_script_that_stopped_at_its_batch_limit_is_asked_to_go_on() {
    // A heartbeat: by another at once.
    let mut machine = waiting(LockOptions::new(), 0, seconds(0.5));
    let heartbeat = (0..10).find_map(|_| {
        let due = machine.next_due().unwrap();
        machine.handle(due, Event::Tick);
        machine.effects(due, usize::MAX).into_iter().find_map(|effect| match effect {
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
    let (question, _) = ask_sends(&mut machine, 0.0, 9, breaking(&spec.keys, 7, true));
    answer(&mut machine, 0.1, question, Answer { again: true, ..lease(Word::Ended, Duration::ZERO) });
    let effects = machine.effects(at(0.1), usize::MAX);
    assert!(outcome(&effects, 9).is_some(), "{effects:?}");
    let goes_on = |effects: &[Effect]| {
        effects
            .iter()
            .any(|effect| matches!(effect, Effect::Send { call: Request::Release(ReleaseRequest { .. }), .. }))
    };
    assert!(goes_on(&effects), "{effects:?}");
    // Another call at the same time has its own.
    let (question, _) = ask_sends(&mut machine, 0.1, 10, breaking(&spec.keys, 8, true));
    answer(&mut machine, 0.2, question, Answer { again: true, ..lease(Word::Ended, Duration::ZERO) });
    assert!(goes_on(&machine.effects(at(0.2), usize::MAX)));
    assert_eq!(machine.releases().count(), 2);
    assert!(machine.releases().all(|id| id > Id::of_no_acquire(10)), "they are counted from the other end");
}
