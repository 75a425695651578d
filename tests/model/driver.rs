//! Drives the real scripts on a real server: one round trip per request, which also returns all data of the lock.

mod values;

use std::{
    collections::{BTreeMap, BTreeSet},
    io::{BufRead as _, BufReader, Read as _, Write as _},
    os::unix::net::UnixStream,
};

use redis::{Cmd, cmd};

use fairlock::__hooks::packing::{self, Call};

use self::values::{DUMP, MORE, Value, bytes, found, items, longer, text};
pub use self::values::{Found, encode};
use super::{Answer, Message, Request};
use testkit::{RedisServer, SOON};

const CLOCK: &str = "local raw = tonumber(redis.call('GET', 'test-clock'))\n";
const KINDS: [&str; 2] = ["lock", "waiters"];
const NAME: &str = "m";
/// The answer of a server whose memory is full.
pub const NO_MEMORY: &str = "OOM";

/// The result of one request.
#[derive(Clone, Debug)]
pub struct Outcome {
    pub answer: Answer,
    pub messages: Vec<Message>,
    pub found: Found,
}

pub type Saved = Vec<(usize, Vec<u8>)>;
/// The fields of the hash, and the queue.
pub type Stored = (BTreeMap<Option<Vec<u8>>, Option<Vec<u8>>>, Option<Vec<u8>>);

/// How often a calm lock was granted, or given back without a script.
#[derive(Clone, Copy, Debug, Default)]
pub struct Calmly {
    pub acquires: usize,
    pub grants: usize,
    pub releases: usize,
}

pub struct Driver {
    _server: RedisServer,
    stream: UnixStream,
    reader: BufReader<UnixStream>,
    keys: Vec<String>,
    /// Text and digest of each script, by batch limit and name.
    scripts: BTreeMap<(usize, &'static str), (String, String)>,
    dump: String,
    messages: Vec<Message>,
    /// The scripts that were called, by name.
    pub called: BTreeSet<&'static str>,
    pub calmly: Calmly,
    /// All that is packed is longer than the scripts know.
    longer: bool,
    /// How many scripts have kept what a later version has added to the state.
    pub kept: usize,
}

impl Driver {
    pub fn start() -> Self {
        Self::with(|_, text| text.to_owned())
    }

