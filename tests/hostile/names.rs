//! Hostile names, labels, owners and prefixes: each is refused with a clear error, or carried faithfully from end to
//! end. `hostile/logs.rs` has the same in logs, `cli/hostile_texts.rs` on the command line.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::future::IntoFuture as _;

use fairlock::__hooks::model::Terms;
use fairlock::__hooks::packing;
use fairlock::{
    Client,
    error::{AcquireError, ConnectError, InvalidOption},
    state::BreakOutcome,
};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use redis::{Connection, cmd};
use testkit::texts::HOSTILE;
use testkit::{Cluster, RedisServer, SOON, keys_left, quiet, server_and_client, soon};

fn keys(raw: &mut Connection) -> BTreeSet<Vec<u8>> {
    cmd("KEYS").arg("*").query(raw).unwrap()
}

fn key(prefix: &str, name: &str, what: &str) -> Vec<u8> {
    format!("{prefix}:{{{name}}}:{what}").into_bytes()
}

/// The part of a key that determines its slot, by the rule of Redis Cluster.
fn hash_tag(key: &[u8]) -> &[u8] {
    let tag = key.splitn(2, |&byte| byte == b'{').nth(1).and_then(|rest| {
        let end = rest.iter().position(|&byte| byte == b'}')?;
        Some(&rest[..end])
    });
    tag.filter(|tag| !tag.is_empty()).unwrap_or(key)
}

/// Every name is a separate lock: all are held at once, each is handed over with its own message, and each shows the
/// labels of its holders and waiters byte by byte.
async fn carried_faithfully(server: &RedisServer, prefix: &str) {
    let mut raw = server.raw();
    let canary = "somebody else's";
    let _: () = cmd("SET").arg(canary).arg(1).query(&mut raw).unwrap();
    let before = keys(&mut raw);
    // The waiter belongs to another client than the holder, and hears of its turn only by a message.
    let client = Client::builder().url(&server.url()).prefix(prefix).connect().await.unwrap();
    let other = Client::builder().url(&server.url()).prefix(prefix).connect().await.unwrap();
    let mut all = Vec::new();
    for (index, name) in HOSTILE.iter().enumerate() {
        let lock = client.lock_with(name, quiet()).unwrap();
        let (label, owner) = (HOSTILE[(index + 1) % HOSTILE.len()], HOSTILE[(index + 2) % HOSTILE.len()]);
        let guard =
            lock.try_acquire().label(label).owner(owner).await.unwrap_or_else(|error| panic!("{name:?}: {error}"));
        let theirs = other.lock_with(name, quiet()).unwrap();
        let waiting = theirs.enqueue().label(owner).owner(label).await.unwrap();
        let state = lock.inspect().await.unwrap();
        let holder = &state.holders[0];
        assert_eq!((&*holder.label, &*holder.owner), (label, owner), "{name:?}");
        assert_eq!((&*state.queue[0].label, &*state.queue[0].owner), (owner, label), "{name:?}");
        assert_eq!((lock.name(), guard.name()), (*name, *name));
        all.push((name, guard, waiting));
    }
    let expected: BTreeSet<Vec<u8>> =
        HOSTILE.iter().flat_map(|name| ["lock", "waiters"].map(|what| key(prefix, name, what))).collect();
    let made: BTreeSet<Vec<u8>> = keys(&mut raw).difference(&before).cloned().collect();
    assert_eq!(made, expected);
    for (name, guard, waiting) in all {
        assert_eq!(hash_tag(&key(prefix, name, "waiters")), hash_tag(&key(prefix, name, "lock")));
        guard.release().await.unwrap();
        let next = tokio::time::timeout(SOON, waiting).await.unwrap_or_else(|_| panic!("{name:?}: not woken")).unwrap();
        let lost = next.lost();
        // The message that a lease is broken names the lock in the same way.
        let lock = client.lock_with(name, quiet()).unwrap();
        lock.break_lease(next.token()).await.unwrap();
        assert_eq!(&*soon(lost).await.name, *name);
        next.release().await.unwrap_err();
    }
    assert_eq!(cmd("DEL").arg(canary).query::<u32>(&mut raw).unwrap(), 1);
    keys_left(server);
}

