//! A few servers, the connections to them, and what is asked there. Time goes on only where a step says so.

mod steps;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

pub(super) use self::steps::Step;
use super::alone::{at, node};
use crate::clock::Time;
use crate::keeper::machine::{self, RequestId};
use crate::keeper::routes::{ConnectionId, Effect, Event, Routes, Shape};
use crate::protocol::ClientId;
use crate::server::{CallOutcome, Node, Slot};

const NAMES: [&str; 3] = ["x", "y", "z"];
/// The most that one event may lead to, for each route and server.
const MOST_EFFECTS: usize = 12;
/// The most connections, questions and subscriptions in a second of a topology, for each route and server.
const MOST_A_SECOND: u64 = 60;
const PATIENCE_MS: u64 = 1500;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Health {
    Up,
    Hangs,
    Down,
}

/// How the servers are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    /// One address leads to the master. Connections to it stay when another server becomes that.
    Address,
    Sentinels,
    Cluster,
}

#[derive(Clone, Debug)]
struct Condition {
    health: Health,
    denies_channels: bool,
    denies_user: bool,
    /// Whether it is cut off from its cluster, and hears of no slot that moves.
    cut_off: bool,
}

impl Condition {
    const WELL: Self = Self { health: Health::Up, denies_channels: false, denies_user: false, cut_off: false };
}

#[derive(Clone, Debug)]
enum Asked {
    Request { slot: Slot, request: RequestId, asking: bool, number: u64 },
    Subscribe(Arc<str>),
}

#[derive(Clone, Debug)]
enum Said {
    Reply { slot: Slot, request: RequestId, reply: CallOutcome },
    Subscribed(Arc<str>),
    NotSubscribed(Arc<str>, CallOutcome),
    Unsubscribed(Arc<str>),
}

#[derive(Clone, Debug)]
struct Connection {
    server: usize,
    out: VecDeque<Asked>,
    back: VecDeque<Said>,
    broken: bool,
}

#[derive(Clone, Debug)]
enum Attempt {
    Connect(usize),
    Question(usize),
}

#[derive(Clone, Debug, Default)]
struct Machine {
    open: bool,
    /// Whether the last request was answered, and not refused.
    served: bool,
    next: u64,
    awaited: BTreeSet<RequestId>,
    /// The latest request that was executed, and over which line.
    executed: (u64, u64),
}

#[derive(Clone, Debug)]
pub(super) struct Topology {
    pub(super) routes: Routes,
    pub(super) now: u64,
    kind: Kind,
    servers: Vec<Condition>,
    owner: BTreeMap<Slot, usize>,
    going: BTreeMap<Slot, usize>,
    /// Which server has sent each slot away, and was not named for it since.
    sent_away: BTreeSet<(Slot, usize)>,
    lines: BTreeMap<ConnectionId, Connection>,
    attempts: BTreeMap<ConnectionId, Attempt>,
    machines: BTreeMap<Slot, Machine>,
    numbers: u64,
    /// Connections, questions and subscriptions so far.
    efforts: u64,
    pub(super) broken: Option<String>,
    pub(super) trace: bool,
}

impl Topology {
    pub(super) fn new(kind: Kind, servers: usize, slots: usize) -> Self {
        let nodes: Vec<Node> = (0..servers as u16).map(node).collect();
        let shape = match kind {
            Kind::Address => Shape::Server("h".into()),
            Kind::Sentinels => Shape::Sentinels(nodes),
            Kind::Cluster => Shape::Cluster(nodes),
        };
        let routes = Routes::new(at(0), shape, ClientId::new("client").expect("letters"), "fairlock".into(), 1, false);
        let mut topology = Self {
            now: 0,
            kind,
            servers: vec![Condition::WELL; servers],
            owner: BTreeMap::new(),
            going: BTreeMap::new(),
            sent_away: BTreeSet::new(),
            lines: BTreeMap::new(),
            attempts: BTreeMap::new(),
            machines: BTreeMap::new(),
            numbers: 0,
            efforts: 0,
            broken: None,
            trace: false,
            routes,
        };
        for (index, name) in NAMES.iter().enumerate().take(if kind == Kind::Cluster { slots } else { 1 }) {
            let slot = topology.routes.slot(name);
            topology.owner.insert(slot, index % servers);
            topology.machines.insert(slot, Machine::default());
            topology.feed(Event::Patience { slot, patience: ms(PATIENCE_MS) });
            topology.feed(Event::RequestRoute { slot, name: (*name).into() });
        }
        topology
    }

    fn fail(&mut self, what: String) {
        self.broken.get_or_insert(what);
    }

    fn time(&self) -> Time {
        at(self.now)
    }

    fn feed(&mut self, event: Event) {
        if self.trace {
            eprintln!("{:>6} ms <- {event:?}", self.now);
        }
        self.routes.handle(self.time(), event);
        let effects = self.routes.effects();
        if effects.len() > MOST_EFFECTS * (self.machines.len() + self.servers.len()) {
            self.fail(format!("one event led to {} effects", effects.len()));
        }
        for effect in effects {
            if self.trace {
                eprintln!("{:>6} ms -> {effect:?}", self.now);
            }
            self.carry_out(effect);
        }
        let most = MOST_A_SECOND * (self.now / 1000 + 2) * (self.machines.len() + self.servers.len()) as u64;
        if self.efforts > most {
            self.fail(format!("{} attempts in {} ms", self.efforts, self.now));
        }
    }

