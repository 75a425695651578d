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

fn field() -> impl Strategy<Value = &'static str> {
    let fields = "epoch stamp memory keep_us waiting lease_left_us recover_left_us holder holder_token holder_ticket \
                  holder_seat holder_claim again left_us seat ticket rank held_id held_token held_label held_owner \
                  held_us held_claim held_broken grants recorded page past unheard_of";
    proptest::sample::select(fields.split_whitespace().collect::<Vec<_>>())
}

fn bulk(text: impl AsRef<[u8]>) -> Value {
    Value::Binary(text.as_ref().to_vec())
}

/// Scripts send numbers in both ways.
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

/// A value that is a reply except for some of its parts, and the script of that reply.
fn nearly_a_reply() -> impl Strategy<Value = (&'static str, Value)> {
    // Mostly what a field may be, because one that cannot be is the end of the reply.
    let number = || (any::<u64>(), any::<bool>()).prop_map(|(n, text)| numeral(n, text));
    let page = vec(vec(number(), 4..8).prop_map(Value::Array), 0..3).prop_map(Value::Array);
    let value = prop_oneof![4 => number(), 1 => page, 1 => any_value()];
    let fields = vec((field().prop_map(bulk), value), 0..6);
    let always = (vec(0..=MOST, ALWAYS.len()), any::<bool>());
    (word(), always, fields, vec(any_value(), 0..3)).prop_map(|((script, word), (n, whole), fields, tail)| {
        let always = ALWAYS.iter().zip(n).flat_map(|(name, n)| [bulk(name), Value::from(n)]);
        let always = always.take(if whole { 2 * ALWAYS.len() } else { 0 });
        let pairs = fields.into_iter().flat_map(|(name, value)| [name, value]);
        (script, Value::Array([bulk(word)].into_iter().chain(always).chain(pairs).chain(tail).collect()))
    })
}

/// The numbers that every reply tells.
const ALWAYS: [&str; 6] = ["epoch", "stamp", "waiting", "lease_left_us", "recover_left_us", "keep_us"];

/// Reads it as the scripts pack it.
fn read_reply(script: &str, value: &Value) -> Option<Vec<u128>> {
    let mut packed = Vec::new();
    rmpv::encode::write_value(&mut packed, value).unwrap();
    fairlock::__hooks::read_reply(script, &packed)
}

#[test]
fn no_reply_causes_a_panic() {
    check(3000, &(word(), vec(any::<u8>(), 0..60)), |((script, _), bytes)| {
        fairlock::__hooks::read_reply(script, &bytes);
        Ok(())
    });
    check(3000, &(word(), any_value()), |((script, _), value)| {
        read_reply(script, &value);
        Ok(())
    });
    check(3000, &nearly_a_reply(), |(script, value)| {
        let read = read_reply(script, &value).unwrap_or_default();
        prop_assert!(read.iter().all(|number| *number <= MOST.into()), "the keeper cannot calculate with {read:?}");
        Ok(())
    });
}

#[test]
fn messages_are_read_as_they_were_meant_or_not_at_all() {
    let texts = (ID, "\\PC*", ".*", vec(any::<u8>(), 0..=47), vec(any::<u8>(), 0..=31));
    let numbers = ([1..=MOST, 1..=MOST, 0..=MOST, 0..=MOST, 0..=MOST], any::<[bool; 5]>());
    let changes = vec((any::<usize>(), any::<u8>()), 1..4);
    let strategy = (any::<bool>(), texts, numbers, any::<usize>(), changes);
    check(3000, &strategy, |(grant, (id, secret, lock, memory, seat), (numbers, as_text), turned, changes)| {
        let names = ["token", "ticket", "epoch", "stamp", "left_us"];
        let numbers_named = names.into_iter().zip(numbers.into_iter().zip(as_text));
        let mut fields: Vec<(&str, Value)> =
            numbers_named.map(|(name, (n, as_text))| (name, numeral(n, as_text))).collect();
        fields.extend([("id", bulk(&id)), ("secret", bulk(&secret)), ("lock", bulk(&lock))]);
        fields.extend([("memory", bulk(&memory)), ("seat", bulk(&seat)), ("from a later version", Value::Nil)]);
        let count = fields.len();
        fields.rotate_left(turned % count);
        let items = fields.into_iter().flat_map(|(name, value)| [bulk(name), value]);
        let word = bulk(if grant { "grant" } else { "break" });
        let mut packed = Vec::new();
        let message = Value::Array([word].into_iter().chain(items).collect());
        rmpv::encode::write_value(&mut packed, &message).unwrap();
        let meant = (grant, id, [numbers[0], numbers[1]], [secret, lock], [memory, seat]);
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
