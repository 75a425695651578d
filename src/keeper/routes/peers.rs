//! The servers, with one connection to each: connected when it is needed, and again when it ends.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use super::replicas::Asking;
use super::{ConnectionId, Effect, LogRecord, Peer, Routes, Shape, Timer, patience_after};
use crate::clock::Time;
use crate::error::ConnectError;
use crate::keeper::machine::ANSWER_TIMEOUT;
use crate::protocol::Refusal;
use crate::server::{Facts, Node, Previous, Slot};

/// The purpose of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Role {
    /// Requests and messages.
    Main(Peer),
    /// Questions to the replicas.
    Replicas(Peer),
}

/// What the keeper knows of a server.
#[derive(Debug, Clone, Default)]
pub(super) struct Link {
    state: LinkState,
    /// Attempts that failed since the last answer.
    pub(super) attempts: u32,
    /// The last connection: its requests must not be executed after anything is asked again.
    pub(super) previous: Option<Previous>,
    connected_before: bool,
}

#[derive(Debug, Clone, Default)]
#[allow(clippy::large_enum_variant)] // The large one is the usual one.
enum LinkState {
    #[default]
    Idle,
    Pausing,
    /// The sentinels are asked where it is.
    Finding,
    Connecting(ConnectionId, Option<Node>),
    Up(Up),
}

/// A connection that is set up.
#[derive(Debug, Clone)]
pub(super) struct Up {
    pub(super) connection: ConnectionId,
    /// None: the one server of the URL.
    pub(super) node: Option<Node>,
    pub(super) facts: Facts,
    pub(super) subscribed: BTreeSet<Arc<str>>,
    /// The subscriptions that were requested and not confirmed.
    pub(super) subscribing: BTreeSet<Arc<str>>,
    pub(super) asking: Asking,
}

impl Link {
    pub(super) fn up(&self) -> Option<&Up> {
        if let LinkState::Up(up) = &self.state { Some(up) } else { None }
    }

    pub(super) fn up_mut(&mut self) -> Option<&mut Up> {
        if let LinkState::Up(up) = &mut self.state { Some(up) } else { None }
    }
}

impl Routes {
    /// Connects, unless that is done or under way. `patience`: how soon an answer is needed.
    pub(super) fn connect(&mut self, now: Time, peer: &Peer, patience: Duration) {
        let link = self.links.entry(peer.clone()).or_default();
        match link.state {
            LinkState::Idle => {}
            LinkState::Pausing => return self.hurry(now, peer, patience),
            _ => return,
        }
        let attempts = link.attempts;
        let pause = self.back_off(attempts, self.patience_at(peer).min(patience));
        if let Some(link) = self.links.get_mut(peer) {
            link.attempts = attempts.saturating_add(1);
            link.state = LinkState::Pausing;
        }
        if pause.is_zero() {
            return self.attempt(now, peer);
        }
        self.timers.set(Timer::Pause(peer.clone()), now + pause);
    }

    /// Shortens the pause before the next attempt for a lock that needs answers this quickly.
    pub(super) fn hurry(&mut self, now: Time, peer: &Peer, patience: Duration) {
        self.timers.set_earlier(Timer::Pause(peer.clone()), now + patience / 4);
    }

    /// How long the most impatient of the locks at this server can wait.
    fn patience_at(&self, peer: &Peer) -> Duration {
        let there = self.routes.iter().filter(|(_, route)| route.peer.as_ref() == Some(peer));
        there.map(|(slot, _)| self.patience_of(*slot)).min().unwrap_or(ANSWER_TIMEOUT)
    }

    /// The pause is over.
    pub(super) fn attempt(&mut self, now: Time, peer: &Peer) {
        let Some(link) = self.links.get_mut(peer) else { return };
        if let Shape::Sentinels(_) = self.shape {
            link.state = LinkState::Finding;
            self.search(now);
        } else {
            self.dial(now, peer, peer.node().cloned());
        }
    }

    /// Connects to this node, or to the one server of the URL.
    pub(super) fn dial(&mut self, now: Time, peer: &Peer, node: Option<Node>) {
        let connection = self.new_connection();
        let needed = self.patience_at(peer);
        let channel = (!self.is_cluster()).then(|| self.channel());
        let Some(link) = self.links.get_mut(peer) else { return };
        // The whole first attempt has one deadline.
        let by = self.first.as_ref().map(|first| first.by);
        let by = by.unwrap_or_else(|| now + patience_after(link.attempts.saturating_sub(1), needed));
        link.state = LinkState::Connecting(connection, node.clone());
        let previous = link.previous.clone();
        self.connections.insert(connection, Role::Main(peer.clone()));
        self.timers.set(Timer::Connect(peer.clone()), by);
        self.effects.push(Effect::Connect { connection, node, channel, previous, by });
    }

    /// Connecting has taken too long.
    pub(super) fn silent(&mut self, now: Time, peer: &Peer) {
        let Some(LinkState::Connecting(connection, node)) = self.links.get(peer).map(|link| &link.state) else {
            return;
        };
        let connection = *connection;
        let address = match (node, &self.shape) {
            (Some(node), _) => node.to_string(),
            (None, Shape::Server(address)) => address.clone(),
            (None, _) => String::new(),
        };
        self.drop_line(connection);
        self.not_connected(now, peer, ConnectError::silent(address), false);
    }

    pub(super) fn drop_line(&mut self, connection: ConnectionId) {
        self.connections.remove(&connection);
        self.effects.push(Effect::Drop { connection });
    }

