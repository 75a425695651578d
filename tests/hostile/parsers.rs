//! The parsers of replies, messages and URLs: random and mutated values cause no panic, and well-formed values are read
//! as they were meant. `fuzz/` does the same for as long as one likes.

use fairlock::__hooks::{read_push, read_url, verbs};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use rmpv::Value;

/// The same cases each time.
fn check<S: Strategy>(cases: u32, strategy: &S, test: impl Fn(S::Value) -> Result<(), TestCaseError>) {
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let seed = TestRng::from_seed(RngAlgorithm::XorShift, b"the usual texts.");
    TestRunner::new_with_rng(config, seed).run(strategy, test).unwrap_or_else(|error| panic!("{error}"));
}

/// The numbers of the scripts.
const MOST: u64 = 1 << 53;

/// The form of an id.
const ID: &str = "[A-Za-z0-9]{1,30}\\.[0-9]{1,20}";

/// A script, and a word with which its replies begin.
fn word() -> impl Strategy<Value = (&'static str, &'static str)> {
    let words = verbs().flat_map(|(verb, words)| words.iter().map(move |word| (verb, *word)));
    proptest::sample::select(words.collect::<Vec<_>>())
}

/// The names of what replies tell for people.
fn field() -> impl Strategy<Value = &'static str> {
    let fields = "left_us holders epoch token grants recorded page past unheard_of";
    proptest::sample::select(fields.split_whitespace().collect::<Vec<_>>())
}

fn bulk(text: impl AsRef<[u8]>) -> Value {
    Value::Binary(text.as_ref().to_vec())
}

/// Scripts send numbers for people in both ways.
fn numeral(number: u64, as_text: bool) -> Value {
    if as_text { bulk(number.to_string()) } else { Value::from(number) }
}

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(|number| bulk(number.to_string())),
        vec(any::<u8>(), 0..20).prop_map(Value::Binary),
        any::<String>().prop_map(Value::from),
        any::<f64>().prop_map(Value::F64),
        any::<bool>().prop_map(Value::Boolean),
        field().prop_map(bulk),
        word().prop_map(|(_, word)| bulk(word)),
        Just(Value::Nil),
    ];
    leaf.prop_recursive(4, 64, 8, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..8).prop_map(Value::Array),
            vec((inner.clone(), inner), 0..4).prop_map(Value::Map),
        ]
    })
}

/// Values for people, mostly as they may be: one that cannot be is the end of the reply.
fn for_people() -> impl Strategy<Value = Value> {
    let number = || (any::<u64>(), any::<bool>()).prop_map(|(n, text)| numeral(n, text));
    let page = vec(vec(number(), 6..12).prop_map(Value::Array), 0..3).prop_map(Value::Array);
    let value = prop_oneof![4 => number(), 1 => page, 1 => any_value()];
    let pairs = (vec((field().prop_map(bulk), value), 0..6), vec(any_value(), 0..3));
    let pairs = pairs.prop_map(|(fields, tail)| {
        Value::Array(fields.into_iter().flat_map(|(name, value)| [name, value]).chain(tail).collect())
    });
    prop_oneof![8 => pairs, 1 => any_value()]
}

/// A number as scripts pack it, mostly one of theirs.
fn double() -> impl Strategy<Value = f64> {
    prop_oneof![8 => (0..=MOST).prop_map(|number| number as f64), 1 => any::<f64>()]
}

/// A memory or seat, mostly whole: so many numbers, and so many bytes.
fn sealed(count: usize, more: usize) -> impl Strategy<Value = Vec<u8>> {
    let numbers = (vec(double(), count), vec(any::<u8>(), more)).prop_map(|(numbers, more)| {
        std::iter::once(3).chain(numbers.iter().flat_map(|number| number.to_le_bytes())).chain(more).collect()
    });
    prop_oneof![6 => numbers, 1 => vec(any::<u8>(), 0..70)]
}

/// A text with its size in so many bytes before it.
fn sized(bytes: usize, text: &[u8]) -> Vec<u8> {
    [&(text.len() as u32).to_le_bytes()[..bytes], text].concat()
}

fn id() -> impl Strategy<Value = String> {
    prop_oneof![8 => ID.prop_map(String::from), 1 => any::<String>()]
}

/// What is a reply except for some of its parts, and the script of that reply.
fn nearly_a_reply() -> impl Strategy<Value = (&'static str, Vec<u8>)> {
    let numbers = vec(double(), 6);
    let own = vec((any::<u8>(), id(), sealed(3, 4), double()), 0..3);
    let told = (prop_oneof![1 => Just(None), 3 => for_people().prop_map(Some)], vec(any::<u8>(), 0..3));
    let parts = (word(), any::<u8>(), numbers, sealed(5, 0), own, told);
    parts.prop_map(|((script, word), flags, numbers, memory, own, (told, tail))| {
        let mut packed = sized(1, word.as_bytes());
        packed.push(flags);
        packed.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
        packed.extend(sized(1, &memory));
        packed.extend((own.len() as u16).to_le_bytes());
        for (flags, id, seat, left) in own {
            packed.push(flags);
            packed.extend([sized(2, id.as_bytes()), sized(1, &seat), left.to_le_bytes().to_vec()].concat());
        }
        let mut for_people = Vec::new();
        if let Some(told) = told {
            rmpv::encode::write_value(&mut for_people, &told).unwrap();
        }
        packed.extend([sized(4, &for_people), tail].concat());
        (script, packed)
    })
}

