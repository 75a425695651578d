//! Replies are read as a whole or refused.

use super::super::memory::Memory;
use super::super::request::{AcquireRequest, RenewRequest, every_request};
use super::super::stamps::{Epoch, Stamp};
use super::*;
use crate::history::{EndedAs, PastGrant};

fn bulk(text: &str) -> Plain {
    Plain::Text(text.into())
}

/// Each value is another, so that none can stand in the place of another.
fn every_field() -> Vec<(&'static str, Plain)> {
    let row = |id: &str, alive: &str| {
        Plain::List(vec![bulk(id), Plain::Int(31), bulk("l"), bulk("o"), bulk("32"), bulk(alive)])
    };
    let texts = [
        ("epoch", "11"),
        ("stamp", "12"),
        ("memory", "memory"),
        ("keep_us", "28"),
        ("waiting", "14"),
        ("lease_left_us", "15"),
        ("recover_left_us", "16"),
        ("holder", "c.17"),
        ("holder_token", "18"),
        ("holder_ticket", "34"),
        ("holder_seat", "own"),
        ("again", "1"),
        ("holder_claim", "1"),
        ("left_us", "19"),
        ("ticket", "21"),
        ("seat", "place"),
        ("rank", "22"),
        ("held_id", "c.23"),
        ("held_token", "24"),
        ("held_label", "twenty-five"),
        ("held_owner", "twenty-six"),
        ("held_us", "27"),
        ("held_claim", "1"),
        ("held_broken", "1"),
        ("grants", "41"),
        ("token", "13"),
        ("recorded", "1"),
    ];
    let page = ("page", Plain::List(vec![row("c.30", "1"), row("c.33", "0")]));
    let grant = ["c.35", "36", "thirty-seven", "thirty-eight", "39", "40", "broken"].map(bulk);
    let past = ("past", Plain::List(vec![Plain::List(grant.into())]));
    texts.into_iter().map(|(name, value)| (name, bulk(value))).chain([page, past]).collect()
}

fn seat(text: &str) -> Seat {
    Seat::new(text.as_bytes()).unwrap()
}

fn reply(word: &str, fields: Vec<(&str, Plain)>) -> Plain {
    Plain::List([bulk(word)].into_iter().chain(fields.into_iter().flat_map(|(name, it)| [bulk(name), it])).collect())
}

fn verdict(verb: Verb, word: &str) -> Verdict {
    Reply::parse(verb, &reply(word, every_field())).unwrap().verdict
}

#[test]
fn every_field_of_a_reply_arrives_where_it_belongs() {
    let us = Duration::from_micros;
    let common = Reply::parse(Verb::Leave, &reply("left", every_field())).unwrap().common;
    let token = |number| Token::new(number).unwrap();
    let ticket = |number| Ticket::new(number).unwrap();
    let id = WireId::parse("c.17").unwrap();
    let own = Some(OwnLease { id, token: token(18), ticket: ticket(34), seat: seat("own"), claim: true });
    let (lease_left, recover_left, keep, waiting, again) = (us(15), us(16), us(28), 14, true);
    let known = Knowledge::new(Memory::new(b"memory").unwrap(), Epoch::new(11), Stamp::new(12));
    let expected = Common { known, keep, waiting, lease_left, recover_left, own, again };
    assert_eq!(common, expected);
    assert_eq!(common.recovering_for(), Some(us(16)));

    let held = Holder {
        id: "c.23".into(),
        token: 24,
        label: "twenty-five".into(),
        owner: "twenty-six".into(),
        remaining: us(15),
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
    };
    let acquire = |word| verdict(Verb::Acquire, word);
    assert_eq!(acquire("granted"), Verdict::Acquire(AcquireVerdict::Granted));
    let queued_at = AcquireVerdict::Queued { ticket: ticket(21), seat: seat("place"), rank: 22 };
    assert_eq!(acquire("queued"), Verdict::Acquire(queued_at));
    assert_eq!(acquire("busy"), Verdict::Acquire(AcquireVerdict::Busy(Some(Box::new(held.clone())))));
    let alive = HeartbeatVerdict::Alive { rank: Some(22) };
    assert_eq!(verdict(Verb::Heartbeat, "alive"), Verdict::Heartbeat(alive));
    assert_eq!(verdict(Verb::Renew, "renewed"), Verdict::Renew(RenewVerdict::Renewed));
    assert_eq!(verdict(Verb::Break, "told"), Verdict::Break(BreakOutcome::Told { remaining: us(19) }));
    let queue = vec![queued("c.30", true), queued("c.33", false)];
    let state = Inspected { grants: 41, token: Some(token(13)), holder: Some(Box::new(held)), queue };
    assert_eq!(verdict(Verb::Inspect, "state"), Verdict::Inspect(state));
    let grants = vec![PastGrant {
        id: "c.35".into(),
        token: 36,
        label: "thirty-seven".into(),
        owner: "thirty-eight".into(),
        waited: us(39),
        held: us(40),
        ended: EndedAs::Broken,
    }];
    assert_eq!(verdict(Verb::History, "history"), Verdict::History(History { recorded: true, grants }));
}

