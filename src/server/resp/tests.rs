use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use super::*;

/// These bytes arrive, as many at a time as there is room for.
fn fill(frames: &mut Frames, mut bytes: &[u8]) {
    while !bytes.is_empty() {
        let space = frames.space();
        assert!(!space.is_empty(), "no room");
        let size = bytes.len().min(space.len());
        space[..size].copy_from_slice(&bytes[..size]);
        frames.filled(size);
        bytes = &bytes[size..];
    }
}

/// Every frame of these bytes, which arrive in pieces of these sizes, in turn.
fn arrive(bytes: &[u8], sizes: &[usize]) -> (Vec<Value<'static>>, Option<Garbage>) {
    let (mut frames, mut read, mut rest) = (Frames::new(), Vec::new(), bytes);
    let mut sizes = sizes.iter().cycle();
    while !rest.is_empty() {
        let size = (*sizes.next().unwrap()).clamp(1, rest.len());
        fill(&mut frames, &rest[..size]);
        rest = &rest[size..];
        loop {
            assert!(read.len() < bytes.len(), "frames without an end");
            match frames.next() {
                Ok(Some(value)) => read.push(value.into_owned()),
                Ok(None) => break,
                Err(garbage) => return (read, Some(garbage)),
            }
        }
    }
    (read, None)
}

fn one(bytes: &str) -> Value<'static> {
    match arrive(bytes.as_bytes(), &[usize::MAX]) {
        (mut values, None) if values.len() == 1 => values.remove(0),
        other => panic!("{bytes:?}: {other:?}"),
    }
}

fn text(text: &str) -> Value<'static> {
    Value::Text(text.as_bytes().to_owned().into())
}

#[test]
fn every_kind_of_element_is_read() {
    for (bytes, means) in [
        ("+OK\r\n", text("OK")),
        ("$5\r\na\r\nbc\r\n", text("a\r\nbc")),
        ("$0\r\n\r\n", text("")),
        ("=7\r\ntxt:a b\r\n", text("a b")),
        (":-7\r\n", Value::Int(-7)),
        ("#t\r\n", Value::Int(1)),
        ("#f\r\n", Value::Int(0)),
        (",3.25\r\n", text("3.25")),
        (",inf\r\n", text("inf")),
        ("(349\r\n", text("349")),
        ("_\r\n", Value::Nil),
        ("$-1\r\n", Value::Nil),
        ("*-1\r\n", Value::Nil),
        ("*0\r\n", Value::List(vec![])),
        ("*2\r\n:1\r\n*1\r\n+a\r\n", Value::List(vec![Value::Int(1), Value::List(vec![text("a")])])),
        ("~1\r\n:1\r\n", Value::List(vec![Value::Int(1)])),
        ("%1\r\n+a\r\n:1\r\n", Value::List(vec![text("a"), Value::Int(1)])),
        ("|1\r\n+a\r\n:1\r\n+b\r\n", text("b")),
        ("*2\r\n|1\r\n+a\r\n:1\r\n+b\r\n|0\r\n:2\r\n", Value::List(vec![text("b"), Value::Int(2)])),
    ] {
        assert_eq!(one(bytes), means, "{bytes:?}");
    }
    assert_eq!(one("-ERR no\r\n").error().unwrap(), "ERR no");
    assert_eq!(one("!6\r\nERR no\r\n").error().unwrap(), "ERR no");
    let texts = [one("+OK\r\n"), one("$1\r\n\u{7f}\r\n"), one(":1\r\n"), one("-ERR no\r\n")];
    assert_eq!(texts.each_ref().map(Value::text), [Some("OK".into()), Some("\u{7f}".into()), None, None]);
    assert_eq!(one(">2\r\n+message\r\n-b\r\n"), Value::Push(vec![text("message"), one("-b\r\n")]));
}

#[test]
fn bytes_that_are_no_frame_end_the_connection() {
    for bytes in [
        "HTTP/1.1 400 Bad Request\r\n",
        "\r\n",
        "+OK\n",
        "\n",
        "*x\r\n",
        "*\r\n",
        "*-2\r\n",
        "$2\r\nabc\r\n",
        "$-3\r\n",
        "$1.5\r\n",
        ":\r\n",
        ":one\r\n",
        "#x\r\n",
        "=2\r\nab\r\n",
        "*?\r\n",
        "$99999999999999999999\r\n",
        "%9223372036854775807\r\n\r\n",
    ] {
        let (values, garbage) = arrive(bytes.as_bytes(), &[1]);
        assert!(values.is_empty() && garbage.is_some(), "{bytes:?} is read as {values:?}");
    }
}

