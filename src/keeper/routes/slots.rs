//! The routes of slots: how they are opened step by step, closed by reports of servers, and used.

use std::sync::Arc;
use std::time::Duration;

use super::peers::Role;
use super::{ConnectionId, Effect, LONG_PAUSE, Peer, Routes, Timer};
use crate::clock::Time;
use crate::error::ConnectError;
use crate::keeper::machine::{ANSWER_TIMEOUT, Event as Told, RequestId};
use crate::protocol::{LockKeys, Push, Refusal, Request};
use crate::server::{CallOutcome, Node, Slot};

/// The way of one slot's locks to their server.
#[derive(Debug, Clone, Default)]
pub(super) struct Route {
    /// The channel of its hand-offs, and the hash tag in it: empty outside of a cluster.
    pub(super) channel: Arc<str>,
    hash_tag: Arc<str>,
    /// The server that it leads to, open or not.
    pub(super) peer: Option<Peer>,
    /// The connection over which it is open.
    pub(super) connection: Option<ConnectionId>,
    /// Whether the slot has moved since the last answer.
    pub(super) moved: bool,
    /// Whether it has moved twice since then: all nodes are asked before the next step.
    pub(super) lost: bool,
    /// Whether the server has said that it does not serve the slot, and named nobody instead.
    pub(super) doubted: bool,
    /// The last connection over which it was open, and how many requests are unanswered there.
    over: Option<ConnectionId>,
    awaited: u32,
    /// Requests that were redirected to the node that its slot is moving to.
    asking: Vec<(ConnectionId, RequestId)>,
    /// Consecutive refusals of its subscription.
    pub(super) refused: u32,
}

impl Route {
    /// Whether there are unanswered requests on any other connection than this.
    fn drains(&self, connection: ConnectionId) -> bool {
        self.awaited > 0 && self.over != Some(connection) || self.asking.iter().any(|(asked, _)| *asked != connection)
    }

    fn answered(&mut self, connection: ConnectionId, request: RequestId) {
        if let Some(at) = self.asking.iter().position(|asked| *asked == (connection, request)) {
            self.asking.swap_remove(at);
        } else if self.over == Some(connection) {
            self.awaited = self.awaited.saturating_sub(1);
        }
    }

    /// This connection ended, so its requests will not be answered. Returns the redirected requests over it.
    pub(super) fn give_up(&mut self, connection: ConnectionId) -> Vec<RequestId> {
        if self.over == Some(connection) {
            (self.over, self.awaited) = (None, 0);
        }
        let sent_on =
            self.asking.iter().filter(|(asked, _)| *asked == connection).map(|(_, request)| *request).collect();
        self.asking.retain(|(asked, _)| *asked != connection);
        sent_on
    }
}

impl Routes {
    /// Starts to open the route of this slot. From then on it opens by itself whenever that is possible.
    pub(super) fn request_route(&mut self, now: Time, slot: Slot, name: &str) {
        if self.routes.contains_key(&slot) {
            return;
        }
        let hash_tag: Arc<str> = if self.is_cluster() { name.into() } else { "".into() };
        let channel = super::channel_of(&self.prefix, &hash_tag, &self.client);
        self.slots.insert(channel.clone(), slot);
        self.routes.insert(slot, Route { channel, hash_tag, ..Route::default() });
        self.open(now, slot);
    }

    /// How soon the locks of a slot need an answer.
    pub(super) fn patience_of(&self, slot: Slot) -> Duration {
        self.patience.get(&slot).copied().unwrap_or(ANSWER_TIMEOUT)
    }

    pub(super) fn set_patience(&mut self, now: Time, slot: Slot, patience: Duration) {
        self.patience.insert(slot, patience);
        if let Some(route) = self.routes.get(&slot).filter(|route| route.connection.is_none()) {
            let peer = route.peer.clone();
            peer.into_iter().for_each(|peer| self.hurry(now, &peer, patience));
            self.timers.set_earlier(Timer::Search, now + patience / 4);
        }
    }

    /// The connection over which the route of this slot is open.
    pub(crate) fn connection(&self, slot: Slot) -> Option<ConnectionId> {
        self.routes.get(&slot)?.connection
    }

    /// Sends a call if the route is open. If it is not, its machine asks again when it opens.
    pub(super) fn send(&mut self, slot: Slot, request: RequestId, call: Request) {
        let Some(route) = self.routes.get_mut(&slot) else { return };
        let Some(connection) = route.connection else { return };
        route.awaited += 1;
        let hash_tag = route.hash_tag.clone();
        self.effects.push(Effect::Write { connection, slot, request, call, hash_tag, asking: false });
    }

