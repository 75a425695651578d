//! Numbers that no client sends: each packed number of each request takes values that mean nothing there, alone and in
//! pairs. A script refuses them with an error of its own and changes nothing, or leaves a lock that every script reads.

use std::cell::RefCell;
use std::collections::BTreeMap;

use fairlock::__hooks::model::{Answer, MOST, Memory, Request, Seat, Terms, UNBOUNDED, about};
use fairlock::__hooks::packing::{self, Call};
use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use redis::{Cmd, Connection, Pipeline, RedisError, Script, cmd};
use testkit::RedisServer;

const MINUTE: u64 = 60_000_000;
const TERMS: Terms =
    Terms { lease: 60 * MINUTE, liveness: 30 * MINUTE, buffer: MINUTE, heartbeat: 10 * MINUTE, most: 1 };
/// A lock is calm only for such short leases.
const SHORT: Terms = Terms { lease: MINUTE, ..TERMS };
const SEVERAL: Terms = Terms { most: 3, ..TERMS };

/// The lock, and a copy of it.
const LOCK: &str = "fairlock:{x}:lock";
const COPY: &str = "fairlock:{y}:lock";

const DOUBLES: [fn(f64) -> f64; 10] = [
    |_| -1.0,
    |_| 0.0,
    |_| 1.0,
    |_| 1e300,
    |_| 9_007_199_254_740_992.0,
    |number| number + 0.5,
    |number| -number,
    |_| f64::NAN,
    |_| f64::INFINITY,
    |_| f64::NEG_INFINITY,
];
const SIZES: [u16; 5] = [0, 1, MOST, MOST + 1, u16::MAX];

/// A number in one of the texts of a request: where it is, and how many bytes it has.
#[derive(Clone, Copy, Debug)]
struct Place {
    text: usize,
    at: usize,
    bytes: usize,
}

fn places(verb: &str) -> Vec<Place> {
    let doubles =
        |text, from: usize, count: usize| (0..count).map(move |nth| Place { text, at: from + 8 * nth, bytes: 8 });
    let memory = |text| doubles(text, 1, 5);
    let seat = |text| doubles(text, 1, 3).chain([25, 27].map(|at| Place { text, at, bytes: 2 }));
    // The last is whether the grant is to be a claim.
    let terms = |text| doubles(text, 0, 5).chain([(40, 2), (42, 1)].map(|(at, bytes)| Place { text, at, bytes }));
    match verb {
        "acquire" => memory(1).chain(seat(2)).chain(terms(3)).collect(),
        "heartbeat" => memory(1).chain(doubles(2, 0, 3)).collect(),
        "renew" => memory(1).chain(seat(2)).chain(terms(3)).chain(doubles(4, 0, 1)).collect(),
        "release" => memory(1).chain(seat(2)).collect(),
        "leave" => memory(0).collect(),
        _ => unreachable!("{verb} has no packed numbers"),
    }
}

/// All values that a number takes.
fn values(place: Place) -> usize {
    if place.bytes == 8 { DOUBLES.len() } else { SIZES.len() }
}

fn put((_, texts): &mut Call, Place { text, at, bytes }: Place, value: usize) {
    let place = &mut texts[text][at..at + bytes];
    match bytes {
        8 => {
            let number = f64::from_le_bytes((&*place).try_into().unwrap());
            place.copy_from_slice(&DOUBLES[value](number).to_le_bytes());
        }
        _ => place.copy_from_slice(&SIZES[value].to_le_bytes()[..bytes]),
    }
}

/// The keys of a lock, dumped.
type Keys = [Option<Vec<u8>>; 2];

/// The fields of the hash, and the queue.
type Stored = (BTreeMap<Vec<u8>, Vec<u8>>, Vec<(Vec<u8>, f64)>);

fn names(lock: &str) -> [String; 2] {
    [lock.to_owned(), lock.replace(":lock", ":waiters")]
}