/// A server that announces much, or nests without an end, takes no memory for what it did not send.
#[test]
fn a_value_that_is_too_large_is_refused_at_its_first_line() {
    for line in ["$67108864\r\n", "$9223372036854775807\r\n", "*1048576\r\n", "%524288\r\n", "|9223372036854775807\r\n"]
    {
        assert_eq!(arrive(line.as_bytes(), &[1]), (vec![], Some(Garbage::TooLarge)), "{line:?}");
    }
    assert_eq!(arrive("*1\r\n".repeat(MOST_DEPTH + 1).as_bytes(), &[7]), (vec![], Some(Garbage::TooLarge)));
    let deep = "*1\r\n".repeat(MOST_DEPTH) + ":1\r\n";
    assert_eq!(arrive(deep.as_bytes(), &[7]).0.len(), 1);
    let wide = "*1024\r\n".to_owned() + &("*1024\r\n".to_owned() + &"_\r\n".repeat(1024)).repeat(1024);
    assert_eq!(arrive(wide.as_bytes(), &[8192]), (vec![], Some(Garbage::TooLarge)));
    // Each of them goes before an element, which never comes.
    let attributes = "|0\r\n".repeat(1 << 21);
    assert_eq!(arrive(attributes.as_bytes(), &[8192]), (vec![], Some(Garbage::TooLarge)));
    let line = "+".repeat(LONGEST_LINE + 1);
    assert_eq!(arrive(line.as_bytes(), &[1000]), (vec![], Some(Garbage::NotRedis)));
    assert_eq!(Scan::new().frame((line + "\n").as_bytes()), Err(Garbage::NotRedis), "also if it comes at once");
}

#[test]
fn a_value_that_is_just_not_too_large_is_awaited() {
    for line in ["$67108851\r\n", "*1048575\r\n", &"+".repeat(LONGEST_LINE)] {
        assert_eq!(arrive(line.as_bytes(), &[1000]), (vec![], None), "{line:.20}");
    }
    // A frame in which another element follows a long one.
    let of_length = |length: usize| {
        let mut bytes = vec![0; length];
        bytes[..15].copy_from_slice(format!("*2\r\n${}\r\n", length - 21).as_bytes());
        bytes[length - 6..].copy_from_slice(b"\r\n+a\r\n");
        Scan::new().frame(&bytes)
    };
    assert_eq!(of_length(MOST_BYTES), Ok(Some(MOST_BYTES)));
    assert_eq!(of_length(MOST_BYTES + 1), Err(Garbage::TooLarge));
}

/// A frame of this many bytes.
fn of_size(size: usize) -> String {
    format!("${:06}\r\n{}\r\n", size - 11, "x".repeat(size - 11))
}

#[test]
fn a_buffer_that_was_read_does_not_grow_and_a_large_one_becomes_usual_again() {
    for (size, then) in [(USUAL, USUAL), (LARGE, LARGE), (2 * LARGE, USUAL)] {
        let mut frames = Frames::new();
        fill(&mut frames, of_size(size).as_bytes());
        assert!(matches!(frames.next(), Ok(Some(_))));
        assert_eq!(frames.space().len(), then, "after {size} bytes");
    }
}

#[test]
fn a_buffer_that_is_full_of_unread_bytes_doubles() {
    let mut frames = Frames::new();
    fill(&mut frames, &of_size(USUAL + 1).as_bytes()[..USUAL]);
    assert_eq!(frames.next(), Ok(None));
    assert_eq!(frames.space().len(), USUAL);
}

#[test]
fn unread_bytes_move_to_the_front_when_little_room_is_left() {
    let (unread, rest) = ("$3\r\na", "bc\r\n");
    for (left, room) in [(USUAL / 4, USUAL / 4), (USUAL / 4 - 1, USUAL - unread.len())] {
        let mut frames = Frames::new();
        fill(&mut frames, (of_size(USUAL - left - unread.len()) + unread).as_bytes());
        assert!(matches!(frames.next(), Ok(Some(_))));
        assert_eq!(frames.next(), Ok(None));
        assert_eq!(frames.space().len(), room);
        fill(&mut frames, rest.as_bytes());
        assert_eq!(frames.next(), Ok(Some(text("abc"))));
    }
}

#[test]
fn a_large_frame_leaves_no_large_buffer() {
    let large = format!("${}\r\n{}\r\n+a\r\n", 8 << 20, "x".repeat(8 << 20));
    let mut frames = Frames::new();
    fill(&mut frames, large.as_bytes());
    assert!(matches!(frames.next(), Ok(Some(Value::Text(text))) if text.len() == 8 << 20));
    assert_eq!(frames.next(), Ok(Some(text("a"))));
    assert_eq!(frames.next(), Ok(None));
    assert_eq!(frames.space().len(), USUAL);
}

/// The same cases each time.
fn check<S: Strategy>(cases: u32, strategy: &S, test: impl Fn(S::Value) -> Result<(), TestCaseError>) {
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let seed = TestRng::from_seed(RngAlgorithm::XorShift, b"the usual texts.");
    TestRunner::new_with_rng(config, seed).run(strategy, test).unwrap_or_else(|error| panic!("{error}"));
}

