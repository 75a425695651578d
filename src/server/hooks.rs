//! What the tests see of a connection without a socket: see [`crate::testing`].

use std::sync::Arc;
use std::time::Duration;

use super::resp::{Frames, Garbage, Value};
use super::wire::{For, Pairing, Reply, Request, Said};
use crate::protocol::{InspectRequest, LockKeys, SCRIPTS};

/// Feeds frames with these bytes in pieces, until they end or `take` does.
fn feed(bytes: &[u8], size: usize, mut take: impl FnMut(Value<'_>) -> Option<String>) -> Option<String> {
    let mut frames = Frames::new();
    let mut rest = bytes;
    while !rest.is_empty() {
        let space = frames.space();
        let size = size.clamp(1, rest.len()).min(space.len());
        space[..size].copy_from_slice(&rest[..size]);
        frames.filled(size);
        rest = &rest[size..];
        loop {
            match frames.next() {
                Ok(Some(value)) => match take(value) {
                    None => {}
                    end => return end,
                },
                Ok(None) => break,
                Err(garbage) => return Some(Garbage::to_string(&garbage)),
            }
        }
    }
    None
}

pub(crate) fn read_frames(bytes: &[u8], size: usize) -> (Vec<String>, Option<String>) {
    let mut read = Vec::new();
    let end = feed(bytes, size, |value| {
        read.push(format!("{value:?}"));
        None
    });
    (read, end)
}

pub(crate) fn shown_frame(value: &redis::Value) -> String {
    format!("{:?}", Value::from(value))
}

pub(crate) fn converse(questions: &[u8], bytes: &[u8], size: usize) -> (Vec<String>, Option<String>) {
    let mut pairing = Pairing::new(SCRIPTS.iter().map(|script| script.name.to_owned()).collect());
    let keys = Arc::new(LockKeys::new("fairlock", "x"));
    let mut out = Vec::new();
    for (tag, question) in (1..).zip(questions) {
        let request = |asking| Request {
            call: crate::protocol::Request::Inspect(InspectRequest { keys: keys.clone(), after: None, count: 10 }),
            channel: "c".into(),
            asking,
        };
        match question % 4 {
            0 => pairing.request(For::Tag(tag), request(false), false, &mut out),
            1 => pairing.request(For::Tag(tag), request(true), false, &mut out),
            2 => pairing.subscription(&"c".into()),
            _ => {
                let of = For::Replicas { tag, replicas: 1, within: Duration::from_secs(1) };
                pairing.request(of, request(false), false, &mut out);
            }
        }
    }
    let mut said = Vec::new();
    let end = feed(bytes, size, |value| match pairing.take(value, &mut out) {
        Ok(Some(Said::Reply { tag, reply, .. })) => {
            said.push(match reply {
                Reply::Result(result) => format!("{tag} {result:?}"),
                other => format!("{tag} {other:?}"),
            });
            None
        }
        Ok(other) => {
            said.extend(other.map(|other| format!("{other:?}")));
            None
        }
        Err(cause) => Some(cause),
    });
    (said, end)
}
