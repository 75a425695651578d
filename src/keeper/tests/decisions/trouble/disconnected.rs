//! No connection: what is sent when there is one again.

use super::*;

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
        machine.effects(at(1.0), usize::MAX);
        acquire(machine, 1.0, &spec, 2);
        ask(machine, 1.0, 9, Question::Renew { id: Id(1), extend: None });
        ask(machine, 1.0, 10, inspecting(&keys, 10));
        ask(machine, 1.0, 11, Question::Position { id: Id(2) });
        for now in 1..25 {
            tick(machine, f64::from(now));
        }
        machine.handle(at(25.0), Event::Command(Command::Abandon { id: Id(1) }));
        machine.handle(at(25.0), Event::Command(Command::GiveBack { id: Id(1) }));
        tick(machine, 60.0);
        let sent = calls(machine.effects(at(60.0), usize::MAX));
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
            reconnect(&mut machine, 0.1, 0.2);
            let (request, _) = one_sent(&mut machine, 0.2);
            fail(&mut machine, 0.3, request, Refusal::Temporary("OOM".into()));
        } else {
            fail(&mut machine, 0.1, request, Refusal::Temporary("OOM".into()));
        }
        // The outcome of the repeated request is not known while it is under way.
        let again = machine.next_due().unwrap();
        machine.handle(again, Event::Tick);
        let asked = machine.effects(again, usize::MAX).iter().find_map(|effect| match effect {
            Effect::Send { request, call: Request::Acquire(AcquireRequest { .. }) } => Some(*request),
            _ => None,
        });
        fail(&mut machine, 0.5, asked.unwrap(), Refusal::Temporary("OOM".into()));
        tick(&mut machine, 1.0);
        // The server goes on to refuse, for longer than a session without a heartbeat lasts.
        for (asked, refused, left) in [(1.0, 11.0, 1), (12.9, 13.1, usize::from(cut))] {
            let (request, call) = tick_sends(&mut machine, asked);
            assert!(matches!(call, Request::Leave(LeaveRequest { .. })), "{call:?}");
            fail(&mut machine, refused, request, Refusal::Temporary("OOM".into()));
            assert_eq!((machine.releases().count(), machine.locks.len()), (left, left));
        }
    }
}

#[test]
fn a_lease_that_was_declared_lost_is_not_renewed() {
    let mut machine = holding(LockOptions::new());
    pushed(&mut machine, 1.0, PushKind::Break, 1, 7);
    machine.effects(at(1.0), usize::MAX);
    reconnect(&mut machine, 2.0, 3.0);
    assert!(sent(&mut machine, 3.0).is_empty());
}
