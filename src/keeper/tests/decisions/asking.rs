//! Questions of callers.

use super::*;
use crate::error::Fault;
use crate::history::History;
use crate::options::LockOptions;
use crate::protocol::{HistoryRequest, InspectRequest, Refusal, Reply, Request, Verdict};

#[test]
fn a_call_has_five_seconds_whatever_happens() {
    let (mut machine, spec) = start(LockOptions::new());
    let (request, call) = ask_sends(&mut machine, 0.0, 9, inspecting(&spec.keys, 10));
    assert!(matches!(call, Request::Inspect(InspectRequest { after: None, count: 10, .. })), "{call:?}");
    fail(&mut machine, 0.1, request, Refusal::Temporary("LOADING".into()));
    machine.effects(at(0.1), usize::MAX);
    disconnect(&mut machine, 0.2);
    machine.effects(at(0.2), usize::MAX);
    connect(&mut machine, 4.0);
    one_sent(&mut machine, 4.0);
    assert!(tick_brings(&mut machine, 4.999).is_empty());
    match outcome(&tick_brings(&mut machine, 5.0), 9) {
        Some(Outcome::Operator(Err(Fault::Unavailable { waited, cause: Some(cause) }))) => {
            assert_eq!((*waited, cause.to_string()), (seconds(5.0), "gone".to_owned()));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_history_is_told_to_the_caller_that_asked_for_it() {
    let (mut machine, spec) = start(LockOptions::new());
    let asked = Request::History(HistoryRequest { keys: spec.keys.clone(), switch: None, count: 3 });
    let (request, call) = ask_sends(&mut machine, 0.0, 9, Question::Operator(Box::new(asked)));
    assert!(matches!(&call, Request::History(request) if request.count == 3), "{call:?}");
    let history = History { recorded: true, grants: Vec::new() };
    let reply = Reply { common: Answer::default().common(), verdict: Verdict::History(history) };
    machine.handle(at(0.1), Event::Answered { request, result: Ok(reply.clone()) });
    let effects = machine.effects(at(0.1), usize::MAX);
    let told = outcome(&effects, 9);
    assert!(matches!(told, Some(Outcome::Operator(Ok(told))) if **told == reply), "{effects:?}");
}