#[tokio::test]
async fn hostile_names_labels_and_owners_are_carried_faithfully() {
    carried_faithfully(&RedisServer::start(), "fairlock").await;
}

#[tokio::test]
async fn hostile_prefixes_are_carried_faithfully() {
    // The server is plain, because the user with least rights has no rights to keys of other prefixes.
    let server = RedisServer::builder().plain().start();
    let mut held = Vec::new();
    let prefixes = HOSTILE.iter().copied().filter(|text| !text.contains(['{', '}']));
    for prefix in prefixes.chain(["", ":", "fairlock:"]) {
        let client = Client::builder().url(&server.url()).prefix(prefix).connect().await.unwrap();
        let lock = client.lock_with("lock", quiet()).unwrap();
        // The name is held under all earlier prefixes, and free under this one.
        let guard = lock.try_acquire().await.unwrap_or_else(|error| panic!("{prefix:?}: {error}"));
        let other = Client::builder().url(&server.url()).prefix(prefix).connect().await.unwrap();
        let waiting = other.lock_with("lock", quiet()).unwrap().enqueue().await.unwrap();
        assert_eq!(hash_tag(&key(prefix, "lock", "waiters")), b"lock");
        guard.release().await.unwrap();
        let next =
            tokio::time::timeout(SOON, waiting).await.unwrap_or_else(|_| panic!("{prefix:?}: not woken")).unwrap();
        held.push((next, client));
    }
    carried_faithfully(&RedisServer::builder().plain().start(), "a prefix\0\r\n*1 'and' \"more\"").await;
}

/// A brace in a name ends the hash tag early, for the keys of the lock and for the channel of its messages alike.
#[tokio::test(flavor = "multi_thread")]
async fn a_name_with_braces_is_one_lock_in_a_cluster_too() {
    let cluster = Cluster::start();
    let client = soon(Client::connect(&cluster.url())).await.unwrap();
    let other = soon(Client::connect(&cluster.url())).await.unwrap();
    for name in ["{", "{}", "a}", "a{b}c", "jobs}1", "jobs}2", "jobs"] {
        let guard = soon(client.lock_with(name, quiet()).unwrap().acquire().into_future()).await.unwrap();
        let waiting = soon(other.lock_with(name, quiet()).unwrap().enqueue().into_future()).await.unwrap();
        assert_eq!(soon(client.lock(name).unwrap().inspect()).await.unwrap().waiting, 1, "{name:?}");
        guard.release().await.unwrap();
        // Only a message wakes the waiter in time.
        soon(waiting).await.unwrap_or_else(|error| panic!("{name:?}: {error}")).release().await.unwrap();
    }
}

fn clear(error: &impl std::fmt::Display) {
    let said = error.to_string();
    assert!(said.len() < 700 && !said.chars().any(char::is_control), "{said:?}");
}