/// A frame as a server sends it, of every kind that RESP3 has.
fn frame() -> impl Strategy<Value = Vec<u8>> {
    let bytes = |text: String| text.into_bytes();
    let line = |sign: char| move |text: String| format!("{sign}{text}\r\n");
    let sized = |sign: u8, body: Vec<u8>| [&[sign], format!("{}\r\n", body.len()).as_bytes(), &body, b"\r\n"].concat();
    let leaf = prop_oneof![
        "[a-zA-Z .:]{0,9}".prop_map(line('+')).prop_map(bytes),
        "[A-Z]{1,5} [a-z]{0,9}".prop_map(line('-')).prop_map(bytes),
        any::<i64>().prop_map(|number| format!(":{number}\r\n").into_bytes()),
        any::<i32>().prop_map(|number| format!(",{number}.5\r\n").into_bytes()),
        "-?[1-9][0-9]{0,30}".prop_map(line('(')).prop_map(bytes),
        proptest::sample::select(vec!["_\r\n", "$-1\r\n", "*-1\r\n", "#t\r\n", "#f\r\n"])
            .prop_map(|text| text.as_bytes().to_vec()),
        vec(any::<u8>(), 0..40).prop_map(move |body| sized(b'$', body)),
        "[A-Z]{1,5} [a-z]{0,9}".prop_map(move |text| sized(b'!', text.into_bytes())),
        "[a-z\r\n]{0,9}".prop_map(move |text| sized(b'=', format!("txt:{text}").into_bytes())),
    ];
    leaf.prop_recursive(5, 60, 6, |inner| {
        let list = |sign: char, each: usize| {
            move |items: Vec<Vec<u8>>| {
                let length = items.len() / each;
                [format!("{sign}{length}\r\n").into_bytes(), items[..length * each].concat()].concat()
            }
        };
        let push = |items: Vec<Vec<u8>>| {
            [format!(">{}\r\n$7\r\nmessage\r\n", items.len() + 1).into_bytes(), items.concat()].concat()
        };
        prop_oneof![
            vec(inner.clone(), 0..6).prop_map(list('*', 1)),
            vec(inner.clone(), 0..6).prop_map(list('~', 1)),
            vec(inner.clone(), 0..6).prop_map(list('%', 2)),
            vec(inner.clone(), 0..4).prop_map(push),
            (vec(inner.clone(), 0..5).prop_map(list('|', 2)), inner).prop_map(|(said, of)| [said, of].concat()),
        ]
    })
}

#[test]
fn frames_are_read_as_the_library_reads_them_in_whatever_pieces_they_come() {
    let cases = (vec(frame(), 1..6), vec(1_usize..30, 1..5));
    check(500, &cases, |(frames, sizes)| {
        let bytes = frames.concat();
        let library: Vec<Value<'static>> =
            frames.iter().map(|frame| Value::from(&redis::parse_redis_value(frame).unwrap())).collect();
        prop_assert_eq!(arrive(&bytes, &[usize::MAX]), (library.clone(), None));
        prop_assert_eq!(arrive(&bytes, &[1]), (library.clone(), None));
        prop_assert_eq!(arrive(&bytes, &sizes), (library, None));
        Ok(())
    });
}

/// One byte is another, or some are missing: whatever it means, it means the same in any pieces.
#[test]
fn damaged_frames_are_read_alike_in_whatever_pieces_they_come() {
    let cases = (vec(frame(), 1..4), any::<(prop::sample::Index, u8)>(), any::<prop::sample::Index>(), 1_usize..9);
    check(500, &cases, |(frames, (place, byte), end, size)| {
        let mut bytes = frames.concat();
        let length = bytes.len();
        bytes[place.index(length)] = byte;
        bytes.truncate(end.index(length) + 1);
        prop_assert_eq!(arrive(&bytes, &[usize::MAX]), arrive(&bytes, &[size]));
        Ok(())
    });
}

#[test]
fn commands_are_encoded_as_the_library_encodes_them() {
    check(500, &vec(vec(any::<u8>(), 0..20), 1..30), |words| {
        let mut library = redis::Cmd::new();
        words.iter().for_each(|word| {
            library.arg(&word[..]);
        });
        let mut out = b"before".to_vec();
        let mut command = Command::new(&mut out);
        words.iter().for_each(|word| command.word(word));
        command.end();
        prop_assert_eq!(&out[6..], library.get_packed_command());
        Ok(())
    });
}

#[test]
fn a_command_follows_what_is_to_be_sent_before_it() {
    let mut out = b"before".to_vec();
    put(&mut out, &["SUBSCRIBE", "\u{e9}"]);
    assert_eq!(out, b"before*2\r\n$9\r\nSUBSCRIBE\r\n$2\r\n\xc3\xa9\r\n");
}
