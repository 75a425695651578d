//! A few servers, the connections to them, and what is asked there. Time goes on only where a step says so.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use super::alone::{at, call, denied, facts, node, refused};
use crate::clock::Time;
use crate::keeper::machine::{self, RequestId};
use crate::keeper::routes::{Effect, Event, Facts, Found, Line, Peer, Routes, Shape};
use crate::protocol::{self, ClientId, Refusal};
use crate::server::{Node, Reply, Slot, SlotMap, slot_of};

const NAMES: [&str; 3] = ["x", "y", "z"];
/// The most that one event may lead to, for each route and server.
const MOST_EFFECTS: usize = 12;
/// The most connections, questions and subscriptions in a second of a world, for each route and server.
const MOST_A_SECOND: u64 = 60;
const PATIENCE_MS: u64 = 1500;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Step {
    /// What comes next on this connection, or the outcome of an attempt, arrives.
    Deliver(u8),
    /// The server takes the next request of this connection.
    Execute(u8),
    /// A machine asks something.
    Ask(u8),
    /// A slot goes to another server at once.
    Move(u8, u8),
    /// A slot begins to move: what is asked for it is sent on.
    Migrate(u8, u8),
    Break(u8),
    Down(u8),
    Hang(u8),
    Up(u8),
    /// The server refuses the channels, or the user.
    Refuse(u8, u8),
    GiveUp(u8),
    Patience(u8, u8),
    /// Time goes on to what is due next.
    Due,
    Pass(u8),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Health {
    Up,
    Hangs,
    Down,
}

#[derive(Clone, Debug)]
struct Server {
    health: Health,
    denies_channels: bool,
    denies_user: bool,
}

#[derive(Clone, Debug)]
enum Asked {
    Request { slot: Slot, request: RequestId, asking: bool, number: u64 },
    Subscribe(Arc<str>),
}

#[derive(Clone, Debug)]
enum Said {
    Reply { slot: Slot, request: RequestId, reply: Reply },
    Subscribed(Arc<str>),
    NotSubscribed(Arc<str>, Reply),
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
    next: u64,
    awaited: BTreeSet<RequestId>,
    /// The latest request that was executed, and over which line.
    executed: (u64, u64),
}

#[derive(Clone, Debug)]
pub(super) struct World {
    pub(super) routes: Routes,
    pub(super) now: u64,
    cluster: bool,
    servers: Vec<Server>,
    owner: BTreeMap<Slot, usize>,
    going: BTreeMap<Slot, usize>,
    /// Which server has sent each slot away, and was not named for it since.
    sent_away: BTreeSet<(Slot, usize)>,
    lines: BTreeMap<Line, Connection>,
    attempts: BTreeMap<Line, Attempt>,
    machines: BTreeMap<Slot, Machine>,
    numbers: u64,
    /// Connections, questions and subscriptions so far.
    efforts: u64,
    pub(super) broken: Option<String>,
    pub(super) trace: bool,
}

fn channel_of(slot: Slot) -> Arc<str> {
    let name = NAMES.iter().find(|name| slot_of(name) == slot).expect("one of the three");
    super::alone::channel(name)
}

impl World {
    pub(super) fn new(cluster: bool, servers: usize, slots: usize) -> Self {
        let nodes: Vec<Node> = (0..servers as u16).map(node).collect();
        let shape = if cluster { Shape::Cluster(nodes) } else { Shape::Sentinels(nodes) };
        let routes = Routes::new(at(0), shape, ClientId::new("client").expect("letters"), "fairlock".into(), 1, false);
        let server = Server { health: Health::Up, denies_channels: false, denies_user: false };
        let mut world = Self {
            now: 0,
            cluster,
            servers: vec![server; servers],
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
        for (index, name) in NAMES.iter().enumerate().take(if cluster { slots } else { 1 }) {
            let slot = world.routes.slot(name);
            world.owner.insert(slot, index % servers);
            world.machines.insert(slot, Machine::default());
            world.feed(Event::Patience { slot, patience: ms(PATIENCE_MS) });
            world.feed(Event::Want { slot, name: (*name).into() });
        }
        world
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
            Effect::Connect { line, node, .. } => {
                self.efforts += 1;
                let server = usize::from(node.expect("servers have addresses").port);
                if self.lines.values().any(|connection| connection.server == server && self.cluster) {
                    self.fail(format!("a second connection to {server}"));
                }
                self.attempts.insert(line, Attempt::Connect(server));
            }
            Effect::Ask { line, node, .. } => {
                self.efforts += 1;
                self.attempts.insert(line, Attempt::Question(usize::from(node.port)));
            }
            Effect::Send { line, slot, request, asking, .. } => {
                self.numbers += 1;
                let number = self.numbers;
                let Some(connection) = self.lines.get_mut(&line) else {
                    return self.fail(format!("{request:?} is sent over {line:?}, which is gone"));
                };
                connection.out.push_back(Asked::Request { slot, request, asking, number });
                let server = connection.server;
                if !asking && self.sent_away.contains(&(slot, server)) {
                    self.fail(format!("{request:?} of {slot} is sent to {server}, which has sent it away"));
                }
            }
            Effect::Subscribe { line, channel, .. } => {
                self.efforts += 1;
                match self.lines.get_mut(&line) {
                    Some(connection) => connection.out.push_back(Asked::Subscribe(channel)),
                    None => self.fail(format!("{channel} is subscribed over {line:?}, which is gone")),
                }
            }
            Effect::Drop { line } => {
                self.lines.remove(&line);
                self.attempts.remove(&line);
            }
            Effect::Tell { slot, event } => self.hear(slot, event),
            Effect::Beside { .. }
            | Effect::Offer { .. }
            | Effect::Replicas { .. }
            | Effect::First(_)
            | Effect::Note(_) => {}
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
            _ => None,
        };
        wrong.into_iter().for_each(|wrong| self.fail(wrong));
    }

    // ---- what happens ----

    pub(super) fn step(&mut self, step: Step) {
        if self.broken.is_some() {
            return;
        }
        let servers = self.servers.len();
        let server = |which: u8| usize::from(which) % servers;
        match step {
            Step::Deliver(which) => self.deliver(which),
            Step::Execute(which) => self.execute(which),
            Step::Ask(which) => self.ask(which),
            Step::Move(which, to) => self.moves(self.nth_slot(which), server(to)),
            Step::Migrate(which, to) => {
                let slot = self.nth_slot(which);
                match server(to) == self.owner[&slot] {
                    true => drop(self.going.remove(&slot)),
                    false => drop(self.going.insert(slot, server(to))),
                }
            }
            Step::Break(which) => {
                let breaks = nth_mut(&mut self.lines, which);
                breaks.into_iter().for_each(|(_, connection)| connection.broken = true);
            }
            Step::Down(which) => {
                self.servers[server(which)].health = Health::Down;
                let of_it = |connection: &&mut Connection| connection.server == server(which);
                self.lines.values_mut().filter(of_it).for_each(|connection| connection.broken = true);
            }
            Step::Hang(which) => self.servers[server(which)].health = Health::Hangs,
            Step::Up(which) => {
                self.servers[server(which)] = Server { health: Health::Up, denies_channels: false, denies_user: false };
            }
            Step::Refuse(which, 0) => self.servers[server(which)].denies_channels = true,
            Step::Refuse(which, _) => self.servers[server(which)].denies_user = true,
            Step::GiveUp(which) => {
                let slot = self.nth_slot(which);
                if let Some(machine) = self.machines.get_mut(&slot).filter(|machine| machine.open) {
                    (machine.open, machine.awaited) = (false, BTreeSet::new());
                    self.feed(Event::GiveUp { slot });
                }
            }
            Step::Patience(which, tenths) => {
                let patience = ms(100 * (u64::from(tenths) % 50 + 1));
                self.feed(Event::Patience { slot: self.nth_slot(which), patience });
            }
            Step::Due => self.pass(u64::MAX / 2),
            Step::Pass(span) => self.pass(u64::from(span) * 4),
        }
    }

    fn nth_slot(&self, which: u8) -> Slot {
        *self.machines.keys().nth(usize::from(which) % self.machines.len()).expect("there is one")
    }

    /// Time goes on, to what is due first at the most.
    fn pass(&mut self, span: u64) {
        let Some(due) = self.routes.next_due().map(|due| due.0.div_ceil(1_000_000)) else {
            self.now += span.min(1000);
            return;
        };
        self.now = (self.now.saturating_add(span)).min(due.max(self.now));
        if self.now >= due {
            self.feed(Event::Tick);
            if self.routes.next_due().is_some_and(|due| due <= self.time()) {
                self.fail("what was due is due for ever".into());
            }
        }
    }

    fn moves(&mut self, slot: Slot, to: usize) {
        let from = self.owner.insert(slot, to);
        self.going.remove(&slot);
        if from == Some(to) || !self.cluster {
            return;
        }
        let channel = channel_of(slot);
        for connection in self.lines.values_mut().filter(|connection| Some(connection.server) == from) {
            connection.back.push_back(Said::Unsubscribed(channel.clone()));
        }
    }

    fn ask(&mut self, which: u8) {
        let slot = self.nth_slot(which);
        let Some(machine) = self.machines.get_mut(&slot).filter(|machine| machine.open) else { return };
        machine.next += 1;
        let request = RequestId(machine.next);
        machine.awaited.insert(request);
        self.feed(Event::Send { slot, request, call: call() });
    }

    fn execute(&mut self, which: u8) {
        let (servers, owner, going) = (&self.servers, &self.owner, &self.going);
        let ready = |connection: &Connection| {
            !connection.out.is_empty() && !connection.broken && servers[connection.server].health == Health::Up
        };
        let many = self.lines.values().filter(|connection| ready(connection)).count().max(1);
        let nth = self.lines.iter_mut().filter(|(_, connection)| ready(connection)).nth(usize::from(which) % many);
        let Some((line, connection)) = nth else { return };
        let here = connection.server;
        let elsewhere = |to: usize, asking| Reply::Elsewhere { node: node(to as u16), asking };
        let said = match connection.out.pop_front() {
            None => return,
            Some(Asked::Subscribe(channel)) => {
                let slot = owner.keys().find(|slot| self.cluster && channel_of(**slot) == channel);
                if servers[here].denies_channels {
                    Said::NotSubscribed(channel, Reply::Result(Err(Refusal::Denied("NOPERM".into()))))
                } else if let Some(owner) = slot.map(|slot| owner[slot]).filter(|owner| *owner != here) {
                    Said::NotSubscribed(channel, elsewhere(owner, false))
                } else {
                    Said::Subscribed(channel)
                }
            }
            Some(Asked::Request { slot, request, asking, number }) => {
                let (owner, going) = (owner[&slot], going.get(&slot).copied());
                let reply = match going {
                    _ if !self.cluster && owner != here => Reply::Replica("READONLY".into()),
                    Some(to) if owner == here && number % 2 == 0 => elsewhere(to, true),
                    Some(to) if to == here && asking => Reply::Result(Ok(protocol::Reply::sample())),
                    _ if owner == here => Reply::Result(Ok(protocol::Reply::sample())),
                    _ => elsewhere(owner, false),
                };
                if matches!(reply, Reply::Result(_))
                    && let Some(machine) = self.machines.get_mut(&slot)
                {
                    // What was asked earlier, elsewhere, must not be executed after this. Requests of a line that ended are
                    // another matter: the next line to that server kills them.
                    let (latest, over) = machine.executed;
                    if number < latest && over != line.0 && !asking {
                        self.broken.get_or_insert(format!("{number} of {slot} is executed after {latest}"));
                    }
                    machine.executed = machine.executed.max((number, line.0));
                }
                Said::Reply { slot, request, reply }
            }
        };
        connection.back.push_back(said);
    }

    /// The outcome of an attempt, or what a server has said next, arrives.
    fn deliver(&mut self, which: u8) {
        let arrives = |connection: &Connection| connection.broken || !connection.back.is_empty();
        let ready: Vec<Line> =
            self.lines.iter().filter(|(_, connection)| arrives(connection)).map(|(line, _)| *line).collect();
        let servers = &self.servers;
        let done = |attempt: &Attempt| {
            let (Attempt::Connect(server) | Attempt::Question(server)) = attempt;
            servers[*server].health != Health::Hangs
        };
        let attempts = self.attempts.iter().filter(|(_, attempt)| done(attempt)).map(|(line, _)| *line);
        let all: Vec<Line> = ready.into_iter().chain(attempts).collect();
        let Some(line) = all.get(usize::from(which) % all.len().max(1)).copied() else { return };
        if let Some(attempt) = self.attempts.remove(&line) {
            return self.attempted(line, &attempt);
        }
        let Some(connection) = self.lines.get_mut(&line) else { return };
        let server = connection.server;
        let Some(said) = connection.back.pop_front() else {
            return self.feed(Event::Ended { line, cause: "broken".into() });
        };
        let event = match said {
            Said::Reply { slot, request, reply } => {
                // An answer to a request that is not awaited any more tells nothing about the slot.
                if self.machines[&slot].awaited.contains(&request) {
                    self.learn(slot, server, &reply);
                }
                Event::Replied { line, slot, request, call: call(), reply }
            }
            Said::Subscribed(channel) => Event::Subscribed { line, channel },
            Said::NotSubscribed(channel, reply) => {
                let slot = self.owner.keys().copied().find(|slot| channel_of(*slot) == channel);
                // Neither does a refusal of a subscription that the route has left behind.
                let peer = Peer::Node(node(server as u16));
                let here = |slot: &Slot| self.routes.routes[slot].peer.as_ref() == Some(&peer);
                slot.filter(here).into_iter().for_each(|slot| self.learn(slot, server, &reply));
                Event::NotSubscribed { line, channel, reply }
            }
            Said::Unsubscribed(channel) => Event::Unsubscribed { line, channel },
        };
        self.feed(event);
    }

    /// A server has said who serves this slot.
    fn learn(&mut self, slot: Slot, from: usize, reply: &Reply) {
        if let Reply::Elsewhere { node, asking: false } = reply {
            self.sent_away.insert((slot, from));
            self.sent_away.remove(&(slot, usize::from(node.port)));
        }
    }

    fn attempted(&mut self, line: Line, attempt: &Attempt) {
        let (Attempt::Connect(server) | Attempt::Question(server)) = *attempt;
        let error = match &self.servers[server] {
            Server { health: Health::Down, .. } => Some(refused()),
            Server { denies_user: true, .. } => Some(denied()),
            _ => None,
        };
        let event = match (error, attempt) {
            (Some(error), _) => Event::Failed { line, error },
            (None, Attempt::Question(_)) if !self.cluster => {
                let master = self.owner.values().next().copied().unwrap_or_default();
                Event::Found { line, found: Found::Master(node(master as u16)) }
            }
            (None, Attempt::Question(_)) => {
                let range = |(slot, owner): (&Slot, &usize)| (*slot, *slot, node(*owner as u16));
                let map = SlotMap::of(self.owner.iter().map(range).collect());
                self.sent_away.retain(|(slot, server)| self.owner[slot] != *server);
                Event::Found { line, found: Found::Slots(map) }
            }
            (None, Attempt::Connect(_)) => {
                let replica = !self.cluster && self.owner.values().next() != Some(&server);
                let (out, back) = (VecDeque::new(), VecDeque::new());
                self.lines.insert(line, Connection { server, out, back, broken: false });
                let facts = Facts { is_replica: replica, ..facts(&format!("run {server}")) };
                Event::Ready { line, facts }
            }
        };
        self.feed(event);
    }

    // ---- the end ----

    /// The faults stop. Within so many seconds every route is open, leads to the owner of its slot, and requests are answered.
    pub(super) fn all_is_served(&mut self) {
        self.going.clear();
        (0..self.servers.len() as u8).for_each(|server| self.step(Step::Up(server)));
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
        (0..self.machines.len() as u8).for_each(|which| self.step(Step::Ask(which)));
        self.flow();
        self.machines.values().all(|machine| machine.open && machine.awaited.is_empty())
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

fn nth_mut<K: Ord, V>(map: &mut BTreeMap<K, V>, which: u8) -> Option<(&K, &mut V)> {
    let many = map.len().max(1);
    map.iter_mut().nth(usize::from(which) % many)
}
