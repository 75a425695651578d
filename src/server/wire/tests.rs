use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::sync::LazyLock;

use super::*;

mod out_of_step;
mod removed;

/// Outside of a cluster.
const NO_TAG: &str = "";
/// The reply to a `leave`.
static LEFT: LazyLock<Vec<u8>> = LazyLock::new(|| bulk(&[b"\x04left", &[0; 56][..]].concat()));
/// A message that is published to this client.
static PUSH: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let seat = [&[29, 3], [12_f64; 3].map(f64::to_le_bytes).as_flattened(), &[0, 0, 1, 0]].concat();
    let message = [b"\x05grant", &[0; 9][..], &seat, b"\x03\0c.7\x06secret\x11\0fairlock:{x}:lock"].concat();
    [b">3\r\n$7\r\nmessage\r\n$17\r\nfairlock:client:c\r\n", &bulk(&message)[..]].concat()
});

/// A bulk string.
fn bulk(text: &[u8]) -> Vec<u8> {
    [format!("${}\r\n", text.len()).as_bytes(), text, b"\r\n"].concat()
}

/// A connection, and the server's end of it.
fn pair() -> (Wire, UnixStream) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    ours.set_nonblocking(true).unwrap();
    theirs.set_nonblocking(true).unwrap();
    let digests = SCRIPTS.iter().map(|script| format!("digest-of-{}", script.name)).collect();
    (Wire::new(Stream::new(ours.into()), digests, None), theirs)
}

fn keys() -> Arc<LockKeys> {
    Arc::new(LockKeys::new("fairlock", "x"))
}

fn leave() -> protocol::Request {
    protocol::Request::Leave(protocol::LeaveRequest {
        keys: keys(),
        memory: protocol::Memory::NONE,
        ids: vec![protocol::WireId::parse("c.1").unwrap()],
    })
}

/// What was said, in a few words each, and why the connection ended.
fn said(wire: &mut Wire) -> (Vec<String>, Option<String>) {
    let mut said = Vec::new();
    let end = wire.receive(&mut said).err();
    let reply = |reply: &CallOutcome| match reply {
        CallOutcome::Result(Ok(reply)) => format!("{:?}", reply.verdict),
        CallOutcome::Result(Err(refusal)) => format!("{refusal:?}"),
        CallOutcome::Elsewhere { node, asking } => format!("at {node}{}", if *asking { ", asking" } else { "" }),
        CallOutcome::NotServing(cause) => format!("does not serve: {cause}"),
    };
    let short = |said: &WireEvent| match said {
        WireEvent::Reply { tag, reply: of, .. } => format!("{tag}: {}", reply(of)),
        WireEvent::Push(push) => format!("push {}", push.id),
        WireEvent::Subscribed(channel) => format!("subscribed {channel}"),
        WireEvent::NotSubscribed { channel, reply: of } => format!("not subscribed {channel}: {}", reply(of)),
        WireEvent::Unsubscribed(channel) => format!("unsubscribed {channel}"),
        WireEvent::Replicas(result) => format!("replicas: {result:?}"),
    };
    (said.iter().map(short).collect(), end.map(|end| end.to_string()))
}

/// What arrived at the server.
fn arrived(theirs: &mut UnixStream) -> String {
    let mut bytes = Vec::new();
    match theirs.read_to_end(&mut bytes) {
        Err(error) if error.kind() == ErrorKind::WouldBlock => String::from_utf8(bytes).unwrap(),
        other => panic!("{other:?}"),
    }
}

fn confirmed(kind: &str, channel: &str) -> String {
    format!(">3\r\n${}\r\n{kind}\r\n${}\r\n{channel}\r\n:1\r\n", kind.len(), channel.len())
}

#[test]
fn a_new_login_has_its_place_between_requests() {
    for (answer, is_due_again) in [("+OK", false), ("-WRONGPASS no", true)] {
        let (mut wire, mut theirs) = pair();
        wire.send(1, leave(), &NO_TAG.into(), false);
        wire.log_in(&Credentials::new("u", "p").expires_in(Duration::from_secs(100)));
        wire.send(2, leave(), &NO_TAG.into(), false);
        let due = wire.login_due;
        assert!(due.is_some() && wire.flush() == Ok(true));
        assert!(arrived(&mut theirs).contains("$4\r\nAUTH\r\n$1\r\nu\r\n$1\r\np\r\n"));
        theirs.write_all(&[&LEFT, answer.as_bytes(), b"\r\n", &LEFT].concat()).unwrap();
        assert_eq!(said(&mut wire), (vec!["1: Leave".to_owned(), "2: Leave".to_owned()], None));
        assert_eq!(wire.login_due < due, is_due_again);
    }
}