    /// Starts with scripts whose files were changed on purpose.
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
            called: BTreeSet::new(),
            calmly: Calmly::default(),
            longer: false,
            kept: 0,
        };
        driver.ask(&[cmd("HELLO").arg(3).clone()]);
        let subscribe = cmd("PSUBSCRIBE").arg("fairlock:client:*").clone();
        driver.stream.write_all(&subscribe.get_packed_command()).expect("the server takes it");
        driver.dump = text(&driver.ask(&[cmd("SCRIPT").arg("LOAD").arg(DUMP).clone()])[0]);
        for batch in [3, 100] {
            let limit = format!("local BATCH = {batch} ");
            let read = |file: &str, text: &str| match file {
                "lua/lib/time.lua" => CLOCK.to_owned(),
                "lua/lib/plan.lua" => {
                    assert!(text.contains("local BATCH = 100 "), "the scripts have changed");
                    change(file, text).replace("local BATCH = 100 ", &limit)
                }
                _ => change(file, text),
            };
            for (name, source) in fairlock::__hooks::scripts_of(read) {
                let digest = text(&driver.ask(&[cmd("SCRIPT").arg("LOAD").arg(&source).clone()])[0]);
                driver.scripts.insert((batch, name), (source, digest));
            }
        }
        driver
    }

    /// From now on all that is packed is longer than the scripts know, as if a later version used the lock, too.
    pub fn longer(mut self) -> Self {
        self.longer = true;
        self
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
        match self.call(around, time, batch, encode(request)) {
            // Old versions put the line of the script before it.
            (Value::Error(error), dump) if error.starts_with(NO_MEMORY) || error.contains(": -OOM ") => {
                let (answer, messages) = (Answer { word: NO_MEMORY.into(), ..Answer::default() }, vec![]);
                Ok(Outcome { answer, messages, found: found(&dump) })
            }
            (Value::Error(error), _) => Err(format!("the script failed: {error}")),
            (Value::Int(ended), dump) => {
                self.calmly.releases += ended as usize;
                let word = if ended == 1 { "released" } else { "nothing" };
                let answer = Answer { word: word.into(), ..Answer::default() };
                Ok(Outcome { answer, messages: vec![], found: found(&dump) })
            }
            (reply, dump) => {
                let messages = std::mem::take(&mut self.messages);
                let answer = answer(&reply, packing::reply);
                self.calmly.acquires += usize::from(matches!(request, Request::Acquire { .. }));
                self.calmly.grants += usize::from(answer.number("by_hdel") == Some(1));
                Ok(Outcome { answer, messages, found: found(&dump) })
            }
        }
    }

    /// The script's reply and the dump after it, with the first half of these commands before them, the others after
    /// them.
    fn call(&mut self, around: &[Cmd], time: u64, batch: usize, call: Call) -> (Value, Value) {
        let (name, arguments) = if self.longer { longer(call.clone()) } else { call.clone() };
        self.called.insert(name);
        // A command has no script.
        let (source, digest) = self.scripts.get(&(batch, name)).unwrap_or(&self.scripts[&(batch, "release")]);
        let loads = [source, DUMP].map(|script| cmd("SCRIPT").arg("LOAD").arg(script).clone());
        let (first, then) = around.split_at(around.len() / 2);
        let mut asked = vec![cmd("SET").arg("test-clock").arg(time).clone()];
        if self.longer {
            const LONGER: &str = "local state = redis.call('HGET', KEYS[1], '')
                if state and string.sub(state, -#ARGV[1]) ~= ARGV[1] then
                  redis.call('HSET', KEYS[1], '', state .. ARGV[1])
                end";
            asked.push(self.keyed("EVAL", LONGER, &[MORE.into()]));
            asked.push(cmd("HGET").arg(&self.keys[0]).arg("").clone());
        }
        asked.extend_from_slice(first);
        let at = asked.len();
        asked.push(match name {
            "hdel" => cmd("HDEL").arg(self.queue()).arg(&arguments).clone(),
            _ => cmd("EVALSHA").arg(digest).arg(1).arg(self.queue()).arg(&arguments).clone(),
        });
        asked.extend_from_slice(then);
        asked.push(match name {
            // After a script flush a command, unlike a script, is executed, and must not be repeated for the dump.
            "hdel" => self.keyed("EVAL", DUMP, &[]),
            _ => self.keyed("EVALSHA", &self.dump, &[]),
        });
        let mut replies = self.ask_all(&asked);
        let (dump, reply) = (replies.pop().expect("a dump"), replies.swap_remove(at));
        let state_before = bytes(&replies[at - 1 - first.len()]).unwrap_or_default();
        if self.longer && state_before.ends_with(MORE.as_bytes()) {
            let after = self.stored().0;
            let state = after.get(&Some(vec![])).cloned().flatten().unwrap_or_default();
            assert!(state.ends_with(MORE.as_bytes()), "{name} keeps what a later version has added");
            self.kept += 1;
        }
        if matches!(&reply, Value::Error(error) if error.starts_with("NOSCRIPT")) {
            self.ask(&loads);
            return self.call(around, time, batch, call);
        }
        (reply, dump)
    }

    /// The error with which the request fails, if it does.
    pub fn refusal(&mut self, time: u64, request: &Request) -> Option<String> {
        self.refusal_of(time, encode(request))
    }

    /// The same of a script with these arguments.
    pub fn refusal_of(&mut self, time: u64, encoded: Call) -> Option<String> {
        match self.call(&[], time, 100, encoded).0 {
            Value::Error(error) => Some(error),
            _ => None,
        }
    }

    /// Runs this Lua text on the lock's keys.
    pub fn edit(&mut self, lua: &str) {
        self.ask(&[self.keyed("EVAL", lua, &[])]);
    }

    /// What is stored, as it is.
    pub fn stored(&mut self) -> Stored {
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

    /// The keys of the lock, and that of its history.
    fn all_keys(&self) -> impl Iterator<Item = String> + use<'_> {
        self.keys.iter().cloned().chain([format!("fairlock:{{{NAME}}}:history")])
    }

    fn keyed(&self, command: &'static str, script: &str, arguments: &[Vec<u8>]) -> Cmd {
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
                    self.messages.push((text(&parts[2]), answer(&parts[3], packing::message)));
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
            b'$' | b'=' if length() >= 0 => {
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

fn answer(value: &Value, read: impl Fn(&[u8]) -> Option<Answer>) -> Answer {
    bytes(value).and_then(read).unwrap_or_else(|| panic!("it is not packed as it should be: {value:?}"))
}