#[test]
fn a_past_grant_tells_how_it_ended() {
    let ended = |how| {
        let grant = ["c.35", "36", "l", "o", "39", "40", how].map(bulk);
        let mut fields = every_field();
        fields.retain(|(name, _)| *name != "past");
        fields.push(("past", Plain::List(vec![Plain::List(grant.into())])));
        let Verdict::History(history) = Reply::parse(Verb::History, &reply("history", fields))?.verdict else {
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
fn values_of_messages_are_texts_numbers_or_lists() {
    let text = rmpv::ValueRef::String("released".into());
    assert_eq!((text.bytes(), text.int()), (Some(&b"released"[..]), None));
    assert_eq!(rmpv::ValueRef::Binary(b"x").bytes(), Some(&b"x"[..]));
    assert_eq!((rmpv::ValueRef::from(7).int(), rmpv::ValueRef::from(7).bytes()), (Some(7), None));
}

#[test]
fn a_reply_is_read_as_a_whole_or_refused() {
    let always = "epoch stamp waiting lease_left_us recover_left_us holder_token holder_ticket holder_seat";
    let of_clients = ["memory", "keep_us"];
    for (verb, word, needed) in [
        (Verb::Acquire, "granted", "holder"),
        (Verb::Acquire, "queued", "ticket seat rank"),
        (Verb::Acquire, "busy", "held_token held_label held_owner held_us"),
        (Verb::Acquire, "disbelieved", ""),
        (Verb::Heartbeat, "alive", ""),
        (Verb::Heartbeat, "unknown", ""),
        (Verb::Renew, "renewed", "holder"),
        (Verb::Renew, "broken", ""),
        (Verb::Renew, "lost", ""),
        (Verb::Release, "released", ""),
        (Verb::Release, "expired", ""),
        (Verb::Release, "left", ""),
        (Verb::Release, "unknown", ""),
        (Verb::Leave, "left", ""),
        (Verb::Inspect, "state", "held_token held_label held_owner held_us grants token page"),
        (Verb::Break, "told", "left_us"),
        (Verb::Break, "ended", ""),
        (Verb::Break, "unknown", ""),
        (Verb::History, "history", "recorded past"),
    ] {
        let needed: Vec<&str> = always.split(' ').chain(needed.split_whitespace()).collect();
        for (name, _) in every_field() {
            let mut fields = every_field();
            fields.retain(|(other, _)| *other != name);
            let read = Reply::parse(verb, &reply(word, fields));
            let is_needed = needed.contains(&name) || !verb.is_operators() && of_clients.contains(&name);
            assert_eq!(read.is_none(), is_needed, "{verb:?} {word} without {name}");
        }
    }
}

#[test]
fn a_word_belongs_to_its_verbs() {
    let words: Vec<&str> = Verb::ALL.iter().flat_map(|verb| verb.words()).chain(&["gift", ""]).copied().collect();
    for verb in Verb::ALL {
        for word in &words {
            let read = Reply::parse(verb, &reply(word, every_field()));
            assert_eq!(read.is_some(), verb.words().contains(word), "{verb:?} {word:?}");
        }
    }
}

#[test]
fn a_strange_field_is_passed_over_and_a_strange_value_is_not() {
    let with = |name: &'static str, value| {
        let mut fields = every_field();
        fields.retain(|(other, _)| *other != name);
        fields.push((name, value));
        Reply::parse(Verb::Acquire, &reply("granted", fields))
    };
    assert!(with("new", bulk("x")).is_some());
    assert!(with("left_us", bulk("1500000")).is_some());
    for number in ["-1", "x", "", "9007199254740993"] {
        assert!(with("left_us", bulk(number)).is_none(), "{number:?}");
    }
    for (name, value) in [("holder_token", "0"), ("holder_ticket", "0"), ("holder", "c17")] {
        assert!(with(name, bulk(value)).is_none(), "{name} {value}");
    }
    let too_long = Plain::Bytes(vec![1; 80]);
    for name in ["memory", "seat", "holder_seat"] {
        assert!(with(name, too_long.clone()).is_none() && with(name, Plain::Int(1)).is_none(), "{name}");
        assert!(with(name, Plain::Bytes(vec![0xff])).is_some(), "{name} is any bytes");
    }
    assert!(with("page", Plain::List(vec![Plain::List(vec![])])).is_none());
    for flag in ["again", "holder_claim", "held_claim", "held_broken", "recorded"] {
        for (value, is_read) in [("0", true), ("1", true), ("2", false), ("yes", false), ("", false)] {
            assert_eq!(with(flag, bulk(value)).is_some(), is_read, "{flag} {value:?}");
        }
    }
    assert!(!with("again", bulk("0")).unwrap().common.again);

    // What only a part of the replies tells may be away.
    let mut fields = every_field();
    fields.retain(|(name, _)| !name.starts_with("held_") && !name.starts_with("holder") && *name != "again");
    let Reply { common, verdict } = Reply::parse(Verb::Acquire, &reply("busy", fields)).unwrap();
    assert!(!common.again && common.own.is_none());
    assert_eq!(verdict, Verdict::Acquire(AcquireVerdict::Busy(None)));

    let Plain::List(mut odd) = reply("granted", every_field()) else { unreachable!() };
    odd.push(bulk("again"));
    assert!(Reply::parse(Verb::Acquire, &Plain::List(odd)).is_none());
    assert!(Reply::parse(Verb::Acquire, &Plain::List(vec![])).is_none());
    assert!(Reply::parse(Verb::Acquire, &Plain::Nil).is_none());
}

#[test]
fn grant_or_renewal_of_another_lease_is_no_reply() {
    let packed = |word: &str| {
        let names = ["epoch", "stamp", "waiting", "lease_left_us", "recover_left_us", "keep_us"];
        let numbers = names.into_iter().chain(["holder_token", "holder_ticket"]).map(|name| (name, 7.into()));
        let texts = [("memory", ""), ("holder", "c.1"), ("holder_seat", "own")].map(|(name, text)| (name, text.into()));
        let fields = numbers.chain(texts).flat_map(|(name, value)| [rmpv::Value::Binary(name.into()), value]);
        let mut packed = Vec::new();
        let items = [rmpv::Value::Binary(word.into())].into_iter().chain(fields).collect();
        rmpv::encode::write_value(&mut packed, &rmpv::Value::Array(items)).unwrap();
        packed
    };
    let [acquire, renew] = [Verb::Acquire, Verb::Renew].map(|verb| every_request().swap_remove(verb as usize));
    let of_another = |call: &Request| match call.clone() {
        Request::Acquire(call) => Request::Acquire(AcquireRequest { id: WireId::parse("c.2").unwrap(), ..call }),
        Request::Renew(call) => Request::Renew(RenewRequest { id: WireId::parse("c.2").unwrap(), ..call }),
        other => other,
    };
    for (call, word) in [(acquire, "granted"), (renew, "renewed")] {
        assert!(Reply::to(&call, &packed(word)).is_ok(), "{word}");
        assert_eq!(Reply::to(&of_another(&call), &packed(word)), Err(Misfit::OutOfStep), "{word}");
    }
}
