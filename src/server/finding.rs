//! Asking several servers one question: sentinels know the master, the nodes of a cluster which of them serves which slot.

use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use super::discovery::SlotMap;
use super::resp::Value;
use super::target::{Endpoint, Node, Sentinels};
use crate::clock::Time;
use crate::error::ConnectError;

/// How many are asked at once, and how long they may be silent before as many more are asked.
const ASKED: usize = 3;
const NEXT: Duration = Duration::from_millis(250);

impl Sentinels {
    /// The master, as the first sentinel that answers knows it.
    pub(super) fn find_master(&self, deadline: Time) -> Result<Endpoint, ConnectError> {
        let (name, master) = (self.name.clone(), self.master.clone());
        let ask_one = move |sentinel: &Endpoint, deadline: Time| {
            let asked = ask(sentinel, &["SENTINEL", "GET-MASTER-ADDR-BY-NAME", &name], deadline);
            let reply = asked.map_err(|error| match error {
                ConnectError::Refused { address, cause } => ConnectError::NotSentinel { address, cause },
                other => other,
            })?;
            let node = match &reply {
                Value::List(parts) => match &parts[..] {
                    [host, port] => host.text().zip(port.text()),
                    _ => None,
                },
                _ => None,
            };
            match node {
                Some((host, port)) => Ok(master.at(&Node { host: host.into_owned(), port: port.parse().unwrap_or(0) })),
                None => Err(ConnectError::UnknownMaster { address: sentinel.to_string(), name: name.clone() }),
            }
        };
        first_of(self.sentinels.clone(), ask_one, deadline)
    }
}

/// What the first of these nodes that answers knows of its cluster.
pub(crate) fn discover_slots(nodes: Vec<Endpoint>, deadline: Time) -> Result<SlotMap, ConnectError> {
    let ask_one = |node: &Endpoint, deadline: Time| {
        let reply = ask(node, &["CLUSTER", "SLOTS"], deadline)?;
        // It may be told of the others at any moment.
        let cause = || "it knows no node that serves slots".to_owned();
        SlotMap::parse(&reply, node)
            .filter(|map| map.nodes().next().is_some())
            .ok_or_else(|| ConnectError::NotReady { address: node.to_string(), cause: cause() })
    };
    first_of(nodes, ask_one, deadline)
}

fn ask(endpoint: &Endpoint, question: &[&str], deadline: Time) -> Result<Value<'static>, ConnectError> {
    let (_, mut replies) = endpoint.log_in(&[question.to_vec()], deadline)?;
    let reply = replies.pop().unwrap_or(Value::Nil);
    match reply.error() {
        Some(error) => Err(endpoint.explain_line(&error)),
        None => Ok(reply),
    }
}

/// The first answer of any of them: one that hangs must not hold up the others. If there is none by then, a server that
/// answers something else is worth more than one that does not answer.
fn first_of<T: Send + 'static>(
    endpoints: Vec<Endpoint>,
    ask: impl Fn(&Endpoint, Time) -> Result<T, ConnectError> + Send + Sync + 'static,
    deadline: Time,
) -> Result<T, ConnectError> {
    if let [endpoint] = &endpoints[..] {
        return ask(endpoint, deadline);
    }
    let all = endpoints.iter().map(Endpoint::to_string).collect::<Vec<_>>().join(",");
    let (ask, (answer, answers)) = (Arc::new(ask), mpsc::channel());
    let mut unasked = endpoints.into_iter().peekable();
    let mut asked = 0;
    let mut errors: Vec<ConnectError> = Vec::new();
    while Time::now() < deadline {
        if asked == errors.len() && unasked.peek().is_none() {
            break;
        }
        for endpoint in unasked.by_ref().take(ASKED) {
            let (ask, answer) = (ask.clone(), answer.clone());
            let asking = move || drop(answer.send(ask(&endpoint, deadline)));
            // Without a thread to be had, the others may answer.
            match std::thread::Builder::new().name("fairlock-asks".into()).spawn(asking) {
                Ok(_) => {}
                Err(error) => errors.push(ConnectError::Thread { cause: error.to_string() }),
            }
            asked += 1;
        }
        let until = if unasked.peek().is_some() { (Time::now() + NEXT).min(deadline) } else { deadline };
        loop {
            match answers.recv_timeout(until.since(Time::now())) {
                Ok(Ok(found)) => return Ok(found),
                Ok(Err(error)) => errors.push(error),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => break,
            }
            if errors.len() == asked {
                break;
            }
        }
    }
    Err(errors.into_iter().min_by_key(ConnectError::rank).unwrap_or_else(|| ConnectError::silent(all)))
}
