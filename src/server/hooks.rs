//! What the tests see of a connection without a socket: see [`crate::__hooks`].

use std::sync::Arc;
use std::time::Duration;

use super::discovery::SlotMap;
use super::endpoint::{Endpoint, Node};
use super::resp::{Frames, Garbage, Value};
use super::wire::{CallOutcome, OutgoingRequest, Pairing, Purpose, WireEvent};
use crate::protocol::{InspectRequest, LockKeys, Memory, ReleaseRequest, Request, SCRIPTS, Seat, WireId};

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

/// The frames in these bytes, which arrive in pieces of this size, and whether they end the connection.
pub fn read_frames(bytes: &[u8], size: usize) -> (Vec<String>, Option<String>) {
    let mut read = Vec::new();
    let end = feed(bytes, size, |value| {
        read.push(format!("{value:?}"));
        None
    });
    (read, end)
}

/// The same as the redis crate reads it, up to what it refuses.
pub fn read_by_the_library(mut bytes: &[u8]) -> Vec<String> {
    let mut parser = redis::Parser::new();
    let mut read = Vec::new();
    while !bytes.is_empty() {
        // It looks ahead as far as it can: so each byte is given to it when it asks.
        let mut one_by_one = std::iter::from_fn(|| bytes.split_off_first().copied());
        let Ok(value) = parser.parse_value(OneByOne(&mut one_by_one)) else { break };
        read.push(format!("{:?}", Value::from(&value)));
    }
    read
}

struct OneByOne<'a, I>(&'a mut I);

impl<I: Iterator<Item = u8>> std::io::Read for OneByOne<'_, I> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let byte = self.0.next();
        byte.into_iter().for_each(|byte| buffer[0] = byte);
        Ok(usize::from(byte.is_some()))
    }
}

/// Which node serves these slots, by what a node of a cluster or a sentinel says: `None` if it cannot be read.
pub fn read_nodes(bytes: &[u8], slots: &[u16]) -> Option<Vec<Option<(String, u16)>>> {
    let shown = |node: &Node| (node.host.clone(), node.port);
    let asked = Endpoint::of_node(Node { host: "asked".into(), port: 1 }, false);
    let mut found = None;
    feed(bytes, usize::MAX, |value| {
        let map = SlotMap::parse(&value, &asked);
        let by_slots = map.map(|map| slots.iter().map(|slot| map.node_of(*slot).map(shown)).collect());
        found = by_slots.or_else(|| Some(vec![Some(shown(&Endpoint::master_in(&value)?))]));
        Some(String::new())
    });
    found
}

/// What a connection says when it has asked these questions (each byte means one), and is answered with these bytes in
/// pieces of this size; and whether that ends it.
pub fn converse(questions: &[u8], bytes: &[u8], size: usize) -> (Vec<String>, Option<String>) {
    let mut pairing = Pairing::new(SCRIPTS.iter().map(|script| script.name.to_owned()).collect());
    let keys = Arc::new(LockKeys::new("fairlock", "x"));
    let mut out = Vec::new();
    for (tag, question) in (1..).zip(questions) {
        let outgoing = |call, asking| OutgoingRequest { call, hash_tag: "".into(), asking };
        let inspect = Request::Inspect(InspectRequest::first(&keys, 10));
        let request = |asking| outgoing(inspect.clone(), asking);
        match question % 5 {
            0 => pairing.request(Purpose::Tag(tag), request(false), false, &mut out),
            1 => pairing.request(Purpose::Tag(tag), request(true), false, &mut out),
            2 => pairing.subscription(&"c".into()),
            3 => {
                let (seat, memory) = (Seat::NONE, Memory::NONE);
                let release =
                    ReleaseRequest { keys: keys.clone(), id: WireId::of_nobody(), by_hdel: true, seat, memory };
                pairing.request(Purpose::Tag(tag), outgoing(Request::Release(release), false), false, &mut out);
            }
            _ => {
                let of = Purpose::Replicas { replicas: 1, within: Duration::from_secs(1) };
                pairing.request(of, request(false), false, &mut out);
            }
        }
    }
    let mut said = Vec::new();
    let end = feed(bytes, size, |value| match pairing.take(value, &mut out) {
        Ok(Some(WireEvent::Reply { tag, reply, .. })) => {
            said.push(match reply {
                CallOutcome::Result(result) => format!("{tag} {result:?}"),
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
