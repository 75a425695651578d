//! Drives the real scripts on a real server: one round trip per request, which also returns all data of the lock.

use std::{
    collections::BTreeMap,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    os::unix::net::UnixStream,
};

use redis::{Cmd, cmd};

use super::{Answer, Entry, History, Lock, Memory, Message, Request, State, Terms, about, client_of};
use testkit::{RedisServer, SOON};

const CLOCK: &str = "local raw = tonumber(redis.call('GET', 'test-clock'))\n";
const KINDS: [&str; 2] = ["lock", "waiters"];
const NAME: &str = "m";
/// What is answered where the server's memory is full.
pub const NO_MEMORY: &str = "OOM";

/// All data under the lock's keys, with their TTLs.
const DUMP: &str = "
local state, sessions, entries, ttls = {}, {}, {}, {}
local fields = redis.call('HGETALL', KEYS[1])
for i = 1, #fields, 2 do
  local name, value = fields[i], fields[i + 1]
  if name == '' then
    state = {struct.unpack('<BBBBBdddddddddddddddddd', value)}
    state[#state] = string.sub(value, state[#state])
  elseif string.sub(name, -1) == '.' then
    local session = {struct.unpack('<dd', value)}
    sessions[#sessions + 1] = {string.sub(name, 1, -2), session[1], session[2]}
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
    /// By the last part of the key, in ms; keys that exist only. -1 is for ever.
    pub ttls: BTreeMap<&'static str, i64>,
}

/// The result of one request.
#[derive(Debug)]
pub struct Outcome {
    pub answer: Answer,
    pub messages: Vec<Message>,
    pub found: Found,
}

pub type Saved = Vec<(usize, Vec<u8>)>;

pub struct Driver {
    _server: RedisServer,
    stream: UnixStream,
    reader: BufReader<UnixStream>,
    keys: Vec<String>,
    /// For each batch limit the scripts by name: text and digest.
    scripts: BTreeMap<(usize, &'static str), (String, String)>,
    dump: String,
    messages: Vec<Message>,
}

impl Driver {
    pub fn start() -> Self {
        Self::with(|_, text| text.to_owned())
    }

    /// With scripts whose files were changed on purpose.
    pub fn with(change: impl Fn(&str, &str) -> String) -> Self {
        let server = RedisServer::start();
        let stream = UnixStream::connect(server.socket()).expect("the server's socket");
        // A script that was broken on purpose may run for ever.
        stream.set_read_timeout(Some(SOON)).expect("a timeout");
        let reader = BufReader::new(stream.try_clone().expect("a second handle"));
        let keys = KINDS.iter().map(|kind| format!("fairlock:{{{NAME}}}:{kind}")).collect();
        let mut driver = Self {
            _server: server,
            stream,
            reader,
            keys,
            scripts: BTreeMap::new(),
            dump: String::new(),
            messages: vec![],
        };
        driver.ask(&[cmd("HELLO").arg(3).clone()]);
        let subscribe = cmd("PSUBSCRIBE").arg("to:*").clone();
        driver.stream.write_all(&subscribe.get_packed_command()).expect("the server takes it");
        driver.dump = text(&driver.ask(&[cmd("SCRIPT").arg("LOAD").arg(DUMP).clone()])[0]);
        for batch in [3, 100] {
            let limit = format!("local BATCH = {batch} ");
            let read = |file: &str, text: &str| match file {
                "lua/lib/time.lua" => CLOCK.to_owned(),
                "lua/lib/promote.lua" => {
                    assert!(text.contains("local BATCH = 100 "), "the scripts have changed");
                    change(file, text).replace("local BATCH = 100 ", &limit)
                }
                _ => change(file, text),
            };
            for (name, source) in fairlock::testing::scripts_of(read) {
                let digest = text(&driver.ask(&[cmd("SCRIPT").arg("LOAD").arg(&source).clone()])[0]);
                driver.scripts.insert((batch, name), (source, digest));
            }
        }
        driver
    }

    /// The name of the lock in messages.
    pub fn queue(&self) -> &str {
        &self.keys[0]
    }

    /// Runs the request at `time`.
    pub fn run(&mut self, time: u64, batch: usize, request: &Request) -> Result<Outcome, String> {
        self.run_between(&[], time, batch, request)
    }

    /// The same while the server has less memory than it needs.
    pub fn run_without_memory(&mut self, time: u64, batch: usize, request: &Request) -> Result<Outcome, String> {
        let limit = |bytes| cmd("CONFIG").arg("SET").arg("maxmemory").arg(bytes).clone();
        self.run_between(&[limit(1), limit(0)], time, batch, request)
    }

    fn run_between(&mut self, around: &[Cmd], time: u64, batch: usize, request: &Request) -> Result<Outcome, String> {
        match self.call(around, time, batch, request) {
            (Value::Error(error), dump) if error.starts_with(NO_MEMORY) => {
                let (answer, messages) = (Answer { word: NO_MEMORY.into(), ..Answer::default() }, vec![]);
                Ok(Outcome { answer, messages, found: found(&dump) })
            }
            (Value::Error(error), _) => Err(format!("the script failed: {error}")),
            (reply, dump) => {
                let messages = std::mem::take(&mut self.messages);
                Ok(Outcome { answer: answer(&reply), messages, found: found(&dump) })
            }
        }
    }

    /// The script's reply and the dump after it, with the first half of these commands before them, the others after them.
    fn call(&mut self, around: &[Cmd], time: u64, batch: usize, request: &Request) -> (Value, Value) {
        let (name, arguments) = encode(request);
        let (source, digest) = &self.scripts[&(batch, name)];
        let loads = [source, DUMP].map(|script| cmd("SCRIPT").arg("LOAD").arg(script).clone());
        let (first, then) = around.split_at(around.len() / 2);
        let mut asked = vec![cmd("SET").arg("test-clock").arg(time).clone()];
        asked.extend_from_slice(first);
        asked.push(self.keyed("EVALSHA", digest, &arguments));
        asked.extend_from_slice(then);
        asked.push(self.keyed("EVALSHA", &self.dump, &[]));
        let mut replies = self.ask_all(&asked);
        let (dump, reply) = (replies.pop().expect("a dump"), replies.swap_remove(1 + first.len()));
        if matches!(&reply, Value::Error(error) if error.starts_with("NOSCRIPT")) {
            self.ask(&loads);
            return self.call(around, time, batch, request);
        }
        (reply, dump)
    }

    /// The error with which the request fails, if it does.
    pub fn refusal(&mut self, time: u64, request: &Request) -> Option<String> {
        match self.call(&[], time, 100, request).0 {
            Value::Error(error) => Some(error),
            _ => None,
        }
    }

    /// Runs this Lua text on the lock's keys.
    pub fn edit(&mut self, lua: &str) {
        self.ask(&[self.keyed("EVAL", lua, &[])]);
    }

    /// What is stored, as it is.
    pub fn stored(&mut self) -> impl PartialEq + use<> {
        let (fields, queue) = (cmd("HGETALL").arg(&self.keys[0]).clone(), cmd("DUMP").arg(&self.keys[1]).clone());
        let replies = self.ask(&[fields, queue]);
        let bytes = |value: &Value| bytes(value).map(<[u8]>::to_vec);
        let fields: BTreeMap<_, _> =
            items(&replies[0]).chunks(2).map(|pair| (bytes(&pair[0]), bytes(&pair[1]))).collect();
        (fields, bytes(&replies[1]))
    }

    pub fn found(&mut self) -> Found {
        let dump = cmd("EVAL").arg(DUMP).arg(self.keys.len()).arg(&self.keys).clone();
        found(&self.ask(&[dump])[0])
    }

    pub fn flush_scripts(&mut self) {
        self.ask(&[cmd("SCRIPT").arg("FLUSH").clone()]);
    }

    pub fn flush_all(&mut self) {
        self.ask(&[cmd("FLUSHALL").clone()]);
    }

    /// Deletes one key; the number of its kind wraps around.
    pub fn delete(&mut self, kind: usize) {
        self.ask(&[cmd("DEL").arg(&self.keys[kind % KINDS.len()]).clone()]);
    }

    /// Deletes the key of this kind, as the server does when its time is over.
    pub fn expire(&mut self, kind: &str) {
        let index = KINDS.iter().position(|other| *other == kind).expect("a kind");
        self.delete(index);
    }

    pub fn save(&mut self) -> Saved {
        let dumps: Vec<Cmd> = self.all_keys().map(|key| cmd("DUMP").arg(key).clone()).collect();
        let replies = self.ask(&dumps).into_iter().enumerate();
        replies.filter_map(|(kind, dump)| Some((kind, bytes(&dump)?.to_vec()))).collect()
    }

    pub fn restore(&mut self, saved: &Saved) {
        let keys: Vec<String> = self.all_keys().collect();
        let mut asked = vec![cmd("DEL").arg(&keys).clone()];
        for (kind, dump) in saved {
            asked.push(cmd("RESTORE").arg(&keys[*kind]).arg(86_400_000 * 2).arg(dump).clone());
        }
        self.ask(&asked);
    }

    /// Those of the lock, and that of its history.
    fn all_keys(&self) -> impl Iterator<Item = String> + use<'_> {
        self.keys.iter().cloned().chain([format!("fairlock:{{{NAME}}}:history")])
    }

    fn keyed(&self, command: &'static str, script: &str, arguments: &[String]) -> Cmd {
        cmd(command).arg(script).arg(self.keys.len()).arg(&self.keys).arg(arguments).clone()
    }

    fn ask(&mut self, asked: &[Cmd]) -> Vec<Value> {
        let replies = self.ask_all(asked);
        for reply in &replies {
            assert!(!matches!(reply, Value::Error(_)), "{reply:?}");
        }
        replies
    }

    fn ask_all(&mut self, asked: &[Cmd]) -> Vec<Value> {
        let packed: Vec<u8> = asked.iter().flat_map(Cmd::get_packed_command).collect();
        self.stream.write_all(&packed).expect("the server takes it");
        let mut replies = Vec::new();
        while replies.len() < asked.len() {
            match self.read() {
                Value::Push(parts) if text(&parts[0]) == "pmessage" => {
                    self.messages.push((text(&parts[2]), text(&parts[3])));
                }
                Value::Push(_) => {}
                reply => replies.push(reply),
            }
        }
        replies
    }

    // The crate's own parser would take a third of the time where nothing is optimized.
    fn read(&mut self) -> Value {
        let mut line = Vec::new();
        self.reader.read_until(b'\n', &mut line).expect("a reply");
        let (kind, rest) = (line[0], String::from_utf8_lossy(&line[1..line.len() - 2]).into_owned());
        let length = || rest.parse::<i64>().unwrap_or_else(|_| panic!("a length: {rest}"));
        match kind {
            b'+' => Value::Text(rest.into_bytes()),
            b':' => Value::Int(length()),
            b'-' => Value::Error(rest),
            b'$' if length() >= 0 => {
                let mut bytes = vec![0; length() as usize + 2];
                self.reader.read_exact(&mut bytes).expect("the rest of a reply");
                bytes.truncate(bytes.len() - 2);
                Value::Text(bytes)
            }
            b'*' => Value::List((0..length()).map(|_| self.read()).collect()),
            b'%' => Value::List((0..2 * length()).map(|_| self.read()).collect()),
            b'>' => Value::Push((0..length()).map(|_| self.read()).collect()),
            b'$' | b'_' => Value::Nil,
            _ => panic!("a reply of type {:?}: {rest}", kind as char),
        }
    }
}

/// The answer of a server.
#[derive(Clone, Debug)]
enum Value {
    Nil,
    Int(i64),
    Text(Vec<u8>),
    Error(String),
    List(Vec<Value>),
    Push(Vec<Value>),
}

/// Name and arguments of the script, in the order of its header.
fn encode(request: &Request) -> (&'static str, Vec<String>) {
    let numbers = |numbers: &[u64]| numbers.iter().map(u64::to_string).collect::<Vec<_>>();
    let people = |id: &str| {
        let about = about(id);
        vec![about.channel, about.secret, about.label, about.owner]
    };
    let session = |terms: &Terms| numbers(&[terms.liveness, terms.buffer, terms.heartbeat]);
    match request {
        Request::Acquire { id, room, claim, terms, ticket, memory } => {
            let mut arguments = vec![id.clone()];
            arguments.extend(numbers(&[*room, u64::from(*claim), terms.lease]));
            arguments.extend(session(terms).into_iter().chain(people(id)));
            arguments.extend(numbers(&[
                *ticket,
                memory.epoch,
                memory.floor,
                memory.left,
                memory.last_token,
                memory.pace,
            ]));
            ("acquire", arguments)
        }
        Request::Heartbeat { client, terms, ids } => {
            let first = std::iter::once(client.clone());
            ("heartbeat", first.chain(session(terms)).chain(ids.iter().cloned()).collect())
        }
        Request::Renew { id, token, terms, memory } => {
            let mut arguments = vec![id.clone()];
            arguments.extend(numbers(&[*token, terms.lease, terms.liveness]).into_iter().chain(people(id)));
            arguments.extend(numbers(&[memory.epoch, memory.floor, memory.left, memory.pace]));
            ("renew", arguments)
        }
        Request::Release { id, token, terms, memory } => {
            let first = std::iter::once(id.clone());
            let Memory { epoch, floor, left, last_token, pace } = *memory;
            let rest = numbers(&[*token, terms.liveness, epoch, floor, left, last_token, pace]);
            ("release", first.chain(rest).collect())
        }
        Request::Leave { ids } => ("leave", ids.clone()),
        Request::Inspect { after, count } => ("inspect", numbers(&[*after, *count as u64])),
        Request::Break { token, force } => ("break", numbers(&[*token, u64::from(*force)])),
        Request::History { switch, count } => {
            let switch = switch.map_or(String::new(), |on| u64::from(on).to_string());
            ("history", vec![switch, count.to_string()])
        }
    }
}

fn answer(value: &Value) -> Answer {
    let packed = bytes(value).unwrap_or_else(|| panic!("not packed: {value:?}"));
    let value = unpacked(&rmpv::decode::read_value(&mut &*packed).expect("MessagePack"));
    let (word, fields) = items(&value).split_first().expect("a word");
    let mut answer = Answer { word: text(word), ..Answer::default() };
    for field in fields.chunks_exact(2) {
        match text(&field[0]).as_str() {
            name @ ("page" | "past") => {
                answer.lists.insert(name.to_owned(), rows(items(&field[1])));
            }
            name => {
                answer.fields.insert(name.to_owned(), text(&field[1]));
            }
        }
    }
    answer
}

fn unpacked(value: &rmpv::Value) -> Value {
    match value {
        rmpv::Value::Array(items) => Value::List(items.iter().map(unpacked).collect()),
        value => match value.as_i64() {
            Some(number) => Value::Int(number),
            // A script that was broken on purpose may answer anything.
            None => Value::Text(value.as_slice().map_or_else(|| value.to_string().into_bytes(), <[u8]>::to_vec)),
        },
    }
}

fn found(value: &Value) -> Found {
    let [queue, sessions, entries, state, ttls, history] = items(value) else { panic!("{value:?}") };
    let mut lock = Lock {
        queue: items(queue).chunks_exact(2).map(|pair| (number(&pair[1]), text(&pair[0]))).collect(),
        sessions: BTreeMap::new(),
        lease: None,
        entries: items(entries).chunks_exact(2).map(|pair| (text(&pair[0]), entry(&pair[1]))).collect(),
        state: State::default(),
        history: items(history)
            .split_first()
            .map(|(count, latest)| History { count: number(count), latest: rows(latest) }),
    };
    let mut waiters = BTreeMap::new();
    for session in items(sessions) {
        let [client, end, count] = items(session) else { panic!("{session:?}") };
        lock.sessions.insert(text(client), number(end));
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
        recover_from,
        recover_until,
        recover_pace,
        grants,
        longest,
        waiting,
        live_until,
        ttl_until,
        holder_end,
        holder_token,
        holder_ticket,
        holder,
    ] = items(state)
    {
        assert_eq!(number(version), 1);
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
            recover_from: number(recover_from),
            recover_until: number(recover_until),
            recover_pace: number(recover_pace),
            grants: number(grants),
            longest: number(longest),
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

fn entry(value: &Value) -> Entry {
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

fn rows(values: &[Value]) -> Vec<Vec<String>> {
    values.iter().map(|row| items(row).iter().map(text).collect()).collect()
}

fn items(value: &Value) -> &[Value] {
    match value {
        Value::List(items) => items,
        other => panic!("not an array: {other:?}"),
    }
}

fn bytes(value: &Value) -> Option<&[u8]> {
    match value {
        Value::Text(bytes) => Some(bytes),
        _ => None,
    }
}

fn text(value: &Value) -> String {
    match value {
        Value::Int(number) => number.to_string(),
        other => String::from_utf8_lossy(bytes(other).unwrap_or_else(|| panic!("no text: {other:?}"))).into_owned(),
    }
}

fn number(value: &Value) -> u64 {
    text(value).parse().unwrap_or_else(|_| panic!("no number: {value:?}"))
}
