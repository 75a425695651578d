//! Questions of a test to a server: what is left on it, which commands ran, and which were refused.

use std::{
    collections::{BTreeMap, HashMap},
    io::{BufRead as _, BufReader, ErrorKind, Write as _},
    os::unix::net::UnixStream,
    sync::{Arc, Mutex},
    thread::JoinHandle,
    time::Duration,
};

use fairlock::__hooks::promises::nothing_left;
use redis::{Connection, cmd};

use super::{
    server::RedisServer,
    waiting::{SOON, eventually},
};

/// Asserts that nothing is left behind: no key but the `:lock` of idle locks, each with a TTL. Drops release in the
/// background, so this waits until it holds; if it does not, it prints the keys with their contents.
#[track_caller]
pub fn keys_left(server: &RedisServer) {
    keys_left_within(server, SOON);
}

/// Drops this, and asserts the same.
#[track_caller]
pub fn keys_left_after<T>(last: T, server: &RedisServer) {
    drop(last);
    keys_left(server);
}

/// [`keys_left`] with another bound.
#[track_caller]
pub fn keys_left_within(server: &RedisServer, timeout: Duration) {
    let mut raw = server.raw();
    if let Some((user, _)) = &server.login {
        let refused = beyond_rights(&mut raw, user);
        assert!(refused.is_empty(), "beyond the rights of {user}: {refused:?}");
    }
    let start = std::time::Instant::now();
    let mut pause = Duration::from_millis(1);
    loop {
        let left = left_behind(&mut raw);
        if left.is_empty() {
            return;
        }
        let contents: String = left.iter().map(|key| described(&mut raw, key)).collect();
        assert!(start.elapsed() < timeout, "left behind after {timeout:?}:\n{contents}");
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(50));
    }
}

/// The requests for which a user had no right, from the server's log.
fn beyond_rights(raw: &mut Connection, user: &str) -> Vec<HashMap<String, redis::Value>> {
    let mut log: Vec<HashMap<String, redis::Value>> = cmd("ACL").arg("LOG").query(raw).expect("ACL LOG");
    let is = |value: Option<&redis::Value>, text: &str| value == Some(&redis::Value::BulkString(text.into()));
    // The log has wrong passwords, too.
    log.retain(|entry| is(entry.get("username"), user) && !is(entry.get("reason"), "auth"));
    log
}

fn left_behind(raw: &mut Connection) -> Vec<String> {
    let keys: Vec<String> = cmd("KEYS").arg("*").query(raw).expect("KEYS");
    let looked_at = |key: String| {
        let ttl = time_to_live(raw, &key);
        // A key of another type has no fields. A free slot keeps the lease that it had last.
        let fields: Vec<Vec<u8>> = cmd("HKEYS").arg(&key).query(raw).unwrap_or_default();
        (key, ttl, fields.iter().filter(|field| !field.starts_with(b"#")).count())
    };
    nothing_left(&keys.into_iter().map(looked_at).collect::<Vec<_>>()).err().unwrap_or_default()
}

fn time_to_live(raw: &mut Connection, key: &str) -> i64 {
    cmd("PTTL").arg(key).query(raw).expect("PTTL")
}

fn described(raw: &mut Connection, key: &str) -> String {
    let kind: String = cmd("TYPE").arg(key).query(raw).expect("TYPE");
    let read = match kind.as_str() {
        "hash" => cmd("HGETALL").arg(key).to_owned(),
        "zset" => cmd("ZRANGE").arg(key).arg(0).arg(-1).arg("WITHSCORES").to_owned(),
        "set" => cmd("SMEMBERS").arg(key).to_owned(),
        "list" => cmd("LRANGE").arg(key).arg(0).arg(-1).to_owned(),
        _ => cmd("DUMP").arg(key).to_owned(),
    };
    let content: redis::Value = read.query(raw).expect("reading a key");
    format!("  {key} ({kind}, ttl {} ms): {content:?}\n", time_to_live(raw, key))
}

/// How often each command ran at the server, by its name in lower case (`evalsha`, `client|kill`), within scripts too.
/// A command that did not run is missing. The counting itself is not counted.
pub type Calls = BTreeMap<String, u64>;

