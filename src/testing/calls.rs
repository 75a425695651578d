//! The calls of the scripts as they travel: arguments in the order of the headers in `lua/`, replies and messages in
//! MessagePack.

use std::slice::Iter;

use rmpv::Value;

use super::model::{Answer, Entry, Memory, Request, Seat, Terms};
use crate::protocol::Verb;

/// The version of the layout, with which memories and seats begin.
const VERSION: u8 = 2;
/// Up to here scripts count exactly.
const MOST: u64 = 1 << 53;

/// What a script is asked by these arguments, and what the caller tells about itself. None: no client sends them.
pub(super) fn read(verb: Verb, arguments: &[Vec<u8>]) -> Option<(Request, Entry)> {
    let mut given = Arguments(arguments.iter());
    let mut about = Entry::default();
    let request = match verb {
        Verb::Acquire => {
            let (id, room, claim) = (given.id()?, given.number()?, given.number()? == 1);
            let terms = Terms { lease: given.number()?, ..given.session()? };
            about = given.about()?;
            Request::Acquire { id, room, claim, terms, memory: given.memory()?, seat: given.seat()? }
        }
        Verb::Heartbeat => {
            let (client, terms, memory) = (given.text()?, given.session()?, given.memory()?);
            let ids = given.ids()?;
            ids.iter().all(|id| super::model::client_of(id) == client).then_some(())?;
            Request::Heartbeat { client, terms, ids, memory }
        }
        Verb::Renew => {
            let (id, seat, lease, left) = (given.id()?, given.seat()?, given.number()?, given.number()?);
            let terms = Terms { lease, liveness: given.number()?, ..Terms::default() };
            about = given.about()?;
            Request::Renew { id, seat, left, terms, memory: given.memory()? }
        }
        Verb::Release => Request::Release { id: given.id()?, seat: given.seat()?, memory: given.memory()? },
        Verb::Leave => {
            let (memory, ids) = (given.memory()?, given.ids()?);
            (!ids.is_empty()).then_some(Request::Leave { ids, memory })?
        }
        Verb::Inspect => Request::Inspect { after: given.number()?, count: given.number()? as usize },
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
        self.text()?.parse().ok().filter(|number| *number <= MOST)
    }

    fn session(&mut self) -> Option<Terms> {
        let (liveness, buffer, heartbeat) = (self.number()?, self.number()?, self.number()?);
        Some(Terms { lease: 0, liveness, buffer, heartbeat })
    }

    fn about(&mut self) -> Option<Entry> {
        let (channel, secret, label, owner) = (self.text()?, self.text()?, self.text()?, self.text()?);
        Some(Entry { channel, secret, label, owner, ..Entry::default() })
    }

    fn memory(&mut self) -> Option<Memory> {
        let [epoch, stamp, token, longest, pace] = self.numbers()?;
        Some(Memory { epoch, stamp, token, longest, pace })
    }

    fn seat(&mut self) -> Option<Seat> {
        let [epoch, ticket, token] = self.numbers()?;
        Some(Seat { epoch, ticket, token })
    }

    /// The numbers in a memory or seat: a version, then doubles. An empty one stands for zeros.
    fn numbers<const N: usize>(&mut self) -> Option<[u64; N]> {
        let text = self.0.next()?;
        let Some((version, numbers)) = text.split_first() else { return Some([0; N]) };
        let (numbers, []) = numbers.as_chunks() else { return None };
        let numbers: [[u8; 8]; N] = numbers.try_into().ok().filter(|_| *version == VERSION)?;
        let numbers = numbers.map(|number| f64::from_le_bytes(number) as u64);
        numbers.iter().all(|number| *number <= MOST).then_some(numbers)
    }
}

fn is_id(id: &str) -> bool {
    id.split_once('.').is_some_and(|(client, number)| {
        !client.is_empty() && !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
    })
}

/// A reply or message.
#[allow(clippy::expect_used)] // Memory takes all that is written to it.
pub(super) fn written(answer: &Answer) -> Vec<u8> {
    let mut items = vec![Value::from(answer.word.as_str())];
    for (name, value) in &answer.fields {
        items.push(name.as_str().into());
        items.push(match name.as_str() {
            "memory" | "seat" | "holder_seat" => Value::Binary(sealed(value)),
            "holder" | "id" | "lock" | "secret" | "held_id" | "held_label" | "held_owner" => value.as_str().into(),
            _ => number(value),
        });
    }
    for (name, rows) in &answer.lists {
        items.push(name.as_str().into());
        items.push(Value::Array(rows.iter().map(|texts| row(texts)).collect()));
    }
    let mut bytes = Vec::new();
    rmpv::encode::write_value(&mut bytes, &Value::Array(items)).expect("memory takes it");
    bytes
}

/// A row of an inspection (id, ticket, label, owner, and two numbers) or of a history (with how the lease ended).
fn row(texts: &[String]) -> Value {
    let texts = texts.iter().enumerate();
    Value::Array(
        texts.map(|(at, text)| if [1, 4, 5].contains(&at) { number(text) } else { text.as_str().into() }).collect(),
    )
}

fn number(text: &str) -> Value {
    text.parse::<u64>().map_or_else(|_| text.into(), Value::from)
}

/// A memory or seat, of which the model writes the numbers one after the other.
fn sealed(numbers: &str) -> Vec<u8> {
    if numbers.is_empty() {
        return vec![];
    }
    let numbers = numbers.split(' ').flat_map(|number| number.parse().unwrap_or(0.0_f64).to_le_bytes());
    std::iter::once(VERSION).chain(numbers).collect()
}
