//! Finding the server: sentinels know the master, the nodes of a cluster know which of them serves which slot.

use std::collections::BTreeMap;
use std::future::Future;

use futures_util::future::select_ok;
use redis::{RedisError, Value};

use super::connection::payload_text;
use super::target::{Endpoint, Node, Sentinels};
use crate::error::ConnectError;

/// All keys of a lock are in one of the slots of a cluster: that of the name between the braces.
pub(crate) type Slot = u16;

pub(crate) fn slot_of(name: &str) -> Slot {
    crc16::State::<crc16::XMODEM>::calculate(name.as_bytes()) % 16384
}

/// Which node serves which slots.
#[derive(Clone, Debug, Default)]
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
    fn parse(reply: &Value, asked: &Endpoint) -> Option<Self> {
        let Value::Array(ranges) = reply else { return None };
        let range = |range: &Value| {
            let Value::Array(range) = range else { return None };
            let [Value::Int(first), Value::Int(last), Value::Array(master), ..] = range.as_slice() else {
                return None;
            };
            let host = master.first().and_then(payload_text).filter(|host| !host.is_empty() && host != "?");
            let Some(Value::Int(port)) = master.get(1) else { return None };
            let node = Node { host: host.unwrap_or_else(|| asked.host().to_owned()), port: (*port).try_into().ok()? };
            Some(((*first).try_into().ok()?, (*last).try_into().ok()?, node))
        };
        Some(Self { ranges: ranges.iter().map(range).collect::<Option<_>>()?, moved: BTreeMap::new() })
    }
}

impl Sentinels {
    /// The master, as the first sentinel that answers knows it.
    pub(crate) async fn master(&self) -> Result<Endpoint, ConnectError> {
        first_of(&self.sentinels, |sentinel| async move {
            let reply = ask(&sentinel, &["SENTINEL", "GET-MASTER-ADDR-BY-NAME", &self.name]).await?;
            let node = match &reply {
                Value::Array(parts) => match parts.iter().map(payload_text).collect::<Option<Vec<_>>>().as_deref() {
                    Some([host, port]) => Some(Node { host: host.clone(), port: port.parse().unwrap_or(0) }),
                    _ => None,
                },
                _ => None,
            };
            let unknown = || ConnectError::Unreachable {
                address: sentinel.address.clone(),
                cause: format!("this sentinel knows no master {:?}", self.name),
            };
            node.map(|node| self.master.at(&node)).ok_or_else(unknown)
        })
        .await
    }
}

/// What the first of these nodes that answers knows of its cluster.
pub(crate) async fn discover(nodes: Vec<Endpoint>) -> Result<SlotMap, ConnectError> {
    first_of(&nodes, |node| async move {
        let reply = ask(&node, &["CLUSTER", "SLOTS"]).await?;
        let cause = || "it has not joined a cluster".to_owned();
        SlotMap::parse(&reply, &node)
            .filter(|map| map.nodes().next().is_some())
            .ok_or_else(|| ConnectError::Unreachable { address: node.address.clone(), cause: cause() })
    })
    .await
}

/// Asks all at once: one that hangs must not hold up the others.
async fn first_of<T, F: Future<Output = Result<T, ConnectError>>>(
    endpoints: &[Endpoint],
    ask: impl Fn(Endpoint) -> F,
) -> Result<T, ConnectError> {
    select_ok(endpoints.iter().map(|endpoint| Box::pin(ask(endpoint.clone())))).await.map(|(first, _)| first)
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
