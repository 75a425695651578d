//! A bare blocking socket that speaks the protocol of Redis, and nothing else: the floor of every client.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use rmpv::decode::read_value;

/// What a server answers.
#[derive(Debug, Clone, PartialEq)]
pub enum Reply {
    Text(Vec<u8>),
    Number(i64),
    Nil,
    Error(String),
    List(Vec<Reply>),
}

impl Reply {
    pub fn text(&self) -> &str {
        match self {
            Reply::Text(text) => std::str::from_utf8(text).expect("text of the server"),
            other => panic!("{other:?} is no text"),
        }
    }

    pub fn number(&self) -> u64 {
        match self {
            Reply::Number(number) => (*number).try_into().expect("a number above zero"),
            other => other.text().parse().unwrap_or_else(|_| panic!("{other:?} is no number")),
        }
    }

    /// A text or a number, as it is sent back.
    pub fn bytes(&self) -> Vec<u8> {
        match self {
            Reply::Number(number) => number.to_string().into_bytes(),
            Reply::Text(text) => text.clone(),
            other => panic!("{other:?} is neither"),
        }
    }

    pub fn list(&self) -> &[Reply] {
        match self {
            Reply::List(list) => list,
            other => panic!("{other:?} is no list"),
        }
    }

    /// A script's reply or message as a list: a word, then names and values. Those of a commit of before may be one
    /// MessagePack array, or a list already.
    pub fn unpacked(&self) -> Reply {
        match self {
            Reply::Text(packed) if packed.first().is_some_and(|byte| *byte < 0x80) => {
                struct_of(packed).unwrap_or_else(|| panic!("{self:?} is no reply"))
            }
            Reply::Text(packed) => {
                read_value(&mut packed.as_slice()).map_or_else(|_| self.clone(), |value| list(&value))
            }
            other => other.clone(),
        }
    }

    /// The word of a script's reply.
    pub fn word(&self) -> &str {
        self.list()[0].text()
    }

    /// Whether the lease that this reply grants may be given back by an HDEL.
    pub fn is_calm(&self) -> bool {
        self.field("flags").is_some_and(|flags| flags.number() & 2 == 2)
    }

    /// A value of a script's reply: after its word come names and values.
    pub fn field(&self, name: &str) -> Option<&Reply> {
        self.list()[1..].chunks_exact(2).find(|pair| pair[0] == Reply::Text(name.into())).map(|pair| &pair[1])
    }
}

/// What is asked of replies and messages here, under the names that MessagePack gave it.
fn struct_of(mut packed: &[u8]) -> Option<Reply> {
    let rest = &mut packed;
    let mut items = vec![short(rest)?];
    let is_message = matches!(items[0].text(), "grant" | "break");
    let names: &[&str] = match is_message {
        true => &["left_us"],
        false => &["rank", "waiting", "held", "lease_left_us", "recover_left_us", "keep_us"],
    };
    if !is_message {
        let flags = *rest.split_off_first()?;
        items.extend([Reply::Text("flags".into()), Reply::Number(flags.into())]);
    }
    for name in names {
        let number = f64::from_le_bytes(rest.split_off(..8)?.try_into().ok()?);
        items.extend([Reply::Text((*name).into()), Reply::Number(number as i64)]);
    }
    let memory = short(rest)?;
    for (name, at) in [("epoch", 1), ("stamp", 9)] {
        let number =
            memory.bytes().get(at..at + 8).map(|eight| f64::from_le_bytes(eight.try_into().unwrap_or_default()));
        items.extend([Reply::Text(name.into()), Reply::Number(number.unwrap_or_default() as i64)]);
    }
    items.extend([Reply::Text("memory".into()), memory]);
    if is_message {
        items.extend([Reply::Text("seat".into()), short(rest)?, Reply::Text("id".into()), text(rest)?]);
        return Some(Reply::List(items));
    }
    let own = rest.split_off(..2)?;
    for _ in 0..u16::from_le_bytes([own[0], own[1]]) {
        rest.split_off_first()?; // whether it is a claim
        let (_id, seat) = (text(rest)?, short(rest)?);
        rest.split_off(..8)?; // what is left of it
        let is_place = seat.bytes().get(17..25)?.iter().all(|byte| *byte == 0);
        items.extend([Reply::Text(if is_place { "seat" } else { "holder_seat" }.into()), seat]);
    }
    Some(Reply::List(items))
}

/// A text of up to 255 bytes.
fn short(rest: &mut &[u8]) -> Option<Reply> {
    let size = *rest.split_off_first()?;
    rest.split_off(..size.into()).map(|text| Reply::Text(text.to_vec()))
}

