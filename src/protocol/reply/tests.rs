//! Replies are read as a whole or refused.

use rmpv::{Value as Pack, ValueRef};

use super::super::memory::Memory;
use super::super::request::{AcquireRequest, ReleaseRequest, RenewRequest, every_request};
use super::super::stamps::{Epoch, Stamp};
use super::*;
use crate::history::{EndedAs, PastGrant};

/// A reply, in the pieces of which it is made. Each value is another, so that none can stand in the place of another.
#[derive(Clone)]
struct Pieces {
    word: &'static str,
    flags: u8,
    /// Position, waiting, held, what is left of the first lease and of the recovery, how long the memory is kept.
    numbers: [f64; 6],
    memory: Vec<u8>,
    /// Leases and places: flags, id, seat, what is left.
    own: Vec<(u8, &'static str, Vec<u8>, f64)>,
    for_people: Vec<u8>,
}

fn sealed(numbers: &[f64]) -> Vec<u8> {
    let packed = numbers.iter().flat_map(|number| number.to_le_bytes());
    [3].into_iter().chain(packed).chain(*b"more").collect()
}

/// With epoch, ticket and token.
fn sealed_seat(numbers: [f64; 3], slot: u8, most: u8) -> Vec<u8> {
    let packed = numbers.iter().flat_map(|number| number.to_le_bytes());
    [3].into_iter().chain(packed).chain([slot, 0, most, 0]).chain(*b"more").collect()
}

fn pieces(word: &'static str) -> Pieces {
    let memory = sealed(&[11.0, 12.0, 13.0]);
    let own = vec![
        (1, "c.17", sealed_seat([11.0, 34.0, 18.0], 47, 48), 44.0),
        (0, "c.20", sealed_seat([11.0, 21.0, 0.0], 0, 1), 0.0),
        (0, "c.49", sealed_seat([11.0, 50.0, 51.0], 52, 53), 54.0),
    ];
    let numbers = [23.0, 14.0, 46.0, 15.0, 16.0, 28.0];
    Pieces { word, flags: 3, numbers, memory, own, for_people: people(every_field()) }
}

impl Pieces {
    fn packed(&self) -> Vec<u8> {
        let short = |text: &[u8]| [&[u8::try_from(text.len()).unwrap()], text].concat();
        let mut packed = short(self.word.as_bytes());
        packed.push(self.flags);
        self.numbers.iter().for_each(|number| packed.extend(number.to_le_bytes()));
        packed.extend(short(&self.memory));
        packed.extend(u16::try_from(self.own.len()).unwrap().to_le_bytes());
        for (flags, id, seat, left) in &self.own {
            packed.push(*flags);
            packed.extend(u16::try_from(id.len()).unwrap().to_le_bytes());
            packed.extend([id.as_bytes(), &short(seat), &left.to_le_bytes()].concat());
        }
        packed.extend(u32::try_from(self.for_people.len()).unwrap().to_le_bytes());
        packed.extend(&self.for_people);
        packed
    }