/// Two requests, a subscription between them, an unsubscription that nobody asked for, a message in each gap.
#[test]
fn each_reply_finds_its_request_wherever_the_bytes_are_cut() {
    let unasked = confirmed("sunsubscribe", "gone");
    let (push, unasked, confirmed) = (&PUSH[..], unasked.as_bytes(), confirmed("ssubscribe", "s"));
    let confirmed = confirmed.as_bytes();
    let answers = [push, &LEFT, unasked, push, confirmed, push, unasked, &LEFT, push].concat();
    for cut in 0..answers.len() {
        let (mut wire, mut theirs) = pair();
        wire.send(1, leave(), &NO_TAG.into(), false);
        wire.subscribe(&"s".into(), true);
        wire.send(2, leave(), &NO_TAG.into(), false);
        assert_eq!(wire.flush(), Ok(true));
        let mut heard = Vec::new();
        for piece in [&answers[..cut], &answers[cut..]] {
            theirs.write_all(piece).unwrap();
            let (said, end) = said(&mut wire);
            assert_eq!(end, None);
            heard.extend(said);
        }
        let expected = [
            "push c.7",
            "1: Leave",
            "unsubscribed gone",
            "push c.7",
            "subscribed s",
            "push c.7",
            "unsubscribed gone",
            "2: Leave",
            "push c.7",
        ];
        assert_eq!(heard, expected, "cut at {cut}");
    }
}

#[test]
fn a_request_names_the_script_and_the_keys() {
    let (mut wire, mut theirs) = pair();
    assert!(!wire.wants_write());
    wire.send(
        1,
        protocol::Request::Inspect(protocol::InspectRequest {
            keys: keys(),
            after: protocol::Ticket::new(7),
            count: 10,
            tell_from: 8,
            tell_most: 9,
        }),
        &NO_TAG.into(),
        false,
    );
    assert!(wire.wants_write());
    assert_eq!((wire.flush(), wire.wants_write()), (Ok(true), false));
    let mut library = redis::cmd("EVALSHA");
    library.arg("digest-of-inspect").arg(1).arg(&keys().lock).arg(7).arg(10).arg(8).arg(9);
    assert_eq!(arrived(&mut theirs).as_bytes(), library.get_packed_command());
}

#[test]
fn a_script_that_the_server_forgot_is_sent_whole() {
    let (mut wire, mut theirs) = pair();
    wire.send(1, leave(), &NO_TAG.into(), false);
    wire.send(2, leave(), &NO_TAG.into(), true);
    assert_eq!(wire.flush(), Ok(true));
    assert!(arrived(&mut theirs).contains("$6\r\nASKING\r\n*6\r\n$7\r\nEVALSHA\r\n"));
    theirs.write_all(b"-NOSCRIPT No matching script.\r\n+OK\r\n-NOSCRIPT No matching script.\r\n").unwrap();
    assert_eq!(said(&mut wire), (vec![], None));
    assert!(wire.wants_write());
    assert_eq!(wire.flush(), Ok(true));
    let again = arrived(&mut theirs);
    let text = leave().verb().script().text;
    assert!(again.starts_with(&format!("*6\r\n$4\r\nEVAL\r\n${}\r\n{text}\r\n", text.len())));
    assert!(again.contains("*1\r\n$6\r\nASKING\r\n*6\r\n$4\r\nEVAL\r\n"));
    // A server that does not know the text that it was given says so.
    theirs.write_all(&[&**LEFT, b"+OK\r\n-NOSCRIPT No matching script.\r\n"].concat()).unwrap();
    let (said, end) = said(&mut wire);
    assert_eq!((&*said[0], end), ("1: Leave", None));
    assert!(said[1].starts_with("2: Temporary(\"NOSCRIPT"), "{said:?}");
}

