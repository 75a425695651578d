//! Finding the server: sentinels know the master, the nodes of a cluster know which of them serves which slot.

use std::collections::BTreeMap;
use std::future::Future;
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt as _};
use redis::{RedisError, Value};
use tokio::time::{Instant, sleep, timeout_at};

use super::connection::payload_text;
use super::target::{Endpoint, Node, Sentinels};
use crate::error::ConnectError;

/// All keys of a lock are in one of the slots of a cluster: that of the name between the braces.
pub(crate) type Slot = u16;

pub(crate) fn slot_of(name: &str) -> Slot {
    crc16::State::<crc16::XMODEM>::calculate(name.as_bytes()) % 16384
}

/// Which node serves which slots.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct SlotMap {
    ranges: Vec<(Slot, Slot, Node)>,
    /// What nodes said since.
    moved: BTreeMap<Slot, Node>,
}

impl SlotMap {
    pub(crate) fn node_of(&self, slot: Slot) -> Option<&Node> {
        let range = || self.ranges.iter().find(|(first, last, _)| (*first..=*last).contains(&slot));
        self.moved.get(&slot).or_else(|| range().map(|(_, _, node)| node))
    }

    /// A node said that another one serves this slot.
    pub(crate) fn moved(&mut self, slot: Slot, node: Node) {
        self.moved.insert(slot, node);
    }

    pub(crate) fn nodes(&self) -> impl Iterator<Item = &Node> {
        self.ranges.iter().map(|(_, _, node)| node).chain(self.moved.values())
    }

    /// The reply to CLUSTER SLOTS: `[[first, last, [host, port, …], replicas…], …]`.
    pub(super) fn parse(reply: &impl crate::protocol::Value, asked: &Endpoint) -> Option<Self> {
        let range = |range: &_| Self::parse_range(range, asked);
        Some(Self { ranges: reply.list()?.iter().map(range).collect::<Option<_>>()?, moved: BTreeMap::new() })
    }

    fn parse_range(range: &impl crate::protocol::Value, asked: &Endpoint) -> Option<(Slot, Slot, Node)> {
        let [first, last, master, ..] = range.list()? else { return None };
        let [host, port, ..] = master.list()? else { return None };
        let host = host.bytes().map(String::from_utf8_lossy).filter(|host| !host.is_empty() && host != "?");
        let host = host.map_or_else(|| asked.host().to_owned(), |host| host.into_owned());
        let node = Node { host, port: port.int()?.try_into().ok()? };
        Some((first.int()?.try_into().ok()?, last.int()?.try_into().ok()?, node))
    }
}

impl Sentinels {
    /// The master, as the first sentinel that answers knows it.
    pub(crate) async fn master(&self, by: Instant) -> Result<Endpoint, ConnectError> {
        let ask_one = |sentinel: Endpoint| async move {
            let asked = ask(&sentinel, &["SENTINEL", "GET-MASTER-ADDR-BY-NAME", &self.name]).await;
            let reply = asked.map_err(|error| match error {
                ConnectError::Refused { address, cause } => ConnectError::NotSentinel { address, cause },
                other => other,
            })?;
            let node = match &reply {
                Value::Array(parts) => match parts.iter().map(payload_text).collect::<Option<Vec<_>>>().as_deref() {
                    Some([host, port]) => Some(Node { host: host.clone(), port: port.parse().unwrap_or(0) }),
                    _ => None,
                },
                _ => None,
            };
            let unknown = || ConnectError::UnknownMaster { address: sentinel.address.clone(), name: self.name.clone() };
            node.map(|node| self.master.at(&node)).ok_or_else(unknown)
        };
        first_of(&self.sentinels, ask_one, by).await
    }
}

/// What the first of these nodes that answers knows of its cluster.
pub(crate) async fn discover(nodes: Vec<Endpoint>, by: Instant) -> Result<SlotMap, ConnectError> {
    let ask_one = |node: Endpoint| async move {
        let reply = ask(&node, &["CLUSTER", "SLOTS"]).await?;
        // It may be told of the others at any moment.
        let cause = || "it knows no node that serves slots".to_owned();
        SlotMap::parse(&reply, &node)
            .filter(|map| map.nodes().next().is_some())
            .ok_or_else(|| ConnectError::NotReady { address: node.address.clone(), cause: cause().into() })
    };
    first_of(&nodes, ask_one, by).await
}

/// How many are asked at once, and how long they may be silent before as many more are asked.
const ASKED: u32 = 3;
const NEXT: Duration = Duration::from_millis(250);

/// The first answer of any of them: one that hangs must not hold up the others. If there is none by then, a server that
/// answers something else is worth more than one that does not answer.
async fn first_of<T, F: Future<Output = Result<T, ConnectError>>>(
    endpoints: &[Endpoint],
    ask: impl Fn(Endpoint) -> F,
    by: Instant,
) -> Result<T, ConnectError> {
    let mut asked: FuturesUnordered<_> = endpoints
        .iter()
        .zip(0_u32..)
        .map(|(endpoint, index)| {
            let (asking, pause) = (ask(endpoint.clone()), NEXT * (index / ASKED));
            async move {
                sleep(pause).await;
                asking.await
            }
        })
        .collect();
    let mut errors = Vec::new();
    while let Ok(Some(answer)) = timeout_at(by, asked.next()).await {
        match answer {
            Ok(found) => return Ok(found),
            Err(error) => errors.push(error),
        }
    }
    let all = endpoints.iter().map(|endpoint| endpoint.address.as_str()).collect::<Vec<_>>().join(",");
    Err(errors.into_iter().min_by_key(ConnectError::rank).unwrap_or_else(|| ConnectError::silent(all)))
}

async fn ask(endpoint: &Endpoint, words: &[&str]) -> Result<Value, ConnectError> {
    let connection = endpoint.open(|_| ()).await?;
    connection.ask(words).await.map_err(|error: RedisError| endpoint.explain(&error))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_of_the_servers() {
        // CLUSTER KEYSLOT of these names.
        assert_eq!((slot_of("123456789"), slot_of("foo")), (12739, 12182));
    }

    #[test]
    fn a_map_is_read_and_corrected() {
        let bulk = |text: &str| Value::BulkString(text.into());
        let range = |first, last, host, port| {
            Value::Array(vec![
                Value::Int(first),
                Value::Int(last),
                Value::Array(vec![bulk(host), Value::Int(port), bulk("id")]),
            ])
        };
        let asked = Endpoint::parse("redis://here:1/").unwrap();
        let reply = Value::Array(vec![range(0, 99, "a", 7000), range(100, 16383, "", 7001)]);
        let mut map = SlotMap::parse(&reply, &asked).unwrap();
        let node = |host: &str, port| Node { host: host.into(), port };
        assert_eq!((map.node_of(99), map.node_of(100)), (Some(&node("a", 7000)), Some(&node("here", 7001))));
        map.moved(99, node("c", 1));
        assert_eq!((map.node_of(98), map.node_of(99)), (Some(&node("a", 7000)), Some(&node("c", 1))));
        map.moved(99, node("d", 1));
        assert_eq!((map.node_of(99), map.nodes().count()), (Some(&node("d", 1)), 3), "the last word counts alone");
        assert!(SlotMap::parse(&Value::Array(vec![range(0, 99, "a", 70000)]), &asked).is_none());
        assert!(SlotMap::parse(&Value::Nil, &asked).is_none());
    }
}
