//! Carries out the decisions of routes: it connects and asks on separate threads, sends, and reports the results.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use super::inbox::Outbox;
use super::machine::ANSWER_TIMEOUT;
use super::message::Message;
use super::poller::{Poller, Watched};
use super::routes::{ConnectionId, Discovered, Effect, Event, Shape, tag};
use crate::clock::Time;
use crate::credentials::{LOGIN_PAUSE, LoginAnswer};
use crate::error::ConnectError;
use crate::server::{Endpoint, Facts, Node, Target, Wire, WireEvent};
use crate::spots::reach;
use crate::thread::{self, caught};

/// While so many requests are unanswered on a connection, others wait (`machine/line.rs`). Enough to keep a server
/// busy over a round trip of several milliseconds, and few enough that it answers all of them long before the shortest
/// lease ends.
const WINDOW: usize = 1000;

/// A thread that connects to a server, or asks one, has finished.
pub(crate) struct SetUp {
    connection: ConnectionId,
    outcome: Result<SetUpOutcome, ConnectError>,
}

#[allow(clippy::large_enum_variant)] // The large one is the usual one.
enum SetUpOutcome {
    Connection((Wire, Facts)),
    Discovered(Discovered),
    /// For the login on a connection that stays.
    Login(LoginAnswer),
}

pub(super) struct Network {
    target: Target,
    /// Of the keys and channels.
    prefix: Arc<str>,
    wires: BTreeMap<ConnectionId, Wire>,
    poller: Poller,
    /// For the results of threads.
    outbox: Outbox<Message>,
    /// Reports of wires that the routes have not taken yet.
    events: Vec<Event>,
    said: Vec<WireEvent>,
}

impl Network {
    pub(super) fn new(target: Target, prefix: Arc<str>, poller: Poller, outbox: Outbox<Message>) -> Self {
        Self { target, prefix, wires: BTreeMap::new(), poller, outbox, events: Vec::new(), said: Vec::new() }
    }

    /// How the servers of this target are found.
    pub(super) fn shape(&self) -> Shape {
        match &self.target {
            Target::Server(server) => Shape::Server(server.to_string()),
            Target::Sentinel(sentinels) => Shape::Sentinels(sentinels.nodes()),
            Target::Cluster(seeds) => Shape::Cluster(seeds.iter().filter_map(Endpoint::node).collect()),
        }
    }

