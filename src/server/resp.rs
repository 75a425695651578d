//! Redis's protocol as bytes: commands to send, and received frames (replies and pushes).
//!
//! The redis crate accepts frames of any size. Here the end of a frame is searched once, however small the pieces in
//! which it arrives, within bounds for its size, its depth and the number of its elements; then it is read without
//! copying its texts.

// For operators' tools.
#![cfg_attr(not(feature = "operator"), allow(unreachable_pub))]

use std::borrow::Cow;
use std::fmt;

/// The largest accepted frame. The largest that a server has reason to send is a page of an inspection.
pub(super) const MOST_BYTES: usize = 64 << 20;
/// Every element of a frame takes more memory here than on the wire, so their number is bounded too. A map of all slots
/// of a cluster, each in a range of its own, has a quarter of this.
const MOST_ELEMENTS: u64 = 1 << 20;
/// Replies of scripts nest three deep.
const MOST_DEPTH: usize = 32;
/// A line is a number or a short text.
const LONGEST_LINE: usize = 64 << 10;
/// The size of a new buffer, and of one after a large frame.
const USUAL: usize = 16 << 10;
/// A larger buffer is cut back when it is empty.
const LARGE: usize = 256 << 10;

/// A part of a frame, as far as fairlock distinguishes them.
#[derive(Clone, PartialEq)]
pub enum Value<'a> {
    /// Nothing.
    Nil,
    /// A number.
    Int(i64),
    /// Text of any kind, and numbers that do not fit: as they were sent.
    Text(Cow<'a, [u8]>),
    /// The server's message, without the sign of an error.
    Error(Cow<'a, [u8]>),
    /// An array, a set, or a map as a list of keys and values in turn.
    List(Vec<Value<'a>>),
    /// Not a reply.
    Push(Vec<Value<'a>>),
}

impl crate::protocol::Value for Value<'_> {
    fn bytes(&self) -> Option<&[u8]> {
        if let Value::Text(text) = self { Some(text) } else { None }
    }

    fn int(&self) -> Option<i64> {
        if let Value::Int(number) = self { Some(*number) } else { None }
    }

    fn list(&self) -> Option<&[Self]> {
        if let Value::List(items) = self { Some(items) } else { None }
    }
}

impl Value<'_> {
    pub(super) fn into_owned(self) -> Value<'static> {
        let all = |items: Vec<Value<'_>>| items.into_iter().map(Value::into_owned).collect();
        match self {
            Value::Nil => Value::Nil,
            Value::Int(number) => Value::Int(number),
            Value::Text(text) => Value::Text(text.into_owned().into()),
            Value::Error(text) => Value::Error(text.into_owned().into()),
            Value::List(items) => Value::List(all(items)),
            Value::Push(items) => Value::Push(all(items)),
        }
    }

    /// The text, if it is one.
    pub fn text(&self) -> Option<Cow<'_, str>> {
        if let Value::Text(text) = self { Some(String::from_utf8_lossy(text)) } else { None }
    }

    /// The server's message, if this is an error.
    pub fn error(&self) -> Option<Cow<'_, str>> {
        if let Value::Error(text) = self { Some(String::from_utf8_lossy(text)) } else { None }
    }
}

impl fmt::Debug for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Nil => f.write_str("nil"),
            Value::Int(number) => write!(f, "{number}"),
            Value::Text(text) => write!(f, "{:?}", String::from_utf8_lossy(text)),
            Value::Error(text) => write!(f, "error {:?}", String::from_utf8_lossy(text)),
            Value::List(items) => f.debug_list().entries(items).finish(),
            Value::Push(items) => f.write_str("push ").and_then(|()| f.debug_list().entries(items).finish()),
        }
    }
}

/// The data is not Redis's protocol, or more of it than any server has reason to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Garbage {
    NotRedis,
    TooLarge,
}

impl fmt::Display for Garbage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Garbage::NotRedis => "its answer is not in Redis's protocol",
            Garbage::TooLarge => "its answer is larger than any that fairlock asks for",
        })
    }
}

/// Received bytes, and the frames that are complete in them.
pub(crate) struct Frames {
    /// The bytes between `start` and `end` are unread.
    bytes: Vec<u8>,
    start: usize,
    end: usize,
    scan: Scan,
}