    /// The machine of this slot reports that the server does not answer.
    pub(super) fn give_up(&mut self, now: Time, slot: Slot) {
        if let Some(route) = self.routes.get(&slot)
            && let (Some(_), Some(peer)) = (route.connection, route.peer.clone())
        {
            self.fail(now, &peer, &"the server does not answer".into());
        }
    }

    pub(super) fn replied(
        &mut self,
        now: Time,
        connection: ConnectionId,
        (slot, request): (Slot, RequestId),
        call: Request,
        reply: CallOutcome,
    ) {
        let Some(Role::Main(peer)) = self.connections.get(&connection).cloned() else { return };
        if let CallOutcome::Result(Err(refusal @ Refusal::OutOfStep(_))) = reply {
            return self.out_of_step(now, slot, request, &peer, refusal);
        }
        if let Some(link) = self.links.get_mut(&peer) {
            link.attempts = 0;
        }
        let Some(route) = self.routes.get_mut(&slot) else { return };
        route.answered(connection, request);
        let Some(over) = route.connection else {
            // Its machine does not await this answer any more, but the route may have waited for it.
            return self.open(now, slot);
        };
        match reply {
            CallOutcome::Result(result) => {
                route.moved = false;
                self.tell(slot, Told::Answered { request, result });
            }
            CallOutcome::NotServing(cause) if over == connection => self.doubt(now, slot, request, &peer, cause),
            CallOutcome::NotServing(cause) => self.refuse(slot, request, cause),
            CallOutcome::Elsewhere { node, .. } if !self.is_cluster() => {
                let cause = format!("it is a node of a cluster and redirects to {node}: use redis+cluster://");
                self.tell(slot, Told::Answered { request, result: Err(Refusal::Permanent(cause.into())) });
            }
            CallOutcome::Elsewhere { node, asking } => {
                let to = whole(node, &peer);
                match (asking, over == connection) {
                    (false, true) => self.moved(now, slot, to),
                    (false, false) => {
                        self.refuse(slot, request, "the node to which its slot moves does not expect it yet".into());
                    }
                    (true, _) => self.send_on(now, slot, request, call, to),
                }
            }
        }
    }

    /// This reply is that to another request, as all later ones would be.
    fn out_of_step(&mut self, now: Time, slot: Slot, request: RequestId, peer: &Peer, refusal: Refusal) {
        let cause = refusal.cause().clone();
        // A server that is out of step again and again is not connected to without a pause.
        self.links.entry(peer.clone()).and_modify(|link| link.attempts = LONG_PAUSE);
        if self.connection(slot).is_some() {
            self.tell(slot, Told::Answered { request, result: Err(refusal) });
        }
        self.fail(now, peer, &cause);
    }

    /// Another node is asked for a slot that is only on its way there.
    fn send_on(&mut self, now: Time, slot: Slot, request: RequestId, call: Request, to: Node) {
        let to = Peer::Node(to);
        let Some(route) = self.routes.get_mut(&slot) else { return };
        if let Some(connection) = self.links.get(&to).and_then(|link| link.up()).map(|up| up.connection) {
            route.asking.push((connection, request));
            let hash_tag = route.hash_tag.clone();
            self.effects.push(Effect::Write { connection, slot, request, call, hash_tag, asking: true });
        } else {
            let patience = self.patience_of(slot);
            self.connect(now, &to, patience);
            self.refuse(slot, request, "its slot is moving to another node".into());
        }
    }

    pub(super) fn refuse(&mut self, slot: Slot, request: RequestId, cause: Arc<str>) {
        self.tell(slot, Told::Answered { request, result: Err(Refusal::Temporary(cause)) });
    }

    pub(super) fn pushed(&mut self, connection: ConnectionId, push: Push) {
        let name = LockKeys::of_lock(&self.prefix, &push.lock).map(|keys| keys.name);
        if let Some(name) = name
            && matches!(self.connections.get(&connection), Some(Role::Main(_)))
        {
            let slot = self.slot(&name);
            self.tell(slot, Told::Push(push));
        }
    }

    // ---- closing ----

    /// Reports the cause to its machine, also if the route is closed already.
    pub(super) fn close(&mut self, slot: Slot, cause: Arc<str>) {
        let Some(route) = self.routes.get_mut(&slot) else { return };
        route.connection = None;
        self.timers.clear(&Timer::Confirm(slot));
        self.timers.clear(&Timer::Subscribe(slot));
        self.tell(slot, Told::Disconnected { cause });
    }

