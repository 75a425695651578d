//! The other half of [`super::calls`], for tests that call scripts: how requests are packed, and how replies and
//! messages are read. It reads all of them, while a client passes over what a later version may add.

use rmpv::Value;
use rmpv::decode::read_value;

use super::calls::{sealed, unsealed, unsealed_seat};
use super::model::{Answer, Entry, Lease, Memory, Own, Request, Seat, Terms};
use crate::protocol::{Packed, Verb};

/// Name and arguments of a script.
pub type Call = (&'static str, Vec<Vec<u8>>);

/// What a client sends, and tells about itself.
pub fn call(request: &Request, about: &Entry) -> Call {
    let text = |text: &str| text.as_bytes().to_vec();
    let digits = |number: u64| number.to_string().into_bytes();
    let (verb, arguments) = match request {
        Request::Acquire { id, room, claim, terms, memory, seat } => {
            (Verb::Acquire, vec![text(id), packed(memory), sealed_seat(seat), terms_of(terms, *room, *claim, about)])
        }
        Request::Heartbeat { client, terms, ids, memory } => {
            let times = doubles(&[terms.liveness, terms.buffer, terms.heartbeat]);
            let ids = ids.iter().map(|id| text(id));
            (Verb::Heartbeat, [text(client), packed(memory), times].into_iter().chain(ids).collect())
        }
        Request::Renew { id, seat, left, terms, memory } => {
            let terms = terms_of(terms, 0, false, about);
            (Verb::Renew, vec![text(id), packed(memory), sealed_seat(seat), terms, doubles(&[*left])])
        }
        Request::Release { id, seat, memory } => (Verb::Release, vec![text(id), packed(memory), sealed_seat(seat)]),
        // It is no script: a test sends the command.
        Request::Hdel { id } => return ("hdel", vec![text(&format!("@{id}"))]),
        Request::Leave { ids, memory } => {
            (Verb::Leave, [packed(memory)].into_iter().chain(ids.iter().map(|id| text(id))).collect())
        }
        Request::Inspect { after, count, tell_from, tell_most } => {
            let numbers = [*after, *count as u64, *tell_from, *tell_most as u64];
            (Verb::Inspect, numbers.map(digits).to_vec())
        }
        Request::Break { token, force } => (Verb::Break, vec![digits(*token), digits((*force).into())]),
        Request::History { switch, count } => {
            let switch = switch.map_or(vec![], |on| digits(on.into()));
            (Verb::History, vec![switch, digits(*count as u64)])
        }
    };
    (verb.script().name, arguments)
}

/// Numbers as scripts unpack them.
pub fn doubles(numbers: &[u64]) -> Vec<u8> {
    numbers.iter().flat_map(|number| (*number as f64).to_le_bytes()).collect()
}

/// What an acquire or a renewal asks for.
fn terms_of(terms: &Terms, room: u64, claim: bool, about: &Entry) -> Vec<u8> {
    let texts = [&about.secret, &about.label, &about.owner, &about.hash_tag];
    packed_terms(terms, room, claim, texts.map(String::as_bytes))
}

/// The same with texts of any bytes: secret, label, owner, and the hash tag of the channel.
pub fn packed_terms(terms: &Terms, room: u64, claim: bool, texts: [&[u8]; 4]) -> Vec<u8> {
    let [secret, label, owner, tag] = texts.map(|text| (text.len() as u16).to_le_bytes());
    let spans = doubles(&[terms.liveness, terms.buffer, terms.heartbeat, terms.lease, room]);
    let sizes = [&terms.most.to_le_bytes()[..], &[claim.into(), secret[0]], &label, &owner, &tag].concat();
    [spans, sizes, texts.concat()].concat()
}

/// What an entry of the server tells of a waiter or holder.
pub fn unpacked_terms(entry: &[u8]) -> Option<Entry> {
    let arguments = [b"c.1".to_vec(), vec![], vec![], entry.to_vec()];
    let (request, about) = super::calls::read(Verb::Acquire, &arguments)?;
    let Request::Acquire { terms, .. } = request else { return None };
    Some(Entry { lease: terms.lease, liveness: terms.liveness, heartbeat: terms.heartbeat, most: terms.most, ..about })
}

/// The lease in the record of this slot.
pub fn unpacked_lease(slot: u16, record: &[u8]) -> Option<Lease> {
    let mut packed = Packed(record);
    let most = packed.size()? as u16;
    let [claim, broken] = [packed.byte()?, packed.byte()?].map(|flag| flag == 1);
    let (end, token, ticket) = (packed.number()?, packed.number()?, packed.number()?);
    Some(Lease { slot, id: text(packed.text()?), end, token, ticket, most, claim, broken })
}

/// A memory as scripts give it.
pub fn packed(memory: &Memory) -> Vec<u8> {
    let Memory { epoch, stamp, token, longest, pace } = *memory;
    sealed(&[epoch, stamp, token, longest, pace])
}

/// A seat as scripts give it.
pub fn sealed_seat(seat: &Seat) -> Vec<u8> {
    super::calls::sealed_seat(seat)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The numbers in a memory or seat, as the model writes them.
fn listed<const N: usize>(text: &[u8]) -> Option<String> {
    let numbers: [u64; N] = unsealed(text)?;
    (!text.is_empty()).then(|| numbers.map(|number| number.to_string()).join(" "))
}

/// A reply of a script.
pub fn reply(bytes: &[u8]) -> Option<Answer> {
    let mut packed = Packed(bytes);
    let mut answer = Answer { word: text(packed.short()?), ..Answer::default() };
    let flags = packed.byte()?;
    for (flag, name) in [(1, "again"), (2, "by_hdel")] {
        if flags & flag > 0 {
            answer.put(name, 1);
        }
    }
    if let Some(rank) = packed.number()?.checked_sub(1) {
        answer.put("rank", rank);
    }
    for name in super::calls::NUMBERS {
        answer.put(name, packed.number()?);
    }
    let memory = packed.short()?;
    // One of epoch 0 is none.
    let told = listed::<5>(memory).filter(|_| unsealed::<1>(memory) != Some([0]));
    told.into_iter().for_each(|numbers| answer.put("memory", numbers));
    for _ in 0..packed.size()? {
        let (claim, id) = (packed.byte()? == 1, text(packed.text()?));
        let (seat, left) = (unsealed_seat(packed.short()?)?, packed.number()?);
        answer.own.push(Own { id, seat, claim, left });
    }
    // Their order means nothing. A place has slot 0, and no token.
    answer.own.sort_by_key(|own| (own.seat.token > 0, own.seat.slot));
    let mut told = packed.long()?;
    if !told.is_empty() {
        let Value::Array(items) = read_value(&mut told).ok()? else { return None };
        for pair in items.chunks_exact(2) {
            let name = shown(&pair[0]);
            match &pair[1] {
                Value::Array(rows) => drop(answer.lists.insert(name, rows.iter().map(row).collect())),
                value => answer.put(&name, shown(value)),
            }
        }
    }
    (told.is_empty() && packed.0.is_empty()).then_some(answer)
}

fn row(row: &Value) -> Vec<String> {
    row.as_array().into_iter().flatten().map(shown).collect()
}

fn shown(value: &Value) -> String {
    value.as_slice().map_or_else(|| value.to_string(), text)
}

/// A message of a script.
pub fn message(bytes: &[u8]) -> Option<Answer> {
    let mut packed = Packed(bytes);
    let mut message = Answer { word: text(packed.short()?), ..Answer::default() };
    let left = packed.number()?;
    message.put("memory", listed::<5>(packed.short()?)?);
    let seat = unsealed_seat(packed.short()?)?;
    message.own.push(Own { id: text(packed.text()?), seat, claim: false, left });
    message.put("secret", text(packed.short()?));
    message.put("lock", text(packed.text()?));
    packed.0.is_empty().then_some(message)
}