/// A state of the lock, and what h.1 or w.1, its holder or waiter, was told in it.
struct State {
    name: &'static str,
    keys: Keys,
    stored: Stored,
    memory: Memory,
    seat: Seat,
}

struct Scripts {
    _server: RedisServer,
    raw: RefCell<Connection>,
    scripts: Vec<(&'static str, Script)>,
}

macro_rules! rendered {
    ($($name:literal),*) => {
        vec![$(($name, Script::new(include_str!(concat!("../../lua/rendered/", $name, ".lua"))))),*]
    };
}

impl Scripts {
    fn start() -> Self {
        let server = RedisServer::start();
        let raw = RefCell::new(server.raw());
        let scripts = rendered!("acquire", "heartbeat", "renew", "release", "leave", "inspect", "break", "history");
        for (_, script) in &scripts {
            script.prepare_invoke().load(&mut *raw.borrow_mut()).unwrap();
        }
        Self { _server: server, raw, scripts }
    }

    /// The command that calls a script for this lock.
    fn command(&self, lock: &str, (name, texts): &Call) -> Cmd {
        let (_, script) = self.scripts.iter().find(|(other, _)| other == name).unwrap();
        cmd("EVALSHA").arg(script.get_hash()).arg(1).arg(lock).arg(texts).clone()
    }

    fn eval(&self, call: &Call) -> Result<Vec<u8>, String> {
        self.command(LOCK, call).query(&mut *self.raw.borrow_mut()).map_err(|error: RedisError| error.to_string())
    }

    fn ask(&self, request: &Request) -> Answer {
        let reply = self.eval(&called(request)).unwrap_or_else(|error| panic!("{request:?}: {error}"));
        packing::reply(&reply).unwrap()
    }

    fn keys(&self) -> Keys {
        names(LOCK).map(|key| cmd("DUMP").arg(key).query(&mut *self.raw.borrow_mut()).unwrap())
    }

    /// A dump may have the same fields in another order.
    fn stored(&self) -> Stored {
        let [lock, waiters] = names(LOCK);
        let mut both = redis::pipe();
        both.hgetall(lock).zrange_withscores(waiters, 0, -1);
        both.query(&mut *self.raw.borrow_mut()).unwrap()
    }

    fn restore(&self, keys: &Keys) {
        let () = restored(LOCK, keys).query(&mut *self.raw.borrow_mut()).unwrap();
    }

    /// A lock in one of all the states that it may have.
    fn states(&self) -> Vec<State> {
        let take = |id, terms| self.ask(&acquire(id, terms, Memory::default(), Seat::default()));
        let end = |id: &str, told: &Answer| {
            self.ask(&Request::Release { id: id.to_owned(), seat: told.seat(), memory: told.memory() })
        };
        let forget = || self.restore(&Default::default());
        let state = |name, told: &Answer, last: &Answer| State {
            name,
            keys: self.keys(),
            stored: self.stored(),
            memory: last.memory(),
            seat: told.seat(),
        };
        let mut states = Vec::new();
        let held = take("h.1", TERMS);
        states.push(state("held", &held, &held));
        let next = take("w.1", TERMS);
        let last = take("w.2", TERMS);
        states.push(state("with waiters", &held, &last));
        states.push(state("whose waiter asks", &next, &last));
        forget();
        states.push(state("free", &held, &last));
        let back = self.ask(&acquire("w.1", TERMS, last.memory(), next.seat()));
        assert!(back.number("recover_left_us") > Some(0), "{back:?}");
        states.push(state("in a recovery", &held, &last));
        self.ask(&Request::Renew {
            id: "h.1".into(),
            seat: held.seat(),
            left: MINUTE,
            terms: TERMS,
            memory: last.memory(),
        });
        states.push(state("in a recovery, with a lease that is back", &held, &last));
        forget();
        for id in ["a.1", "a.2"] {
            let told = take(id, SHORT);
            end(id, &told);
        }
        let calm = take("h.1", SHORT);
        assert_eq!(calm.number("by_hdel"), Some(1), "{calm:?}");
        states.push(state("calm and held", &calm, &calm));
        let last = end("h.1", &calm);
        states.push(state("calm and idle", &calm, &last));
        forget();
        let held = take("h.1", SEVERAL);
        let last = take("h.2", SEVERAL);
        states.push(state("a semaphore of three", &held, &last));
        let _: u64 = cmd("HDEL").arg(LOCK).arg(b"#\x01\0").query(&mut *self.raw.borrow_mut()).unwrap();
        states.push(state("with a tag whose lease is lost", &held, &last));
        states
    }

