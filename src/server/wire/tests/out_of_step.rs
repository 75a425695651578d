//! What shows that replies and requests do not match any more.

use super::*;

/// One reply too few or too many, and every later one would go to another request than its own.
#[test]
fn reply_to_another_request_is_out_of_step() {
    let (cut, other_verb) = (bulk(b"\x04left\0"), bulk(b"\x07expired"));
    for (answer, means) in [
        (&b":1\r\n"[..], "OutOfStep"),
        (b"+OK\r\n", "OutOfStep"),
        (b"*1\r\n-ERR in\r\n", "OutOfStep"),
        (b"$1\r\n\x90\r\n", "OutOfStep"),
        (b"$0\r\n\r\n", "OutOfStep"),
        (&other_verb, "OutOfStep"),
        (&cut, "NotUnderstood(\"a reply that is not understood"),
    ] {
        let (mut wire, mut theirs) = pair();
        wire.send(1, leave(), &NO_TAG.into(), false);
        theirs.write_all(answer).unwrap();
        let (said, end) = said(&mut wire);
        assert!(said[0].starts_with(&format!("1: {means}")), "{answer:?}: {said:?}");
        assert_eq!(end, None, "the routes end it, after they have told the call");
    }
    // The reply of a script in the turn of a login, or before ASKING is answered.
    for asking in [false, true] {
        let (mut wire, mut theirs) = pair();
        match asking {
            true => wire.send(1, leave(), &NO_TAG.into(), true),
            false => wire.log_in(&Credentials::new("u", "p")),
        }
        theirs.write_all(&LEFT).unwrap();
        let (said, end) = said(&mut wire);
        assert!(said.is_empty() && end.is_some_and(|end| end.contains("another request")), "{asking}");
    }
}

/// From there on every reply would go to the request before its own.
#[test]
fn a_server_that_is_out_of_step_is_not_believed_any_more() {
    for (answer, cause) in [
        (&*confirmed("subscribe", "other"), "confirmed a subscription to other out of turn"),
        ("+OK\r\n", "answers a subscription with \"OK\""),
        ("-ERR a\r\n-ERR max number of clients reached\r\n", "asked: ERR max number of clients reached"),
        ("HTTP/1.1 400\r\n", "its answer is not in Redis's protocol"),
        ("$99999999999\r\n", "its answer is larger than any that fairlock asks for"),
    ] {
        let (mut wire, mut theirs) = pair();
        wire.subscribe(&"a".into(), false);
        theirs.write_all(answer.as_bytes()).unwrap();
        let (_, end) = said(&mut wire);
        assert!(end.as_ref().is_some_and(|end| end.contains(cause)), "{answer:?}: {end:?}");
    }
    // A request that is next to be answered is not answered by a confirmation.
    let (mut wire, mut theirs) = pair();
    wire.send(1, leave(), &NO_TAG.into(), false);
    wire.subscribe(&"a".into(), false);
    theirs.write_all(confirmed("subscribe", "a").as_bytes()).unwrap();
    assert!(said(&mut wire).1.is_some());
}