    /// What has happened since the last call, in order.
    pub(super) fn events(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.events)
    }

    /// How many more requests may be sent over this connection, if there is one.
    pub(super) fn room(&self, connection: ConnectionId) -> Option<usize> {
        Some(WINDOW.saturating_sub(self.wires.get(&connection)?.unanswered()))
    }

    pub(super) fn events_are_due(&self) -> bool {
        !self.events.is_empty()
    }

    pub(super) fn carry_out(&mut self, effect: Effect) {
        match effect {
            Effect::Connect { connection, node, channel, previous, by } => {
                let prefix = self.prefix.clone();
                self.on_a_thread(connection, node, move |endpoint| {
                    endpoint.set_up(&prefix, channel.as_deref(), previous.as_ref(), by).map(SetUpOutcome::Connection)
                });
            }
            Effect::ConnectSecond { connection, node, by } => {
                self.on_a_thread(connection, node, move |endpoint| {
                    endpoint.set_up_second(by).map(SetUpOutcome::Connection)
                });
            }
            Effect::Discover { connection, node, by } => {
                let target = self.target.clone();
                self.on_a_thread(connection, Some(node.clone()), move |endpoint| match target {
                    Target::Sentinel(sentinels) => {
                        Ok(SetUpOutcome::Discovered(Discovered::Master(sentinels.ask(&node, by)?)))
                    }
                    _ => Ok(SetUpOutcome::Discovered(Discovered::Slots(endpoint.slots(by)?))),
                });
            }
            Effect::Write { connection, slot, request, call, hash_tag, asking } => {
                if let Some(wire) = self.wires.get_mut(&connection) {
                    wire.send(tag(slot, request), call, &hash_tag, asking);
                }
            }
            Effect::Subscribe { connection, channel, sharded } => {
                if let Some(wire) = self.wires.get_mut(&connection) {
                    wire.subscribe(&channel, sharded);
                }
            }
            Effect::Replicas { connection, keys, replicas, within } => {
                if let Some(wire) = self.wires.get_mut(&connection) {
                    wire.wait_replicas(&keys, replicas, within);
                }
            }
            Effect::Drop { connection } => {
                if let Some(wire) = self.wires.remove(&connection) {
                    self.poller.forget(connection, &wire);
                }
            }
            Effect::Tell { .. } | Effect::First(_) | Effect::LogRecord(_) => {}
        }
    }

    /// Runs blocking work on a thread, which ends by a deadline and sends its result.
    fn on_a_thread(
        &mut self,
        connection: ConnectionId,
        node: Option<Node>,
        work: impl FnOnce(&Endpoint) -> Result<SetUpOutcome, ConnectError> + Send + 'static,
    ) {
        let server = &self.target.servers()[0];
        let endpoint = node.map_or_else(|| server.clone(), |node| server.at(&node));
        let address = endpoint.to_string();
        if let Err(error) = spawn(self.outbox.clone(), connection, move || work(&endpoint)) {
            let cause = format!("no thread to connect on: {error}").into();
            self.events.push(Event::Failed { connection, error: ConnectError::Unreachable { address, cause } });
        }
    }

    /// The result of a thread.
    pub(super) fn set_up(&mut self, SetUp { connection, outcome }: SetUp) -> Option<Event> {
        match outcome {
            Ok(SetUpOutcome::Connection((wire, facts))) => {
                self.wires.insert(connection, wire);
                Some(Event::Ready { connection, facts })
            }
            Ok(SetUpOutcome::Discovered(found)) => Some(Event::Discovered { connection, found }),
            Ok(SetUpOutcome::Login(answer)) => {
                let wire = self.wires.get_mut(&connection)?;
                match answer {
                    Ok(credentials) => wire.log_in(&credentials),
                    // The old ones may still be good. The server says when they are not.
                    Err(_) => wire.login_due = Some(Time::now() + LOGIN_PAUSE),
                }
                None
            }
            Err(error) => Some(Event::Failed { connection, error }),
        }
    }

    /// When the next login has to be renewed.
    pub(super) fn next_due(&self) -> Option<Time> {
        self.wires.values().filter_map(|wire| wire.login_due).min()
    }

    /// Asks for the credentials of connections whose login is due.
    pub(super) fn renew_logins(&mut self, now: Time) {
        for (&connection, wire) in &mut self.wires {
            let Some(login) = self.target.login().filter(|_| wire.login_due.is_some_and(|due| due <= now)) else {
                continue;
            };
            let login = login.clone();
            // Also a panic: an error of any other kind is that of a connection which is not there yet.
            let ask =
                move || caught(|| login.credentials(now + ANSWER_TIMEOUT)).unwrap_or_else(|text| Err(text.into()));
            let ask = move || Ok(SetUpOutcome::Login(ask()));
            let asked = spawn(self.outbox.clone(), connection, ask).is_ok();
            wire.login_due = (!asked).then(|| now + LOGIN_PAUSE);
        }
    }

    /// Writes what is queued, with one system call for each connection that has something to send.
    pub(super) fn flush(&mut self) {
        for (connection, wire) in &mut self.wires {
            if let Err(cause) = wire.flush() {
                self.events.push(Event::Ended { connection: *connection, cause });
            }
        }
    }

    /// Sleeps until a connection can be read, or written if it has something to send, another thread notifies it, or the
    /// time is over. Connections that can only be written to are written to at the end of the round.
    pub(super) fn sleep(&mut self, longest: Duration) {
        let wires = self.wires.iter().map(|(connection, wire)| Watched {
            connection: *connection,
            socket: wire,
            wants_write: wire.wants_write(),
        });
        match self.poller.sleep(wires, longest) {
            Ok(readable) => readable.into_iter().for_each(|connection| self.receive(connection)),
            Err((connection, error)) => self.events.push(Event::Ended { connection, cause: error.to_string().into() }),
        }
    }

    /// Takes in the data of a connection, and reports it in the order in which it came: a message is judged by the
    /// answers before it.
    pub(super) fn receive(&mut self, connection: ConnectionId) {
        let Some(wire) = self.wires.get_mut(&connection) else { return };
        let received = wire.receive(&mut self.said);
        self.events.extend(self.said.drain(..).map(|said| Event::Wire { connection, said }));
        if let Err(cause) = received {
            self.events.push(Event::Ended { connection, cause });
        }
    }
}

/// Does this on a thread of its own, which sends the result.
fn spawn(
    outbox: Outbox<Message>,
    connection: ConnectionId,
    work: impl FnOnce() -> Result<SetUpOutcome, ConnectError> + Send + 'static,
) -> io::Result<()> {
    thread::spawn("fairlock-connect", move || {
        let outcome = caught(|| {
            reach("a connection");
            work()
        });
        let panicked = |text| Err(ConnectError::Panicked { cause: format!("while it connected: {text}").into() });
        let outcome = outcome.unwrap_or_else(panicked);
        // The keeper may have ended.
        let _ = outbox.send(Message::SetUp(SetUp { connection, outcome }));
    })
}