#[test]
fn errors_are_told_apart() {
    let (mut wire, mut theirs) = pair();
    let errors = [
        ("-MOVED 7 [::1]:7000\r\n", "at [::1]:7000"),
        ("-MOVED 7 :7000\r\n", "at :7000"),
        ("-ASK 7 host:7000\r\n", "at host:7000, asking"),
        ("-ASK 7\r\n", "Temporary(\"ASK 7\")"),
        ("-MOVEDON 7 h:1\r\n", "Temporary(\"MOVEDON 7 h:1\")"),
        ("-READONLY You can't write\r\n", "does not serve: READONLY You can't write"),
        ("-WRONGTYPE of a key\r\n", "WrongType(\"WRONGTYPE of a key\")"),
        ("!8\r\nERR what\r\n", "Permanent(\"ERR what\")"),
    ];
    for (tag, (line, _)) in (1..).zip(errors) {
        wire.send(tag, leave(), &NO_TAG.into(), false);
        theirs.write_all(line.as_bytes()).unwrap();
    }
    assert_eq!(wire.flush(), Ok(true));
    let expected = (1..).zip(errors).map(|(tag, (_, means))| format!("{tag}: {means}")).collect();
    assert_eq!(said(&mut wire), (expected, None));
}

#[test]
fn a_subscription_that_is_refused_is_told_in_its_turn() {
    let (mut wire, mut theirs) = pair();
    wire.subscribe(&"a".into(), true);
    wire.send(1, leave(), &NO_TAG.into(), false);
    wire.subscribe(&"b".into(), false);
    assert_eq!(wire.flush(), Ok(true));
    let out = arrived(&mut theirs);
    assert!(out.starts_with("*2\r\n$10\r\nSSUBSCRIBE\r\n$1\r\na\r\n"), "{out}");
    assert!(out.ends_with("*2\r\n$9\r\nSUBSCRIBE\r\n$1\r\nb\r\n"), "{out}");
    let answers = [&b"-MOVED 7 h:1\r\n"[..], &LEFT, confirmed("subscribe", "b").as_bytes()].concat();
    theirs.write_all(&answers).unwrap();
    let expected = ["not subscribed a: at h:1", "1: Leave", "subscribed b"].map(str::to_owned);
    assert_eq!(said(&mut wire), (expected.to_vec(), None));
}

#[test]
fn messages_that_mean_nothing_are_passed_over() {
    let (mut wire, mut theirs) = pair();
    for push in [">0\r\n", ">1\r\n$7\r\nmessage\r\n", ">2\r\n:1\r\n:2\r\n", ">2\r\n$10\r\ninvalidate\r\n*0\r\n"] {
        theirs.write_all(push.as_bytes()).unwrap();
    }
    theirs.write_all(b">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$5\r\nhello\r\n").unwrap();
    assert_eq!(said(&mut wire), (vec![], None));
}

#[test]
fn replicas_are_asked_after_something_was_written() {
    let (mut wire, mut theirs) = pair();
    wire.wait_replicas(&keys(), 2, Duration::from_millis(1500));
    assert_eq!(wire.flush(), Ok(true));
    assert!(arrived(&mut theirs).contains("digest-of-leave"));
    theirs.write_all(&LEFT).unwrap();
    assert_eq!(said(&mut wire), (vec![], None));
    assert_eq!(wire.flush(), Ok(true));
    assert_eq!(arrived(&mut theirs), "*3\r\n$4\r\nWAIT\r\n$1\r\n2\r\n$4\r\n1500\r\n");
    theirs.write_all(b":1\r\n").unwrap();
    assert_eq!(said(&mut wire), (vec!["replicas: Ok(1)".into()], None));

    for (answer, result) in [
        ("-NOPERM no\r\n", "Err(Denied(\"NOPERM no; docs/guide.md lists the rights that are needed\"))"),
        ("-READONLY a\r\n", "Err(Temporary(\"READONLY a\"))"),
        ("-MOVED 1 h:1\r\n", "Err(Temporary(\"its slot moved to another node\"))"),
    ] {
        wire.wait_replicas(&keys(), 1, Duration::ZERO);
        theirs.write_all(answer.as_bytes()).unwrap();
        assert_eq!(said(&mut wire), (vec![format!("replicas: {result}")], None));
    }
    for (answer, result) in [("-ERR a\r\n", "Temporary(\"ERR a\")"), ("+a\r\n", "OutOfStep(")] {
        wire.wait_replicas(&keys(), 1, Duration::ZERO);
        theirs.write_all(&[&**LEFT, answer.as_bytes()].concat()).unwrap();
        let (said, _) = said(&mut wire);
        assert!(said[0].starts_with(&format!("replicas: Err({result}")), "{said:?}");
    }
}