    /// Closes all routes to this server. True if there are any.
    pub(super) fn close_all(&mut self, peer: &Peer, cause: &Arc<str>) -> bool {
        let there = self.slots_at(peer);
        there.iter().for_each(|slot| self.close(*slot, cause.clone()));
        !there.is_empty()
    }

    pub(super) fn slots_at(&self, peer: &Peer) -> Vec<Slot> {
        let there = self.routes.iter().filter(|(_, route)| route.peer.as_ref() == Some(peer));
        there.map(|(slot, _)| *slot).collect()
    }

    pub(super) fn closed(&self) -> impl Iterator<Item = (Slot, &Route)> {
        self.routes.iter().filter(|(_, route)| route.connection.is_none()).map(|(slot, route)| (*slot, route))
    }

    /// A node reports that this slot belongs to another.
    pub(super) fn moved(&mut self, now: Time, slot: Slot, to: Node) {
        let Some(route) = self.routes.get_mut(&slot) else { return };
        // Nodes that name each other would be asked in turn without end: other nodes are asked first, after a pause.
        route.lost = std::mem::replace(&mut route.moved, true);
        let lost = route.lost;
        self.close(slot, format!("its slot moved to {to}").into());
        self.map.moved(slot, to);
        if lost {
            self.search(now);
        } else {
            self.open(now, slot);
        }
    }

    /// These routes lead to a server that cannot be used, and waiting will not help.
    pub(super) fn tell_unusable(&mut self, slots: Vec<Slot>, error: &ConnectError) {
        slots.into_iter().for_each(|slot| self.tell(slot, Told::Unusable { error: error.clone() }));
    }

    // ---- opening ----

    pub(super) fn open_all(&mut self, now: Time, peer: &Peer) {
        for slot in self.closed_slots() {
            if self.peer_of(slot).as_ref() == Some(peer) {
                self.open(now, slot);
            }
        }
    }

    pub(super) fn peer_of(&self, slot: Slot) -> Option<Peer> {
        if self.is_cluster() { self.map.node_of(slot).cloned().map(Peer::Node) } else { Some(Peer::Only) }
    }

    /// Takes the next step to an open route: find the server, connect, let the old server answer, subscribe.
    pub(super) fn open(&mut self, now: Time, slot: Slot) {
        let (peer, patience) = (self.peer_of(slot), self.patience_of(slot));
        let Some(route) = self.routes.get_mut(&slot).filter(|route| route.connection.is_none()) else { return };
        let Some(peer) = peer.filter(|_| !route.lost) else { return self.search(now) };
        route.peer = Some(peer.clone());
        let Some(up) = self.links.get(&peer).and_then(|link| link.up()) else {
            return self.connect(now, &peer, patience);
        };
        if route.drains(up.connection) {
            return self.timers.set_once(Timer::Drain(slot), now + patience);
        }
        self.timers.clear(&Timer::Drain(slot));
        if !up.subscribed.contains(&route.channel) {
            return self.subscribe(now, slot);
        }
        (route.connection, route.over, route.refused) = (Some(up.connection), Some(up.connection), 0);
        let can_kill = up.facts.can_kill;
        self.tell(slot, Told::Connected { can_kill });
    }

    /// If the old server does not answer, its connection ends, with all requests that it has not executed.
    pub(super) fn not_drained(&mut self, now: Time, slot: Slot) {
        let Some(route) = self.routes.get(&slot).filter(|route| route.connection.is_none()) else { return };
        let connections = route.over.filter(|_| route.awaited > 0).into_iter();
        let connections: Vec<ConnectionId> =
            connections.chain(route.asking.iter().map(|(connection, _)| *connection)).collect();
        for connection in connections {
            if let Some(Role::Main(peer)) = self.connections.get(&connection).cloned()
                && self.routes.get(&slot).is_some_and(|route| route.peer.as_ref() != Some(&peer))
            {
                self.fail(now, &peer, &"the server does not answer".into());
            }
        }
        self.open(now, slot);
    }
}

/// A node that names its own host leaves it empty.
pub(super) fn whole(node: Node, said_by: &Peer) -> Node {
    match said_by {
        Peer::Node(by) if node.host.is_empty() => Node { host: by.host.clone(), ..node },
        _ => node,
    }
}
