//! What goes to the server and comes back: the arguments of a script, its reply, and all data of the lock.

use std::collections::{BTreeMap, BTreeSet};

use fairlock::__hooks::packing::{self, Call};

use super::super::{Entry, History, Lease, Lock, MOST, Request, State, about, client_of};
use super::KINDS;

/// All data under the lock's keys, with their TTLs.
pub(super) const DUMP: &str = "
local state, leases, sessions, entries, ttls = '', {}, {}, {}, {}
local fields = redis.call('HGETALL', KEYS[1])
for i = 1, #fields, 2 do
  local name, value = fields[i], fields[i + 1]
  if name == '' then
    state = value
  elseif string.sub(name, 1, 1) == '#' then
    leases[#leases + 1], leases[#leases + 2] = struct.unpack('<H', name, 2), value
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
return {redis.call('ZRANGE', KEYS[2], 0, -1, 'WITHSCORES'), leases, sessions, entries, state, ttls, history}";

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
    let [queue, records, sessions, entries, state, ttls, history] = items(value) else { panic!("{value:?}") };
    let mut lock = Lock {
        queue: items(queue).chunks_exact(2).map(|pair| (number(&pair[1]), text(&pair[0]))).collect(),
        sessions: BTreeMap::new(),
        beats: BTreeMap::new(),
        leases: vec![],
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
    let records =
        items(records).chunks_exact(2).map(|pair| (number(&pair[0]) as u16, bytes(&pair[1]).expect("a lease")));
    if let Some(state) = bytes(state).filter(|state| !state.is_empty()) {
        (lock.state, lock.leases) =
            if state[1] == 1 { calm(state, &mut lock.entries) } else { unpacked(state, records.collect()) };
    }
    let ttls = KINDS.iter().zip(items(ttls)).map(|(kind, ttl)| match ttl {
        Value::Int(ttl) => (*kind, *ttl),
        other => panic!("{other:?}"),
    });
    // While the keys agree, each session counts its waiters, and each waiter and each lease has an entry.
    if lock.queue.len() as u64 == lock.state.waiting {
        let mut counted = BTreeMap::new();
        for (_, id) in &lock.queue {
            *counted.entry(client_of(id).to_owned()).or_default() += 1;
        }
        assert_eq!(waiters, counted, "sessions count their waiters");
        let known = lock.queue.iter().map(|(_, id)| id).chain(lock.leases.iter().map(|lease| &lease.id));
        let (known, entries) = (known.collect::<BTreeSet<_>>(), lock.entries.keys().collect());
        assert_eq!(known, entries, "entries are those of waiters and holders");
    }
    Found { lock, ttls: ttls.filter(|(_, ttl)| *ttl != -2).collect() }
}

/// What is left to be read.
struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn take<const N: usize>(&mut self) -> [u8; N] {
        self.0.split_off(..N).and_then(|bytes| bytes.try_into().ok()).expect("more")
    }

    fn signed(&mut self) -> i64 {
        let number = f64::from_le_bytes(self.take());
        assert!(number.fract() == 0.0, "{number} is no whole number");
        number as i64
    }

    fn number(&mut self) -> u64 {
        self.signed().try_into().expect("a number that is not negative")
    }

    fn size(&mut self) -> u16 {
        u16::from_le_bytes(self.take())
    }

    fn text(&mut self) -> &'a [u8] {
        let size = self.size();
        self.0.split_off(..size.into()).expect("a text")
    }
}

