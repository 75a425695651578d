//! Answers to acquires that were given up meanwhile.

use std::time::Duration;

use super::*;
use crate::keeper::machine::Mode;
use crate::options::LockOptions;
use crate::protocol::{LeaveRequest, Request};

/// A machine whose acquire was given up before it was answered, and whose leave is under way.
fn gave_up(mode: Mode) -> (Machine, RequestId, RequestId) {
    let (mut machine, spec) = start(LockOptions::new());
    acquire_in(&mut machine, 0.0, &spec, 1, mode, None);
    let (request, _) = one_sent(&mut machine, 0.0);
    machine.handle(at(0.1), Event::Command(Command::Abandon { id: Id(1) }));
    let (leave, call) = one_sent(&mut machine, 0.1);
    assert!(matches!(call, Request::Leave(LeaveRequest { .. })), "{call:?}");
    (machine, request, leave)
}

#[test]
fn a_leaving_waiter_does_not_leave_twice() {
    for word in [Word::Queued, Word::Granted] {
        let (mut machine, request, leave) = gave_up(Mode::Wait);
        answer(&mut machine, 0.2, request, Answer { ticket: 6, rank: Some(0), ..lease(word, seconds(30.0)) });
        assert!(sent(&mut machine, 0.2).is_empty(), "{word:?}");
        answer(&mut machine, 0.3, leave, lease(Word::Left, Duration::ZERO));
        assert_eq!(machine.gives_back_until(), None, "{word:?}");
    }
}

#[test]
fn a_waiter_without_place_and_lease_leaves_nothing_to_release() {
    for word in [Word::Busy, Word::Disbelieved] {
        let (mut machine, request, leave) = gave_up(Mode::Try);
        answer(&mut machine, 0.2, leave, lease(Word::Left, Duration::ZERO));
        answer(&mut machine, 0.3, request, lease(word, Duration::ZERO));
        assert!(sent(&mut machine, 0.3).is_empty(), "{word:?}");
        assert_eq!(machine.gives_back_until(), None, "{word:?}");
    }
}
