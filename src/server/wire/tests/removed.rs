//! Releases by an HDEL among requests to scripts.

use super::*;

fn release(by_hdel: bool) -> protocol::Request {
    protocol::Request::Release(protocol::ReleaseRequest {
        keys: keys(),
        id: protocol::WireId::parse("c.1").unwrap(),
        by_hdel,
        seat: protocol::Seat::NONE,
        memory: protocol::Memory::NONE,
    })
}

#[test]
fn an_hdel_is_one_command_whose_answer_has_its_turn() {
    let (mut wire, mut theirs) = pair();
    wire.send(1, leave(), &NO_TAG.into(), false);
    wire.send(2, release(true), &NO_TAG.into(), false);
    wire.send(3, release(true), &NO_TAG.into(), true);
    wire.send(4, leave(), &NO_TAG.into(), false);
    assert_eq!(wire.flush(), Ok(true));
    let out = arrived(&mut theirs);
    let hdel = "*3\r\n$4\r\nHDEL\r\n$17\r\nfairlock:{x}:lock\r\n$4\r\n@c.1\r\n";
    assert!(out.contains(&format!("{hdel}*1\r\n$6\r\nASKING\r\n{hdel}*6\r\n$7\r\nEVALSHA\r\n")), "{out}");
    theirs.write_all(&[&LEFT[..], b":1\r\n+OK\r\n:0\r\n", &LEFT].concat()).unwrap();
    let expected = ["1: Leave", "2: Release(Released)", "3: Release(NotCalm)", "4: Leave"].map(str::to_owned);
    assert_eq!(said(&mut wire), (expected.to_vec(), None));
}

#[test]
fn errors_mean_what_they_mean_to_a_script() {
    let (mut wire, mut theirs) = pair();
    let errors = [
        ("-MOVED 7 host:7000\r\n", "at host:7000"),
        ("-ASK 7 host:7000\r\n", "at host:7000, asking"),
        ("-READONLY a replica\r\n", "does not serve: READONLY a replica"),
        ("-WRONGTYPE of a key\r\n", "WrongType(\"WRONGTYPE of a key\")"),
    ];
    for (tag, (line, _)) in (1..).zip(errors) {
        wire.send(tag, release(true), &NO_TAG.into(), false);
        theirs.write_all(line.as_bytes()).unwrap();
    }
    assert_eq!(wire.flush(), Ok(true));
    let expected = (1..).zip(errors).map(|(tag, (_, means))| format!("{tag}: {means}")).collect();
    assert_eq!(said(&mut wire), (expected, None));
}

/// A proxy that loses a reply puts all later ones in the place of others.
#[test]
fn an_answer_to_the_other_kind_of_request_is_out_of_step() {
    for (call, answer) in [(release(true), &LEFT[..]), (release(true), b":2\r\n"), (release(false), b":1\r\n")] {
        let (mut wire, mut theirs) = pair();
        wire.send(1, call, &NO_TAG.into(), false);
        assert_eq!(wire.flush(), Ok(true));
        theirs.write_all(answer).unwrap();
        let (said, _) = said(&mut wire);
        assert!(said[0].starts_with("1: OutOfStep"), "{said:?}");
    }
}