/// The socket takes a part; the rest goes when there is room again, and nothing is lost or sent twice.
#[test]
fn requests_that_do_not_fit_into_the_socket_are_sent_later() {
    let (mut wire, mut theirs) = pair();
    let channel: Arc<str> = "c".repeat(64 << 10).into();
    let mut requests = 0;
    while wire.flush() == Ok(true) {
        assert!(requests < 100, "the socket takes everything");
        wire.subscribe(&channel, false);
        requests += 1;
    }
    assert!(wire.wants_write());
    wire.subscribe(&channel, false);
    requests += 1;
    let mut out = arrived(&mut theirs);
    while wire.flush() != Ok(true) {
        out += &arrived(&mut theirs);
    }
    out += &arrived(&mut theirs);
    let one = format!("*2\r\n$9\r\nSUBSCRIBE\r\n${}\r\n{channel}\r\n", channel.len());
    assert!(out == one.repeat(requests), "{} bytes for {requests} requests of {}", out.len(), one.len());
}

#[test]
fn replies_before_the_end_of_a_connection_are_told() {
    let (mut wire, mut theirs) = pair();
    wire.send(1, leave(), &NO_TAG.into(), false);
    assert_eq!(wire.flush(), Ok(true));
    theirs.write_all(&[&**LEFT, &PUSH[..], b"$7\r\nunf"].concat()).unwrap();
    drop(theirs);
    let ((mut heard, first), (more, second)) = (said(&mut wire), said(&mut wire));
    heard.extend(more);
    let cause = first.or(second).unwrap();
    assert_eq!(heard, ["1: Leave", "push c.7"]);
    // A socket that was closed with unread requests in it is reset.
    assert!(cause.contains("closed the connection") || cause.contains("reset"), "{cause}");
    wire.send(2, leave(), &NO_TAG.into(), false);
    assert!(wire.flush().is_err());
}

/// The last words fill the buffer, so that they are read together with the end.
#[test]
fn last_words_that_come_with_the_end_are_told() {
    let (mut wire, mut theirs) = pair();
    let room = wire.stream.frames.space().len();
    let mut words = PUSH.repeat(room / PUSH.len() - 1);
    let filler = room - words.len() - "+\r\n".len();
    words.extend(format!("+{}\r\n", "x".repeat(filler)).bytes());
    assert_eq!(words.len(), room);
    wire.send(1, leave(), &NO_TAG.into(), false);
    theirs.write_all(&words).unwrap();
    drop(theirs);
    let (said, end) = said(&mut wire);
    assert_eq!((said.len(), end.is_some()), (room / PUSH.len(), true));
    assert!(said[said.len() - 1].starts_with("1: OutOfStep"), "{said:?}");
}

/// A server that talks without an end gets its share, and no more.
#[test]
fn a_flood_does_not_hold_up_the_loop() {
    let (mut wire, mut theirs) = pair();
    let flooding = std::thread::spawn(move || {
        theirs.set_nonblocking(false).unwrap();
        while theirs.write_all(&PUSH.repeat(1000)).is_ok() {}
    });
    for _ in 0..100 {
        let (said, end) = said(&mut wire);
        assert!(said.len() < 100_000 && end.is_none());
    }
    drop(wire);
    flooding.join().unwrap();
}

#[test]
fn memory_of_a_burst_of_requests_is_given_back() {
    const BURST: usize = 20_000;
    let (mut wire, mut theirs) = pair();
    (0..BURST as u64).for_each(|tag| wire.send(tag, leave(), &NO_TAG.into(), false));
    assert_eq!(wire.unanswered(), BURST);
    let mut said = Vec::new();
    for _ in 0..BURST / 100 {
        theirs.write_all(&LEFT.repeat(100)).unwrap();
        wire.receive(&mut said).unwrap();
    }
    assert_eq!((said.len(), wire.unanswered()), (BURST, 0));
    assert!(wire.pairing.awaited.capacity() <= 2 * crate::memory::KEPT, "{}", wire.pairing.awaited.capacity());
}