    fn read(&self, verb: Verb) -> Option<Reply> {
        Reply::unpack(verb, &self.packed())
    }
}

fn people(fields: Vec<(&str, Pack)>) -> Vec<u8> {
    let items = fields.into_iter().flat_map(|(name, value)| [name.into(), value]).collect();
    packed(&Pack::Array(items))
}

fn packed(value: &Pack) -> Vec<u8> {
    let mut packed = Vec::new();
    rmpv::encode::write_value(&mut packed, value).unwrap();
    packed
}

fn every_field() -> Vec<(&'static str, Pack)> {
    let row = |id: &str, alive: u8| {
        Pack::Array(vec![id.into(), 31.into(), "l".into(), "o".into(), 32.into(), alive.into(), 55.into()])
    };
    let grant = vec![
        "c.35".into(),
        36.into(),
        "thirty-seven".into(),
        "thirty-eight".into(),
        39.into(),
        40.into(),
        "broken".into(),
        56.into(),
    ];
    vec![
        ("left_us", 19.into()),
        ("holders", Pack::Array(vec![holder(), holder()])),
        ("epoch", 42.into()),
        ("grants", 41.into()),
        ("token", 43.into()),
        ("recorded", 1.into()),
        ("page", Pack::Array(vec![row("c.30", 1), row("c.33", 0)])),
        ("past", Pack::Array(vec![Pack::Array(grant)])),
    ]
}

/// The row of a holder.
fn holder() -> Pack {
    let (id, slot, token, most) = ("c.23".into(), 57.into(), 24.into(), 58.into());
    let (label, owner) = ("twenty-five".into(), "twenty-six".into());
    Pack::Array(vec![id, slot, token, most, label, owner, 27.into(), 1.into(), 1.into(), 45.into()])
}

fn verdict(verb: Verb, word: &'static str) -> Verdict {
    pieces(word).read(verb).unwrap().verdict
}

#[test]
fn every_field_of_a_reply_arrives_where_it_belongs() {
    let us = Duration::from_micros;
    let common = pieces("left").read(Verb::Leave).unwrap().common;
    let token = |number| Token::new(number).unwrap();
    let ticket = |number| Ticket::new(number).unwrap();
    let seat = |numbers, slot, most| Seat::new(&sealed_seat(numbers, slot, most)).unwrap();
    let lease = |id, of, from, slot: u8, most: u8, claim, left| OwnLease {
        id: WireId::parse(id).unwrap(),
        token: token(of),
        ticket: ticket(from),
        slot: slot.into(),
        most: most.into(),
        seat: seat([11.0, from as f64, of as f64], slot, most),
        claim,
        left: us(left),
    };
    let own = vec![lease("c.17", 18, 34, 47, 48, true, 44), lease("c.49", 51, 50, 52, 53, false, 54)];
    let (first_left, recover_left, keep, again) = (us(15), us(16), us(28), true);
    let (waiting, held) = (14, 46);
    let memory = Memory::new(&sealed(&[11.0, 12.0, 13.0])).unwrap();
    let known = Knowledge::new(memory, Epoch::new(11), Stamp::new(12));
    let expected = Common { known, keep, waiting, held, first_left, recover_left, own, again, calm: true };
    assert_eq!(common, expected);
    assert_eq!(common.recovering_for(), Some(us(16)));

    let holder = Holder {
        id: "c.23".into(),
        slot: 57,
        slots: 58,
        token: 24,
        label: "twenty-five".into(),
        owner: "twenty-six".into(),
        remaining: us(45),
        held_for: us(27),
        broken: true,
        confirmed: false,
    };
    let queued = |id: &str, alive| QueuedWaiter {
        id: id.into(),
        ticket: 31,
        label: "l".into(),
        owner: "o".into(),
        waited: us(32),
        alive,
        slots: 55,
    };
    let acquire = |word| verdict(Verb::Acquire, word);
    assert_eq!(acquire("granted"), Verdict::Acquire(AcquireVerdict::Granted));
    let queued_at = AcquireVerdict::Queued { ticket: ticket(21), seat: seat([11.0, 21.0, 0.0], 0, 1), rank: 22 };
    assert_eq!(acquire("queued"), Verdict::Acquire(queued_at));
    assert_eq!(acquire("busy"), Verdict::Acquire(AcquireVerdict::Busy(vec![holder.clone(), holder.clone()])));
    let alive = HeartbeatVerdict::Alive { rank: Some(22) };
    assert_eq!(verdict(Verb::Heartbeat, "alive"), Verdict::Heartbeat(alive));
    assert_eq!(verdict(Verb::Renew, "renewed"), Verdict::Renew(RenewVerdict::Renewed));
    assert_eq!(verdict(Verb::Break, "told"), Verdict::Break(BreakOutcome::Told { remaining: us(19) }));
    let queue = vec![queued("c.30", true), queued("c.33", false)];
    let (epoch, token) = (Epoch::new(42), Some(token(43)));
    let state = Inspected { epoch, grants: 41, token, holders: vec![holder.clone(), holder], queue };
    assert_eq!(verdict(Verb::Inspect, "state"), Verdict::Inspect(state));
    let grants = vec![PastGrant {
        id: "c.35".into(),
        token: 36,
        label: "thirty-seven".into(),
        owner: "thirty-eight".into(),
        waited: us(39),
        held: us(40),
        slot: 56,
        ended: EndedAs::Broken,
    }];
    assert_eq!(verdict(Verb::History, "history"), Verdict::History(History { recorded: true, grants }));
}

#[test]
fn a_past_grant_tells_how_it_ended() {
    let ended = |how: &str| {
        let grant = vec!["c.35".into(), 36.into(), "l".into(), "o".into(), 39.into(), 40.into(), how.into(), 0.into()];
        let for_people = people(vec![("recorded", 1.into()), ("past", Pack::Array(vec![Pack::Array(grant)]))]);
        let Verdict::History(history) = (Pieces { for_people, ..pieces("history") }).read(Verb::History)?.verdict
        else {
            return None;
        };
        Some(history.grants.into_iter().next()?.ended)
    };
    let all = ["released", "expired", "broken", "lost", "taken"].map(ended);
    assert_eq!(
        all,
        [Some(EndedAs::Released), Some(EndedAs::Expired), Some(EndedAs::Broken), Some(EndedAs::Lost), None]
    );
}

/// As MessagePack has them, text of the scripts is a string or binary.
#[test]
fn values_for_people_are_texts_numbers_or_lists() {
    let text = rmpv::ValueRef::String("released".into());
    assert_eq!((text.bytes(), text.int()), (Some(&b"released"[..]), None));
    assert_eq!(rmpv::ValueRef::Binary(b"x").bytes(), Some(&b"x"[..]));
    assert_eq!((rmpv::ValueRef::from(7).int(), rmpv::ValueRef::from(7).bytes()), (Some(7), None));
}

#[test]
fn a_reply_lacks_nothing_that_its_word_promises() {
    let (lease, place) = ("the lease", "the place");
    for (verb, word, needed) in [
        (Verb::Acquire, "granted", vec![lease]),
        (Verb::Acquire, "queued", vec![place, "the position"]),
        (Verb::Acquire, "busy", vec![]),
        (Verb::Acquire, "disbelieved", vec![]),
        (Verb::Heartbeat, "alive", vec![]),
        (Verb::Heartbeat, "unknown", vec![]),
        (Verb::Renew, "renewed", vec![lease]),
        (Verb::Renew, "broken", vec![]),
        (Verb::Renew, "lost", vec![]),
        (Verb::Release, "released", vec![]),
        (Verb::Release, "expired", vec![]),
        (Verb::Release, "left", vec![]),
        (Verb::Release, "unknown", vec![]),
        (Verb::Leave, "left", vec![]),
        (Verb::Inspect, "state", vec!["holders", "epoch", "grants", "token", "page"]),
        (Verb::Break, "told", vec!["left_us"]),
        (Verb::Break, "ended", vec![]),
        (Verb::Break, "unknown", vec![]),
        (Verb::History, "history", vec!["recorded", "past"]),
    ] {
        let whole = pieces(word);
        let [mut no_lease, mut no_place, mut no_position] = [(); 3].map(|()| whole.clone());
        no_lease.own.retain(|(_, id, ..)| *id == "c.20");
        no_place.own.remove(1);
        no_position.numbers[0] = 0.0;
        let without = |name: &'static str| {
            let fields = every_field().into_iter().filter(|(other, _)| *other != name).collect();
            (name, Pieces { for_people: people(fields), ..whole.clone() })
        };
        let fields = every_field().into_iter().map(|(name, _)| without(name));
        let others = [(lease, no_lease), (place, no_place), ("the position", no_position)];
        for (name, less) in fields.chain(others) {
            assert_eq!(less.read(verb).is_none(), needed.contains(&name), "{verb:?} {word} without {name}");
        }
        let packed = whole.packed();
        for length in 0..packed.len() {
            assert_eq!(Reply::unpack(verb, &packed[..length]), None, "{verb:?} {word} cut at {length}");
        }
    }
}