#[tokio::test]
async fn names_prefixes_and_labels_that_keys_cannot_have_are_refused() {
    let (server, client) = server_and_client().await;
    let mega = "x".repeat(4_000_000);
    let braces = ["{", "}", "{}", "a{b}c", "}{", "\u{1b}[2J{\n", "fairlock:{other}:lock"];
    for name in ["}", "}{", "}\u{1b}[2J\n"].into_iter().chain(["", &mega, &"{".repeat(513), &"é".repeat(257)]) {
        let error = client.lock(name).unwrap_err();
        clear(&error);
        let expected = match name.len() {
            0 => matches!(error, InvalidOption::EmptyName),
            513.. => matches!(error, InvalidOption::NameTooLong { length, .. } if length == name.len()),
            _ => matches!(error, InvalidOption::LeadingBrace { .. }),
        };
        assert!(expected, "{error:?}");
    }
    for name in ["x".repeat(512), "é".repeat(256)] {
        client.lock(&name).unwrap().acquire().await.unwrap().release().await.unwrap();
    }
    for prefix in braces.into_iter().chain([&*mega, &"{".repeat(4_000_000)]) {
        let error = Client::builder().url(&server.url()).prefix(prefix).connect().await.unwrap_err();
        assert!(matches!(error, ConnectError::Invalid(_)), "{error:?}");
        clear(&error);
    }
    let lock = client.lock("lock").unwrap();
    for (label, owner) in [(&*mega, ""), ("", &*mega), (&"l".repeat(4097), ""), ("", &"é".repeat(2049))] {
        let refused = lock.acquire().label(label).owner(owner).await.map(drop).unwrap_err();
        assert!(matches!(refused, AcquireError::Invalid(InvalidOption::TooLong { .. })), "{refused:?}");
        clear(&refused);
    }
    let refused = Client::builder().url(&server.url()).label(&mega).connect().await.unwrap_err();
    assert!(matches!(refused, ConnectError::Invalid(InvalidOption::TooLong { .. })), "{refused:?}");
    // A number that is no token ends no lease, even if Lua would round it to one.
    let guard = lock.acquire().await.unwrap();
    for token in [0, 1, guard.token() - 1, guard.token() + 1, (1 << 53) - 1, 1 << 53, (1 << 53) + 1, u64::MAX] {
        assert_eq!(lock.break_lease(token).await.unwrap(), BreakOutcome::Unknown, "{token}");
        assert_eq!(lock.force_break_lease(token).await.unwrap(), BreakOutcome::Unknown, "{token}");
        guard.renew().await.unwrap();
    }
    guard.release().await.unwrap();
    lock.acquire().label("l".repeat(4096)).owner("é".repeat(2048)).await.unwrap().release().await.unwrap();
    keys_left(&server);
}

/// Only fields of the form CLIENT.NUMBER are ids: a script must not take another field for one.
#[tokio::test]
async fn ids_that_could_be_taken_for_other_fields_are_refused() {
    let server = RedisServer::builder().plain().start();
    // The client loads the scripts.
    let _client = Client::connect(&server.url()).await.unwrap();
    let mut raw = server.raw();
    for id in ["", ".", ".2", "a", "a.", "a.b.2", "a.x", "a.-1", "a.1 ", "a.1.2"] {
        for script in ["acquire", "heartbeat", "renew", "release", "leave"] {
            let mut call = cmd("EVALSHA");
            call.arg(fairlock::__hooks::digest(script)).arg(1).arg(key("fairlock", "x", "lock"));
            // What the client was told is empty.
            let us = 1_000_000;
            let terms = Terms { lease: us, liveness: us, buffer: us, heartbeat: us, most: 1 };
            let numbers = packing::packed_terms(&terms, 1, false, [b""; 4]);
            let numbers = numbers.as_slice();
            let (before, after): (&[&[u8]], &[&[u8]]) = match script {
                "heartbeat" => (&[b"a", b"", numbers], &[]),
                "leave" => (&[b""], &[]),
                "acquire" => (&[], &[b"", b"", numbers]),
                "renew" => (&[], &[b"", b"", numbers, numbers]),
                _ => (&[], &[b"", b""]),
            };
            call.arg(before).arg(id).arg(after);
            let error = call.query::<redis::Value>(&mut raw).unwrap_err().to_string();
            assert!(error.contains("an id must be CLIENT.NUMBER"), "{script} of {id:?}: {error}");
        }
    }
    keys_left(&server);
}