impl Frames {
    pub(super) fn new() -> Self {
        Self { bytes: vec![0; USUAL], start: 0, end: 0, scan: Scan::new() }
    }

    /// The space for the next bytes. Never empty.
    pub(super) fn space(&mut self) -> &mut [u8] {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
            if self.bytes.len() > LARGE {
                self.bytes = vec![0; USUAL];
            }
        }
        if self.bytes.len() - self.end < USUAL / 4 && self.start != 0 {
            self.bytes.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        if self.end == self.bytes.len() {
            self.bytes.resize(self.bytes.len() * 2, 0);
        }
        &mut self.bytes[self.end..]
    }

    /// This many bytes were put there.
    pub(super) fn filled(&mut self, count: usize) {
        self.end += count;
    }

    /// The next frame, once it is complete.
    pub(crate) fn next(&mut self) -> Result<Option<Value<'_>>, Garbage> {
        let Some(length) = self.scan.frame(&self.bytes[self.start..self.end])? else { return Ok(None) };
        let mut frame = &self.bytes[self.start..self.start + length];
        self.start += length;
        self.scan.restart();
        read(&mut frame).map(Some).ok_or(Garbage::NotRedis)
    }
}

/// How far the end of a frame was searched: no byte is examined twice because more of them arrived.
struct Scan {
    /// The start of the next element.
    at: usize,
    /// Where the search for the end of its first line goes on.
    looked: usize,
    /// The fewest bytes of a complete frame.
    needed: usize,
    /// How many elements are missing of each open list, the outermost first; before that, the frame itself.
    open: Vec<u64>,
    elements: u64,
}

impl Scan {
    fn new() -> Self {
        Self { at: 0, looked: 0, needed: 0, open: vec![1], elements: 0 }
    }

    fn restart(&mut self) {
        (self.at, self.looked, self.needed, self.elements) = (0, 0, 0, 0);
        self.open.clear();
        self.open.push(1);
    }

    /// The length of the first frame in these bytes, which are those of the previous call and more.
    fn frame(&mut self, bytes: &[u8]) -> Result<Option<usize>, Garbage> {
        loop {
            if bytes.len() < self.needed {
                return Ok(None);
            }
            let newline = bytes[self.looked..].iter().position(|byte| *byte == b'\n').map(|at| self.looked + at);
            if newline.unwrap_or(bytes.len()) - self.at > LONGEST_LINE {
                return Err(Garbage::NotRedis);
            }
            let Some(newline) = newline else {
                self.looked = bytes.len();
                return Ok(None);
            };
            let line = bytes[self.at..newline].strip_suffix(b"\r").ok_or(Garbage::NotRedis)?;
            let (kind, rest) = line.split_first().ok_or(Garbage::NotRedis)?;
            let mut end = newline + 1;
            let mut opens = 0;
            match kind {
                b'+' | b'-' | b':' | b',' | b'#' | b'_' | b'(' => {}
                b'$' | b'!' | b'=' => {
                    if let Some(length) = count(rest)? {
                        end = usize::try_from(length).unwrap_or(usize::MAX).saturating_add(end + 2);
                        if end > MOST_BYTES {
                            return Err(Garbage::TooLarge);
                        }
                        if bytes.len() < end {
                            (self.needed, self.looked) = (end, newline);
                            return Ok(None);
                        }
                        if !bytes[..end].ends_with(b"\r\n") {
                            return Err(Garbage::NotRedis);
                        }
                    }
                }
                b'*' | b'~' | b'>' => opens = count(rest)?.unwrap_or(0),
                b'%' | b'|' => opens = count(rest)?.unwrap_or(0).saturating_mul(2),
                _ => return Err(Garbage::NotRedis),
            }
            self.elements += 1;
            if end > MOST_BYTES || self.elements.saturating_add(opens) > MOST_ELEMENTS {
                return Err(Garbage::TooLarge);
            }
            (self.at, self.looked) = (end, end);
            // An attribute comes before an element, and is none itself.
            if *kind == b'|'
                && let Some(missing) = self.open.last_mut()
            {
                *missing += 1;
            }
            if opens > 0 {
                if self.open.len() > MOST_DEPTH {
                    return Err(Garbage::TooLarge);
                }
                self.open.push(opens);
                continue;
            }
            while let Some(missing) = self.open.last_mut() {
                *missing -= 1;
                if *missing > 0 {
                    break;
                }
                self.open.pop();
            }
            if self.open.is_empty() {
                return Ok(Some(end));
            }
        }
    }
}

