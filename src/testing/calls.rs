//! The calls of the scripts as they travel: arguments in the order of the headers in `lua/`, replies and messages, all
//! packed.

use std::slice::Iter;

use rmpv::Value;

use super::model::{Answer, Entry, MOST, Memory, Own, Request, Seat, Terms};
use crate::protocol::{LARGEST, Packed, Verb};

/// The version of the layout, with which memories and seats begin.
const VERSION: u8 = 5;
/// No id is longer.
const LONGEST_ID: usize = 1000;

/// What a script is asked by these arguments, and what the caller tells about itself. None: no client sends them.
pub(super) fn read(verb: Verb, arguments: &[Vec<u8>]) -> Option<(Request, Entry)> {
    let mut given = Arguments(arguments.iter());
    let mut about = Entry::default();
    let request = match verb {
        Verb::Acquire => {
            let (id, memory, seat) = (given.id()?, given.memory()?, given.seat()?);
            let (terms, room, claim, tells) = given.terms()?;
            about = tells;
            Request::Acquire { id, room, claim, terms, memory, seat }
        }
        Verb::Heartbeat => {
            let (client, memory, [liveness, buffer, heartbeat]) = (given.text()?, given.memory()?, given.numbers()?);
            let ids = given.ids()?;
            ids.iter().all(|id| super::model::client_of(id) == client).then_some(())?;
            Request::Heartbeat { client, terms: Terms { liveness, buffer, heartbeat, ..Terms::default() }, ids, memory }
        }
        Verb::Renew => {
            let (id, memory, seat) = (given.id()?, given.memory()?, given.seat()?);
            let (terms, _, _, tells) = given.terms()?;
            about = tells;
            let [left] = given.numbers()?;
            Request::Renew { id, seat, left, terms, memory }
        }
        Verb::Release => {
            let (id, memory, seat) = (given.id()?, given.memory()?, given.seat()?);
            Request::Release { id, seat, memory }
        }
        Verb::Leave => {
            let (memory, ids) = (given.memory()?, given.ids()?);
            (!ids.is_empty()).then_some(Request::Leave { ids, memory })?
        }
        Verb::Inspect => Request::Inspect {
            after: given.number()?,
            count: given.number()? as usize,
            tell_from: given.number()?,
            tell_most: given.number()? as usize,
        },
        // A caller may name any number.
        Verb::Break => Request::Break { token: given.text()?.parse().ok()?, force: given.number()? == 1 },
        Verb::History => {
            let switch = given.text()?.parse::<u8>().ok().map(|on| on == 1);
            Request::History { switch, count: given.number()? as usize }
        }
    };
    given.0.as_slice().is_empty().then_some((request, about))
}

struct Arguments<'a>(Iter<'a, Vec<u8>>);

impl Arguments<'_> {
    fn text(&mut self) -> Option<String> {
        Some(String::from_utf8_lossy(self.0.next()?).into_owned())
    }

    fn id(&mut self) -> Option<String> {
        self.text().filter(|id| is_id(id))
    }

    /// All that are left.
    fn ids(&mut self) -> Option<Vec<String>> {
        let mut ids = Vec::new();
        while self.0.len() > 0 {
            ids.push(self.id()?);
        }
        Some(ids)
    }

    fn number(&mut self) -> Option<u64> {
        self.text()?.parse().ok().filter(|number| *number <= LARGEST)
    }

    /// The numbers in one argument.
    fn numbers<const N: usize>(&mut self) -> Option<[u64; N]> {
        numbers(&mut Packed(self.0.next()?))
    }

    /// With `room`, and whether a claim is enough.
    fn terms(&mut self) -> Option<(Terms, u64, bool, Entry)> {
        let mut packed = Packed(self.0.next()?);
        let [liveness, buffer, heartbeat, lease, room] = numbers(&mut packed)?;
        let most = packed.size()? as u16;
        let claim = packed.byte()? == 1;
        let sizes = [packed.byte()?.into(), packed.size()?, packed.size()?, packed.size()?];
        let mut text = |size| Some(String::from_utf8_lossy(packed.take(size)?).into_owned());
        let [secret, label, owner, hash_tag] = sizes.map(&mut text);
        let about = Entry { secret: secret?, label: label?, owner: owner?, hash_tag: hash_tag?, ..Entry::default() };
        (most > 0).then_some((Terms { lease, liveness, buffer, heartbeat, most }, room, claim, about))
    }

    fn memory(&mut self) -> Option<Memory> {
        let [epoch, stamp, token, longest, pace] = unsealed(self.0.next()?)?;
        Some(Memory { epoch, stamp, token, longest, pace })
    }

    fn seat(&mut self) -> Option<Seat> {
        unsealed_seat(self.0.next()?)
    }
}

fn numbers<const N: usize>(packed: &mut Packed<'_>) -> Option<[u64; N]> {
    let mut numbers = [0; N];
    for number in &mut numbers {
        *number = packed.number()?;
    }
    Some(numbers)
}

/// The numbers in a memory or seat. An empty one stands for zeros.
pub(crate) fn unsealed<const N: usize>(text: &[u8]) -> Option<[u64; N]> {
    let mut packed = Packed(text);
    match packed.byte() {
        None => Some([0; N]),
        version => numbers(&mut packed).filter(|_| version == Some(VERSION)),
    }
}

/// A seat. An empty one stands for none.
pub(crate) fn unsealed_seat(text: &[u8]) -> Option<Seat> {
    let [epoch, ticket, token] = unsealed(text)?;
    let mut rest = Packed(text.get(25..).unwrap_or_default());
    let mut size = || if text.is_empty() { Some(0) } else { rest.size().map(|size| size as u16) };
    let slot = size().filter(|slot| *slot < MOST)?;
    Some(Seat { epoch, ticket, token, slot, most: size()?.min(MOST) })
}

