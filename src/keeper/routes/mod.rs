//! Which server serves each lock, and over which connection the keeper reaches it: decisions without I/O.
//!
//! The locks of a hash slot share a *route* to the server that serves them. Without a cluster all locks are in one
//! slot, and its route leads to the one server, or to the master that the sentinels name. Every machine (see
//! [`super::machine`]) has one route, and hears only of its opening, of answers and pushes, and of its closing.
//!
//! ```text
//!   closed ──▶ server known? ──▶ connected? ──▶ old server has answered? ──▶ channel subscribed? ──▶ open
//!                 search.rs        peers.rs                slots.rs             subscriptions.rs
//! ```
//!
//! A closed route goes through these steps again by itself, for ever. Each attempt to connect has a number, a
//! [`ConnectionId`], which the connection that results from it keeps. Reports of a connection that [`Routes`] has given
//! up find no entry and change nothing.
//!
//! When a connection ends, all routes over it close. The keeper connects again with backoff; it asks the sentinels each
//! time, and the nodes of a cluster which slots they serve. If a node names another one for a slot (MOVED, or an
//! unsolicited unsubscription), only the route of that slot closes. The keeper follows at once; if the next node names
//! another one too, it asks all nodes first. A route opens at its new server only when the old one has answered every
//! request of the slot, or its connection is given up: a request that waits in a socket must not be executed after the
//! slot has come back.
//!
//! A server may also say that it is not the one, without a word about who is: `doubt.rs`. `first.rs` has the first attempt
//! to connect, whose outcome a caller awaits; `replicas.rs` the questions to replicas, which go over a second connection.

mod api;
mod doubt;
mod first;
mod peers;
mod replicas;
mod search;
mod slots;
mod subscriptions;
#[cfg(test)]
#[allow(clippy::expect_used, clippy::unwrap_used)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use self::api::untag;
pub(crate) use self::api::{ConnectionId, Discovered, Effect, Event, LogRecord, ReplicaQuestion, Shape, tag};
use self::first::First;
use self::peers::{Link, Role};
use self::search::Search;
use self::slots::Route;
use super::machine;
use super::timers::Timers;
use crate::clock::Time;
use crate::protocol::{ClientId, Refusal};
use crate::server::{Node, Slot, SlotMap, WireEvent, slot_of};

/// The minimum time for connecting: a lost packet must not outlast a short lease, nor a slow network fail.
const LEAST_PATIENCE: Duration = Duration::from_secs(1);

/// After so many attempts the pauses between them are as long as they get.
const LONG_PAUSE: u32 = 7;

/// A server: the only one, or a node of a cluster.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Peer {
    Only,
    Node(Node),
}

