//! What goes to the server and comes back: the arguments of a script, its reply, and all data of the lock.

use std::collections::BTreeMap;

use super::super::{Answer, Entry, History, Lock, Memory, Request, Seat, State, Terms, about, client_of};
use super::KINDS;

/// All data under the lock's keys, with their TTLs.
pub(super) const DUMP: &str = "
local state, sessions, entries, ttls = {}, {}, {}, {}
local fields = redis.call('HGETALL', KEYS[1])
for i = 1, #fields, 2 do
  local name, value = fields[i], fields[i + 1]
  if name == '' then
    state = {struct.unpack('<BBBBBdddddddddddddddddddddd', value)}
    state[#state] = string.sub(value, state[#state])
  elseif string.sub(name, -1) == '.' then
    local session = {struct.unpack('<ddd', value)}
    sessions[#sessions + 1] = {string.sub(name, 1, -2), session[1], session[2], session[3]}
  else
    entries[#entries + 1], entries[#entries + 2] = name, cmsgpack.unpack(value)
  end
end
for i = 1, #KEYS do ttls[i] = redis.call('PTTL', KEYS[i]) end
local past, history = string.sub(KEYS[1], 1, -5) .. 'history', {}
if redis.call('EXISTS', past) == 1 then
  history[1] = redis.call('XLEN', past)
  for i, entry in ipairs(redis.call('XREVRANGE', past, '+', '-', 'COUNT', 8)) do history[i + 1] = cmsgpack.unpack(entry[2][2]) end
end
return {redis.call('ZRANGE', KEYS[2], 0, -1, 'WITHSCORES'), sessions, entries, state, ttls, history}";

/// The data on the server.
#[derive(Clone, Debug, Default)]
pub struct Found {
    pub lock: Lock,
    /// The TTL in ms of each key that exists, by the last part of the key. -1 is for ever.
    pub ttls: BTreeMap<&'static str, i64>,
}

/// The answer of a server.
#[derive(Clone, Debug)]
pub(super) enum Value {
    Nil,
    Int(i64),
    Text(Vec<u8>),
    Error(String),
    List(Vec<Value>),
    Push(Vec<Value>),
}

/// Name and arguments of a script, in the order of its header.
pub type Encoded = (&'static str, Vec<Vec<u8>>);

pub fn encode(request: &Request) -> Encoded {
    let texts = |texts: Vec<String>| texts.into_iter().map(String::into_bytes).collect::<Vec<_>>();
    let numbers = |numbers: &[u64]| texts(numbers.iter().map(u64::to_string).collect());
    let people = |id: &str| {
        let about = about(id);
        texts(vec![about.channel, about.secret, about.label, about.owner])
    };
    let session = |terms: &Terms| numbers(&[terms.liveness, terms.buffer, terms.heartbeat]);
    let id = |id: &str| texts(vec![id.to_owned()]);
    match request {
        Request::Acquire { id: name, room, claim, terms, memory, seat } => {
            let wanted = numbers(&[*room, u64::from(*claim), terms.lease]);
            ("acquire", [id(name), wanted, session(terms), people(name), vec![packed(memory), sealed(seat)]].concat())
        }
        Request::Heartbeat { client, terms, ids, memory } => {
            ("heartbeat", [id(client), session(terms), vec![packed(memory)], texts(ids.clone())].concat())
        }
        Request::Renew { id: name, seat, left, terms, memory } => {
            let spans = numbers(&[terms.lease, *left, terms.liveness]);
            ("renew", [id(name), vec![sealed(seat)], spans, people(name), vec![packed(memory)]].concat())
        }
        Request::Release { id: name, seat, memory } => {
            ("release", [id(name), vec![sealed(seat), packed(memory)]].concat())
        }
        Request::Leave { ids, memory } => ("leave", [vec![packed(memory)], texts(ids.clone())].concat()),
        Request::Inspect { after, count } => ("inspect", numbers(&[*after, *count as u64])),
        Request::Break { token, force } => ("break", numbers(&[*token, u64::from(*force)])),
        Request::History { switch, count } => {
            let switch = switch.map_or(String::new(), |on| u64::from(on).to_string());
            ("history", texts(vec![switch, count.to_string()]))
        }
    }
}

/// The version of the layout, with which every text begins that a script gives to clients.
const VERSION: u8 = 2;

fn text_of(numbers: &[u64]) -> Vec<u8> {
    if numbers.iter().all(|number| *number == 0) {
        return vec![];
    }
    let numbers = numbers.iter().flat_map(|number| (*number as f64).to_le_bytes());
    std::iter::once(VERSION).chain(numbers).collect()
}

/// A memory as scripts give it.
pub fn packed(memory: &Memory) -> Vec<u8> {
    let Memory { epoch, stamp, token, longest, pace } = *memory;
    text_of(&[epoch, stamp, token, longest, pace])
}

/// A seat as scripts give it.
pub fn sealed(seat: &Seat) -> Vec<u8> {
    let Seat { epoch, ticket, token } = *seat;
    text_of(&[epoch, ticket, token])
}

/// The numbers in a memory or seat, as the model writes them.
fn unsealed(text: &[u8]) -> String {
    let Some((version, numbers)) = text.split_first() else { return String::new() };
    assert_eq!(*version, VERSION);
    let (numbers, rest) = numbers.as_chunks();
    assert!(rest.is_empty(), "{text:?}");
    numbers.iter().map(|number| f64::from_le_bytes(*number).to_string()).collect::<Vec<_>>().join(" ")
}

pub(super) fn answer(value: &Value) -> Answer {
    let packed = bytes(value).unwrap_or_else(|| panic!("not packed: {value:?}"));
    let value = unpacked(&rmpv::decode::read_value(&mut &*packed).expect("MessagePack"));
    let (word, fields) = items(&value).split_first().expect("a word");
    let mut answer = Answer { word: text(word), ..Answer::default() };
    for field in fields.chunks_exact(2) {
        match text(&field[0]).as_str() {
            name @ ("page" | "past") => {
                answer.lists.insert(name.to_owned(), rows(items(&field[1])));
            }
            name @ ("memory" | "seat" | "holder_seat") => {
                answer.put(name, unsealed(bytes(&field[1]).expect("a text")));
            }
            name => {
                answer.fields.insert(name.to_owned(), text(&field[1]));
            }
        }
    }
    answer
}

pub(super) fn unpacked(value: &rmpv::Value) -> Value {
    match value {
        rmpv::Value::Array(items) => Value::List(items.iter().map(unpacked).collect()),
        value => match value.as_i64() {
            Some(number) => Value::Int(number),
            // A script that was broken on purpose may answer anything.
            None => Value::Text(value.as_slice().map_or_else(|| value.to_string().into_bytes(), <[u8]>::to_vec)),
        },
    }
}

pub(super) fn found(value: &Value) -> Found {
    let [queue, sessions, entries, state, ttls, history] = items(value) else { panic!("{value:?}") };
    let mut lock = Lock {
        queue: items(queue).chunks_exact(2).map(|pair| (number(&pair[1]), text(&pair[0]))).collect(),
        sessions: BTreeMap::new(),
        beats: BTreeMap::new(),
        lease: None,
        entries: items(entries).chunks_exact(2).map(|pair| (text(&pair[0]), entry(&pair[1]))).collect(),
        state: State::default(),
        history: items(history)
            .split_first()
            .map(|(count, latest)| History { count: number(count), latest: rows(latest) }),
    };
    let mut waiters = BTreeMap::new();
    for session in items(sessions) {
        let [client, end, count, beat] = items(session) else { panic!("{session:?}") };
        lock.sessions.insert(text(client), number(end));
        lock.beats.insert(text(client), number(beat));
        waiters.insert(text(client), number(count));
    }
    if let [
        version,
        broken,
        cut,
        claim,
        recorded,
        stamp,
        token,
        epoch,
        seen,
        skew,
        pace,
        pace_until,
        silent_from,
        silent_until,
        recover_from,
        recover_until,
        recover_pace,
        grants,
        longest,
        longest_next,
        generation,
        waiting,
        live_until,
        ttl_until,
        holder_end,
        holder_token,
        holder_ticket,
        holder,
    ] = items(state)
    {
        assert_eq!(number(version), u64::from(VERSION));
        let holder = text(holder);
        if let Some(held) = lock.entries.get_mut(&holder) {
            (held.token, held.ticket) = (number(holder_token), number(holder_ticket));
            (held.broken, held.cut, held.claim) = (number(broken) == 1, number(cut) == 1, number(claim) == 1);
            lock.lease = Some((holder, number(holder_end)));
        } else {
            assert!(holder.is_empty(), "{holder} holds the lock and has no entry");
            let nothing = [broken, cut, claim, holder_end, holder_token, holder_ticket].map(number);
            assert_eq!(nothing, [0; 6], "nobody holds the lock");
        }
        lock.state = State {
            stamp: number(stamp),
            token: number(token),
            epoch: number(epoch),
            seen: number(seen),
            skew: text(skew).parse().expect("a number"),
            pace: number(pace),
            pace_until: number(pace_until),
            silent_from: number(silent_from),
            silent_until: number(silent_until),
            recover_from: number(recover_from),
            recover_until: number(recover_until),
            recover_pace: number(recover_pace),
            grants: number(grants),
            longest: number(longest),
            longest_next: number(longest_next),
            generation: number(generation),
            waiting: number(waiting),
            live_until: number(live_until),
            ttl_until: number(ttl_until),
            recorded: number(recorded) == 1,
        };
    }
    let ttls = KINDS.iter().zip(items(ttls)).map(|(kind, ttl)| match ttl {
        Value::Int(ttl) => (*kind, *ttl),
        other => panic!("{other:?}"),
    });
    // While the keys agree, each session counts its waiters.
    if lock.queue.len() as u64 == lock.state.waiting {
        let mut counted = BTreeMap::new();
        for (_, id) in &lock.queue {
            *counted.entry(client_of(id).to_owned()).or_default() += 1;
        }
        assert_eq!(waiters, counted, "sessions count their waiters");
    }
    Found { lock, ttls: ttls.filter(|(_, ttl)| *ttl != -2).collect() }
}

pub(super) fn entry(value: &Value) -> Entry {
    let parts = items(value);
    Entry {
        lease: number(&parts[0]),
        liveness: number(&parts[1]),
        channel: text(&parts[2]),
        secret: text(&parts[3]),
        label: text(&parts[4]),
        owner: text(&parts[5]),
        ..Entry::default()
    }
}

pub(super) fn rows(values: &[Value]) -> Vec<Vec<String>> {
    values.iter().map(|row| items(row).iter().map(text).collect()).collect()
}

pub(super) fn items(value: &Value) -> &[Value] {
    match value {
        Value::List(items) => items,
        other => panic!("not an array: {other:?}"),
    }
}

pub(super) fn bytes(value: &Value) -> Option<&[u8]> {
    match value {
        Value::Text(bytes) => Some(bytes),
        _ => None,
    }
}

pub(super) fn text(value: &Value) -> String {
    match value {
        Value::Int(number) => number.to_string(),
        other => String::from_utf8_lossy(bytes(other).unwrap_or_else(|| panic!("no text: {other:?}"))).into_owned(),
    }
}

pub(super) fn number(value: &Value) -> u64 {
    text(value).parse().unwrap_or_else(|_| panic!("no number: {value:?}"))
}