/// Counts the commands of all clients that run during `work`, so a keeper's heartbeats too.
pub fn calls<T>(server: &RedisServer, work: impl FnOnce() -> T) -> (Calls, T) {
    let mut counter = Counter::start(server);
    let result = work();
    (counter.so_far(), result)
}

/// The two ends of [`calls`] for work that does not fit into a closure.
pub struct Counter {
    raw: Connection,
    before: Calls,
    asked: u64,
}

impl Counter {
    pub fn start(server: &RedisServer) -> Counter {
        let mut raw = server.raw();
        let before = command_stats(&mut raw);
        Counter { raw, before, asked: 0 }
    }

    pub fn so_far(&mut self) -> Calls {
        let mut calls = command_stats(&mut self.raw);
        // A command is counted when it has ended: this INFO is not in its own answer, the previous one is.
        self.asked += 1;
        if let Some(info) = calls.get_mut("info") {
            *info -= self.asked;
        }
        for (name, count) in &self.before {
            if let Some(now) = calls.get_mut(name) {
                *now -= count;
            }
        }
        calls.retain(|_, count| *count > 0);
        calls
    }
}

fn command_stats(raw: &mut Connection) -> Calls {
    let info: String = cmd("INFO").arg("commandstats").query(raw).expect("INFO commandstats");
    // cmdstat_client|kill:calls=2,usec=31,…
    let count = |line: &str| {
        let (name, rest) = line.strip_prefix("cmdstat_")?.split_once(":calls=")?;
        let (calls, _) = rest.split_once(',')?;
        Some((name.to_owned(), calls.parse().ok()?))
    };
    info.lines().filter_map(count).collect()
}

/// Collects what MONITOR shows, from now until it is dropped.
pub struct Monitor {
    lines: Arc<Mutex<Vec<String>>>,
    raw: Connection,
    stream: UnixStream,
    reader: Option<JoinHandle<()>>,
    marks: u32,
}

impl Monitor {
    /// Every command that is executed after this returns will be seen.
    #[track_caller]
    pub fn start(server: &RedisServer) -> Monitor {
        let raw = server.raw();
        let mut stream = UnixStream::connect(server.socket()).expect("connecting to the private redis-server");
        let mut answers = BufReader::new(stream.try_clone().expect("a second handle of a socket"));
        let mut ask = |command: &str| {
            writeln!(stream, "{command}\r").expect("writing to the private redis-server");
            let mut answer = String::new();
            answers.read_line(&mut answer).expect("reading from the private redis-server");
            assert!(answer.starts_with("+OK"), "{command}: {answer}");
        };
        if let Some(password) = server.password() {
            ask(&format!("AUTH default \"{password}\""));
        }
        ask("MONITOR");

        let lines = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&lines);
        let reader = std::thread::spawn(move || {
            for line in answers.lines() {
                match line {
                    Ok(line) => seen.lock().expect("nobody panics with it").push(line),
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    Err(_) => break,
                }
            }
        });
        Monitor { lines, raw, stream, reader: Some(reader), marks: 0 }
    }

    /// The lines of all commands that were executed before this call, e.g. `+1700000000.123456 [0 lua] "zadd"
    /// "fairlock:…`.
    #[track_caller]
    pub fn lines(&mut self) -> Vec<String> {
        // MONITOR keeps the order of execution: when it shows a command of ours, it has shown all earlier ones.
        self.marks += 1;
        let mark = format!("monitor-mark-{}", self.marks);
        let _: String = cmd("ECHO").arg(&mark).query(&mut self.raw).expect("ECHO");
        let quoted = format!("\"{mark}\"");
        let mut lines = Vec::new();
        eventually("MONITOR shows our own command", SOON, || {
            lines.clone_from(&self.lines.lock().expect("nobody panics with it"));
            lines.iter().any(|line| line.ends_with(&quoted))
        });
        lines.retain(|line| !line.contains("\"monitor-mark-"));
        lines
    }
}

impl Drop for Monitor {
    fn drop(&mut self) {
        let _ = self.stream.shutdown(std::net::Shutdown::Both);
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
    }
}
