//! The server of a replay. Connections, subscriptions and messages are those of a real server; the requests for the
//! scripts of the lock go to the judge, who answers them as it likes.

use std::{
    collections::HashMap,
    io::Write as _,
    net::{Shutdown, TcpListener, TcpStream},
    ops::Deref,
    os::unix::net::UnixStream,
    sync::{
        Arc, Mutex,
        mpsc::{Sender, channel},
    },
    time::Instant,
};

use super::message::unpacked;
use testkit::{
    RedisServer,
    resp::{Frames, is_push, words},
    root,
};

/// What the judge hears.
pub enum Heard {
    Asked(Asked),
    /// Its client ends the connection of this id.
    Killed(usize),
    /// A line of the driver.
    Said(String),
    Ended,
}

/// A request for a script.
#[derive(Clone, PartialEq)]
pub struct Request {
    /// The name of the script, or the command itself if it is none of this repository.
    pub verb: String,
    pub key: String,
    /// With what is packed in them one by one.
    pub args: Vec<Vec<u8>>,
}

/// A request that was sent, and waits for an answer.
pub struct Asked {
    pub request: Request,
    pub by_text: bool,
    /// The `CLIENT ID` of the connection.
    pub connection: usize,
    /// When it had been read: later than it was sent.
    pub at: Instant,
    answer: Sender<Option<Vec<u8>>>,
}

impl Deref for Asked {
    type Target = Request;
    fn deref(&self) -> &Request {
        &self.request
    }
}

impl Asked {
    /// Nobody waits for its answer.
    pub fn of(connection: usize, verb: &str, key: String, args: Vec<Vec<u8>>) -> Asked {
        let request = Request { verb: verb.into(), key, args };
        Asked { request, by_text: false, connection, at: Instant::now(), answer: channel().0 }
    }

    pub fn text(&self, nth: usize) -> String {
        String::from_utf8_lossy(self.args.get(nth).map_or(b"?", Vec::as_slice)).into_owned()
    }

    /// The frame of an answer. A request that is dropped without one is never answered, nor what follows it on its
    /// connection.
    pub fn frame(&self, frame: Vec<u8>) {
        let _ = self.answer.send(Some(frame));
    }

    /// The connection ends instead of an answer.
    pub fn cut(&self) {
        let _ = self.answer.send(None);
    }
}

pub struct Scripts {
    /// By their texts and by their digests.
    names: HashMap<Vec<u8>, String>,
}

impl Scripts {
    pub fn read() -> Scripts {
        let mut names = HashMap::new();
        for entry in std::fs::read_dir(root().join("lua/rendered")).unwrap() {
            let path = entry.unwrap().path();
            let (name, text) = (path.file_stem().unwrap().to_str().unwrap(), std::fs::read_to_string(&path).unwrap());
            names.insert(redis::Script::new(&text).get_hash().as_bytes().to_vec(), name.to_owned());
            names.insert(text.into_bytes(), name.to_owned());
        }
        Scripts { names }
    }

    /// The request in these words of a command, if they are one for a script with a key, or an HDEL. Others are none of a
    /// lock.
    fn request(&self, words: &[Vec<u8>]) -> Option<Request> {
        let text = |word: &Vec<u8>| String::from_utf8_lossy(word).into_owned();
        let command = words.first().map(text)?.to_lowercase();
        if command == "hdel" {
            let key = words.get(1).map(text).unwrap_or_default();
            return Some(Request { verb: command, key, args: words.get(2..).unwrap_or_default().to_vec() });
        }
        let runs = ["eval", "evalsha", "eval_ro", "evalsha_ro", "fcall"].contains(&&*command);
        let count = words.get(2).filter(|count| runs && *count != b"0")?;
        let name = self.names.get(&words[1]).filter(|_| count == b"1");
        let verb = name.cloned().unwrap_or(command);
        let args = unpacked(&verb, words.get(4..).unwrap_or_default());
        Some(Request { verb, key: words.get(3).map(text).unwrap_or_default(), args })
    }
}

/// The URL of a port that leads to this server, but for the requests about locks. While somebody has the gate locked, no
/// new connection is served.
pub fn listen(server: &RedisServer, scripts: &Arc<Scripts>, gate: &Arc<Mutex<()>>, hear: Sender<Heard>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (socket, scripts, gate) = (server.socket(), scripts.clone(), gate.clone());
    std::thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            drop(gate.lock());
            let Ok(server) = UnixStream::connect(&socket) else { continue };
            let (scripts, hear) = (scripts.clone(), hear.clone());
            std::thread::spawn(move || {
                serve(&client, &server, &scripts, &hear);
                let _ = (client.shutdown(Shutdown::Both), server.shutdown(Shutdown::Both));
            });
        }
    });
    format!("redis://{address}/")
}

/// One request after the other, as a server does.
fn serve(client: &TcpStream, server: &UnixStream, scripts: &Scripts, hear: &Sender<Heard>) {
    let Some(connection) = id(server) else { return };
    let (replied, replies) = channel();
    let (mut out, from) = (client.try_clone().unwrap(), server.try_clone().unwrap());
    std::thread::spawn(move || {
        for frame in Frames::new(&from) {
            if out.write_all(&frame).is_err() || (!is_push(&frame) && replied.send(()).is_err()) {
                break;
            }
        }
        let _ = out.shutdown(Shutdown::Both);
    });
    let mut frames = Frames::new(client);
    while let Some(frame) = frames.next() {
        let words = words(&frame);
        let Some(request) = scripts.request(&words) else {
            if let Some(killed) = killed(&words)
                && hear.send(Heard::Killed(killed)).is_err()
            {
                return;
            }
            // A message may come meanwhile, which the other thread writes.
            if (&*server).write_all(&frame).is_err() || replies.recv().is_err() {
                return;
            }
            continue;
        };
        let (answer, answered) = channel();
        let by_text = words[0].eq_ignore_ascii_case(b"eval");
        let asked = Asked { request, by_text, connection, at: Instant::now(), answer };
        if hear.send(Heard::Asked(asked)).is_err() {
            return;
        }
        match answered.recv() {
            Ok(Some(frame)) if (&*client).write_all(&frame).is_ok() => {}
            Ok(_) => return,
            Err(_) => while frames.next().is_some() {},
        }
    }
}

/// What `CLIENT ID` answers on this connection.
fn id(mut server: &UnixStream) -> Option<usize> {
    server.write_all(b"CLIENT ID\r\n").ok()?;
    let reply = Frames::new(server).next()?;
    std::str::from_utf8(&reply).ok()?.trim().strip_prefix(':')?.parse().ok()
}

/// The connection that these words of a command end.
fn killed(words: &[Vec<u8>]) -> Option<usize> {
    let words: Vec<String> = words.iter().map(|word| String::from_utf8_lossy(word).to_lowercase()).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["client", "kill", "id", id, ..] => id.parse().ok(),
        _ => None,
    }
}