/// A length. None for the null of RESP2.
fn count(text: &[u8]) -> Result<Option<u64>, Garbage> {
    match number(text) {
        Some(-1) => Ok(None),
        Some(count) => u64::try_from(count).map(Some).map_err(|_| Garbage::NotRedis),
        None => Err(Garbage::NotRedis),
    }
}

fn number(text: &[u8]) -> Option<i64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// Reads one element of a complete frame.
fn read<'a>(rest: &mut &'a [u8]) -> Option<Value<'a>> {
    let text = |text: &'a [u8]| Value::Text(Cow::Borrowed(text));
    let error = |text: &'a [u8]| Value::Error(Cow::Borrowed(text));
    loop {
        let newline = rest.iter().position(|byte| *byte == b'\n')?;
        let (line, behind) = rest.split_at(newline + 1);
        *rest = behind;
        let (kind, line) = line.strip_suffix(b"\r\n")?.split_first()?;
        let mut list = |length: u64| -> Option<Vec<Value<'a>>> {
            let mut items = Vec::with_capacity(usize::try_from(length.min(64)).ok()?);
            for _ in 0..length {
                items.push(read(rest)?);
            }
            Some(items)
        };
        return Some(match kind {
            b'+' | b',' | b'(' => text(line),
            b'-' => error(line),
            b':' => Value::Int(number(line)?),
            b'#' => Value::Int(match line {
                b"t" => 1,
                b"f" => 0,
                _ => return None,
            }),
            b'_' => Value::Nil,
            _ => {
                let Some(length) = count(line).ok()? else { return Some(Value::Nil) };
                match kind {
                    b'*' | b'~' => Value::List(list(length)?),
                    b'%' => Value::List(list(length.checked_mul(2)?)?),
                    b'>' => Value::Push(list(length)?),
                    // An attribute of the next element; fairlock asks for none.
                    b'|' => {
                        list(length.checked_mul(2)?)?;
                        continue;
                    }
                    _ => {
                        let (body, behind) = rest.split_at_checked(usize::try_from(length).ok()?)?;
                        *rest = behind.get(2..)?;
                        match kind {
                            b'$' => text(body),
                            b'!' => error(body),
                            // It starts with its kind: `txt:`.
                            b'=' => text(body.get(4..)?),
                            _ => return None,
                        }
                    }
                }
            }
        });
    }
}

/// Appends a command to bytes that are to be sent.
pub(super) struct Command<'a> {
    out: &'a mut Vec<u8>,
    start: usize,
    words: usize,
}

impl<'a> Command<'a> {
    pub(super) fn new(out: &'a mut Vec<u8>) -> Self {
        let start = out.len();
        Self { out, start, words: 0 }
    }

    pub(super) fn word(&mut self, word: &[u8]) {
        self.pieces(&[word]);
    }

    /// One word, which is these one after the other.
    pub(super) fn pieces(&mut self, pieces: &[&[u8]]) {
        let mut digits = itoa::Buffer::new();
        self.words += 1;
        self.out.push(b'$');
        let size: usize = pieces.iter().map(|piece| piece.len()).sum();
        self.out.extend_from_slice(digits.format(size).as_bytes());
        self.out.extend_from_slice(b"\r\n");
        pieces.iter().for_each(|piece| self.out.extend_from_slice(piece));
        self.out.extend_from_slice(b"\r\n");
    }

    pub(super) fn number(&mut self, number: u64) {
        self.word(itoa::Buffer::new().format(number).as_bytes());
    }

    /// The number of its words comes first.
    pub(super) fn end(self) {
        let mut digits = itoa::Buffer::new();
        let header = [b"*", digits.format(self.words).as_bytes(), b"\r\n"].concat();
        self.out.splice(self.start..self.start, header);
    }
}

pub(super) fn put(out: &mut Vec<u8>, words: &[&str]) {
    let mut command = Command::new(out);
    words.iter().for_each(|word| command.word(word.as_bytes()));
    command.end();
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
