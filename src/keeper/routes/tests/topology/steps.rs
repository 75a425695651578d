//! What can happen in a topology, one step at a time.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use super::super::alone::{call, denied, facts, node, refused};
use super::{Asked, Attempt, Condition, Connection, Health, Kind, NAMES, Said, Topology, ms};
use crate::keeper::machine::RequestId;
use crate::keeper::routes::{ConnectionId, Discovered, Event, Peer, tag};
use crate::protocol::{self, Refusal};
use crate::server;
use crate::server::{CallOutcome, Facts, Slot, SlotMap, slot_of};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in super::super) enum Step {
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
    /// The server refuses the channels or the user, or is cut off from its cluster.
    Refuse(u8, u8),
    GiveUp(u8),
    Patience(u8, u8),
    /// Time goes on to what is due next.
    Due,
    Pass(u8),
}

impl Topology {
    pub(in super::super) fn step(&mut self, step: Step) {
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
                self.servers[server(which)] = Condition::WELL;
            }
            Step::Refuse(which, 0) => self.servers[server(which)].denies_channels = true,
            Step::Refuse(which, 1) => self.servers[server(which)].denies_user = true,
            Step::Refuse(which, _) => self.servers[server(which)].cut_off = true,
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
    pub(super) fn pass(&mut self, span: u64) {
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
        let hears = from.is_some_and(|from| from != to && !self.servers[from].cut_off);
        if !hears || self.kind != Kind::Cluster {
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
        self.feed(Event::Ask { slot, request, call: call() });
    }

    fn execute(&mut self, which: u8) {
        let (servers, owner, going) = (&self.servers, &self.owner, &self.going);
        let (in_cluster, master) = (self.kind == Kind::Cluster, self.master());
        let ready = |connection: &Connection| {
            !connection.out.is_empty() && !connection.broken && servers[connection.server].health == Health::Up
        };
        let many = self.lines.values().filter(|connection| ready(connection)).count().max(1);
        let nth = self.lines.iter_mut().filter(|(_, connection)| ready(connection)).nth(usize::from(which) % many);
        let Some((id, connection)) = nth else { return };
        let here = connection.server;
        let elsewhere = |to: usize, asking| CallOutcome::Elsewhere { node: node(to as u16), asking };
        let said = match connection.out.pop_front() {
            None => return,
            Some(Asked::Subscribe(channel)) => {
                let slot = owner.keys().find(|slot| in_cluster && channel_of(**slot) == channel);
                if servers[here].cut_off && in_cluster {
                    Said::NotSubscribed(channel, CallOutcome::NotServing("CLUSTERDOWN".into()))
                } else if servers[here].denies_channels {
                    Said::NotSubscribed(channel, CallOutcome::Result(Err(Refusal::Denied("NOPERM".into()))))
                } else if let Some(owner) = slot.map(|slot| owner[slot]).filter(|owner| *owner != here) {
                    Said::NotSubscribed(channel, elsewhere(owner, false))
                } else {
                    Said::Subscribed(channel)
                }
            }
            Some(Asked::Request { slot, request, asking, number }) => {
                let (owner, going) = (owner[&slot], going.get(&slot).copied());
                let reply = match going {
                    _ if !in_cluster && master != here => CallOutcome::NotServing("READONLY".into()),
                    _ if in_cluster && servers[here].cut_off => CallOutcome::NotServing("CLUSTERDOWN".into()),
                    Some(to) if owner == here && number % 2 == 0 => elsewhere(to, true),
                    Some(to) if to == here && asking => CallOutcome::Result(Ok(protocol::Reply::sample())),
                    _ if owner == here => CallOutcome::Result(Ok(protocol::Reply::sample())),
                    _ => elsewhere(owner, false),
                };
                if matches!(reply, CallOutcome::Result(_))
                    && let Some(machine) = self.machines.get_mut(&slot)
                {
                    // What was asked earlier, elsewhere, must not be executed after this. Requests of a line that ended are
                    // another matter: the next line to that server kills them.
                    let (latest, over) = machine.executed;
                    if number < latest && over != id.0 && !asking {
                        self.broken.get_or_insert(format!("{number} of {slot} is executed after {latest}"));
                    }
                    machine.executed = machine.executed.max((number, id.0));
                }
                Said::Reply { slot, request, reply }
            }
        };
        connection.back.push_back(said);
    }

    /// The outcome of an attempt, or what a server has said next, arrives.
    fn deliver(&mut self, which: u8) {
        let arrives = |connection: &Connection| connection.broken || !connection.back.is_empty();
        let ready: Vec<ConnectionId> =
            self.lines.iter().filter(|(_, connection)| arrives(connection)).map(|(id, _)| *id).collect();
        let servers = &self.servers;
        let done = |attempt: &Attempt| {
            let (Attempt::Connect(server) | Attempt::Question(server)) = attempt;
            servers[*server].health != Health::Hangs
        };
        let attempts = self.attempts.iter().filter(|(_, attempt)| done(attempt)).map(|(id, _)| *id);
        let all: Vec<ConnectionId> = ready.into_iter().chain(attempts).collect();
        let Some(id) = all.get(usize::from(which) % all.len().max(1)).copied() else { return };
        if let Some(attempt) = self.attempts.remove(&id) {
            return self.attempted(id, &attempt);
        }
        let Some(connection) = self.lines.get_mut(&id) else { return };
        let server = connection.server;
        let Some(said) = connection.back.pop_front() else {
            return self.feed(Event::Ended { connection: id, cause: "broken".into() });
        };
        let said = match said {
            Said::Reply { slot, request, reply } => {
                // An answer to a request that is not awaited any more tells nothing about the slot.
                if self.machines[&slot].awaited.contains(&request) {
                    self.learn(slot, server, &reply);
                }
                server::WireEvent::Reply { tag: tag(slot, request), call: call(), reply }
            }
            Said::Subscribed(channel) => server::WireEvent::Subscribed(channel),
            Said::NotSubscribed(channel, reply) => {
                let slot = self.owner.keys().copied().find(|slot| channel_of(*slot) == channel);
                // Neither does a refusal of a subscription that the route has left behind.
                let peer = Peer::Node(node(server as u16));
                let here = |slot: &Slot| self.routes.routes[slot].peer.as_ref() == Some(&peer);
                slot.filter(here).into_iter().for_each(|slot| self.learn(slot, server, &reply));
                server::WireEvent::NotSubscribed { channel, reply }
            }
            Said::Unsubscribed(channel) => server::WireEvent::Unsubscribed(channel),
        };
        self.feed(Event::Wire { connection: id, said });
    }

    /// A server has said who serves this slot.
    fn learn(&mut self, slot: Slot, from: usize, reply: &CallOutcome) {
        if let CallOutcome::Elsewhere { node, asking: false } = reply {
            self.sent_away.insert((slot, from));
            self.sent_away.remove(&(slot, usize::from(node.port)));
        }
    }

    fn attempted(&mut self, id: ConnectionId, attempt: &Attempt) {
        let (Attempt::Connect(server) | Attempt::Question(server)) = *attempt;
        let error = match &self.servers[server] {
            Condition { health: Health::Down, .. } => Some(refused()),
            Condition { denies_user: true, .. } => Some(denied()),
            _ => None,
        };
        let event = match (error, attempt) {
            (Some(error), _) => Event::Failed { connection: id, error },
            (None, Attempt::Question(_)) if self.kind == Kind::Sentinels => {
                Event::Discovered { connection: id, found: Discovered::Master(node(self.master() as u16)) }
            }
            (None, Attempt::Question(_)) => {
                let range = |(slot, owner): (&Slot, &usize)| (*slot, *slot, node(*owner as u16));
                let map = SlotMap::of(self.owner.iter().map(range).collect());
                self.sent_away.retain(|(slot, server)| self.owner[slot] != *server);
                Event::Discovered { connection: id, found: Discovered::Slots(map) }
            }
            (None, Attempt::Connect(_)) => {
                let replica = self.kind != Kind::Cluster && self.master() != server;
                let (out, back) = (VecDeque::new(), VecDeque::new());
                self.lines.insert(id, Connection { server, out, back, broken: false });
                let facts = Facts { is_replica: replica, read_only: replica, ..facts(&format!("run {server}")) };
                Event::Ready { connection: id, facts }
            }
        };
        self.feed(event);
    }
}

fn channel_of(slot: Slot) -> Arc<str> {
    let name = NAMES.iter().find(|name| slot_of(name) == slot).expect("one of the three");
    super::super::alone::channel(name)
}

fn nth_mut<K: Ord, V>(map: &mut BTreeMap<K, V>, which: u8) -> Option<(&K, &mut V)> {
    let many = map.len().max(1);
    map.iter_mut().nth(usize::from(which) % many)
}