/// A text of up to 64 KiB.
fn text(rest: &mut &[u8]) -> Option<Reply> {
    let size = u16::from_le_bytes(rest.split_off(..2)?.try_into().ok()?);
    rest.split_off(..size.into()).map(|text| Reply::Text(text.to_vec()))
}

fn list(value: &rmpv::Value) -> Reply {
    match value {
        rmpv::Value::Array(items) => Reply::List(items.iter().map(list).collect()),
        value => {
            value.as_i64().map_or_else(|| Reply::Text(value.as_slice().unwrap_or_default().to_vec()), Reply::Number)
        }
    }
}

/// One connection.
pub struct Wire {
    stream: TcpStream,
    bytes: Vec<u8>,
    at: usize,
}

impl Wire {
    pub fn connect(port: u16) -> Wire {
        let stream = TcpStream::connect(("127.0.0.1", port)).expect("connecting to the private redis-server");
        stream.set_nodelay(true).expect("TCP_NODELAY");
        Wire { stream, bytes: Vec::new(), at: 0 }
    }

    pub fn send(&mut self, request: &[u8]) {
        self.stream.write_all(request).expect("writing to the private redis-server");
    }

    /// The next reply, or message of a channel.
    pub fn receive(&mut self) -> Reply {
        loop {
            let mut end = self.at;
            if let Some(reply) = parse(&self.bytes, &mut end) {
                self.at = end;
                return reply;
            }
            self.bytes.drain(..self.at);
            self.at = 0;
            let mut chunk = [0; 16 * 1024];
            let length = self.stream.read(&mut chunk).expect("reading from the private redis-server");
            assert!(length > 0, "the private redis-server closed the connection");
            self.bytes.extend_from_slice(&chunk[..length]);
        }
    }

    pub fn call(&mut self, request: &[u8]) -> Reply {
        self.send(request);
        self.receive()
    }

    /// A command in words, which must succeed.
    pub fn command(&mut self, words: &[&str]) -> Reply {
        match self.call(&encode(words)) {
            Reply::Error(error) => panic!("{words:?}: {error}"),
            reply => reply,
        }
    }

    /// All requests in one go, then all replies.
    pub fn pipeline(&mut self, requests: &[Vec<u8>]) -> Vec<Reply> {
        self.send(&requests.concat());
        requests.iter().map(|_| self.receive()).collect()
    }
}

/// A request as it goes over the wire.
pub fn encode<T: AsRef<str>>(words: &[T]) -> Vec<u8> {
    let mut request = Vec::new();
    head(words.len(), &mut request);
    words.iter().for_each(|text| word(text.as_ref(), &mut request));
    request
}

/// The beginning of a request of so many words.
pub fn head(words: usize, request: &mut Vec<u8>) {
    write!(request, "*{words}\r\n").expect("writing to memory");
}

pub fn word(text: impl AsRef<[u8]>, request: &mut Vec<u8>) {
    let text = text.as_ref();
    write!(request, "${}\r\n", text.len()).expect("writing to memory");
    request.extend_from_slice(text);
    request.extend_from_slice(b"\r\n");
}

/// One whole reply from `at` on, which moves behind it; None if it is not all there yet.
fn parse(bytes: &[u8], at: &mut usize) -> Option<Reply> {
    let rest = bytes.get(*at..)?;
    let length = rest.windows(2).position(|two| two == b"\r\n")?;
    let (kind, line) = (rest[0], &rest[1..length]);
    *at += length + 2;
    let number = || std::str::from_utf8(line).ok()?.parse::<i64>().ok();
    match kind {
        b'+' => Some(Reply::Text(line.to_vec())),
        b'-' => Some(Reply::Error(String::from_utf8_lossy(line).into_owned())),
        b':' => number().map(Reply::Number),
        b'_' => Some(Reply::Nil),
        b'$' | b'*' | b'>' | b'%' if number()? < 0 => Some(Reply::Nil),
        b'$' => {
            let end = *at + number()? as usize;
            let text = bytes.get(*at..end)?.to_vec();
            *at = end + 2;
            (*at <= bytes.len()).then_some(Reply::Text(text))
        }
        b'*' | b'>' => (0..number()?).map(|_| parse(bytes, at)).collect::<Option<_>>().map(Reply::List),
        b'%' => (0..2 * number()?).map(|_| parse(bytes, at)).collect::<Option<_>>().map(Reply::List),
        other => panic!("a reply that begins with {:?}", char::from(other)),
    }
}