#[test]
fn a_word_belongs_to_its_verbs() {
    let words: Vec<&str> = Verb::ALL.iter().flat_map(|verb| verb.words()).chain(&["gift", ""]).copied().collect();
    for verb in Verb::ALL {
        for word in &words {
            let read = pieces(word).read(verb);
            assert_eq!(read.is_some(), verb.words().contains(word), "{verb:?} {word:?}");
        }
    }
}

#[test]
fn what_a_later_version_adds_is_passed_over() {
    let usual = pieces("granted").read(Verb::Acquire);
    assert!(usual.is_some());
    // The seats and the memory have more than this version knows, too.
    let mut more = [&pieces("granted").packed()[..], b"more"].concat();
    assert_eq!(Reply::unpack(Verb::Acquire, &more), usual);
    let flags = "granted".len() + 1;
    more[flags] |= 0b1111_1110;
    assert_eq!(Reply::unpack(Verb::Acquire, &more), usual, "other flags");
    more[flags] = 0b1111_1110;
    assert!(!Reply::unpack(Verb::Acquire, &more).unwrap().common.again);

    let mut fields = every_field();
    fields.push(("new", "x".into()));
    let for_people = [&people(fields)[..], b"more"].concat();
    assert_eq!((Pieces { for_people, ..pieces("granted") }).read(Verb::Acquire), usual);
}