    fn carry_out(&mut self, effect: Effect) {
        match effect {
            Effect::Connect { connection: id, node, .. } => {
                self.efforts += 1;
                let server = node.map_or_else(|| self.master(), |node| usize::from(node.port));
                if self.lines.values().any(|connection| connection.server == server && self.kind == Kind::Cluster) {
                    self.fail(format!("a second connection to {server}"));
                }
                self.attempts.insert(id, Attempt::Connect(server));
            }
            Effect::Discover { connection: id, node, .. } => {
                self.efforts += 1;
                self.attempts.insert(id, Attempt::Question(usize::from(node.port)));
            }
            Effect::Write { connection: id, slot, request, asking, .. } => {
                self.numbers += 1;
                let number = self.numbers;
                let Some(connection) = self.lines.get_mut(&id) else {
                    return self.fail(format!("{request:?} is sent over {id:?}, which is gone"));
                };
                connection.out.push_back(Asked::Request { slot, request, asking, number });
                let server = connection.server;
                if !asking && self.sent_away.contains(&(slot, server)) {
                    self.fail(format!("{request:?} of {slot} is sent to {server}, which has sent it away"));
                }
            }
            Effect::Subscribe { connection: id, channel, .. } => {
                self.efforts += 1;
                match self.lines.get_mut(&id) {
                    Some(connection) => connection.out.push_back(Asked::Subscribe(channel)),
                    None => self.fail(format!("{channel} is subscribed over {id:?}, which is gone")),
                }
            }
            Effect::Drop { connection: id } => {
                self.lines.remove(&id);
                self.attempts.remove(&id);
            }
            Effect::Tell { slot, event } => self.hear(slot, event),
            Effect::ConnectSecond { .. } | Effect::Replicas { .. } | Effect::First(_) | Effect::LogRecord(_) => {}
        }
    }

    /// What a machine hears, and whether it may.
    fn hear(&mut self, slot: Slot, event: machine::Event) {
        let Some(machine) = self.machines.get_mut(&slot) else { return self.fail(format!("{slot} is nobody's")) };
        let wrong = match event {
            machine::Event::Connected { .. } if machine.open => Some(format!("{slot} is connected twice")),
            machine::Event::Connected { .. } => {
                machine.open = true;
                None
            }
            machine::Event::Disconnected { .. } => {
                (machine.open, machine.awaited) = (false, BTreeSet::new());
                None
            }
            machine::Event::Answered { request, .. } if !machine.open || !machine.awaited.remove(&request) => {
                Some(format!("{request:?} of {slot} is answered, and nobody awaits that"))
            }
            machine::Event::Answered { result, .. } => {
                machine.served = result.is_ok();
                None
            }
            _ => None,
        };
        wrong.into_iter().for_each(|wrong| self.fail(wrong));
    }

    /// The server that has the locks of the first slot: without a cluster, of all.
    fn master(&self) -> usize {
        self.owner.values().next().copied().unwrap_or_default()
    }

    /// The faults stop. Within so many seconds every route is open, leads to the owner of its slot, and requests are answered.
    pub(super) fn all_is_served(&mut self) {
        self.going.clear();
        for server in 0..self.servers.len() {
            // A node that has no slot any more may be cut off for good.
            let stays = self.servers[server].cut_off && !self.owner.values().any(|owner| *owner == server);
            self.step(Step::Up(server as u8));
            self.servers[server].cut_off = stays;
        }
        // The longest pauses and patience, one after the other, for each server that a route may be led to.
        let end = self.now + 30_000;
        while self.now < end && self.broken.is_none() {
            self.flow();
            if self.is_settled() {
                return;
            }
            self.pass(50);
        }
        if self.broken.is_none() {
            let open: Vec<bool> = self.machines.values().map(|machine| machine.open).collect();
            self.fail(format!("not everything is open and answered: {open:?}"));
        }
    }

    /// All that is under way arrives.
    fn flow(&mut self) {
        for _ in 0..200 {
            if self.broken.is_some() {
                return;
            }
            let busy = |connection: &Connection| {
                connection.broken || !connection.back.is_empty() || !connection.out.is_empty()
            };
            if self.attempts.is_empty() && !self.lines.values().any(busy) {
                return;
            }
            self.step(Step::Execute(0));
            self.step(Step::Deliver(0));
        }
    }

    fn is_settled(&mut self) -> bool {
        if !self.machines.values().all(|machine| machine.open) {
            return false;
        }
        self.machines.values_mut().for_each(|machine| machine.served = false);
        (0..self.machines.len() as u8).for_each(|which| self.step(Step::Ask(which)));
        self.flow();
        self.machines.values().all(|machine| machine.open && machine.served && machine.awaited.is_empty())
    }

    /// What is still to come, for the explorer.
    pub(super) fn deliverable(&self) -> usize {
        let arrives = |connection: &&Connection| connection.broken || !connection.back.is_empty();
        self.lines.values().filter(arrives).count() + self.attempts.len()
    }

    pub(super) fn executable(&self) -> usize {
        self.lines.values().filter(|connection| !connection.out.is_empty()).count()
    }

    pub(super) fn connections(&self) -> usize {
        self.lines.len()
    }

    pub(super) fn machines(&self) -> usize {
        self.machines.len()
    }

    /// All that can make a difference to later events, with moments counted from now.
    pub(super) fn fingerprint(&self) -> String {
        let Self { routes, servers, owner, going, sent_away, lines, attempts, machines, broken, .. } = self;
        format!("{routes:?}{servers:?}{owner:?}{going:?}{sent_away:?}{lines:?}{attempts:?}{machines:?}{broken:?}")
    }
}

fn ms(ms: u64) -> std::time::Duration {
    std::time::Duration::from_millis(ms)
}
