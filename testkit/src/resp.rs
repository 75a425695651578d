//! The frames of the Redis protocol (RESP2 and RESP3), as far as the proxy must know them: where each ends, which of
//! them are pushes, and the words of a request.

use std::{
    io::{self, Read},
    time::Instant,
};

/// The length of the first frame in `bytes`, if all of it is there.
pub fn frame_len(bytes: &[u8]) -> Option<usize> {
    let line = line_len(bytes)?;
    let count = || -> i64 {
        let digits = std::str::from_utf8(&bytes[1..line - 2]).expect("a count is digits");
        digits.parse().unwrap_or_else(|_| panic!("no frame of the Redis protocol begins with {digits:?}"))
    };
    match bytes[0] {
        b'+' | b'-' | b':' | b'_' | b'#' | b',' | b'(' => Some(line),
        b'$' | b'!' | b'=' => {
            // -1 is RESP2's null.
            let whole = usize::try_from(count()).map_or(line, |length| line + length + 2);
            (bytes.len() >= whole).then_some(whole)
        }
        b'*' | b'~' | b'>' => frames_len(bytes, line, count()),
        b'%' | b'|' => frames_len(bytes, line, 2 * count()),
        other => panic!("no frame of the Redis protocol begins with {:?}", char::from(other)),
    }
}

fn frames_len(bytes: &[u8], mut start: usize, count: i64) -> Option<usize> {
    for _ in 0..count {
        start += frame_len(&bytes[start..])?;
    }
    Some(start)
}

fn line_len(bytes: &[u8]) -> Option<usize> {
    bytes.windows(2).position(|pair| pair == b"\r\n").map(|end| end + 2)
}

/// Whether a frame is a push. The confirmation of a subscription has the same form, but is a reply. An unsubscription
/// is a push: a server sends it for a slot that leaves, and clients do not ask for it. In RESP2, which sentinels speak,
/// messages are arrays.
pub fn is_push(frame: &[u8]) -> bool {
    let is_reply = |kind: &Vec<u8>| kind.ends_with(b"subscribe") && !kind.ends_with(b"unsubscribe");
    match frame[0] {
        b'>' => !words(frame).first().is_some_and(is_reply),
        b'*' => words(frame).first().is_some_and(|kind| kind == b"message"),
        _ => false,
    }
}

/// The strings in an array of strings: the words of a request. Other elements are skipped.
pub fn words(frame: &[u8]) -> Vec<Vec<u8>> {
    let mut words = Vec::new();
    let mut rest = &frame[line_len(frame).unwrap_or(frame.len())..];
    while let Some(length) = frame_len_if_any(rest) {
        let line = line_len(rest).unwrap_or(length);
        if rest[0] == b'$' && length > line {
            words.push(rest[line..length - 2].to_vec());
        }
        rest = &rest[length..];
    }
    words
}

fn frame_len_if_any(bytes: &[u8]) -> Option<usize> {
    if bytes.is_empty() { None } else { frame_len(bytes) }
}

/// Reads whole frames.
pub struct Frames<R> {
    source: R,
    bytes: Vec<u8>,
    arrived: Instant,
}

impl<R: Read> Frames<R> {
    pub fn new(source: R) -> Frames<R> {
        Frames { source, bytes: Vec::new(), arrived: Instant::now() }
    }

    /// When the last frame came. Frames that come together have the same time.
    pub fn arrived(&self) -> Instant {
        self.arrived
    }
}

impl<R: Read> Iterator for Frames<R> {
    type Item = Vec<u8>;

    /// The next frame. None at the end, also if that comes in the middle of a frame.
    fn next(&mut self) -> Option<Vec<u8>> {
        loop {
            if let Some(length) = frame_len_if_any(&self.bytes) {
                return Some(self.bytes.drain(..length).collect());
            }
            let mut chunk = [0; 16 * 1024];
            match self.source.read(&mut chunk) {
                Ok(0) => return None,
                Ok(length) => {
                    self.bytes.extend_from_slice(&chunk[..length]);
                    self.arrived = Instant::now();
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return None,
            }
        }
    }
}