/// Another client of the protocol may send any label: it is shown, and does no harm.
#[tokio::test]
async fn labels_of_foreign_clients_are_shown_whatever_bytes_they_have() {
    // The server is plain, because the user with least rights has no rights to arbitrary channels.
    let server = RedisServer::builder().plain().start();
    let mut raw = server.raw();
    let client = Client::connect(&server.url()).await.unwrap();
    let strange: [&[u8]; 4] = [b"\xff\xfe\x00", b"", b"\xc3(", b"a.b.c\n\x1b[2J"];
    for (index, text) in strange.into_iter().enumerate() {
        let name = format!("lock {index}");
        for id in [&b"\xffme.1"[..], b"\x00\n him\xff.2"] {
            let mut acquire = cmd("EVALSHA");
            acquire.arg(fairlock::__hooks::digest("acquire")).arg(1).arg(key("fairlock", &name, "lock"));
            let us = 3_600_000_000_u64;
            let terms = Terms { lease: us, liveness: us, buffer: 0, heartbeat: us, most: 1 };
            let terms = packing::packed_terms(&terms, 1, false, [text; 4]);
            let _: redis::Value = acquire.arg(id).arg("").arg("").arg(terms).query(&mut raw).unwrap();
        }
        let lock = client.lock(&name).unwrap();
        let state = lock.inspect().await.unwrap();
        let holder = &state.holders[0];
        assert_eq!(holder.label, String::from_utf8_lossy(text));
        assert_eq!((state.waiting, &*state.queue[0].owner), (1, &*String::from_utf8_lossy(text)));
        let busy = lock.try_acquire().await.unwrap_err();
        clear(&busy);
        for token in [holder.token, lock.inspect().await.unwrap().holders.remove(0).token] {
            lock.force_break_lease(token).await.unwrap();
        }
        for holder in lock.inspect().await.unwrap().holders {
            lock.force_break_lease(holder.token).await.unwrap();
        }
    }
    keys_left(&server);
}

#[test]
fn any_name_is_refused_or_carried() {
    let server = RedisServer::start();
    let raw = RefCell::new(server.raw());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let connect = || pollster::block_on(Client::connect(&server.url())).unwrap();
    let (client, other) = (connect(), connect());
    let config = Config { cases: 300, failure_persistence: None, ..Config::default() };
    let seed = TestRng::from_seed(RngAlgorithm::XorShift, b"the usual texts.");
    let piece = prop_oneof![
        3 => any::<char>().prop_map(String::from),
        2 => proptest::sample::select(HOSTILE).prop_map(str::to_owned),
        1 => proptest::sample::select(vec!["{", "}", ".", ":", " ", "\0", "\r\n", "%", "*", "?", "\\", "\"", "'"])
            .prop_map(str::to_owned),
    ];
    let texts = proptest::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat());
    TestRunner::new_with_rng(config, seed)
        .run(&(texts.clone(), texts), |(name, label)| {
            let bad = name.is_empty() || name.len() > 512 || name.starts_with('}');
            let Ok(lock) = client.lock_with(&name, quiet()) else {
                prop_assert!(bad);
                return Ok(());
            };
            prop_assert!(!bad);
            let guard = lock.try_acquire().label(label.clone()).blocking().unwrap();
            let state = testkit::state::State::read(&mut *raw.borrow_mut(), &name);
            prop_assert!(state.is_some_and(|state| state.holder().is_some()));
            let waiting = other.lock_with(&name, quiet()).unwrap().enqueue().owner(label.clone()).blocking().unwrap();
            let state = pollster::block_on(lock.inspect()).unwrap();
            prop_assert_eq!(state.holders.first().map(|holder| &holder.label), Some(&label));
            prop_assert_eq!(&state.queue[0].owner, &label);
            drop(guard);
            // The waiter hears of its grant by a message: a heartbeat would come too late.
            let next = runtime.block_on(soon(waiting)).unwrap();
            runtime.block_on(next.release()).unwrap();
            Ok(())
        })
        .unwrap();
    keys_left(&server);
}