impl Peer {
    fn node(&self) -> Option<&Node> {
        match self {
            Self::Only => None,
            Self::Node(node) => Some(node),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Timer {
    /// The pause before the next attempt to connect is over.
    Pause(Peer),
    /// Connecting has taken too long.
    Connect(Peer),
    /// The server has not confirmed the subscription of this slot.
    Confirm(Slot),
    /// A subscription that was refused is to be asked for again.
    Subscribe(Slot),
    /// The old server of this slot has not answered every request.
    Drain(Slot),
    /// The pause before the next search is over.
    Search,
    /// The nodes that were asked are silent: ask others too.
    AskMore,
    /// This node has not answered in time.
    Asked(ConnectionId),
    /// The first attempt to connect tries another node.
    NextTry,
    /// The question to the replicas of this server has timed out.
    Replicas(Peer),
}

#[derive(Debug, Clone)]
pub(crate) struct Routes {
    shape: Shape,
    client: ClientId,
    prefix: Arc<str>,
    random: fastrand::Rng,
    routes: BTreeMap<Slot, Route>,
    /// How soon the locks of each slot need an answer.
    patience: BTreeMap<Slot, Duration>,
    /// The slots of each channel. There may be thousands, and a message about one does not concern the others.
    slots: BTreeMap<Arc<str>, Slot>,
    links: BTreeMap<Peer, Link>,
    /// The connections in use, and what they are for.
    connections: BTreeMap<ConnectionId, Role>,
    last_connection: u64,
    map: SlotMap,
    search: Option<Search>,
    /// Searches since all routes were open and answered: an answer of one node says nothing about another.
    searches: u32,
    /// When something was last done about a doubt.
    doubted: Option<Time>,
    first: Option<First>,
    timers: Timers<Timer>,
    effects: Vec<Effect>,
}

impl Routes {
    /// `first`: a caller awaits the outcome of the first attempt to connect, which starts at once.
    pub(crate) fn new(now: Time, shape: Shape, client: ClientId, prefix: Arc<str>, seed: u64, first: bool) -> Self {
        let mut routes = Self {
            shape,
            client,
            prefix,
            random: fastrand::Rng::with_seed(seed),
            routes: BTreeMap::new(),
            patience: BTreeMap::new(),
            slots: BTreeMap::new(),
            links: BTreeMap::new(),
            connections: BTreeMap::new(),
            last_connection: 0,
            map: SlotMap::default(),
            search: None,
            searches: 0,
            doubted: None,
            first: None,
            timers: Timers::new(),
            effects: Vec::new(),
        };
        if first {
            routes.begin(now);
        }
        routes
    }

    fn is_cluster(&self) -> bool {
        matches!(self.shape, Shape::Cluster(_))
    }

    /// The slot of a lock. Without a cluster all locks are in one.
    pub(crate) fn slot(&self, name: &str) -> Slot {
        if self.is_cluster() { slot_of(name) } else { 0 }
    }

    /// When to send the next [`Event::Tick`] if nothing else happens.
    pub(crate) fn next_due(&self) -> Option<Time> {
        self.timers.next()
    }

    /// Gives up all servers: nothing is asked any more.
    pub(crate) fn hang_up(&mut self) {
        (self.routes, self.links, self.search) = (BTreeMap::new(), BTreeMap::new(), None);
        self.effects
            .extend(std::mem::take(&mut self.connections).into_keys().map(|connection| Effect::Drop { connection }));
    }

    /// The effects to carry out now, in order.
    pub(crate) fn effects(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.effects)
    }

    /// Takes in one event. Deadlines are judged only at a [`Event::Tick`], after everything at hand was taken in: a
    /// connection that is ready is not late because this process was stopped.
    pub(crate) fn handle(&mut self, now: Time, event: Event) {
        match event {
            Event::RequestRoute { slot, name } => self.request_route(now, slot, &name),
            Event::Patience { slot, patience } => self.set_patience(now, slot, patience),
            Event::Ask { slot, request, call } => self.send(slot, request, call),
            Event::Replicate(question) => self.replicate(now, question),
            Event::GiveUp { slot } => self.give_up(now, slot),
            Event::Ready { connection, facts } => self.ready(now, connection, facts),
            Event::Failed { connection, error } => self.failed(now, connection, error),
            Event::Discovered { connection, found } => self.found(now, connection, found),
            Event::Wire { connection, said } => self.said(now, connection, said),
            Event::Ended { connection, cause } => self.ended(now, connection, &cause),
            Event::Tick => {
                while let Some(timer) = self.timers.pop(now) {
                    self.on_timer(now, timer);
                }
            }
        }
    }

    fn said(&mut self, now: Time, connection: ConnectionId, said: WireEvent) {
        match said {
            WireEvent::Reply { tag, call, reply } => self.replied(now, connection, untag(tag), call, reply),
            WireEvent::Push(push) => self.pushed(connection, push),
            WireEvent::Subscribed(channel) => self.subscribed(now, connection, &channel),
            WireEvent::NotSubscribed { channel, reply } => self.not_subscribed(now, connection, &channel, reply),
            WireEvent::Unsubscribed(channel) => self.unsubscribed(now, connection, &channel),
            WireEvent::Replicas(result) => self.replicas_answered(now, connection, result),
        }
    }

    fn on_timer(&mut self, now: Time, timer: Timer) {
        match timer {
            Timer::Pause(peer) => self.attempt(now, &peer),
            Timer::Connect(peer) => self.silent(now, &peer),
            Timer::Confirm(slot) => self.not_confirmed(now, slot),
            Timer::Subscribe(slot) => self.open(now, slot),
            Timer::Drain(slot) => self.not_drained(now, slot),
            Timer::Search | Timer::AskMore => self.ask_more(now),
            Timer::Asked(connection) => self.asked_in_vain(now, connection),
            Timer::NextTry => drop(self.try_another(now)),
            Timer::Replicas(peer) => {
                self.replicas_failed(now, &peer, &Refusal::Temporary("the replicas did not answer in time".into()));
            }
        }
    }

    fn new_connection(&mut self) -> ConnectionId {
        self.last_connection += 1;
        ConnectionId(self.last_connection)
    }

    fn tell(&mut self, slot: Slot, event: machine::Event) {
        self.effects.push(Effect::Tell { slot, event });
    }

    fn note(&mut self, note: LogRecord) {
        self.effects.push(Effect::LogRecord(note));
    }

    /// The channel of hand-offs that are not those of a single slot.
    fn channel(&self) -> Arc<str> {
        channel_of(&self.prefix, "", &self.client)
    }

    /// At once, then after 10 ms, doubled up to 640 ms, half of it random, but never more than a quarter of the
    /// patience of the waiting locks: a pause that outlasts a session or a lease loses it, although the server was
    /// reachable meanwhile.
    fn back_off(&mut self, attempts: u32, patience: Duration) -> Duration {
        let ceiling = if attempts == 0 { 0 } else { 5_u64 << attempts.min(LONG_PAUSE) };
        Duration::from_millis(ceiling / 2 + self.random.u64(0..=ceiling / 2)).min(patience / 4)
    }
}

/// The channel of a client's hand-offs: in a cluster that of one slot, by the name of a lock of it.
fn channel_of(prefix: &str, hash_tag: &str, client: &ClientId) -> Arc<str> {
    let tag = if hash_tag.is_empty() { String::new() } else { format!("{{{hash_tag}}}:") };
    format!("{prefix}:{tag}client:{client}").into()
}

/// Longer after each failure: the network may be slow and the server alive.
fn patience_after(attempts: u32, needed: Duration) -> Duration {
    (needed.max(LEAST_PATIENCE) * (1 << attempts.min(3))).min(machine::ANSWER_TIMEOUT)
}