#[test]
fn a_value_that_cannot_be_refuses_the_whole_reply() {
    let reads = |change: &dyn Fn(&mut Pieces)| {
        let mut changed = pieces("granted");
        change(&mut changed);
        changed.read(Verb::Acquire).is_some()
    };
    for number in [-1.0, 0.5, f64::NAN, f64::INFINITY, 9_007_199_254_740_994.0] {
        for at in 0..6 {
            assert!(!reads(&|pieces| pieces.numbers[at] = number), "{number} at {at}");
        }
    }
    let of_people = |name: &str, value: Pack| {
        reads(&|pieces| {
            let mut fields = every_field();
            fields.retain(|(other, _)| *other != name);
            fields.push((name, value.clone()));
            pieces.for_people = people(fields);
        })
    };
    assert!(of_people("left_us", "1500000".into()));
    for number in ["-1", "x", "", "9007199254740993"] {
        assert!(!of_people("left_us", number.into()), "{number:?}");
    }
    assert!(!of_people("page", Pack::Array(vec![Pack::Array(vec![])])));
    for (value, is_read) in [("0", true), ("1", true), ("2", false), ("yes", false), ("", false)] {
        assert_eq!(of_people("recorded", value.into()), is_read, "{value:?}");
        for flag in [7, 8] {
            let Pack::Array(mut row) = holder() else { unreachable!() };
            row[flag] = value.into();
            assert_eq!(of_people("holders", Pack::Array(vec![Pack::Array(row)])), is_read, "{flag} {value:?}");
        }
    }
    for id in ["c17", "", "c.\u{e9}"] {
        assert!(!reads(&|pieces| pieces.own[0].1 = id), "{id:?}");
    }
    // Version and epoch alone; no ticket; no slot; more than a client keeps.
    let no_slot = sealed_seat([11.0, 34.0, 18.0], 1, 1)[..27].to_vec();
    for seat in [vec![], vec![3; 9], sealed_seat([11.0, 0.0, 18.0], 1, 1), no_slot, vec![0; 80]] {
        assert!(!reads(&|pieces| pieces.own[0].2.clone_from(&seat)), "{seat:?}");
        assert!(!reads(&|pieces| pieces.own[1].2.clone_from(&seat)), "{seat:?}");
    }
    for memory in [vec![3], vec![3; 9], sealed(&[0.5, 1.0]), vec![0; 80]] {
        assert!(!reads(&|pieces| pieces.memory.clone_from(&memory)), "{memory:?}");
    }
    // What only a part of the replies tells may be away.
    let ((memory, own), for_people) = (Default::default(), people(vec![("holders", Pack::Array(vec![]))]));
    let Reply { common, verdict } =
        (Pieces { flags: 0, memory, own, for_people, ..pieces("busy") }).read(Verb::Acquire).unwrap();
    assert!(!common.again && !common.calm && common.own.is_empty() && common.known.is_strangers());
    assert_eq!(verdict, Verdict::Acquire(AcquireVerdict::Busy(vec![])));

    let mut odd: Vec<Pack> = every_field().into_iter().flat_map(|(name, value)| [name.into(), value]).collect();
    odd.push("again".into());
    for wrong in [Pack::Array(odd), Pack::Nil, 7.into()] {
        assert!(!reads(&|pieces| pieces.for_people = packed(&wrong)), "{wrong}");
    }
}

#[test]
fn grant_or_renewal_of_another_lease_is_no_reply() {
    let [acquire, renew] = [Verb::Acquire, Verb::Renew].map(|verb| every_request().swap_remove(verb as usize));
    let of = |id: &str, call: &Request| match call.clone() {
        Request::Acquire(call) => Request::Acquire(AcquireRequest { id: WireId::parse(id).unwrap(), ..call }),
        Request::Renew(call) => Request::Renew(RenewRequest { id: WireId::parse(id).unwrap(), ..call }),
        other => other,
    };
    for (call, word) in [(acquire, "granted"), (renew, "renewed")] {
        for id in ["c.17", "c.49"] {
            assert!(Reply::to(&of(id, &call), &ValueRef::Binary(&pieces(word).packed())).is_ok(), "{word} {id}");
        }
        assert_eq!(
            Reply::to(&of("c.2", &call), &ValueRef::Binary(&pieces(word).packed())),
            Err(Misfit::OutOfStep),
            "{word}"
        );
    }
}

#[test]
fn an_hdel_is_answered_with_a_number() {
    let release = |by_hdel| match every_request().swap_remove(Verb::Release as usize) {
        Request::Release(call) => Request::Release(ReleaseRequest { by_hdel, ..call }),
        other => other,
    };
    assert_eq!(release(true).removed_field().map(|pieces| pieces.concat()), Some(b"@c.1".to_vec()));
    let verdict = |number: i64| Reply::to(&release(true), &ValueRef::from(number)).map(|reply| reply.verdict);
    assert_eq!(verdict(1), Ok(Verdict::Release(ReleaseVerdict::Released)));
    assert_eq!(verdict(0), Ok(Verdict::Release(ReleaseVerdict::NotCalm)));
    assert_eq!(verdict(2), Err(Misfit::OutOfStep));
    let packed = pieces("released").packed();
    assert!(Reply::to(&release(false), &ValueRef::Binary(&packed)).is_ok());
    assert_eq!(Reply::to(&release(true), &ValueRef::Binary(&packed)), Err(Misfit::OutOfStep));
    assert_eq!(Reply::to(&release(false), &ValueRef::from(1)), Err(Misfit::OutOfStep));
}