    /// Sends a request with strange numbers. False: it is refused.
    fn try_out(&self, state: &State, call: &Call) -> Result<bool, TestCaseError> {
        self.restore(&state.keys);
        if let Err(error) = self.eval(call) {
            prop_assert!(!error.contains("user_script"), "{}: {call:?}: {error}", state.name);
            let is_whole = self.stored() == state.stored;
            prop_assert!(is_whole, "{}: {call:?} was refused and wrote something: {error}", state.name);
            return Ok(false);
        }
        let after = self.keys();
        let mut all = redis::pipe();
        for request in requests(state).iter().map(called).chain(others()) {
            for command in restored(COPY, &after).cmd_iter() {
                all.add_command(command.clone());
            }
            all.add_command(self.command(COPY, &request));
        }
        let read = all.query::<redis::Value>(&mut *self.raw.borrow_mut());
        prop_assert!(read.is_ok(), "{}: after {call:?}: {read:?}", state.name);
        Ok(true)
    }
}

/// The commands that bring the keys back.
fn restored(lock: &str, keys: &Keys) -> Pipeline {
    let mut all = redis::pipe();
    for (name, dump) in names(lock).iter().zip(keys) {
        match dump {
            Some(dump) => all.cmd("RESTORE").arg(name).arg(0).arg(&**dump).arg("REPLACE").ignore(),
            None => all.del(name).ignore(),
        };
    }
    all
}

fn called(request: &Request) -> Call {
    packing::call(request, &about(request.id().unwrap_or_default()))
}

fn acquire(id: &str, terms: Terms, memory: Memory, seat: Seat) -> Request {
    Request::Acquire { id: id.to_owned(), room: UNBOUNDED, claim: false, terms, memory, seat }
}

/// What a client may send in this state: these have packed numbers.
fn requests(state: &State) -> [Request; 5] {
    let State { memory, seat, .. } = *state;
    let id = || if seat.token > 0 { "h.1".to_owned() } else { "w.1".to_owned() };
    [
        acquire("n.1", TERMS, memory, Seat { token: 0, ..seat }),
        Request::Heartbeat { client: "w".into(), terms: TERMS, ids: vec!["w.1".into(), "w.2".into()], memory },
        Request::Renew { id: id(), seat, left: MINUTE, terms: TERMS, memory },
        Request::Release { id: id(), seat, memory },
        Request::Leave { ids: vec!["w.1".into()], memory },
    ]
}

/// Of a stranger, and of operators.
fn others() -> impl Iterator<Item = Call> {
    let requests = [
        acquire("s.1", SEVERAL, Memory::default(), Seat::default()),
        Request::Break { token: 1, force: false },
        Request::Inspect { after: 0, count: 9, tell_from: 0, tell_most: 9 },
        Request::History { switch: None, count: 9 },
    ];
    requests.map(|request| called(&request)).into_iter()
}

#[test]
fn no_number_of_a_request_leaves_a_lock_that_a_script_cannot_read() {
    let scripts = Scripts::start();
    let mut taken = Vec::new();
    for state in scripts.states() {
        for whole in requests(&state).iter().map(called) {
            assert!(scripts.try_out(&state, &whole).unwrap(), "{}: {whole:?} is refused", state.name);
            for place in places(whole.0) {
                for value in 0..values(place) {
                    let mut call = whole.clone();
                    put(&mut call, place, value);
                    taken.push(scripts.try_out(&state, &call).unwrap());
                }
            }
        }
    }
    let refused = taken.iter().filter(|taken| !**taken).count();
    assert!(refused > taken.len() / 10 && refused < taken.len() / 2, "{refused} of {} are refused", taken.len());
}

#[test]
fn no_two_numbers_of_a_request_leave_a_lock_that_a_script_cannot_read() {
    let scripts = Scripts::start();
    let states = scripts.states();
    let config = Config { cases: 2000, failure_persistence: None, max_shrink_iters: 200, ..Config::default() };
    let seed = TestRng::from_seed(RngAlgorithm::XorShift, b"numbers of noone");
    let two = || (any::<Index>(), any::<Index>());
    TestRunner::new_with_rng(config, seed)
        .run(&(any::<Index>(), any::<Index>(), two(), two()), |(state, request, first, second)| {
            let state = state.get(&states);
            let mut call = called(request.get(&requests(state)));
            for (place, value) in [first, second] {
                let place = *place.get(&places(call.0));
                put(&mut call, place, value.index(values(place)));
            }
            scripts.try_out(state, &call).map(|_| ())
        })
        .unwrap();
}

/// A lease that is over before its reply would be read, and ended, by every script of others.
#[test]
fn honest_holders_renew_beside_whoever_asks_for_a_lease_of_no_length() {
    let scripts = Scripts::start();
    for (state, holders) in [("held", &["h.1"][..]), ("a semaphore of three", &["h.1", "h.2"])] {
        let states = scripts.states();
        let state = states.iter().find(|other| other.name == state).unwrap();
        scripts.restore(&state.keys);
        for lease in [0, 1, 49_999] {
            let terms = Terms { lease, ..SEVERAL };
            let refused = scripts.eval(&called(&acquire("s.1", terms, Memory::default(), Seat::default())));
            assert!(refused.unwrap_err().contains("a lease or liveness at least 50 ms"));
            for id in holders {
                let told = scripts.ask(&acquire(id, terms_of(holders), Memory::default(), Seat::default()));
                let (memory, seat) = (told.memory(), told.seat());
                let renewal = Request::Renew { id: (*id).into(), seat, left: MINUTE, terms: TERMS, memory };
                assert_eq!(scripts.ask(&renewal).word, "renewed", "{id} in {}", state.name);
            }
        }
    }
}

fn terms_of(holders: &[&str]) -> Terms {
    if holders.len() > 1 { SEVERAL } else { TERMS }
}

#[test]
fn an_id_of_a_thousand_bytes_is_the_longest() {
    let scripts = Scripts::start();
    for length in [1000, 1001] {
        let client = "c".repeat(length - 2);
        let id = format!("{client}.1");
        let told = scripts.eval(&called(&acquire(&id, TERMS, Memory::default(), Seat::default())));
        let granted = told.as_ref().map(|reply| packing::reply(reply).unwrap()).unwrap_or_default();
        let (memory, seat) = (granted.memory(), granted.seat());
        let is_refused =
            |answer: Result<Vec<u8>, String>| answer.is_err_and(|error| error.contains("at most 1000 bytes"));
        let rest = [
            Request::Heartbeat { client, terms: TERMS, ids: vec![id.clone()], memory },
            Request::Renew { id: id.clone(), seat, left: MINUTE, terms: TERMS, memory },
            Request::Leave { ids: vec![id.clone()], memory },
            Request::Release { id, seat, memory },
        ];
        let answers = [told].into_iter().chain(rest.iter().map(|request| scripts.eval(&called(request))));
        assert_eq!(answers.map(is_refused).collect::<Vec<_>>(), [length > 1000; 5]);
    }
}