/// The short state of a calm lock, and the lease of which the entry tells that its holder has.
fn calm(state: &[u8], entries: &mut BTreeMap<String, Entry>) -> (State, Vec<Lease>) {
    let mut rest = Rest(state);
    let [version, calm] = rest.take();
    assert_eq!((version, calm), (5, 1), "the layout");
    let [epoch, stamp, seen] = [rest.number(), rest.number(), rest.number()];
    let skew = rest.signed();
    let [grants, longest, longest_next, recover_from, ttl_until] = std::array::from_fn(|_| rest.number());
    let field = String::from_utf8_lossy(rest.text()).into_owned();
    let state =
        State { epoch, stamp, seen, skew, grants, longest, longest_next, recover_from, ttl_until, ..State::default() };
    let mut state = State { token: stamp, generation: stamp, calm: true, ..state };
    let Some(entry) = entries.remove(&field) else { return (state, vec![]) };
    let (id, end) = (field.strip_prefix('@').expect("the mark").to_owned(), seen + entry.lease);
    let ticket = seen.checked_add_signed(-skew).expect("a time");
    let most = entry.most.min(MOST);
    let lease = Lease { slot: 0, id: id.clone(), end, token: stamp, ticket, most, claim: false, broken: false };
    (state.first_end, state.last_end) = (end, end);
    entries.insert(id, entry);
    (state, vec![lease])
}

/// The state, and the leases of which it tells. `records`: those of the other slots, also of leases that have ended.
fn unpacked(state: &[u8], records: BTreeMap<u16, &[u8]>) -> (State, Vec<Lease>) {
    let mut rest = Rest(state);
    let [version, calm, recorded] = rest.take();
    assert_eq!((version, calm), (5, 0), "the layout");
    let state = State {
        stamp: rest.number(),
        token: rest.number(),
        epoch: rest.number(),
        seen: rest.number(),
        skew: rest.signed(),
        pace: rest.number(),
        pace_next: rest.number(),
        pace_turn: rest.number(),
        silent_from: rest.number(),
        silent_until: rest.number(),
        recover_from: rest.number(),
        wait_places: rest.number(),
        wait_leases: rest.number(),
        sole: rest.number(),
        grants: rest.number(),
        longest: rest.number(),
        longest_next: rest.number(),
        generation: rest.number(),
        waiting: rest.number(),
        live_until: rest.number(),
        ttl_until: rest.number(),
        first_end: rest.number(),
        last_end: rest.number(),
        calm: false,
        recorded: recorded == 1,
    };
    let counted = [rest.size(), rest.size(), rest.size(), rest.size()];
    let (tags, zeroth) = (rest.text(), rest.text());

    let mut leases = vec![];
    assert!(tags.len().is_multiple_of(4) && !tags.ends_with(&[0; 4]), "tags: {tags:?}");
    assert_eq!(zeroth.is_empty(), matches!(tags, [] | [0, 0, 0, 0, ..]), "slot 0 has a lease, or none");
    for (slot, tag) in (0..).zip(tags.chunks_exact(4)).filter(|(_, tag)| *tag != [0; 4]) {
        let record = if slot == 0 { zeroth } else { records[&slot] };
        let lease = packing::unpacked_lease(slot, record).expect("a lease");
        let (first, last) = (&lease.id.as_bytes()[..2], &lease.id.as_bytes()[lease.id.len() - 3..]);
        let last_two = (10 * u16::from(last[1]) + u16::from(last[2])) % 255 + 1;
        assert_eq!(tag, [first, &last[..1], &[last_two as u8]].concat(), "the tag of {}", lease.id);
        leases.push(lease);
    }
    let limit = leases.iter().map(|lease| lease.most).min().unwrap_or(MOST);
    let limited = leases.iter().filter(|lease| lease.most == limit).count();
    let claims = leases.iter().filter(|lease| lease.claim).count();
    let counts = [leases.len() as u16, claims as u16, limit, limited as u16];
    assert_eq!(counted, counts, "held, claims, limit and limited");
    // A claim may outlast an outage, and is stored with the end that it had before.
    let ends = || leases.iter().map(|lease| if lease.claim { lease.end.max(state.first_end) } else { lease.end });
    let (first, last) = (ends().min().unwrap_or(0), ends().max().unwrap_or(0));
    assert!(state.first_end <= first && last <= state.last_end, "{first} and {last} are within {state:?}");
    assert!(!leases.is_empty() || state.first_end == 0 && state.last_end == 0, "nobody holds the lock: {state:?}");
    (state, leases)
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
