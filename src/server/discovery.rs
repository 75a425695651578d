//! Which node of a cluster serves which slot.

use std::collections::BTreeMap;

use super::endpoint::{Endpoint, Node};

/// All keys of a lock are in one slot of a cluster: that of the hash tag, which is the name between the braces.
pub(crate) type Slot = u16;

/// A brace in the name ends the tag there, for all keys of the lock and for its channel alike.
pub(crate) fn slot_of(name: &str) -> Slot {
    let tag = name.split('}').next().unwrap_or(name);
    crc16::State::<crc16::XMODEM>::calculate(tag.as_bytes()) % 16384
}

/// Which node serves which slots.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct SlotMap {
    ranges: Vec<(Slot, Slot, Node)>,
    /// Corrections by nodes since then.
    moved: BTreeMap<Slot, Node>,
}

impl SlotMap {
    #[cfg(test)]
    pub(crate) fn of(ranges: Vec<(Slot, Slot, Node)>) -> Self {
        Self { ranges, moved: BTreeMap::new() }
    }

    pub(crate) fn node_of(&self, slot: Slot) -> Option<&Node> {
        let range = || self.ranges.iter().find(|(first, last, _)| (*first..=*last).contains(&slot));
        self.moved.get(&slot).or_else(|| range().map(|(_, _, node)| node))
    }

    /// A node reports that another one serves this slot.
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

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::server::resp::Value;

    #[test]
    fn slots_agree_with_those_of_servers() {
        // CLUSTER KEYSLOT of these names.
        assert_eq!((slot_of("123456789"), slot_of("foo")), (12739, 12182));
        assert_eq!(slot_of("foo}bar}"), slot_of("foo"));
    }

    #[test]
    fn a_map_of_slots_is_read_and_corrected() {
        let bulk = |text: &str| Value::Text(text.as_bytes().to_vec().into());
        let range = |first, last, host, port| {
            Value::List(vec![
                Value::Int(first),
                Value::Int(last),
                Value::List(vec![bulk(host), Value::Int(port), bulk("id")]),
            ])
        };
        let asked = Endpoint::of_node(Node { host: "here".into(), port: 1 }, false);
        let reply = Value::List(vec![range(0, 99, "a", 7000), range(100, 16383, "", 7001)]);
        let mut map = SlotMap::parse(&reply, &asked).unwrap();
        let node = |host: &str, port| Node { host: host.into(), port };
        assert_eq!((map.node_of(99), map.node_of(100)), (Some(&node("a", 7000)), Some(&node("here", 7001))));
        map.moved(99, node("c", 1));
        assert_eq!((map.node_of(98), map.node_of(99)), (Some(&node("a", 7000)), Some(&node("c", 1))));
        map.moved(99, node("d", 1));
        assert_eq!((map.node_of(99), map.nodes().count()), (Some(&node("d", 1)), 3), "the last word counts alone");
        assert!(SlotMap::parse(&Value::List(vec![range(0, 99, "a", 70000)]), &asked).is_none());
        assert!(SlotMap::parse(&Value::Nil, &asked).is_none());
    }
}
