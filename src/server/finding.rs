//! Finding the server: sentinels know the master, the nodes of a cluster know which of them serves which slot. Here
//! one server is asked. The keeper's routes decide how many are asked at once, and which answer counts.

use super::discovery::SlotMap;
use super::endpoint::{Endpoint, Node};
use super::resp::Value;
use super::target::Sentinels;
use crate::clock::Time;
use crate::error::ConnectError;

impl Sentinels {
    /// The nodes that know the master.
    pub(crate) fn nodes(&self) -> Vec<Node> {
        self.sentinels.iter().filter_map(Endpoint::node).collect()
    }

    /// The master, as this sentinel knows it. Blocks at most until the deadline.
    pub(crate) fn ask(&self, sentinel: &Node, deadline: Time) -> Result<Node, ConnectError> {
        self.sentinels.first().unwrap_or(&self.master).at(sentinel).master(&self.name, deadline)
    }
}

impl Endpoint {
    /// The master of this name, as this sentinel knows it. Blocks at most until the deadline.
    pub(super) fn master(&self, name: &str, deadline: Time) -> Result<Node, ConnectError> {
        let reply = self.ask_once(&["SENTINEL", "GET-MASTER-ADDR-BY-NAME", name], deadline);
        let reply = reply.map_err(|error| match error {
            ConnectError::Refused { address, cause } => ConnectError::NotSentinel { address, cause },
            other => other,
        })?;
        let unknown = || ConnectError::UnknownMaster { address: self.to_string(), name: name.to_owned() };
        Self::master_in(&reply).ok_or_else(unknown)
    }

    /// The reply of a sentinel: `[host, port]`.
    pub(super) fn master_in(reply: &Value<'_>) -> Option<Node> {
        let Value::List(parts) = reply else { return None };
        let [host, port] = &parts[..] else { return None };
        Some(Node { host: host.text()?.into_owned(), port: port.text()?.parse().ok()? })
    }

    /// Which node of its cluster serves which slots, as this node knows it. Blocks at most until the deadline.
    pub(crate) fn slots(&self, deadline: Time) -> Result<SlotMap, ConnectError> {
        let reply = self.ask_once(&["CLUSTER", "SLOTS"], deadline)?;
        // It may hear of the others at any moment.
        let cause = "it knows no node that serves slots";
        SlotMap::parse(&reply, self)
            .filter(|map| map.nodes().next().is_some())
            .ok_or_else(|| ConnectError::NotReady { address: self.to_string(), cause: cause.into() })
    }

    fn ask_once(&self, question: &[&str], deadline: Time) -> Result<Value<'static>, ConnectError> {
        let reply = self.log_in(&[question.to_vec()], deadline)?.answers.pop().unwrap_or(Value::Nil);
        match reply.error() {
            Some(error) => Err(self.explain_line(&error)),
            None => Ok(reply),
        }
    }
}