#[test]
fn no_reply_causes_a_panic() {
    check(3000, &(word(), vec(any::<u8>(), 0..60)), |((script, _), bytes)| {
        fairlock::__hooks::read_reply(script, &bytes);
        Ok(())
    });
    let mut whole = std::cell::Cell::new(0);
    check(3000, &nearly_a_reply(), |(script, packed)| {
        let read = fairlock::__hooks::read_reply(script, &packed);
        whole.set(whole.get() + u32::from(read.is_some()));
        let read = read.unwrap_or_default();
        prop_assert!(read.iter().all(|number| *number <= MOST.into()), "the keeper cannot calculate with {read:?}");
        Ok(())
    });
    assert!(*whole.get_mut() > 100, "only {whole:?} of them are replies");
}

#[test]
fn messages_are_read_as_they_were_meant_or_not_at_all() {
    let texts = (ID, "\\PC*", ".*", vec(any::<u8>(), 0..=6));
    let numbers = [1..=MOST, 1..=MOST, 0..=MOST, 0..=MOST, 0..=MOST];
    let changes = vec((any::<usize>(), any::<u8>()), 1..4);
    let strategy = (any::<bool>(), texts, numbers, changes);
    check(3000, &strategy, |(grant, (id, secret, lock, later), numbers, changes)| {
        let [token, ticket, epoch, stamp, left] = numbers;
        // A later version may tell more, everywhere.
        let sealed = |numbers: &[u64]| -> Vec<u8> {
            let numbers = numbers.iter().flat_map(|number| (*number as f64).to_le_bytes());
            std::iter::once(3).chain(numbers).chain(later.iter().copied()).collect()
        };
        let memory = sealed(&[epoch, stamp, token, 1, 1]);
        let mut seat = sealed(&[epoch, ticket, token]);
        drop(seat.splice(25..25, [2, 0, 4, 0]));
        let secret: String = secret.chars().take(50).collect();
        let mut packed = [
            sized(1, if grant { b"grant" } else { b"break" }),
            (left as f64).to_le_bytes().to_vec(),
            sized(1, &memory),
            sized(1, &seat),
            sized(2, id.as_bytes()),
            sized(1, secret.as_bytes()),
            sized(2, lock.as_bytes()),
            later.clone(),
        ]
        .concat();
        let meant = (grant, id, [token, ticket], [secret, lock], [memory, seat]);
        prop_assert_eq!(read_push(&packed), Some(meant));

        for (at, byte) in changes {
            let at = at % packed.len();
            match byte % 3 {
                0 => drop(packed.splice(at..at, [byte])),
                1 => packed.truncate(at + 1),
                _ => packed[at] = byte,
            }
        }
        if let Some((_, id, numbers, [secret, lock], [memory, seat])) = read_push(&packed) {
            // Nothing is read that was not in the input.
            for text in [id.as_bytes(), secret.as_bytes(), lock.as_bytes(), &memory, &seat] {
                prop_assert!(text.is_empty() || packed.windows(text.len()).any(|part| part == text), "{text:?}");
            }
            prop_assert!(numbers.iter().all(|number| (1..=MOST).contains(number)), "{numbers:?}");
        }
        Ok(())
    });
    check(1000, &vec(any::<u8>(), 0..60), |bytes| {
        read_push(&bytes);
        Ok(())
    });
}

#[test]
fn no_url_causes_a_panic_and_none_tells_its_password() {
    const PASSWORD: &str = "open-sesame";
    check(2000, &any::<String>(), |url| {
        let _ = read_url(&url);
        Ok(())
    });
    let scheme = proptest::sample::select(vec![
        "redis",
        "rediss",
        "valkey",
        "unix",
        "redis+unix",
        "redis+sentinel",
        "rediss-sentinel",
        "redis+cluster",
        "http",
        "",
    ]);
    let user = prop_oneof![Just(String::new()), any::<String>(), "[a-z%0-9]*"];
    let host = "[a-z0-9.,:\\[\\]%-]{0,12}";
    let path = prop_oneof![Just(String::new()), "/[a-z0-9/%]*", any::<String>()];
    let query = prop_oneof![
        Just(format!("?sentinel_password={PASSWORD}")),
        Just(format!("?pass={PASSWORD}&user=x&db=3")),
        Just(String::new()),
        "[?&=#a-z0-9%]*",
    ];
    check(3000, &(scheme, user, host, path, query), |(scheme, user, host, path, query)| {
        // A slash ends the part that can be a login.
        let user: String = user.replace(['/', '\\', '?', '#'], "");
        let shown = read_url(&format!("{scheme}://{user}:{PASSWORD}@{host}{path}{query}"));
        let said = shown.unwrap_or_else(|refused| refused);
        prop_assert!(!said.contains(PASSWORD), "{said}");
        Ok(())
    });
    for (scheme, port) in [("redis", 6379), ("valkey", 6379)] {
        check(100, &("[a-z][a-z0-9]{0,10}", proptest::option::of(1..=u16::MAX)), |(host, given)| {
            let url =
                format!("{scheme}://u:{PASSWORD}@{host}{}/3", given.map_or(String::new(), |port| format!(":{port}")));
            prop_assert_eq!(read_url(&url), Ok(format!("{host}:{}", given.unwrap_or(port))));
            Ok(())
        });
    }
}