    pub(super) fn ready(&mut self, now: Time, connection: ConnectionId, facts: Facts) {
        let peer = match self.connections.get(&connection) {
            Some(Role::Main(peer)) => peer.clone(),
            Some(Role::Replicas(peer)) => {
                let peer = peer.clone();
                return self.replicas_connected(now, &peer, connection, facts.run);
            }
            None => return self.effects.push(Effect::Drop { connection }),
        };
        // In a cluster the nodes report which of them are masters.
        let no_master = match self.shape {
            Shape::Sentinels(_) if facts.is_replica => {
                Some("sentinels name it as the master, and it says that it is a replica")
            }
            Shape::Server(_) if facts.read_only => Some("it is a read-only replica"),
            _ => None,
        };
        if let Some(cause) = no_master {
            self.drop_line(connection);
            let error = ConnectError::NotReady { address: facts.address, cause: cause.into() };
            return self.not_connected(now, &peer, error, false);
        }
        let subscribed = if self.is_cluster() { BTreeSet::new() } else { BTreeSet::from([self.channel()]) };
        let Some(link) = self.links.get_mut(&peer) else { return };
        let LinkState::Connecting(_, node) = std::mem::take(&mut link.state) else { return };
        self.timers.clear(&Timer::Connect(peer.clone()));
        let again = std::mem::replace(&mut link.connected_before, true);
        link.previous = facts.run.clone();
        let warning = facts.warning.clone();
        let (subscribing, asking) = (BTreeSet::new(), Asking::default());
        link.state = LinkState::Up(Up { connection, node, facts, subscribed, subscribing, asking });
        if again {
            self.note(LogRecord::ConnectedAgain);
        } else if let Some(warning) = warning {
            self.note(LogRecord::Warning(warning));
        }
        self.first_connected();
        self.open_all(now, &peer);
    }

    pub(super) fn failed(&mut self, now: Time, connection: ConnectionId, error: ConnectError) {
        match self.connections.remove(&connection) {
            Some(Role::Main(peer)) => {
                let lasting = !error.is_transient();
                self.not_connected(now, &peer, error, lasting);
            }
            Some(Role::Replicas(peer)) => {
                self.replicas_failed(now, &peer, &Refusal::Temporary(error.to_string().into()));
            }
            None => self.node_failed(now, connection, error),
        }
    }

    /// `lasting`: waiting will not help.
    pub(super) fn not_connected(&mut self, now: Time, peer: &Peer, error: ConnectError, lasting: bool) {
        self.timers.clear(&Timer::Connect(peer.clone()));
        if let Some(link) = self.links.get_mut(peer) {
            link.state = LinkState::Idle;
        }
        if self.first.is_some() {
            return self.first_failed(now, peer, error);
        }
        let there = self.slots_at(peer);
        if self.close_all(peer, &error.to_string().into()) || !self.is_cluster() {
            self.connect(now, peer, ANSWER_TIMEOUT);
        }
        // Another program may have the node's address now: its error says nothing about the cluster.
        if lasting && (*peer == Peer::Only || !error.is_of_a_stranger()) {
            self.tell_unusable(there, &error);
        }
        if self.is_cluster() {
            self.search(now);
        }
    }

    pub(super) fn ended(&mut self, now: Time, connection: ConnectionId, cause: &Arc<str>) {
        match self.connections.get(&connection).cloned() {
            Some(Role::Main(peer)) => self.fail(now, &peer, cause),
            Some(Role::Replicas(peer)) => self.replicas_failed(now, &peer, &Refusal::Temporary(cause.clone())),
            None => {}
        }
    }

    /// A connection broke or is given up: all routes over it close, and a new one is made. Does nothing during a set-up,
    /// which notices by itself that its connection ends.
    pub(super) fn fail(&mut self, now: Time, peer: &Peer, cause: &Arc<str>) {
        let Some(link) = self.links.get_mut(peer) else { return };
        let up = match std::mem::take(&mut link.state) {
            LinkState::Up(up) => up,
            other => return link.state = other,
        };
        self.note(LogRecord::ConnectionLost { cause: cause.clone() });
        self.drop_line(up.connection);
        self.end_questions(peer, &up.asking);
        self.close_all(peer, cause);
        self.connect(now, peer, ANSWER_TIMEOUT);
        if self.is_cluster() {
            self.search(now);
        }
        self.nothing_more_over(now, up.connection);
    }

    /// Requests over a connection that ended are not answered any more.
    fn nothing_more_over(&mut self, now: Time, connection: ConnectionId) {
        let sent_on: Vec<_> = self.routes.iter_mut().map(|(slot, route)| (*slot, route.give_up(connection))).collect();
        for (slot, requests) in sent_on {
            if self.routes.get(&slot).is_some_and(|route| route.connection.is_some()) {
                for request in requests {
                    self.refuse(slot, request, "the node that its slot goes to was lost".into());
                }
            } else if self.timers.contains(&Timer::Drain(slot)) {
                self.open(now, slot);
            }
        }
    }

    /// The closed routes to this server, for the patience of a search.
    pub(super) fn patience_of_closed(&self) -> Duration {
        self.closed().map(|(slot, _)| self.patience_of(slot)).min().unwrap_or(ANSWER_TIMEOUT)
    }

    pub(super) fn is_connecting(&self) -> bool {
        self.links.values().any(|link| !matches!(link.state, LinkState::Idle | LinkState::Up(_)))
    }

    pub(super) fn closed_slots(&self) -> Vec<Slot> {
        self.closed().map(|(slot, _)| slot).collect()
    }
}