/// A memory or seat of these numbers. None of a lock stands for an empty one.
pub(crate) fn sealed(numbers: &[u64]) -> Vec<u8> {
    if numbers.iter().all(|number| *number == 0) {
        return vec![];
    }
    std::iter::once(VERSION).chain(numbers.iter().flat_map(|number| packed(*number))).collect()
}

/// A seat of these numbers.
pub(crate) fn sealed_seat(seat: &Seat) -> Vec<u8> {
    let Seat { epoch, ticket, token, slot, most } = *seat;
    let numbers = sealed(&[epoch, ticket, token]);
    let sizes = [slot, most].into_iter().flat_map(u16::to_le_bytes).filter(|_| !numbers.is_empty());
    numbers.iter().copied().chain(sizes).collect()
}

fn packed(number: u64) -> [u8; 8] {
    (number as f64).to_le_bytes()
}

fn is_id(id: &str) -> bool {
    let is_of_client = id.split_once('.').is_some_and(|(client, number)| {
        !client.is_empty() && !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
    });
    is_of_client && id.len() <= LONGEST_ID
}

/// The values with which every reply begins, but for those of the client that asks.
pub(super) const NUMBERS: [&str; 5] = ["waiting", "held", "first_left_us", "recover_left_us", "keep_us"];
/// What it tells of the client that asks.
const OF_CLIENT: [&str; 4] = ["again", "by_hdel", "rank", "memory"];

/// What is written one after the other.
#[derive(Default)]
struct Writer(Vec<u8>);

#[allow(clippy::expect_used)] // The model answers what fits.
impl Writer {
    fn number(&mut self, number: u64) {
        self.0.extend(packed(number));
    }

    fn short(&mut self, text: &[u8]) {
        self.0.push(text.len().try_into().expect("a short text"));
        self.0.extend(text);
    }

    fn text(&mut self, text: &str) {
        self.0.extend(u16::try_from(text.len()).expect("a text").to_le_bytes());
        self.0.extend(text.as_bytes());
    }

    fn long(&mut self, text: &[u8]) {
        self.0.extend(u32::try_from(text.len()).expect("a long text").to_le_bytes());
        self.0.extend(text);
    }
}

/// The memory that an answer or message tells.
fn memory_of(answer: &Answer) -> Vec<u8> {
    let Memory { epoch, stamp, token, longest, pace } = answer.memory();
    sealed(&[epoch, stamp, token, longest, pace])
}

/// A reply.
pub(crate) fn reply(answer: &Answer) -> Vec<u8> {
    let mut out = Writer::default();
    out.short(answer.word.as_bytes());
    let flag = |name, bit| if answer.fields.contains_key(name) { bit } else { 0 };
    out.0.push(flag("again", 1) | flag("by_hdel", 2));
    out.number(answer.number("rank").map_or(0, |rank| rank + 1));
    NUMBERS.iter().for_each(|name| out.number(answer.number(name).unwrap_or(0)));
    let memory = memory_of(answer);
    // One of epoch 0 is none.
    let none = || [&[VERSION][..], &[0; 40]].concat();
    out.short(&if memory.is_empty() { none() } else { memory });
    out.0.extend((answer.own.len() as u16).to_le_bytes());
    for Own { id, seat, claim, left } in &answer.own {
        out.0.push((*claim).into());
        out.text(id);
        out.short(&sealed_seat(seat));
        out.number(*left);
    }
    out.long(&for_people(answer));
    out.0
}

#[allow(clippy::expect_used)] // Memory takes all that is written to it.
fn for_people(answer: &Answer) -> Vec<u8> {
    let mut items = Vec::new();
    let names = |name: &str| !NUMBERS.contains(&name) && !OF_CLIENT.contains(&name);
    for (name, value) in answer.fields.iter().filter(|(name, _)| names(name)) {
        let value = number(value).unwrap_or_else(|| value.as_str().into());
        items.extend([name.as_str().into(), value]);
    }
    for (name, rows) in &answer.lists {
        items.extend([name.as_str().into(), Value::Array(rows.iter().map(|texts| row(name, texts)).collect())]);
    }
    let mut bytes = Vec::new();
    if !items.is_empty() {
        rmpv::encode::write_value(&mut bytes, &Value::Array(items)).expect("memory takes it");
    }
    bytes
}

/// A message.
pub(crate) fn message(message: &Answer) -> Vec<u8> {
    let text = |name: &str| message.fields.get(name).map(String::as_str).unwrap_or_default();
    let mut out = Writer::default();
    out.short(message.word.as_bytes());
    let Own { id, seat, left, .. } = message.own.first().cloned().unwrap_or_default();
    out.number(left);
    out.short(&memory_of(message));
    out.short(&sealed_seat(&seat));
    out.text(&id);
    out.short(text("secret").as_bytes());
    out.text(text("lock"));
    out.0
}

/// A row of the holders, of a page of waiters, or of the past: which of its values are texts.
fn row(name: &str, values: &[String]) -> Value {
    let texts: &[usize] = match name {
        "holders" => &[0, 4, 5],
        "page" => &[0, 2, 3],
        _ => &[0, 2, 3, 6],
    };
    let value = |(at, text): (usize, &String)| {
        number(text).filter(|_| !texts.contains(&at)).unwrap_or_else(|| text.as_str().into())
    };
    Value::Array(values.iter().enumerate().map(value).collect())
}

fn number(text: &str) -> Option<Value> {
    text.parse::<u64>().ok().map(Value::from)
}
