//! What goes to the server and comes back: the arguments of a script, its reply, and all data of the lock.

use std::collections::BTreeMap;

use fairlock::__hooks::packing::{self, Call};

use super::super::{Entry, History, Lock, Request, State, about, client_of};
use super::KINDS;

/// All data under the lock's keys, with their TTLs.
pub(super) const DUMP: &str = "
local state, sessions, entries, ttls = {}, {}, {}, {}
local fields = redis.call('HGETALL', KEYS[1])
for i = 1, #fields, 2 do
  local name, value = fields[i], fields[i + 1]
  if name == '' then
    state = {struct.unpack('<BBBBBddddddddddddddddddddddHc0', value)}
    state[#state] = nil -- where the values end
  elseif string.sub(name, -1) == '.' then
    local session = {struct.unpack('<ddd', value)}
    sessions[#sessions + 1] = {string.sub(name, 1, -2), session[1], session[2], session[3]}
  else
    entries[#entries + 1], entries[#entries + 2] = name, value
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

/// The request of a caller who tells about itself what all of this id do.
pub fn encode(request: &Request) -> Call {
    packing::call(request, &about(request.id().unwrap_or_default()))
}

/// The same with more behind all that is packed, as a later version may send it.
pub(super) fn longer((name, mut arguments): Call) -> Call {
    let packed = match name {
        "acquire" => 1..4,
        "heartbeat" => 1..3,
        "renew" => 1..5,
        "release" => 1..3,
        "leave" => 0..1,
        _ => 0..0,
    };
    arguments[packed].iter_mut().filter(|text| !text.is_empty()).for_each(|text| text.extend(MORE.as_bytes()));
    (name, arguments)
}

pub(super) const MORE: &str = "and more";

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
        assert_eq!(number(version), 3);
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
    bytes(value).and_then(packing::unpacked_terms).unwrap_or_else(|| panic!("no entry: {value:?}"))
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
